"""What the coordinates of `zt.sparse_coo/1` must obey."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import Where

Indices = npt.NDArray[np.unsignedinteger[Any]]

_BLOCK: Final = 1 << 20
"""Entries that are judged at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coo:
    """The coordinates of a COO tensor of `shape`: a row for each dimension."""

    where: Where
    shape: tuple[int, ...]
    coords: Indices

    @property
    def count(self) -> int:
        """Number of stored values."""
        return int(self.coords.shape[1])

    def faulty(self, dimension: int, index: int) -> tuple[str | int, ...]:
        """Return the place of the coordinate of one value."""
        return (*self.where, "parts", "coords", dimension * self.count + index)


def flat_cells(coo: Coo, start: int, stop: int) -> npt.NDArray[np.uint64]:
    """Return the row-major places of the values [start, stop), whose coordinates are in bounds."""
    flat = np.zeros(stop - start, np.uint64)
    for extent, coords in zip(coo.shape, coo.coords, strict=True):
        flat *= np.uint64(extent)
        flat += coords[start:stop]
    return flat


@rule("zt.coo-coord-bound", section="zt.sparse_coo/1", stage="content")
def coo_coord_bound(coo: Coo) -> Iterator[Fault]:
    """Every coordinate is below the extent of its dimension."""
    for dimension, (extent, coords) in enumerate(zip(coo.shape, coo.coords, strict=True)):
        if coords.size and int(coords.max()) >= extent:
            index = int(np.argmax(coords >= extent))
            where = coo.faulty(dimension, index)
            detail = f"a coordinate lies outside of dimension {dimension}"
            yield Fault(where, detail, f"below {extent}", int(coords[index]))


@rule("zt.coo-cell-unique", section="zt.sparse_coo/1", stage="content")
def coo_cell_unique(coo: Coo) -> Iterator[Fault]:
    """No cell is named twice."""
    if _ascends(coo) or any(coo_coord_bound(coo)):
        return
    flat = flat_cells(coo, 0, coo.count)
    flat.sort()
    twice = np.flatnonzero(flat[1:] == flat[:-1])
    if twice.size:
        cell = flat[twice[0]]
        index = int(np.flatnonzero(flat_cells(coo, 0, coo.count) == cell)[1])
        found = ", ".join(str(coords[index]) for coords in coo.coords)
        yield Fault(coo.faulty(0, index), "a cell is named twice", "another cell", f"({found})")


def _ascends(coo: Coo) -> bool:
    """Tell whether the cells come in ascending order, the usual one: then none comes twice.

    Only a proof where all coordinates are in bounds.
    """
    for start in range(0, coo.count, _BLOCK):
        flat = flat_cells(coo, max(start - 1, 0), min(start + _BLOCK, coo.count))
        if not bool(np.all(flat[1:] > flat[:-1])):
            return False
    return True


CONTENT_RULES: Final[tuple[Rule[Coo], ...]] = (coo_coord_bound, coo_cell_unique)
