"""The Hadamard rotation of an input (§8): signs, then a normalized Walsh-Hadamard transform.

Owns the transform and what sign vectors must be. Knows no file: callers bring values.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.errors import InvalidInput

BLOCK: Final = 1024
"""Elements that are transformed together; the last axis holds whole blocks."""

_SCALE: Final = 32
"""Square root of `BLOCK`: dividing by it makes the transform its own inverse."""

_ROWS: Final = 64
"""Blocks that are transformed at a time: they stay in the cache through all ten passes."""

Array = npt.NDArray[Any]


def inverse_hadamard_transform(values: Array, signs: Array) -> npt.NDArray[np.float32]:
    """Return what became `values` as ``H(x * signs) / 32``, in float32.

    H is the Sylvester matrix in natural order, for each 1024 elements of the last axis. `signs`, +1
    or -1, are as long as that. H / 32 is its own inverse.

    Raises:
        InvalidInput: when the last axis is not one or more blocks, or the signs are not (codes
            ``hadamard-width``, ``hadamard-signs``).
    """
    rotated = _blocks(values, signs)
    _transform(rotated.reshape(-1, BLOCK))
    rotated *= signs.astype(np.float32)
    return rotated


def are_signs(values: Array) -> bool:
    """Tell whether all values are +1 or -1."""
    return bool((np.abs(values.astype(np.float32)) == 1).all())


def _blocks(values: Array, signs: Array) -> npt.NDArray[np.float32]:
    width = values.shape[-1] if values.ndim else 0
    if not width or width % BLOCK:
        raise InvalidInput(
            "a rotated axis is made of whole blocks",
            code="hadamard-width",
            section="8",
            expected=f"a multiple of {BLOCK}",
            found=width,
        )
    if signs.shape != (width,) or not are_signs(signs):
        raise InvalidInput(
            "these are not the signs of the axis",
            code="hadamard-signs",
            section="8",
            expected=f"{width} times +1 or -1",
            found=f"an array of shape {signs.shape}",
        )
    return np.array(values, np.float32, order="C")


def _transform(flat: npt.NDArray[np.float32]) -> None:
    """Transform each row of `flat`, 1024 long, in place."""
    for start in range(0, len(flat), _ROWS):
        rows = flat[start : start + _ROWS]
        half = 1
        while half < BLOCK:
            pairs = rows.reshape(len(rows), -1, 2, half)
            upper, lower = pairs[:, :, 0], pairs[:, :, 1]
            difference = upper - lower
            upper += lower
            lower[...] = difference
            half *= 2
        rows /= np.float32(_SCALE)
