"""The layout `zt.sparse_coo/1` as values: a full array, and its rules about payload."""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.layouts import check
from tensorark.layouts.content import COO_RULES, PART_RULES, Content, Coo, flat_cells
from tensorark.layouts.coo.rules import COO
from tensorark.layouts.layout import Bytes, Layout, blank, ids, require_zero, shaped
from tensorark.layouts.numbers.dtypes import Array, decode, numpy_dtype

_BLOCK: Final = 1 << 20


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Assemble `zt.sparse_coo/1` into a full array; what is not stored is zero."""
    coo = read_coo(tensor, read, Reading())
    stored = read_values(tensor, read, coo.count)
    full = blank(tensor, stored.dtype)
    for start in range(0, coo.count, _BLOCK):
        stop = min(start + _BLOCK, coo.count)
        full[flat_cells(coo, start, stop).astype(np.int64)] = stored[start:stop]
    return shaped(full, tensor)


def read_values(tensor: Tensor, read: Bytes, count: int) -> Array:
    """Return the stored values of a sparse tensor that stores `count` of them."""
    where = ("objects", tensor.name, "parts", "values")
    require_zero(tensor, numpy_dtype(*ids(tensor.parts["values"])))
    return decode(read("values"), ids(tensor.parts["values"]), (count,), where)


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check the coordinates, and the values with the count that they give."""
    coo = read_coo(tensor, read, reading)
    judge_values(tensor, read, coo.count, reading)


def judge_values(tensor: Tensor, read: Bytes, count: int, reading: Reading) -> None:
    """Check the bytes of the values, of which there are `count`, and that their type has a zero."""
    require_zero(tensor, numpy_dtype(*ids(tensor.parts["values"])))
    content = Content(
        where=("objects", tensor.name, "parts", "values"),
        data=read("values"),
        type=tensor.parts["values"].type,
        elements=count,
    )
    reading.require(PART_RULES, content)


def read_coo(tensor: Tensor, read: Bytes, reading: Reading) -> Coo:
    """Return the coordinates of a COO tensor, checked by the rules of the profile."""
    check(COO, tensor, reading)
    element = "<u4" if tensor.parts["coords"].dtype == "u32" else "<u8"
    coords = np.frombuffer(read("coords"), element).reshape(len(tensor.shape), -1)
    coo = Coo(where=("objects", tensor.name), shape=tensor.shape, coords=coords)
    reading.require(COO_RULES, coo)
    return coo


COO_CELLS: Final = Layout(assemble, judge)
