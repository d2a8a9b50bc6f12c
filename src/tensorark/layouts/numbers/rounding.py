"""From one float type to another, each value rounded once: to nearest, ties to even.

Owns the way around double rounding. `ml_dtypes` takes doubles through float32, which rounds to
nearest before its own types do, and so moves what lies beside a tie onto it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def round_to(values: Array, element: np.dtype[Any]) -> Array:
    """Return `values` as `element`; what is too large becomes infinite, or NaN without infinities.

    Everything but doubles on their way to a float of `ml_dtypes` is as numpy's `astype` has it.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if values.dtype.kind == "f" and values.dtype.itemsize == 8 and _is_guest(element):
            return _to_odd(values).astype(element)
        return values.astype(element)


def _is_guest(element: np.dtype[Any]) -> bool:
    return element.type.__module__ != "numpy"


def _to_odd(values: Array) -> npt.NDArray[np.float32]:
    """Return floats beside doubles: cut off, and with a last bit of 1 where something was cut.

    That bit says on which side of a tie the double was, so that rounding to a type of at least two
    bits less is as if there had been no step between.
    """
    single = values.astype(np.float32)
    back = single.astype(np.float64)
    words = single.view(np.uint32)
    words -= np.abs(back) > np.abs(values)
    words |= back != values
    return single
