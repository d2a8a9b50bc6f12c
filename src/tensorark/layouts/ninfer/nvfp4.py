"""`nvfp4`: E2M1 codes, an E4M3FN scale for 16 of them, FP32 divisors of the weights (§6.1).

Owns the values of codes under scales and a divisor, the swizzle of block scales in tiles of 128
rows, and the encoder `nvfp4_absmax`. Works on whole tiles; never sees an object.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorark.errors import InvalidInput
from tensorark.layouts.ninfer.groups import require_finite
from tensorark.layouts.ninfer.small_floats import (
    E4M3_MAX,
    Floats,
    Octets,
    e2m1_pairs,
    e4m3_values,
    e4m3_words,
    look_up,
)

BLOCK: Final = 16
"""Elements of a row under one scale."""

TILE: Final = 128
"""Rows whose scales are swizzled together."""

_RANGE: Final = 6 * 448
"""What the largest magnitude of a matrix is scaled to: largest code times largest scale."""

# A magnitude takes the next code where it is at least, or above, these; ties go to the even code.
_STEPS: Final = (
    (np.greater, 0.25),
    (np.greater_equal, 0.75),
    (np.greater, 1.25),
    (np.greater_equal, 1.75),
    (np.greater, 2.5),
    (np.greater_equal, 3.5),
    (np.greater, 5),
)


def swizzle(scales: Octets) -> Octets:
    """Return the scales [rows, columns / 16] of whole tiles in stored order, flat."""
    rows, blocks = scales.shape
    tiles = scales.reshape(rows // TILE, 4, 32, blocks // 4, 4)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).reshape(-1)


def unswizzle(stored: Octets, rows: int) -> Octets:
    """Return stored scales of `rows` rows, whole tiles, as [rows, columns / 16]."""
    blocks = stored.size // rows
    tiles = stored.reshape(rows // TILE, blocks // 4, 32, 4, 4)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).reshape(rows, blocks)


def reconstruct(codes: Octets, scales: Octets, divisor: np.float32, out: Floats) -> None:
    """Write ``code * scale / divisor``, rounded once, into `out` [rows, columns], C-contiguous.

    `codes` are [rows, columns / 2] bytes, `scales` [rows, columns / 16] words.
    """
    look_up(e2m1_pairs(), codes, out.view(np.uint64))
    blocks = out.reshape(len(out), -1, BLOCK)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):  # words that are illegal
        blocks *= e4m3_values()[scales][..., np.newaxis]  # exact: 2 + 4 bits of significand
        if divisor != 1:
            out /= divisor


def divisor_of(largest: float) -> np.float32:
    """Return the divisor of a matrix whose largest magnitude is `largest`; 1 for one of zeros.

    Raises:
        InvalidInput: when it is not a positive finite FP32 number (code ``encode-scale``).
    """
    require_finite(np.array(largest, np.float32))
    if not largest:
        return np.float32(1)
    with np.errstate(over="ignore"):
        divisor = np.float32(_RANGE / float(largest))
    if not np.isfinite(divisor) or divisor <= 0:
        raise InvalidInput(
            "the matrix is too small or too large for an FP32 divisor",
            code="encode-scale",
            section="6.1",
            found=largest,
        )
    return divisor


def reciprocal(multiplier: np.float32) -> np.float32:
    """Return the divisor that stands for a multiplier, rounded to float32."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.float32(np.float32(1) / multiplier)


def quantize(values: Floats, divisor: np.float32, *, rescued: bool = True) -> tuple[Octets, Octets]:
    """Return codes [rows, columns / 2] and scales [rows, columns / 16] of float32 values.

    `divisor` is that of the whole matrix. With `rescued` (`nvfp4_absmax`) a block whose scale
    would round to zero gets the smallest one; without (`nvfp4_maxabs`) it becomes zeros.
    """
    blocks = values.reshape(len(values), -1, BLOCK)
    largest = np.abs(blocks).max(axis=-1)
    require_finite(largest)
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.minimum(largest * divisor / np.float32(6), E4M3_MAX)
    scales = e4m3_words(wanted)
    if rescued:
        scales[(scales == 0) & (largest > 0)] = 1
    steps = e4m3_values()[scales][..., np.newaxis]
    ratio = np.zeros_like(blocks)
    with np.errstate(over="ignore", under="ignore"):
        np.divide(blocks * divisor, steps, out=ratio, where=steps != 0)
    codes = np.left_shift(np.signbit(ratio), 3, dtype=np.uint8)
    magnitude = np.abs(ratio)
    for above, bound in _STEPS:
        codes += above(magnitude, np.float32(bound))
    codes = codes.reshape(len(values), -1)
    return codes[:, 0::2] | codes[:, 1::2] << 4, scales
