"""The rules of `.zt` that need payload: digests, bytes that a type forbids, the inside of CSR.

Judged when values are decoded (types and layouts) and when a file is verified (everything). They
hold for whatever other format carries such a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.errors import Where
from tensorark.rules import Fault, Rule, rule

Indices = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The decoded bytes of one part: its type and, where the layout tells, its element count."""

    where: Where
    data: memoryview
    type: str | None
    elements: int | None


@rule("zt.bool-byte", section="A", stage="content")
def bool_byte(part: Content) -> Iterator[Fault]:
    """A bool is stored as the byte 0 or 1."""
    if part.type != "bool":
        return
    values = np.frombuffer(part.data, np.uint8)
    if values.size and values.max() > 1:
        index = int(np.argmax(values > 1))
        detail = f"byte {index} of a bool part is neither 0 nor 1"
        yield Fault(part.where, detail, "0 or 1", int(values[index]))


@rule("zt.f4-padding", section="A", stage="content")
def f4_padding(part: Content) -> Iterator[Fault]:
    """The nibble after an odd last f4_e2m1 element is zero."""
    if part.type == "f4_e2m1" and part.elements is not None and part.elements % 2:
        nibble = part.data[-1] >> 4
        if nibble:
            yield Fault(part.where, "the nibble after the last element is not zero", 0, nibble)


PART_RULES: Final[tuple[Rule[Content], ...]] = (bool_byte, f4_padding)


@dataclass(frozen=True, slots=True)
class Digested:
    """A stored digest beside the one that was computed, without the algorithm's name."""

    where: Where
    stored: str
    computed: str


@rule("zt.digest", section="3.4", stage="content")
def digest(part: Digested) -> Iterator[Fault]:
    """The digest of a part is that of its decoded bytes."""
    if part.stored != part.computed:
        yield Fault(part.where, "the bytes do not match their digest", part.stored, part.computed)


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
    if csr.indices.size < 2:
        return
    starts = np.zeros(csr.indices.size, np.bool_)
    inside = csr.indptr[csr.indptr < csr.indices.size]
    starts[inside.astype(np.int64)] = True
    bad = np.flatnonzero((csr.indices[1:] <= csr.indices[:-1]) & ~starts[1:])
    if bad.size:
        index = int(bad[0]) + 1
        expected = f"above {csr.indices[index - 1]}"
        where = csr.faulty("indices", index)
        detail = "the indices of a row do not increase"
        yield Fault(where, detail, expected, int(csr.indices[index]))


CSR_RULES: Final[tuple[Rule[Csr], ...]] = (
    csr_indptr_start,
    csr_indptr_order,
    csr_indptr_end,
    csr_column_bound,
    csr_column_order,
)

CONTENT_RULES: Final[tuple[Rule[Any], ...]] = (*PART_RULES, digest, *CSR_RULES)
