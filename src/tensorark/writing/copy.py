"""Copying blobs as they are stored: encodings, digests and sharing stay, nothing is decoded.

Owns what passing on a blob means. A raw part is compared with its digest while it passes, and gets
one if it has none; an encoded part is decoded and compared, then moved as it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import xxhash

from tensorark.core.model import Blob, Encoded, Part, Raw, Span, Tensor
from tensorark.core.progress import Progress
from tensorark.core.types import RESTRICTED
from tensorark.errors import ReadFailed, Unsupported
from tensorark.files import File
from tensorark.io.sink import Sink
from tensorark.writing.assembly import CHUNK, Assembly, check_digest, revalidate

_NUMPY: Final = "npy."
"""How the ids begin that have no meaning outside of an archive of numpy."""

UNKNOWN: Final = "xxh3:" + 16 * "0"
"""Stands for the digest of a raw part that has none, where only its length matters."""


def require_shards(file: File) -> None:
    """Require every shard of `file` to be there.

    Raises:
        ReadFailed: naming those that are missing, and how many tensors they hold.
    """
    missing = file.missing()
    if missing:
        facts = ", ".join(f"{label} ({len(names)} tensors)" for label, names in missing.items())
        raise ReadFailed(
            f"{len(missing)} of {len(file.catalog.files)} shards are missing: {facts}",
            code="missing-shard",
            path=file.path,
            where=("shards", next(iter(missing))),
        )


def read_stored(file: File, part: Part, where: tuple[str | int, ...]) -> Iterator[memoryview]:
    """Yield the stored bytes of a part in pieces of at most `CHUNK` bytes.

    Those of an encoded part are decoded first, so that nothing damaged is passed on; under an
    encoding that is not known they are opaque.

    Raises:
        ReadFailed: when they cannot be had.
        Rejected: when they break a rule of their encoding, their type or their layout.
        Unsupported: when they mean something in the format of the file only.
    """
    _require_meaning(part, where)
    pieces = file.chunks(part, where)
    if isinstance(part.blob, Encoded):
        check_decoded(file, part, where)
        pieces = file.pieces(replace(part, blob=Raw(part.blob.spans)), where)
    for data in pieces:
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]


def check_decoded(file: File, part: Part, where: tuple[str | int, ...]) -> None:
    """Decode a part to judge it and compare its digest, and keep nothing.

    Raises:
        Rejected: when it breaks a rule of its encoding, its type or its layout.
    """
    state = xxhash.xxh3_64()
    try:
        for piece in file.chunks(part, where):
            state.update(piece)
    except Unsupported as error:
        if error.code != "unknown-encoding":
            raise
    else:
        check_digest(part, "xxh3:" + state.hexdigest(), where, file.path)


def _require_meaning(part: Part, where: tuple[str | int, ...]) -> None:
    encoding = part.blob.encoding if isinstance(part.blob, Encoded) else ""
    if encoding.startswith(_NUMPY) or (part.type or "").startswith(_NUMPY):
        raise Unsupported(
            "the array is stored as only numpy stores it, so it is not copied as it is",
            code="npz-only",
            where=where,
            found=encoding or part.type,
            hint="convert the file to a .zt first",
        )


def judge_again(file: File, part: Part, where: tuple[str | int, ...]) -> None:
    """Judge a part whose stored bytes have passed as those of another part: it may say more.

    Raises:
        Rejected: when it breaks a rule of its encoding, its type or its layout.
    """
    says_more = part.type in RESTRICTED or not (part.digest or "xxh3:").startswith("xxh3:")
    if isinstance(part.blob, Encoded) or says_more:
        check_decoded(file, part, where)
    else:
        file.pass_layout(where)


def length_of(blob: Blob) -> int:
    """Return the number of stored bytes of a blob."""
    return sum(span.length for span in blob.spans)


def move(part: Part, span: Span, digest: str | None) -> Part:
    """Return `part` with its bytes at `span`; `digest` is used where a raw part has none."""
    if isinstance(part.blob, Encoded):
        return replace(part, blob=replace(part.blob, spans=(span,)))
    return replace(part, blob=Raw((span,)), digest=part.digest or digest)


class Copy:
    """Copies parts of `file` into an assembly; a blob that several of them share goes once."""

    def __init__(self, file: File, assembly: Assembly, progress: Progress) -> None:
        self._file = file
        self._assembly = assembly
        self._progress = progress
        self._done: dict[tuple[Span, ...], tuple[Span, str]] = {}

    def tensor(self, tensor: Tensor) -> Tensor:
        """Copy every part of a tensor and return it in its new place."""
        parts = {role: self.part(tensor, role) for role in sorted(tensor.parts)}
        return replace(tensor, parts=parts)

    def part(self, tensor: Tensor, role: str) -> Part:
        """Copy one part and return it in its new place.

        Raises:
            Rejected: when a raw part does not match its digest: a damaged file is not passed on.
        """
        part = tensor.parts[role]
        where = ("objects", tensor.name, "parts", role)
        done = self._done.get(part.blob.spans)
        if done is not None:
            judge_again(self._file, part, where)
        span, digest = done or self._copy(part, where)
        if isinstance(part.blob, Raw):
            check_digest(part, digest, where, self._file.path)
        return move(part, span, digest)

    def _copy(self, part: Part, where: tuple[str | int, ...]) -> tuple[Span, str]:
        self._assembly.begin()
        for piece in read_stored(self._file, part, where):
            self._assembly.write(piece)
            self._progress(len(piece))
        span, digest = self._assembly.end()
        if span.length:
            self._done[part.blob.spans] = (span, digest)
        return span, digest


def copy_all(
    file: File,
    sink: Sink,
    *,
    align: int,
    progress: Progress = lambda _done: None,
) -> None:
    """Write the tensors of `file` into `sink` as a `.zt` of one file, blobs as they are stored."""
    assembly = Assembly(sink, align)
    copy = Copy(file, assembly, progress)
    tensors = [copy.tensor(file.catalog.tensors[name]) for name in sorted(file)]
    assembly.finish(tensors, file.catalog.attributes)
    revalidate(sink, canonical_form=False)
