"""What a statement says of shards and of content: digests that are cryptographic, all of them.

Must never take one that is not; what has no sha256 is hashed with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorark.core.model import Part, Shard, Tensor
from tensorark.core.progress import Progress
from tensorark.errors import Hint, InvalidInput, Unsupported
from tensorark.files import File
from tensorark.formats.zt.digest import content_digest, hexdigest
from tensorark.formats.zt.encode import encode_content_part, encode_objects
from tensorark.integrity.digests import part_digests, workers
from tensorark.integrity.signature_document import Signed
from tensorark.integrity.trust import Trust

CRYPTOGRAPHIC: Final = re.compile("sha256:[0-9a-f]{64}")


def strong_shards(file: File) -> dict[str, Shard]:
    """Return the shard table of a root, all of whose digests are cryptographic."""
    if not file.catalog.shards:
        detail = "this is no .zt with shards, so there is no root to sign"
        raise InvalidInput(
            detail,
            code="no-root",
            path=file.path,
            hint=Hint("over='file' or 'content'", tark="--over file or content"),
        )
    for label, shard in file.catalog.shards.items():
        if not CRYPTOGRAPHIC.fullmatch(shard.digest):
            raise Unsupported(
                "the digest of a shard is not cryptographic: a signature would not cover its bytes",
                code="weak-digest",
                section="6.5",
                path=file.path,
                where=("shards", label, "digest"),
                expected="sha256",
                found=shard.digest,
                hint=Hint(
                    "split() it again with algorithm='sha256', or sign over='content'",
                    tark="`tark split --digest sha256` again, or --over content",
                ),
            )
    return dict(file.catalog.shards)


def signed_shards(shards: Mapping[str, Shard]) -> Iterator[Signed]:
    """Yield the shards of a root, as a statement lists them."""
    for label, shard in shards.items():
        yield Signed(name=label, size=shard.size, sha256=shard.digest.partition(":")[2])


def hash_tensors(
    file: File,
    trust: Trust,
    threads: int | None,
    progress: Progress,
    names: Sequence[str] | None = None,
) -> Iterator[tuple[Tensor, int]]:
    """Yield tensors whose parts have sha256 digests, by name, and how many of these were given."""
    wanted = None if names is None else set(names)

    def hash_batch(batch: list[str]) -> list[tuple[Tensor, int]]:
        chosen = [name for name in batch if wanted is None or name in wanted]
        return [_hash_tensor(file, file.catalog.tensors[name], trust, progress) for name in chosen]

    with workers(threads) as pool:
        found = [each for batch in pool.map(hash_batch, file.batches()) for each in batch]
    yield from sorted(found, key=lambda each: each[0].name.encode())


def _hash_tensor(
    file: File, tensor: Tensor, trust: Trust, progress: Progress
) -> tuple[Tensor, int]:
    parts: dict[str, Part] = {}
    taken = 0
    for role, part in tensor.parts.items():
        if trust.digests and part.digest and CRYPTOGRAPHIC.fullmatch(part.digest):
            parts[role] = part
            taken += 1
            continue
        where = ("objects", tensor.name, "parts", role)
        digest = part_digests(file, part, where, ["sha256"]).whole["sha256"]
        parts[role] = replace(part, digest=f"sha256:{digest}")
        progress(part.nbytes)
    return replace(tensor, parts=parts), taken


def content_of(tensors: Sequence[Tensor]) -> str:
    """Return the content digest over sha256 digests of parts, in hexadecimal."""
    return content_digest(tensors, "sha256").partition(":")[2]


def entry_of_tensor(tensor: Tensor) -> Signed:
    """Return a tensor as a statement lists it."""
    digest = hexdigest(encode_objects([tensor], encode_content_part), "sha256")
    return Signed(name=tensor.name, size=tensor.nbytes, sha256=digest)
