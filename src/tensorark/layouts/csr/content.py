"""What the index arrays of `zt.sparse_csr/1` must obey."""

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


CONTENT_RULES: Final[tuple[Rule[Csr], ...]] = (
    csr_indptr_start,
    csr_indptr_order,
    csr_indptr_end,
    csr_column_bound,
    csr_column_order,
)
