"""The layout `zt.sparse_coo/1` as values: a full array, and its rules about payload."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.layouts.coo.content import CONTENT_RULES, Coo, flat_cells
from tensorark.layouts.coo.rules import LAYOUT
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.dtypes import Array
from tensorark.layouts.sparse import blank, judge_values, read_values
from tensorark.layouts.values import Values, reshape

_BLOCK: Final = 1 << 20


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Assemble `zt.sparse_coo/1` into a full array; what is not stored is zero."""
    coo = read_coo(tensor, read, Reading())
    stored = read_values(tensor, read, coo.count)
    full = blank(tensor, stored.dtype)
    for start in range(0, coo.count, _BLOCK):
        stop = min(start + _BLOCK, coo.count)
        full[flat_cells(coo, start, stop).astype(np.int64)] = stored[start:stop]
    return reshape(full, tensor)


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check the coordinates, and the values with the count that they give."""
    coo = read_coo(tensor, read, reading)
    judge_values(tensor, read, coo.count, reading)


def read_coo(tensor: Tensor, read: Bytes, reading: Reading) -> Coo:
    """Return the coordinates of a COO tensor, checked by the rules of the profile."""
    LAYOUT.check(tensor, reading)
    element = "<u4" if tensor.parts["coords"].dtype == "u32" else "<u8"
    coords = np.frombuffer(read("coords"), element).reshape(len(tensor.shape), -1)
    coo = Coo(where=("objects", tensor.name), shape=tensor.shape, coords=coords)
    reading.require(CONTENT_RULES, coo)
    return coo


VALUES: Final = Values(LAYOUT, assemble, judge=judge)
