"""What sparse layouts share as values: the stored ones, and an array for those that are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.errors import LimitExceeded, Unsupported
from tensorark.layouts.numbers.content import CONTENT_RULES, Content
from tensorark.layouts.numbers.dtypes import Array, decode, numpy_dtype
from tensorark.layouts.payload import Bytes


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
        Unsupported: when the type has no zero.
    """
    require_zero(tensor, element)
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
