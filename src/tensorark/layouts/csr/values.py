"""The layout `zt.sparse_csr/1` as values: a full matrix, and its rules about payload."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.layouts.csr.content import CONTENT_RULES, Csr
from tensorark.layouts.csr.rules import LAYOUT
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.dtypes import Array
from tensorark.layouts.sparse import blank, judge_values, read_values
from tensorark.layouts.values import Values, reshape

_BLOCK: Final = 1 << 20


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Assemble `zt.sparse_csr/1` into a full matrix; what is not stored is zero."""
    csr = read_csr(tensor, read, Reading())
    count = csr.indices.size
    stored = read_values(tensor, read, count)
    full = reshape(blank(tensor, stored.dtype), tensor)
    for start in range(0, count, _BLOCK):
        stop = min(start + _BLOCK, count)
        columns = csr.indices[start:stop].astype(np.int64)
        full[rows_of(csr, start, stop), columns] = stored[start:stop]
    return full


def rows_of(csr: Csr, start: int, stop: int) -> npt.NDArray[np.int64]:
    """Return the rows of the stored values [start, stop), of which there is at least one."""
    first, last = np.searchsorted(
        csr.indptr, np.array([start, stop - 1], csr.indptr.dtype), "right"
    ).tolist()
    ends = csr.indptr[first - 1 : last + 1].astype(np.int64).clip(start, stop)
    return np.repeat(np.arange(first - 1, last), ends[1:] - ends[:-1])


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check the index arrays, and the values with the count that they give."""
    csr = read_csr(tensor, read, reading)
    judge_values(tensor, read, csr.indices.size, reading)


def read_csr(tensor: Tensor, read: Bytes, reading: Reading) -> Csr:
    """Return the index arrays of a CSR tensor, checked by the rules of the profile."""
    LAYOUT.check(tensor, reading)
    element = "<u4" if tensor.parts["indices"].dtype == "u32" else "<u8"
    csr = Csr(
        where=("objects", tensor.name),
        columns=tensor.shape[1],
        indptr=np.frombuffer(read("indptr"), element),
        indices=np.frombuffer(read("indices"), element),
    )
    reading.require(CONTENT_RULES, csr)
    return csr


VALUES: Final = Values(LAYOUT, assemble, judge=judge)
