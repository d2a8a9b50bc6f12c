"""Files of `accept/` whose objects have layout profiles, with the values that they stand for.

The values in the expected JSON are written down here, or computed with fractions from the parts'
bytes by the formula of the profile; never by reading a file.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction

from conformance.build.case import ACCEPT, REJECT, Case

from .case import READABLE, contents, jsonable
from .image import image
from .laid import (
    AFFINE,
    AFFINE_BIASES,
    AFFINE_DATA,
    AFFINE_SCALES,
    BLOCKS,
    CODES,
    ELEMENTS,
    EXPONENTS,
    PACKING,
    Q8_0,
    SCALES,
    SCHEME,
    TENSOR_ZERO,
    ZEROS,
    Stored,
    halves,
    placed,
)
from .manifest import Map, changed, floats, integers, root, tensor
from .rules import COO, GGUF, MLX, MX, QUANT

_FINITE = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
_F4 = [*_FINITE, *(-each for each in _FINITE)]


def _case(
    section: str,
    objects: dict[str, tuple[Map, dict[str, Stored], list[float] | None]],
    expect: dict[str, str] | None = None,
) -> Case:
    """Return the case of objects with their parts and their values, which are f32 if need be."""
    heap: dict[int, bytes] = {}
    records: Map = {}
    values: dict[str, object] = {}
    for name, (record, parts, expected) in objects.items():
        records[name] = placed(heap, record, parts)
        if expected is not None:
            values[name] = jsonable([_f32(each) for each in expected])
    manifest = root(objects=records)
    return Case(
        image=image(manifest, heap),
        section=section,
        expect=expect or READABLE,
        contents=contents(manifest, heap),
        notes={"values": values} if values else {},
    )


def _f32(value: float) -> float:
    (single,) = struct.unpack("<f", struct.pack("<f", value)) if math.isfinite(value) else (value,)
    return float(single)


# --- zt.sparse_coo/1 -----------------------------------------------------------------------------


def _coo(shape: list[int], **parts: Stored) -> tuple[Map, dict[str, Stored]]:
    return tensor(layout=COO, shape=shape), parts


def sparse_coo() -> Case:
    """COO tensors of rank 1 to 3, in no order, with bools, and with an odd count of f4_e2m1."""
    f32, u32, u64 = {"dtype": "f32"}, {"dtype": "u32"}, {"dtype": "u64"}
    f4, boolean = {"dtype": "u8", "type": "f4_e2m1"}, {"dtype": "u8", "type": "bool"}
    cells: Stored = (integers("u32", 0, 1, 1, 2, 0, 1), u32)
    return _case(
        COO,
        {
            "rank 1": (
                *_coo([5], values=(floats(1, 2), f32), coords=(integers("u32", 4, 0), u32)),
                [2, 0, 0, 0, 1],
            ),
            "rank 2": (
                *_coo(
                    [3, 4],
                    values=(floats(1.5, -2.5, 3.5), f32),
                    coords=(integers("u64", 0, 2, 1, 3, 0, 2), u64),
                ),
                [0, 0, 0, 1.5, 0, 0, 3.5, 0, -2.5, 0, 0, 0],
            ),
            "rank 3": (
                *_coo(
                    [2, 1, 2],
                    values=(floats(7), f32),
                    coords=(integers("u32", 1, 0, 1), u32),
                ),
                [0, 0, 0, 7],
            ),
            "f4": (*_coo([2, 3], values=(b"\x21\x03", f4), coords=cells), [0, 0, 0.5, 1, 1.5, 0]),
            "bool": (*_coo([2, 3], values=(b"\1\0\1", boolean), coords=cells), [0, 0, 1, 0, 1, 0]),
        },
    )


def sparse_coo__empty() -> Case:
    """COO tensors that store nothing: with cells, and without."""
    nothing: Stored = (b"", {"dtype": "f32"})
    nowhere: Stored = (b"", {"dtype": "u64"})
    return _case(
        COO,
        {
            "cells": (*_coo([1, 2], values=nothing, coords=nowhere), [0, 0]),
            "no cells": (*_coo([3, 0], values=nothing, coords=nowhere), []),
        },
    )


# --- zt.quant_group/1 ----------------------------------------------------------------------------


def _quant(
    shape: list[int], scheme: dict[str, object], **parts: Stored
) -> tuple[Map, dict[str, Stored]]:
    attributes = changed(SCHEME, scheme)
    return tensor(layout=QUANT, shape=shape, attributes=attributes), parts


def _affine(codes: list[int], zeros: list[float], scales: list[float]) -> list[float]:
    """Return (code − zero) · scale, one zero and scale for each code, rounded once."""
    return [
        float((Fraction(code) - Fraction(zero)) * Fraction(scale)) or math.copysign(0, scale)
        for code, zero, scale in zip(codes, zeros, scales, strict=True)
    ]


_FACTORS = [0.5, 1, 2, -0.25]
_SIXTEEN = list(range(16))
_ALONG_ROWS = [each for each in range(4) for _ in range(4)]  # the group of each of [2, 8] codes
_DOWN_COLUMNS = [*range(8), *range(8)]  # the group of each, if a column is one


def quant_group() -> Case:
    """Codes 0 to 15 in both orders, along both axes, with every form of zero point."""
    scales = [_FACTORS[group] for group in _ALONG_ROWS]
    implied = [8.0] * 16
    plain = [float(ZEROS[0][group]) for group in _ALONG_ROWS]
    swapped: Stored = (bytes.fromhex("67452301efcdab89"), {"dtype": "u32"})
    octets: Stored = (bytes.fromhex("0123456789abcdef"), {"dtype": "u8"})
    wide: Stored = (bytes.fromhex("1032547698badcfe"), {"dtype": "i64"})
    msb = {"word": "u32", "order": "msb_first", "per_word": 8}
    eight = (halves(1, 2, 3, 4, 5, 6, 7, 8), {"dtype": "f16"})
    packed: Stored = (bytes.fromhex("76543210"), {"dtype": "u32"})
    columns = [float(1 + group) for group in _DOWN_COLUMNS]
    reals: Stored = (floats(0.1, 0.2, 0.3, 0.4), {"dtype": "f32"})
    singles = [_f32(each) for each in (0.1, 0.2, 0.3, 0.4)]
    return _case(
        QUANT,
        {
            "implied": (
                *_quant([2, 8], {}, data=CODES, scales=SCALES),
                _affine(_SIXTEEN, implied, scales),
            ),
            "msb": (
                *_quant([2, 8], {"packing": msb}, data=swapped, scales=SCALES),
                _affine(_SIXTEEN, implied, scales),
            ),
            "msb in bytes": (
                *_quant(
                    [2, 8],
                    {"packing": {"word": "u8", "order": "msb_first", "per_word": 2}},
                    data=octets,
                    scales=SCALES,
                ),
                _affine(_SIXTEEN, implied, scales),
            ),
            "signed words": (
                *_quant(
                    [2, 8],
                    {"packing": {**PACKING, "word": "u64", "per_word": 16}},
                    data=wide,
                    scales=SCALES,
                ),
                _affine(_SIXTEEN, implied, scales),
            ),
            "plain zeros": (
                *_quant(
                    [2, 8], {"zero_point": TENSOR_ZERO}, data=CODES, scales=SCALES, zeros=ZEROS
                ),
                _affine(_SIXTEEN, plain, scales),
            ),
            "packed zeros": (
                *_quant(
                    [2, 8],
                    {
                        "axis": 0,
                        "group_size": 2,
                        "zero_point": {"form": "tensor", "packing": "same_as_data"},
                    },
                    data=CODES,
                    scales=eight,
                    zeros=packed,
                ),
                _affine(
                    _SIXTEEN, [float([6, 7, 4, 5, 2, 3, 0, 1][g]) for g in _DOWN_COLUMNS], columns
                ),
            ),
            "no zero point": (
                *_quant(
                    [2, 8],
                    {"scale_form": "f32_factors", "zero_point": {"form": "none"}},
                    data=CODES,
                    scales=reals,
                ),
                _affine(_SIXTEEN, [0.0] * 16, [singles[group] for group in _ALONG_ROWS]),
            ),
        },
    )


def quant_group__bits() -> Case:
    """Codes of 2 and of 8 bits, signed and not, with exponents for scales, one of them NaN."""
    exponents: Stored = (bytes([127, 129, 0, 255]), {"dtype": "u8", "type": "f8_e8m0"})
    twos = [0, 1, 2, 3, 3, 2, 1, 0]
    one = {"word": "u8", "order": "lsb_first", "per_word": 1}
    four = {"word": "u8", "order": "lsb_first", "per_word": 4}
    powers = [1.0, 1.0, 4.0, 4.0, 2.0**-127, 2.0**-127]
    return _case(
        QUANT,
        {
            "2 bits": (
                *_quant(
                    [8],
                    {
                        "bits": 2,
                        "axis": 0,
                        "group_size": 2,
                        "packing": four,
                        "scale_form": "e8m0_exponent",
                        "zero_point": {"form": "implied", "value": 2},
                    },
                    data=(bytes.fromhex("e41b"), {"dtype": "u8"}),
                    scales=exponents,
                ),
                [*_affine(twos[:6], [2.0] * 6, powers), math.nan, math.nan],
            ),
            "8 bits, signed": (
                *_quant(
                    [4],
                    {
                        "bits": 8,
                        "axis": 0,
                        "packing": one,
                        "zero_point": {"form": "none"},
                    },
                    data=(bytes.fromhex("80ff007f"), {"dtype": "i8"}),
                    scales=(halves(0.5), {"dtype": "f16"}),
                ),
                [-64, -0.5, 0, 63.5],
            ),
            "8 bits, unsigned": (
                *_quant(
                    [4],
                    {
                        "bits": 8,
                        "axis": 0,
                        "packing": one,
                        "zero_point": {"form": "implied", "value": -2},
                    },
                    data=(bytes.fromhex("80ff007f"), {"dtype": "u8"}),
                    scales=(halves(0.5), {"dtype": "f16"}),
                ),
                [65, 128.5, 1, 64.5],
            ),
        },
    )


def quant_group__empty() -> Case:
    """Quantized tensors without elements: nothing along the axis, nothing beside it."""
    nothing: Stored = (b"", {"dtype": "u32"})
    unscaled: Stored = (b"", {"dtype": "f16"})
    return _case(
        QUANT,
        {
            "none along the axis": (*_quant([3, 0], {}, data=nothing, scales=unscaled), []),
            "none beside it": (*_quant([0, 8], {}, data=nothing, scales=unscaled), []),
        },
    )


# --- zt.mx/1 -------------------------------------------------------------------------------------


def _mx(
    shape: list[int], blocks: dict[str, object], **parts: Stored
) -> tuple[Map, dict[str, Stored]]:
    return tensor(layout=MX, shape=shape, attributes=changed(BLOCKS, blocks)), parts


def mx() -> Case:
    """MXFP4, both kinds of MXFP8 and MXINT8, along both axes, with a NaN scale."""
    elements = [_F4[code] for code in (1, 2, 3, 4, 5, 6, 7, 8)]
    powers = [2.0, 1.0, 0.5, 4.0]
    down = [0, 1, 2, 3, 0, 1, 2, 3]
    octets = bytes.fromhex("3840c07e")  # 1, 2, −2, 448 as e4m3; 0.5, 2, −2, NaN as e5m2
    two: Stored = (bytes([128, 127]), {"dtype": "u8", "type": "f8_e8m0"})
    spoilt: Stored = (bytes([255, 127]), {"dtype": "u8", "type": "f8_e8m0"})
    odd: Stored = (bytes.fromhex("2143650708"), {"dtype": "u8", "type": "f4_e2m1"})
    three: Stored = (bytes([127, 128, 126]), {"dtype": "u8", "type": "f8_e8m0"})
    return _case(
        MX,
        {
            "mxfp4": (
                *_mx([2, 4], {}, data=ELEMENTS, scales=EXPONENTS),
                [element * powers[place // 2] for place, element in enumerate(elements)],
            ),
            "mxfp4 down": (
                *_mx([2, 4], {"axis": 0}, data=ELEMENTS, scales=EXPONENTS),
                [element * powers[down[place]] for place, element in enumerate(elements)],
            ),
            "mxfp4, odd": (
                *_mx([3, 3], {"block_size": 3}, data=odd, scales=three),
                [0.5, 1, 1.5, 4, 6, 8, 3, 0, -0.0],
            ),
            "mxfp8 e4m3": (
                *_mx([4], {}, data=(octets, {"dtype": "u8", "type": "f8_e4m3fn"}), scales=two),
                [2, 4, -2, 448],
            ),
            "mxfp8 e5m2": (
                *_mx([4], {}, data=(octets, {"dtype": "u8", "type": "f8_e5m2"}), scales=two),
                [1, 4, -2, math.nan],
            ),
            "mxint8": (
                *_mx([4], {}, data=(bytes.fromhex("4001ff80"), {"dtype": "i8"}), scales=two),
                [2, 1 / 32, -1 / 64, -2],
            ),
            "nan": (
                *_mx([4], {}, data=(octets, {"dtype": "u8", "type": "f8_e4m3fn"}), scales=spoilt),
                [math.nan, math.nan, -2, 448],
            ),
        },
    )


# --- gguf.<type>/1 -------------------------------------------------------------------------------


def gguf() -> Case:
    """Blocks of q8_0, of a type that GGUF does not have yet, and none at all."""
    blocks: Stored = (bytes(range(68)), {"dtype": "u8"})
    nothing: Stored = (b"", {"dtype": "u8"})
    q8_0 = tensor(layout="gguf.q8_0/1", shape=[2, 32], attributes=Q8_0)
    unheard = tensor(
        layout="gguf.q99_z/1", shape=[4, 4], attributes={"elems_per_block": 8, "block_bytes": 34}
    )
    none = tensor(layout="gguf.q8_0/1", shape=[0, 32], attributes=Q8_0)
    objects: dict[str, tuple[Map, dict[str, Stored], list[float] | None]] = {
        "q8_0": (q8_0, {"data": blocks}, None),
        "unheard of": (unheard, {"data": blocks}, None),
        "none": (none, {"data": nothing}, None),
    }
    return _case(GGUF, objects, {"open": ACCEPT, "verify": ACCEPT, "canonical": REJECT})


# --- mlx.affine/1 --------------------------------------------------------------------------------


def mlx() -> Case:
    """Codes of 3 bits in two groups, of 8 bits in two rows, and no rows at all."""
    codes = [*range(8), *range(8)]
    bytewise: Stored = (bytes(range(8)), {"dtype": "u32"})
    two: Stored = (floats(2, -1), {"dtype": "f32"})
    other: Stored = (floats(0.25, 8), {"dtype": "f32"})
    nothing = {"data": (b"", {"dtype": "u32"}), "scales": (b"", {"dtype": "bf16"})}
    usual = {"data": AFFINE_DATA, "scales": AFFINE_SCALES, "biases": AFFINE_BIASES}
    eight = {"bits": 8, "group_size": 4}
    objects: dict[str, tuple[Map, dict[str, Stored], list[float] | None]] = {
        "three bits": (
            tensor(layout=MLX, shape=[1, 32], attributes=AFFINE),
            usual,
            [*(code / 2 - 1 for code in codes), *range(8), *[0] * 8],
        ),
        "eight bits": (
            tensor(layout=MLX, shape=[2, 4], attributes=eight),
            {"data": bytewise, "scales": two, "biases": other},
            [0.25, 2.25, 4.25, 6.25, 4, 3, 2, 1],
        ),
        "none": (
            tensor(layout=MLX, shape=[0, 4], attributes=eight),
            {**nothing, "biases": nothing["scales"]},
            [],
        ),
    }
    return _case(MLX, objects)
