"""A file some of whose parts are computed from others: what a recasting conversion writes from.

Owns how computed parts are read. It is never handed out: what users open are files as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tensorark.core.model import Catalog, Encoded, Part
from tensorark.core.rules import Reading
from tensorark.files.file import CHUNK, File
from tensorark.layouts.payload import Ranges

Pieces = Callable[[], Iterator[memoryview]]
"""Computes the bytes of a part, piece by piece."""

_PREFIX: Final = "tensorark.computed "


def computed(key: str, nbytes: int, dtype: str, type_: str | None = None) -> Part:
    """Return a part of `nbytes` bytes that a `Recast` computes by what it has under `key`."""
    return Part(Encoded((), _PREFIX + key, nbytes), dtype, type_)


class Recast(File):
    """`file` with another catalog, whose computed parts come from `made`."""

    __slots__ = ("_made",)

    def __init__(self, file: File, catalog: Catalog, made: Mapping[str, Pieces]) -> None:
        file.prove(file.unproven())  # whatever is computed from them is written under new digests
        for slot in File.__slots__:
            setattr(self, slot, getattr(file, slot))
        self.catalog = catalog
        self._made: dict[str, Pieces] = {**(file._made if isinstance(file, Recast) else {}), **made}  # noqa: SLF001

    def _pieces(self, part: Part) -> Pieces | None:
        if isinstance(part.blob, Encoded) and part.blob.encoding.startswith(_PREFIX):
            return self._made.get(part.blob.encoding.removeprefix(_PREFIX))
        return None

    def pieces(
        self, part: Part, where: tuple[str | int, ...] = (), reading: Reading | None = None
    ) -> Iterator[memoryview]:
        """Yield the bytes of a part in pieces of at most `CHUNK` bytes."""
        pieces = self._pieces(part)
        if pieces is None:
            yield from super().pieces(part, where, reading)
            return
        for piece in pieces():
            for start in range(0, len(piece), CHUNK):
                yield piece[start : start + CHUNK]

    def payload(self, part: Part, where: tuple[str | int, ...] = ()) -> memoryview:
        """Return the bytes of a part."""
        pieces = self._pieces(part)
        return super().payload(part, where) if pieces is None else memoryview(b"".join(pieces()))

    def ranges(self, part: Part, where: tuple[str | int, ...] = ()) -> Ranges:
        """Return what reads ranges of a part."""
        pieces = self._pieces(part)
        return super().ranges(part, where) if pieces is None else _Ahead(pieces)


class _Ahead:
    """Reads ranges of a computed part; those that ascend cost one computation together."""

    def __init__(self, pieces: Pieces) -> None:
        self._compute = pieces
        self._pieces: Iterator[memoryview] = iter(())
        self._window = memoryview(b"")
        self._begin = 0

    def __call__(self, start: int, length: int) -> memoryview:
        if start < self._begin or not self._begin + len(self._window):
            self._pieces, self._window, self._begin = self._compute(), memoryview(b""), 0
        while self._begin + len(self._window) < start + length:
            held = self._window[max(start - self._begin, 0) :]
            self._begin += len(self._window) - len(held)
            piece = next(self._pieces)
            self._window = memoryview(b"".join((held, piece))) if held else piece
        return self._window[start - self._begin :][:length]
