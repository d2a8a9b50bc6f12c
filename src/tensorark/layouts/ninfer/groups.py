"""Integer codes in groups with one FP16 multiplier each: q2, q4, q5, q6, q8 and t2 (§6.1).

Owns codes and scales of a group: how codes are packed into base and high bytes, which codes and
scales are legal, the reconstruction, and the canonical encoder `grouped_absmax`. Never sees an
object: groups come and go as arrays whose last axis is a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from tensorark.errors import InvalidInput
from tensorark.layouts.ninfer.small_floats import Floats, Octets

Codes = npt.NDArray[np.int8]
Scales = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """The codes of one format: `bits` wide, from `low` to `high`, `group` of them to a scale.

    `qmax` is what the largest magnitude of a group is encoded as; 0 where no float is ever encoded.
    A code is stored as its two's complement, or plus one where `offset`.
    """

    bits: int
    group: int
    low: int
    high: int
    qmax: int
    offset: bool = False


CODINGS: Final[Mapping[str, Coding]] = MappingProxyType(
    {
        "q2_g64_fp16": Coding(bits=2, group=64, low=-1, high=2, qmax=0, offset=True),
        "q4_g64_fp16": Coding(bits=4, group=64, low=-8, high=7, qmax=7),
        "q5_g64_fp16": Coding(bits=5, group=64, low=-16, high=15, qmax=15),
        "q6_g64_fp16": Coding(bits=6, group=64, low=-32, high=31, qmax=31),
        "q8_g32_fp16": Coding(bits=8, group=32, low=-127, high=127, qmax=127),
        "t2_g128_fp16": Coding(bits=2, group=128, low=-1, high=1, qmax=1),
    }
)


# ------------------------------------------------------------------------------------ bytes ↔ codes


def unpack(coding: Coding, base: Octets, high: Octets) -> Codes:
    """Return the codes of groups from their bytes, illegal ones included.

    `base` and `high` have the bytes of a group on their last axis; `high` may be empty.
    """
    if coding.bits == 8:
        return base.view(np.int8)
    words = _pairs(base) if coding.bits > 2 else _quarters(base)
    if coding.bits == 5:
        words |= np.unpackbits(high, axis=-1, bitorder="little") << 4
    elif coding.bits == 6:
        words |= _quarters(high) << 4
    if coding.offset:
        words -= 1
    else:
        sign = np.uint8(1 << (coding.bits - 1))
        words ^= sign
        words -= sign
    return words.view(np.int8)


def _pairs(octets: Octets) -> Octets:
    """Return the nibbles of each byte, the low one first."""
    wide = octets.astype("<u2")
    wide |= wide << 4
    wide &= 0x0F0F
    return wide.view(np.uint8)


def _quarters(octets: Octets) -> Octets:
    """Return the four 2-bit fields of each byte, the lowest first."""
    wide = octets.astype("<u4")
    wide |= wide << 6
    wide |= wide << 12
    wide &= 0x03030303
    return wide.view(np.uint8)


def pack(coding: Coding, codes: Codes) -> tuple[Octets, Octets]:
    """Return the base and high bytes of groups of legal codes; the high ones may be none."""
    words: Octets = codes.view(np.uint8)
    if coding.offset:
        words = words + np.uint8(1)
    if coding.bits == 8:
        return words, words[..., :0]
    if coding.bits == 2:
        return _join_quarters(words), words[..., :0]
    high = words >> _FOUR
    base: Octets = (words[..., 0::2] & _NIBBLE) | (words[..., 1::2] << _FOUR)
    if coding.bits == 5:
        return base, np.packbits(high & _BIT, axis=-1, bitorder="little")
    if coding.bits == 6:
        return base, _join_quarters(high)
    return base, words[..., :0]


def _join_quarters(octets: Octets) -> Octets:
    """Return the low two bits of each byte, four to a byte, the first lowest."""
    joined = octets[..., 0::4] & _QUARTER
    for place in (1, 2, 3):
        joined |= (octets[..., place::4] & _QUARTER) << np.uint8(2 * place)
    return joined


# numpy keeps to bytes where both sides are bytes.
_BIT: Final = np.uint8(1)
_QUARTER: Final = np.uint8(3)
_FOUR: Final = np.uint8(4)
_NIBBLE: Final = np.uint8(15)


# ----------------------------------------------------------------------------------- codes ↔ values


def reconstruct(codes: Codes, scales: Scales, out: Floats) -> None:
    """Write ``f32(scale) * f32(code)``, rounded once, into `out`; `scales` lack the last axis."""
    # The cast and the product apart are faster than numpy's product of mixed types.
    out[...] = codes
    with np.errstate(invalid="ignore", over="ignore"):  # scales that are infinite or NaN
        out *= scales.astype(np.float32)[..., np.newaxis]


def quantize(coding: Coding, values: Floats) -> tuple[Codes, Scales]:
    """Return codes and scales of groups of float32 values, by `grouped_absmax`.

    The scale is the largest magnitude over `qmax`, rounded to FP16, never below its smallest
    subnormal; codes are ``x * f32(1 / scale)``, rounded and then clamped.

    Raises:
        InvalidInput: for values that are not finite, or too large for an FP16 scale (codes
            ``encode-nonfinite``, ``encode-scale``).
    """
    largest = np.abs(values).max(axis=-1)
    require_finite(largest)
    with np.errstate(over="ignore", under="ignore"):
        scales = (largest / np.float32(coding.qmax)).astype(np.float16)
    if not np.isfinite(scales).all():
        raise InvalidInput(
            "a group is too large for an FP16 scale",
            code="encode-scale",
            section="6.1",
            expected=f"magnitudes below {coding.qmax} * 65520",
            found=float(largest.max()),
        )
    live = largest != 0
    scales[live & (scales == 0)] = _SMALLEST
    inverse = np.zeros_like(largest)
    # The reciprocal is part of the contract: dividing by the scale rounds otherwise now and then.
    np.divide(np.float32(1), scales.astype(np.float32), out=inverse, where=live)
    codes = values * inverse[..., np.newaxis]
    np.rint(codes, out=codes)
    np.clip(codes, coding.low, coding.high, out=codes)
    return codes.astype(np.int8), scales


_SMALLEST: Final = np.uint16(1).view(np.float16)


def require_finite(largest: Floats) -> None:
    """Require the largest magnitudes of what is encoded to be numbers.

    Raises:
        InvalidInput: when one is NaN or infinite (code ``encode-nonfinite``).
    """
    if not np.isfinite(largest).all():
        raise InvalidInput(
            "a value that is not finite has no code", code="encode-nonfinite", section="6.1"
        )
