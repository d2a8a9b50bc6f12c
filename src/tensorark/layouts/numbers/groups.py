"""Flat ranges of a tensor whose elements share scales by groups: which element has which scale.

Owns the geometry that group quantization has in common. A range is cut into boxes in which elements
and scales line up by broadcasting, so that nothing of the size of the range is computed about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

CHUNK: Final = 1 << 18
"""Elements that are decoded at a time: their intermediate values stay in the cache."""

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Grid:
    """How the flat elements of a tensor share entries, such as scales.

    A row is `columns` neighboring elements, those behind the axis. Blocks of `rows` rows follow
    each other. In each block column `c` has an entry of its own, block · columns + c; with
    `per_channel` it is row `r` of each block that has entry `r`.
    """

    rows: int
    columns: int
    per_channel: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A run of flat elements from `start`, as a box of `shape`, and the entries that it needs.

    The entries from `first` on, in a box of `spread`, broadcast over the elements.
    """

    start: int
    shape: tuple[int, int, int]
    first: int
    spread: tuple[int, int, int]

    @property
    def stop(self) -> int:
        """First flat element behind the box."""
        blocks, rows, columns = self.shape
        return self.start + blocks * rows * columns

    @property
    def last(self) -> int:
        """First entry behind those that are needed."""
        blocks, rows, columns = self.spread
        return self.first + blocks * rows * columns


def boxes(grid: Grid, start: int, stop: int) -> Iterator[Box]:
    """Cut the flat elements [start, stop) into at most five boxes."""
    rows, columns = grid.rows, grid.columns
    at = start
    while at < stop:
        block, rest = divmod(at, rows * columns)
        row, column = divmod(rest, columns)
        shape = (1, 1, min(columns - column, stop - at))
        if not rest and stop - at >= rows * columns:
            shape = ((stop - at) // (rows * columns), rows, columns)
        elif not column and stop - at >= columns:
            shape = (1, min(rows - row, (stop - at) // columns), columns)
        if grid.per_channel:
            box = Box(at, shape, row, (1, shape[1], 1))
        else:
            box = Box(at, shape, block * columns + column, (shape[0], 1, shape[2]))
        yield box
        at = box.stop


def multiply(values: npt.NDArray[Any], entries: npt.NDArray[Any], box: Box, out: Float32) -> None:
    """Write the products of the values of a box and the entries that they share into `out`.

    Products are rounded to the type of the values, and then to f32.
    """
    spread = entries.reshape(box.spread)
    if values.dtype == out.dtype:
        np.multiply(values, spread, out=out.reshape(box.shape))
    else:
        out[:] = (values * spread).reshape(-1)


Fill = Callable[[int, int, Float32], None]
"""Computes the flat elements [start, stop) into an array of as many."""


def gather(fill: Fill, start: int, stop: int) -> Float32:
    """Return the flat elements [start, stop), computed chunk by chunk into a new array."""
    out = np.empty(stop - start, np.float32)
    begin = start
    # What overflows is infinite and what has no value is NaN, as the profiles say: no warnings.
    with np.errstate(all="ignore"):
        while begin < stop:
            end = min(stop, (begin // CHUNK + 1) * CHUNK)
            fill(begin, end, out[begin - start : end - start])
            begin = end
    return out
