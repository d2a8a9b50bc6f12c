"""NInfer's numeric formats, one element at a time, in exact rational arithmetic.

Written from the description of the formats alone: no table and no line of the library is used.
Slow on purpose.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

# Bits of exponent and fraction, and the largest finite value.
F32 = (8, 23)
F16 = (5, 10)
BF16 = (8, 7)
E4M3 = (4, 3)


def floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def rounded(value: Fraction, kind: tuple[int, int]) -> Fraction | None:
    """Round to nearest, ties to even, keeping subnormals; None for infinity."""
    if not value:
        return value
    exponent_bits, bits = kind
    bias = (1 << (exponent_bits - 1)) - 1
    sign, magnitude = (-1 if value < 0 else 1), abs(value)
    exponent = max(floor_log2(magnitude), 1 - bias)
    step = Fraction(2) ** (exponent - bits)
    steps = magnitude / step
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    result = whole * step
    top = Fraction(448) if kind == E4M3 else (2 - Fraction(1, 1 << bits)) * Fraction(2) ** bias
    return None if result > top else sign * result


def integer(value: Fraction) -> int:
    """Round to an integer, ties to even."""
    whole = value.numerator // value.denominator
    rest = value - whole
    return whole + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1))


def word(value: Fraction, kind: tuple[int, int]) -> int:
    """Return the word of a value that the type holds exactly."""
    exponent_bits, bits = kind
    bias = (1 << (exponent_bits - 1)) - 1
    sign = (1 << (exponent_bits + bits)) if value < 0 else 0
    value = abs(value)
    if not value:
        return sign
    exponent = max(floor_log2(value), 1 - bias)
    mantissa = int(value / Fraction(2) ** (exponent - bits))
    if mantissa < 1 << bits:  # subnormal
        return sign | mantissa
    return sign | (exponent + bias) << bits | (mantissa - (1 << bits))


def number(word: int, kind: tuple[int, int]) -> Fraction:
    """Return the value of a finite word."""
    exponent_bits, bits = kind
    bias = (1 << (exponent_bits - 1)) - 1
    sign = -1 if word >> (exponent_bits + bits) else 1
    exponent = word >> bits & ((1 << exponent_bits) - 1)
    mantissa = word & ((1 << bits) - 1)
    if not exponent:
        return sign * mantissa * Fraction(2) ** (1 - bias - bits)
    return sign * (mantissa + (1 << bits)) * Fraction(2) ** (exponent - bias - bits)


BITS = {"q2": 2, "q4": 4, "q5": 5, "q6": 6, "q8": 8, "t2": 2}
GROUP = {"q2": 64, "q4": 64, "q5": 64, "q6": 64, "q8": 32, "t2": 128}
QMAX = {"q4": 7, "q5": 15, "q6": 31, "q8": 127, "t2": 1}
QMIN = {"q4": -8, "q5": -16, "q6": -32, "q8": -127, "t2": -1}


def quantized_group(name: str, values: list[Fraction]) -> tuple[int, list[int]] | None:
    """Return the scale word and the codes of a group; None where it does not fit."""
    largest = max(abs(each) for each in values)
    if not largest:
        return 0, [0] * len(values)
    wanted = rounded(largest / QMAX[name], F32)
    scale = rounded(wanted, F16)
    if scale is None:
        return None
    scale = scale or Fraction(1, 1 << 24)
    inverse = rounded(1 / scale, F32)
    codes = []
    for value in values:
        code = integer(rounded(value * inverse, F32))
        codes.append(min(max(code, QMIN[name]), QMAX[name]))
    return word(scale, F16), codes


def packed_group(name: str, codes: list[int]) -> tuple[bytes, bytes]:
    """Return base and high bytes of a group by setting bits one after the other."""
    bits = BITS[name]
    words = [(code + 1 if name == "q2" else code) & ((1 << bits) - 1) for code in codes]
    low = min(bits, 4) if bits != 8 else 8
    base = _stream([each & ((1 << low) - 1) for each in words], low)
    if bits in (5, 6):
        return base, _stream([each >> 4 for each in words], bits - 4)
    return base, b""


def _stream(fields: list[int], width: int) -> bytes:
    total = 0
    for index, each in enumerate(fields):
        total |= each << (index * width)
    return total.to_bytes(len(fields) * width // 8, "little")


def grouped_object(name: str, rows: list[list[Fraction]]) -> bytes:
    """Encode a matrix, `row_split_k128_v1`."""
    group = GROUP[name]
    columns = len(rows[0])
    padded = -(-columns // 128) * 128
    base, high, scales = b"", b"", b""
    for row in rows:
        full = row + [Fraction(0)] * (padded - columns)
        for start in range(0, padded, group):
            scale, codes = quantized_group(name, full[start : start + group])
            each, more = packed_group(name, codes)
            base, high, scales = base + each, high + more, scales + scale.to_bytes(2, "little")
    return aligned(aligned(base) + high) + scales


def aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 256)


def fp8_object(rows: list[list[Fraction]]) -> bytes | None:
    """Encode a matrix, `fp8_e4m3fn_row_bf16`; None where it does not fit."""
    codes, scales = b"", b""
    for row in rows:
        values = [rounded(each, BF16) for each in row]
        largest = max(abs(each) for each in values)
        if not largest:
            codes, scales = codes + bytes(len(row)), scales + b"\0\0"
            continue
        scale = rounded(rounded(largest / 448, F32), BF16) or number(1, BF16)
        inverse = rounded(1 / scale, F32)
        if inverse is None:
            return None
        for value in values:
            scaled = rounded(value * inverse, F32)
            scaled = min(max(scaled, Fraction(-448)), Fraction(448))
            code = word(abs(rounded(scaled, E4M3)), E4M3)
            codes += bytes([code | (0x80 if value < 0 else 0)])
        scales += word(scale, BF16).to_bytes(2, "little")
    return aligned(codes) + scales


E2M1 = [Fraction(each) for each in ("0", "1/2", "1", "3/2", "2", "3", "4", "6")]


def nvfp4_object(rows: list[list[Fraction]], *, rescued: bool = True) -> bytes:
    """Encode a matrix, `nvfp4`, with one divisor."""
    count, columns = len(rows), len(rows[0])
    largest = max(abs(each) for row in rows for each in row)
    divisor = Fraction(1)
    if largest:  # binary64 first, as the description has it, then binary32
        divisor = rounded(rounded(2688 / largest, (11, 52)), F32)
    codes = bytearray(count * columns // 2)
    scales = bytearray(count * columns // 16)
    for n, row in enumerate(rows):
        for g in range(columns // 16):
            block = row[16 * g : 16 * g + 16]
            top = max(abs(each) for each in block)
            wanted = min(rounded(rounded(top * divisor, F32) / 6, F32), Fraction(448))
            scale = rounded(wanted, E4M3)
            if not scale and top and rescued:
                scale = Fraction(1, 512)
            place = (n // 128 * (columns // 64) + g // 4) * 512
            scales[place + n % 32 * 16 + n % 128 // 32 * 4 + g % 4] = word(scale, E4M3)
            for i, value in enumerate(block):
                ratio = rounded(rounded(value * divisor, F32) / scale, F32) if scale else 0
                code = nearest_e2m1(abs(ratio)) | (8 if ratio < 0 else 0)
                k = 16 * g + i
                codes[(n * columns + k) // 2] |= code << (4 * (k % 2))
    return bytes(codes) + bytes(scales) + np.float32(float(divisor)).tobytes()


def nearest_e2m1(magnitude: Fraction) -> int:
    return min(range(8), key=lambda code: (abs(E2M1[code] - magnitude), code % 2))
