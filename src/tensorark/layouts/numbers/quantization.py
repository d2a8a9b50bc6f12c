"""Quantizing an array in groups along an axis, chunk by chunk, and the error that this makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.errors import InvalidInput
from tensorark.layouts.numbers.arrays import as_array
from tensorark.layouts.numbers.dtypes import Array, ids_of

Double = npt.NDArray[np.float64]
Octets = npt.NDArray[np.uint8]

Quantize = Callable[[Double], tuple[Octets, npt.NDArray[Any], Octets, Double]]
"""Gives codes, scales as they are stored, zero points, and the values that all of them stand for.

Takes [blocks, size, inner]: groups of `size`, each of which has one scale.
"""

_CHUNK: Final = 1 << 20
"""Elements that are quantized at a time, unless a single group has more."""

NO_ZEROS: Final = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Quantization:
    """What quantizing gave: codes and entries in row-major order, and the error."""

    codes: Octets
    scales: npt.NDArray[Any]
    zeros: Octets
    max_error: float
    mean_error: float


def quantize_groups(source: Array, axis: int, size: int, quantize: Quantize) -> Quantization:
    """Quantize `source` chunk by chunk, in groups of `size` along `axis`.

    Raises:
        InvalidInput: when a value is not finite.
    """
    inner = prod(source.shape[axis + 1 :])
    blocks = source.reshape(-1, size, inner) if source.size else np.empty((0, size, inner))
    step = max(1, _CHUNK // max(1, size * inner))
    pieces = []
    largest = total = 0.0
    for start in range(0, len(blocks), step):
        chunk = blocks[start : start + step].astype(np.float64)
        if not np.isfinite(chunk).all():
            raise InvalidInput("only finite values are quantized", code="not-finite")
        codes, scales, zeros, back = quantize(chunk)
        error = np.abs(back.astype(np.float32).astype(np.float64) - chunk)
        largest, total = max(largest, float(error.max(initial=0))), total + float(error.sum())
        pieces.append((codes.reshape(-1), scales.reshape(-1), zeros.reshape(-1)))
    if not pieces:
        pieces = [(np.empty(0, np.uint8), quantize(np.empty((0, 1, 1)))[1].reshape(-1), NO_ZEROS)]
    codes, scales, zeros = (np.concatenate(each) for each in zip(*pieces, strict=True))
    return Quantization(codes, scales, zeros, largest, total / max(1, source.size))


def as_floats(values: Any) -> Array:
    """Return what numpy makes of `values`, row-major.

    Raises:
        InvalidInput: when that is no array of floats.
    """
    array = as_array(values)
    _, type_ = ids_of(array.dtype)
    if type_ is not None or array.dtype.kind in "iu":
        hint = "astype('f4')"
        raise InvalidInput("only floats are quantized", code="dtype", found=array.dtype, hint=hint)
    return np.asarray(array, order="C")


def axis_of(array: Array, axis: int) -> int:
    """Return the dimension that `axis` means, counted from the front.

    Raises:
        InvalidInput: when there is none.
    """
    if not -array.ndim <= axis < array.ndim:
        expected = f"a dimension of {array.shape}"
        raise InvalidInput("there is no such axis", code="axis", expected=expected, found=axis)
    return axis % array.ndim
