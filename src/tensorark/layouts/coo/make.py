"""Arrays laid out as `zt.sparse_coo/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorark.errors import InvalidInput
from tensorark.layouts.coo.rules import ID
from tensorark.layouts.parts import TensorParts, check
from tensorark.layouts.sparse import ADD_UP, as_indices, as_part, index_dtype


def make(values: Any, coords: Sequence[Any], shape: Sequence[int]) -> TensorParts:
    """Lay a tensor out, as `tensorark.sparse.coo` says.

    Raises:
        InvalidInput: when the arrays are no such tensor, or no storage type holds the values.
    """
    if len(coords) != len(shape):
        detail = "there is not one array of indices for each dimension"
        raise InvalidInput(detail, code="coords", expected=len(shape), found=len(coords))
    element = index_dtype(*coords)
    flat = [as_indices(each, element, "coords") for each in coords]
    if len({each.size for each in flat}) > 1:
        raise InvalidInput("the arrays of indices differ in length", code="coords")
    stacked = np.concatenate([np.empty(0, element), *flat])
    parts = {"values": as_part(values), "coords": as_part(stacked)}
    return check(TensorParts(shape=tuple(map(int, shape)), layout=ID, parts=parts), ADD_UP)
