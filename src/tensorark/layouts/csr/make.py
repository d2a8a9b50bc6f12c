"""Arrays laid out as `zt.sparse_csr/1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorark.layouts.csr.rules import ID
from tensorark.layouts.parts import TensorParts, check
from tensorark.layouts.sparse import ADD_UP, as_indices, as_part, index_dtype


def make(values: Any, indices: Any, indptr: Any, shape: Sequence[int]) -> TensorParts:
    """Lay a matrix out, as `tensorark.sparse.csr` says.

    Raises:
        InvalidInput: when the arrays are no such matrix, or no storage type holds the values.
    """
    element = index_dtype(indices, indptr)
    parts = {
        "values": as_part(values),
        "indices": as_part(as_indices(indices, element, "indices")),
        "indptr": as_part(as_indices(indptr, element, "indptr")),
    }
    return check(TensorParts(shape=tuple(map(int, shape)), layout=ID, parts=parts), ADD_UP)
