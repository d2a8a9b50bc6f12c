"""Floats in files as numpy floats that arithmetic is exact in: scales, biases, zero points, codes.

Owns which storage types widen to what. Exact always: nothing is rounded here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.layouts.numbers.dtypes import numpy_dtype

NARROW: Final = frozenset({"f32", "f16", "bf16", "f8_e8m0", "u8", "i8", "u16", "i16"})
"""Elements that an f32 holds exactly; the others need an f64."""


def widen(data: memoryview, id_: str, element: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the elements of `data`, of storage type or logical type `id_`, as `element` floats."""
    if id_ == "bf16":
        bits = np.frombuffer(data, "<u2").astype(np.uint32)
        return (bits << np.uint32(16)).view(np.float32).astype(element, copy=False)
    if id_ == "f8_e8m0":
        return exponents()[np.frombuffer(data, np.uint8)].astype(element, copy=False)
    return np.frombuffer(data, numpy_dtype(id_)).astype(element, copy=False)


@cache
def exponents() -> npt.NDArray[np.float32]:
    """Return the 256 values of f8_e8m0: 2^(b − 127), NaN for 255."""
    values = np.ldexp(np.float32(1), np.arange(-127, 129)[:256].astype(np.int32))
    values[255] = np.nan
    table = values.astype(np.float32)
    table.flags.writeable = False
    return table
