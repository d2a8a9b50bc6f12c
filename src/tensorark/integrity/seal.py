"""Seals: digests of a model whose format carries none, in a document beside it.

A seal is no signature: whoever can change the file can write another seal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import xxhash

from tensorark import files
from tensorark.conversion.as_zt_model import normalize
from tensorark.core.model import Tensor
from tensorark.core.progress import Progress
from tensorark.errors import InvalidInput
from tensorark.files import File, PathLike
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm, content_digest
from tensorark.integrity.digests import (
    BLOCK,
    label_digest,
    part_digests,
    rest_spans,
    span_digest,
    workers,
)
from tensorark.integrity.seal_document import (
    BLOCKS,
    Seal,
    SealedFile,
    SealedPart,
    SealedTensor,
    encode_seal,
)
from tensorark.io.inputs import operation
from tensorark.io.publish import publish
from tensorark.wire.cbor import Unencodable, encode

SUFFIX: Final = ".seal.json"


@operation()
def seal(
    path: PathLike,
    target: PathLike | None = None,
    *,
    algorithms: Sequence[Algorithm] = ("xxh3",),
    block: int = BLOCK,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress = lambda _done: None,
) -> Seal:
    """Write digests of the model at `path` to `target`: by default ``<name>.seal.json`` beside it.

    Parts get a digest by each of `algorithms`, large ones an xxh3 for every `block` bytes as well,
    so that damage can be told where it is; files get sizes and sha256. The same model gives the
    same bytes. Reads everything twice, once for parts and once for files.

    Raises:
        InvalidInput: when the target exists and `overwrite` is false.
        ReadFailed: when the model, or one of its shards, cannot be read.
        Unsupported: when a part is stored under an unknown encoding.
    """
    _check_options(algorithms, block)
    with files.open(path) as file:
        goal = Path(target) if target is not None else seal_path(file.path)
        if goal.exists() and not overwrite:
            with publish(goal, overwrite=False):  # says so before an hour of hashing
                pass
        made = seal_of(file, algorithms, block, threads=threads, progress=progress)
    with publish(goal, overwrite=overwrite) as sink:
        sink.write(encode_seal(made))
    return made


def seal_path(path: PathLike) -> Path:
    """Return where the seal of the model at `path` is looked for."""
    return Path(path).with_name(Path(path).name + SUFFIX)


def seal_of(
    file: File,
    algorithms: Sequence[Algorithm] = ("xxh3",),
    block: int = BLOCK,
    *,
    threads: int | None = None,
    progress: Progress = lambda _done: None,
) -> Seal:
    """Return the seal of an opened model (see `seal`)."""
    file, labels = normalize(file), file.labels
    rest = rest_spans(file, labels)

    def seal_all(names: list[str]) -> list[SealedTensor]:
        return [_seal_tensor(file, name, algorithms, block, progress) for name in names]

    def seal_file(label: str | None) -> SealedFile:
        return SealedFile(
            name=file.source.path_of().name if label is None else label,
            size=file.source.size(label),
            sha256=label_digest(file, label, "sha256", progress),
            rest=span_digest(file, rest[label], "xxh3"),
        )

    with workers(threads) as pool:
        files = [pool.submit(seal_file, label) for label in labels]
        parts = [pool.submit(seal_all, names) for names in file.batches()]
        tensors = tuple(each for batch in parts for each in batch.result())
        return Seal(
            format=file.format.name,
            block=block,
            algorithms=tuple(algorithms),
            content=content_digests(file, tensors, algorithms),
            files=tuple(each.result() for each in files),
            tensors=tensors,
        )


def _check_options(algorithms: Sequence[str], block: int) -> None:
    if not algorithms or len(set(algorithms)) < len(algorithms) or set(algorithms) - {*ALGORITHMS}:
        raise InvalidInput(
            "the digests of a seal are xxh3, sha256 or both",
            code="option",
            found=", ".join(algorithms) or "none",
        )
    if not BLOCKS[0] <= block <= BLOCKS[1]:
        raise InvalidInput(
            "no such size of a block",
            code="option",
            expected=f"{BLOCKS[0]} to {BLOCKS[1]} bytes",
            found=block,
        )


def _seal_tensor(
    file: File, name: str, algorithms: Sequence[Algorithm], block: int, progress: Progress
) -> SealedTensor:
    tensor = file.catalog.tensors[name]
    parts = []
    for role, part in tensor.parts.items():
        where = ("objects", name, "parts", role)
        digests = part_digests(file, part, where, algorithms, block)
        parts.append(
            SealedPart(
                role=role, dtype=part.dtype, type=part.type, nbytes=part.nbytes, digests=digests
            )
        )
        progress(part.nbytes)
    return SealedTensor(
        name=name,
        shape=tensor.shape,
        layout=tensor.layout,
        attributes=hash_attributes(tensor),
        parts=tuple(parts),
    )


def hash_attributes(tensor: Tensor) -> str | None:
    """Return the xxh3 of the deterministic CBOR of attributes; None where there are none.

    Raises:
        InvalidInput: when one of them has none.
    """
    if tensor.attributes is None:
        return None
    try:
        return xxhash.xxh3_64_hexdigest(encode(tensor.attributes))
    except Unencodable as error:
        raise InvalidInput(
            f"an attribute has no digest: {error.detail}",
            code="attribute",
            where=("objects", tensor.name, "attributes", *error.where),
        ) from None


def content_digests(
    file: File, tensors: Sequence[SealedTensor], algorithms: Sequence[Algorithm]
) -> dict[str, str]:
    """Return the content digest by each algorithm, over part digests of the same algorithm."""
    return {
        algorithm: content_digest(
            (_give_digests(file.catalog.tensors[each.name], each, algorithm) for each in tensors),
            algorithm,
        ).partition(":")[2]
        for algorithm in algorithms
    }


def _give_digests(tensor: Tensor, sealed: SealedTensor, algorithm: str) -> Tensor:
    known = {each.role: f"{algorithm}:{each.digests.whole[algorithm]}" for each in sealed.parts}
    parts = {role: replace(part, digest=known[role]) for role, part in tensor.parts.items()}
    return replace(tensor, parts=parts)
