"""Copying blobs as they are stored: encodings, digests and sharing stay, nothing is decoded.

Owns what passing on a blob means. A raw part is compared with its xxh3 digest while it passes, and
gets one if it has none; an encoded part is moved unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from tensorark.api import File
from tensorark.carry import Carried
from tensorark.errors import Unsupported
from tensorark.io.sink import Sink
from tensorark.model import Blob, Encoded, Part, Raw, Span, Tensor
from tensorark.writer import CHUNK, Assembly, check_digest, revalidate

Progress = Callable[[int], None]
"""Called with the number of stored bytes that have just passed."""

_NUMPY: Final = "npy."
"""How the ids begin that have no meaning outside of an archive of numpy."""

UNKNOWN: Final = "xxh3:" + 16 * "0"
"""Stands for the digest of a raw part that has none, where only its length matters."""


def stored(file: File, part: Part, where: tuple[str | int, ...]) -> Iterator[memoryview]:
    """Yield the stored bytes of a part in pieces of at most `CHUNK` bytes.

    Raises:
        ReadFailed: when they cannot be had.
        Unsupported: when they mean something in the format of the file only.
    """
    _require_meaning(part, where)
    for data in file.pieces(replace(part, blob=Raw(part.blob.spans)), where):
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]


def _require_meaning(part: Part, where: tuple[str | int, ...]) -> None:
    encoding = part.blob.encoding if isinstance(part.blob, Encoded) else ""
    if encoding.startswith(_NUMPY) or (part.type or "").startswith(_NUMPY):
        raise Unsupported(
            "the array is stored as only npz stores it, so it is not copied as it is",
            code="npz-only",
            where=where,
            found=encoding or part.type,
            hint="convert the archive to a .zt first",
        )


def length_of(blob: Blob) -> int:
    """Return the number of stored bytes of a blob."""
    return sum(span.length for span in blob.spans)


def moved(part: Part, span: Span, digest: str | None) -> Part:
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
        span, digest = self._done.get(part.blob.spans) or self._copied(part, where)
        if isinstance(part.blob, Raw):
            check_digest(part, digest, where, self._file.path)
        return moved(part, span, digest)

    def _copied(self, part: Part, where: tuple[str | int, ...]) -> tuple[Span, str]:
        self._assembly.begin()
        for piece in stored(self._file, part, where):
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
    carried: Carried,
    progress: Progress = lambda _done: None,
) -> None:
    """Write the tensors of `file` into `sink` as a `.zt` of one file, blobs as they are stored.

    `carried` gives the attributes.
    """
    assembly = Assembly(sink, align)
    copy = Copy(file, assembly, progress)
    tensors = []
    for name in sorted(file):
        tensor = copy.tensor(file.catalog.tensors[name])
        tensors.append(replace(tensor, attributes=carried.tensors.get(name)))
    assembly.finish(tensors, carried.file)
    revalidate(sink, canonical_form=False)
