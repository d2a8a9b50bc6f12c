"""What sparse layouts share: values that are stored, zeros for those that are not, and indices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.errors import InvalidInput, LimitExceeded, Unsupported
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.arrays import as_array
from tensorark.layouts.numbers.content import CONTENT_RULES, Content
from tensorark.layouts.numbers.dtypes import Array, decode, encode, ids_of, numpy_dtype


def read_values(tensor: Tensor, read: Bytes, count: int) -> Array:
    """Return the stored values of a sparse tensor that stores `count` of them."""
    part, where = tensor.parts["values"], ("objects", tensor.name, "parts", "values")
    require_zero(tensor, numpy_dtype(part.dtype, part.type))
    return decode(read("values"), (part.dtype, part.type), (count,), where)


def judge_values(tensor: Tensor, read: Bytes, count: int, reading: Reading) -> None:
    """Check the bytes of the values, of which there are `count`, and that their type has a zero."""
    part, where = tensor.parts["values"], ("objects", tensor.name, "parts", "values")
    require_zero(tensor, numpy_dtype(part.dtype, part.type))
    content = Content(where=where, data=read("values"), type=part.type, elements=count)
    reading.require(CONTENT_RULES, content)


def blank(tensor: Tensor, element: np.dtype[Any]) -> Array:
    """Return as many zeros as the tensor has elements, flat.

    Raises:
        LimitExceeded: when this process cannot hold them: a sparse tensor may be any size.
    """
    try:
        return np.zeros(tensor.elements, element)
    except (MemoryError, OverflowError, ValueError) as error:
        raise LimitExceeded(
            "the full array is too large for this process",
            code="decoded-size",
            where=("objects", tensor.name),
            found=f"{tensor.elements} elements",
        ) from error


def require_zero(tensor: Tensor, element: np.dtype[Any]) -> None:
    """Require that what a sparse tensor does not store has a value: a zero of its type.

    Raises:
        Unsupported: when the type has none, as a scale that is a power of two.
    """
    if np.zeros(1, element).astype(np.complex128)[0] != 0:
        raise Unsupported(
            "the type has no zero, so cells that are not stored mean nothing",
            code="no-zero",
            where=("objects", tensor.name, "parts", "values"),
            found=str(element),
        )


ADD_UP: Final = "add up entries of the same cell first; that may round, so it is not done here"
"""What helps where a cell is named twice."""


def as_part(array: Any) -> tuple[tuple[str, str | None], list[memoryview]]:
    """Return an array as a part of `TensorParts`.

    Raises:
        InvalidInput: when no storage type holds its elements.
    """
    values = as_array(array)
    return ids_of(values.dtype), list(encode(values))


def index_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return the type that indices are stored in: 64 bits where any of them has as many."""
    return np.dtype("<u8" if any(np.asarray(each).itemsize > 4 for each in arrays) else "<u4")


def as_indices(index: Any, element: np.dtype[Any], role: str) -> Array:
    """Return indices as unsigned integers.

    Raises:
        InvalidInput: when they are not flat, no integers, or one is negative.
    """
    array = np.asarray(index)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        found = f"{array.ndim} dimensions of {array.dtype}"
        raise InvalidInput("indices are flat arrays of integers", code=role, found=found)
    if array.size and int(array.min()) < 0:
        raise InvalidInput("an index is negative", code=role, found=int(array.min()))
    return array.astype(element, copy=False)
