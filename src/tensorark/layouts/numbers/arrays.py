"""Whatever callers call an array as an array of numpy, or an error that says why not."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tensorark.errors import InvalidInput, Where
from tensorark.layouts.numbers.dtypes import Array

_MOST_DIMENSIONS: Final = 64  # of an array of numpy
_NO_ARRAYS: Final = (bool, int, float, complex, str, bytes, bytearray, Mapping, set, frozenset)


def as_array(value: Any, where: Where = ()) -> Array:
    """Return what numpy makes of `value`, which is an array or a sequence of numbers.

    A dense tensor of torch is taken as it is, whatever its type.

    Raises:
        InvalidInput: when it makes no array of it, or one without something that `value` has.
    """
    if type(value) is np.ndarray:  # of which there may be a hundred thousand
        return value
    torch = sys.modules.get("torch")  # who has not imported it has no tensors of it
    if torch is not None and isinstance(value, torch.Tensor):
        from tensorark.layouts.numbers.torch import to_array

        plain: Array = to_array(value, str(where[1]) if where else None)
        return plain
    masked = _find_masked(value)
    if masked is not None:
        raise _would_lose_its_mask(masked, where)
    if value is None or (isinstance(value, _NO_ARRAYS) and not isinstance(value, np.generic)):
        detail = "this is no array"
        raise InvalidInput(detail, code="array", found=type(value).__name__, where=where)
    try:
        made = np.asanyarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        detail = f"numpy makes no array of this: {error}"
        raise InvalidInput(detail, code="array", found=type(value).__name__, where=where) from error
    if isinstance(made, np.ma.MaskedArray):  # of something that numpy asked for its array
        raise _would_lose_its_mask(made, where)
    return np.asarray(made)


def _find_masked(value: Any, depth: int = 0) -> Array | None:
    """Return a masked array that `value` is, or holds as a sequence; numpy drops masks of these."""
    if isinstance(value, np.ma.MaskedArray):
        return value
    if isinstance(value, list | tuple) and depth < _MOST_DIMENSIONS:
        found = (_find_masked(each, depth + 1) for each in value)
        return next((each for each in found if each is not None), None)
    return None


def _would_lose_its_mask(array: Array, where: Where) -> InvalidInput:
    return InvalidInput(
        "a masked array would lose its mask",
        code="masked",
        where=where,
        found=str(array.dtype),
        hint="give the filled array, and the mask as another one",
    )
