"""Files of which some parts are computed: what each step of a conversion makes of the one before.

Owns how computed parts are read. A step says what the values are, and they are computed from the
parts of its source whenever somebody reads them, so that nothing is kept in memory. Such files are
never handed out: what users open are files as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tensorark.core.model import NORMAL, Catalog, Encoded, Part, Tensor
from tensorark.core.rules import Reading
from tensorark.files.file import CHUNK, File
from tensorark.layouts.payload import Ranges

if TYPE_CHECKING:
    from tensorark.layouts.numbers.dtypes import Array

Pieces = Callable[[], Iterator[memoryview]]
"""Computes the bytes of a part, piece by piece."""

_ENCODING: Final = "tensorark.derived"


@dataclass(frozen=True, slots=True)
class Derived(Encoded):
    """Bytes that lie in no file: `compute` gives them, as often as it is asked."""

    compute: Pieces


def derive_part(compute: Pieces, nbytes: int, dtype: str, type_: str | None = None) -> Part:
    """Return a part whose bytes, `nbytes` of them, are computed."""
    return Part(Derived((), _ENCODING, nbytes, compute), dtype, type_)


def derive_file(file: File, tensors: Mapping[str, Tensor]) -> File:
    """Return `file` in the terms of `.zt`, with other tensors and its own attributes."""
    catalog = Catalog(NORMAL, tensors, file.catalog.attributes, None, file.catalog.files)
    return DerivedFile(file, catalog)


def octets(values: Array) -> memoryview:
    """Return the bytes of a contiguous array of little-endian numbers."""
    import numpy as np

    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


class DerivedFile(File):
    """`file` with another catalog, of whose parts some are computed."""

    __slots__ = ()

    def __init__(self, file: File, catalog: Catalog) -> None:
        file.prove(file.unproven())  # whatever is computed from them is written under new digests
        for slot in File.__slots__:
            setattr(self, slot, getattr(file, slot))
        self.catalog = catalog

    def pieces(
        self, part: Part, where: tuple[str | int, ...] = (), reading: Reading | None = None
    ) -> Iterator[memoryview]:
        """Yield the bytes of a part in pieces of at most `CHUNK` bytes."""
        if not isinstance(part.blob, Derived):
            yield from super().pieces(part, where, reading)
            return
        for piece in part.blob.compute():
            for start in range(0, len(piece), CHUNK):
                yield piece[start : start + CHUNK]

    def payload(self, part: Part, where: tuple[str | int, ...] = ()) -> memoryview:
        """Return the bytes of a part."""
        if isinstance(part.blob, Derived):
            return memoryview(b"".join(part.blob.compute()))
        return super().payload(part, where)

    def ranges(self, part: Part, where: tuple[str | int, ...] = ()) -> Ranges:
        """Return what reads ranges of a part."""
        if isinstance(part.blob, Derived):
            return _Ahead(part.blob.compute)
        return super().ranges(part, where)


class _Ahead:
    """Reads ranges of a computed part; those that ascend cost one computation together."""

    def __init__(self, compute: Pieces) -> None:
        self._compute = compute
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
