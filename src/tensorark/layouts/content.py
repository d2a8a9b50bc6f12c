"""The rules of `.zt` that need payload: digests, bytes that a type forbids, sparse indices.

Judged when values are decoded (types and layouts) and when a file is verified (everything). They
hold for whatever other format carries such a type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.core.model import Span
from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import Where, quoted

Indices = npt.NDArray[np.unsignedinteger[Any]]

_BLOCK: Final = 1 << 20
"""Entries of sparse tensors that are judged at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Decoded bytes of one part: its type and, where the layout tells, its element count.

    A part may be judged piece by piece: `start` is where `data` begin in it, and only with those
    that end it `elements` are given.
    """

    where: Where
    data: memoryview
    type: str | None
    elements: int | None
    start: int = 0


@rule("zt.bool-byte", section="A", stage="content")
def bool_byte(part: Content) -> Iterator[Fault]:
    """A bool is stored as the byte 0 or 1."""
    if part.type != "bool":
        return
    values = np.frombuffer(part.data, np.uint8)
    if values.size and values.max() > 1:
        index = int(np.argmax(values > 1))
        detail = f"byte {part.start + index} of a bool part is neither 0 nor 1"
        yield Fault(part.where, detail, "0 or 1", int(values[index]))


@rule("zt.f4-padding", section="A", stage="content")
def f4_padding(part: Content) -> Iterator[Fault]:
    """The nibble after an odd last f4_e2m1 element is zero."""
    if part.type == "f4_e2m1" and part.elements is not None and part.elements % 2 and part.data:
        nibble = part.data[-1] >> 4
        if nibble:
            yield Fault(part.where, "the nibble after the last element is not zero", 0, nibble)


PART_RULES: Final[tuple[Rule[Content], ...]] = (bool_byte, f4_padding)


@dataclass(frozen=True, slots=True)
class Digested:
    """A stored digest beside the one that was computed, without the algorithm's name.

    `spans` are where the bytes lie in the file, or in its shards.
    """

    where: Where
    stored: str
    computed: str
    spans: Sequence[Span] = ()


@rule("zt.digest", section="3.4", stage="content")
def digest(part: Digested) -> Iterator[Fault]:
    """The digest of a part is that of its decoded bytes."""
    if part.stored != part.computed:
        detail = "the bytes do not match their digest"
        places = ", ".join(map(_span_text, part.spans[:_SHOWN]))
        offset = part.spans[0].offset if part.spans else None
        yield Fault(
            part.where,
            f"{detail} ({places})" if places else detail,
            part.stored,
            part.computed,
            offset,
        )


_SHOWN: Final = 4


def _span_text(span: Span) -> str:
    of = "" if span.file is None else f" of {quoted(span.file)}"
    return f"bytes {span.offset} to {span.end}{of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Csr:
    """The index arrays of a CSR matrix with `columns` columns."""

    where: Where
    columns: int
    indptr: Indices
    indices: Indices

    def faulty(self, role: str, index: int) -> tuple[str | int, ...]:
        """Return the place of one entry of one part."""
        return (*self.where, "parts", role, index)


@rule("zt.csr-indptr-start", section="zt.sparse_csr/1", stage="content")
def csr_indptr_start(csr: Csr) -> Iterator[Fault]:
    """`indptr` begins with 0."""
    if csr.indptr[0] != 0:
        detail = "`indptr` does not begin with 0"
        yield Fault(csr.faulty("indptr", 0), detail, 0, int(csr.indptr[0]))


@rule("zt.csr-indptr-order", section="zt.sparse_csr/1", stage="content")
def csr_indptr_order(csr: Csr) -> Iterator[Fault]:
    """`indptr` does not decrease."""
    falls = np.flatnonzero(csr.indptr[1:] < csr.indptr[:-1])
    if falls.size:
        index = int(falls[0]) + 1
        expected = f"at least {csr.indptr[index - 1]}"
        found = int(csr.indptr[index])
        yield Fault(csr.faulty("indptr", index), "`indptr` decreases", expected, found)


@rule("zt.csr-indptr-end", section="zt.sparse_csr/1", stage="content")
def csr_indptr_end(csr: Csr) -> Iterator[Fault]:
    """`indptr` ends with the number of stored values."""
    if csr.indptr[-1] != csr.indices.size:
        where = csr.faulty("indptr", csr.indptr.size - 1)
        detail = "`indptr` does not end with the number of values"
        yield Fault(where, detail, csr.indices.size, int(csr.indptr[-1]))


@rule("zt.csr-column-bound", section="zt.sparse_csr/1", stage="content")
def csr_column_bound(csr: Csr) -> Iterator[Fault]:
    """Every index is below the number of columns."""
    if csr.indices.size and int(csr.indices.max()) >= csr.columns:
        index = int(np.argmax(csr.indices >= csr.columns))
        where = csr.faulty("indices", index)
        found = int(csr.indices[index])
        yield Fault(where, "an index lies past the last column", f"below {csr.columns}", found)


@rule("zt.csr-column-order", section="zt.sparse_csr/1", stage="content")
def csr_column_order(csr: Csr) -> Iterator[Fault]:
    """Within a row the indices increase strictly."""
    if any(csr_indptr_order(csr)):
        return  # there are no rows to speak of
    indices, indptr = csr.indices, csr.indptr
    for start in range(1, indices.size, _BLOCK):
        stop = min(start + _BLOCK, indices.size)
        falls = np.flatnonzero(indices[start:stop] <= indices[start - 1 : stop - 1]) + start
        places = np.searchsorted(indptr, falls.astype(indptr.dtype))
        starts = indptr[places.clip(max=indptr.size - 1)] == falls.astype(indptr.dtype)
        bad = falls[~starts]  # the first index of a row may be anything
        if bad.size:
            index = int(bad[0])
            expected = f"above {indices[index - 1]}"
            where = csr.faulty("indices", index)
            detail = "the indices of a row do not increase"
            yield Fault(where, detail, expected, int(indices[index]))
            return


CSR_RULES: Final[tuple[Rule[Csr], ...]] = (
    csr_indptr_start,
    csr_indptr_order,
    csr_indptr_end,
    csr_column_bound,
    csr_column_order,
)


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


COO_RULES: Final[tuple[Rule[Coo], ...]] = (coo_coord_bound, coo_cell_unique)

CONTENT_RULES: Final[tuple[Rule[Any], ...]] = (*PART_RULES, digest, *CSR_RULES, *COO_RULES)
