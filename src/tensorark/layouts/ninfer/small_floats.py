"""The small floats that codes and scales are made of: E2M1, E4M3FN, BF16 and FP16 words.

Owns the tables from words to float32 and the roundings back, all to nearest with ties to even and
with gradual underflow. Knows no format and no layout.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensorark.layouts.numbers.rounding import round_to

Floats = npt.NDArray[np.float32]
Octets = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint16]

E4M3_MAX: Final = np.float32(448)
"""Largest finite E4M3FN value; there is no infinity."""

_E2M1: Final = (0, 0.5, 1, 1.5, 2, 3, 4, 6)


@cache
def e4m3_values() -> Floats:
    """Return the value of each of the 256 E4M3FN words; 0x7f and 0xff are NaN."""
    values: Floats = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    values.flags.writeable = False
    return values


@cache
def e2m1_pairs() -> npt.NDArray[np.uint64]:
    """Return, for each byte, the two values that its nibbles stand for, low one first, as one word.

    One look-up then decodes two elements.
    """
    magnitudes = np.array(_E2M1, np.float32)
    values = np.concatenate([magnitudes, -magnitudes])  # of which 0x8 is minus zero
    byte = np.arange(256)
    pairs = values[np.stack([byte & 15, byte >> 4], axis=1)]
    return np.ascontiguousarray(pairs).view(np.uint64).reshape(256)


def look_up(table: npt.NDArray[np.generic], octets: Octets, out: npt.NDArray[np.generic]) -> None:
    """Write `table[octets]` into `out`, whose elements are the table's."""
    # `clip` spares a pass that looks for indices out of range, of which a byte has none.
    np.take(table, octets, out=out, mode="clip")


def e4m3_words(values: Floats) -> Octets:
    """Round finite values within ±448 to E4M3FN words; the sign of zero is kept."""
    return values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def bf16_words(values: npt.NDArray[Any]) -> Words:
    """Round floats of any width to BF16 words."""
    return round_to(values, np.dtype(ml_dtypes.bfloat16)).view(np.uint16)


def bf16_values(words: Words) -> Floats:
    """Return the values of BF16 words, exactly."""
    return (words.astype(np.uint32) << 16).view(np.float32)


def little(octets: Octets, dtype: str) -> npt.NDArray[Any]:
    """Read the last axis of `octets` as little-endian elements of `dtype`, such as ``<f2``."""
    return np.ascontiguousarray(octets).view(np.dtype(dtype))


def as_octets(values: npt.NDArray[np.generic]) -> Octets:
    """Return the little-endian bytes of `values`, along the last axis."""
    plain = np.ascontiguousarray(values)
    swapped = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return swapped.view(np.uint8)
