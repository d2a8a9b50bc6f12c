"""Encoded objects from codes and scales that others made: no value is encoded anew.

Owns the repacking of compressed-tensors and ModelOpt nvfp4, of FP8 with row scales, and of the two
GGUF types whose blocks have the codes of a grouped format. What would not be legal is refused.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorark.core.rules import Reading
from tensorark.errors import InvalidInput, Rejected
from tensorark.layouts.ninfer import groups, nvfp4
from tensorark.layouts.ninfer.content import CONTENT_RULES, Payload
from tensorark.layouts.ninfer.decoding import Array
from tensorark.layouts.ninfer.encoding import join, pack_groups
from tensorark.layouts.ninfer.geometry import (
    BLOCK_SCALE,
    GROUPED,
    LAYOUT_OF,
    NVFP4,
    ROW_SPLIT,
    Geometry,
    geometry,
)
from tensorark.layouts.ninfer.small_floats import Floats, Octets, as_octets, bf16_words, little


def import_groups(format_: str, columns: int, codes: groups.Codes, scales: Array) -> bytes:
    """Return the object of codes [rows, groups, group] and FP16 scales [rows, groups].

    Groups and lanes past `columns` may be there or not; they are made padding.

    Raises:
        InvalidInput: for codes or scales that the format does not allow.
    """
    stored = GROUPED[format_]
    whole = geometry(format_, ROW_SPLIT, (len(codes), columns))
    per_row, used = whole.plane("scales").stride // 2, -(-columns // stored.group)
    padded = np.zeros((len(codes), per_row, stored.group), np.int8)
    padded[:, :used] = codes[:, :used]
    padded.reshape(len(codes), -1)[:, columns:] = 0
    words = np.zeros((len(codes), per_row), np.float16)
    words[:, :used] = scales[:, :used]
    return _legal(whole, join(whole, pack_groups(format_, padded, words)))


def import_q2_0(blocks: Octets, columns: int) -> bytes:
    """Return the `q2_g64_fp16` object of rows of GGUF `Q2_0` blocks, [rows, bytes].

    Raises:
        InvalidInput: when the rows are not blocks, or a scale is not finite.
    """
    records = _records(blocks, columns, values=64, nbytes=18)
    coding = groups.CODINGS["q2_g64_fp16"]
    codes = groups.unpack(coding, records[:, :, 2:], records[:, :, :0])
    return import_groups("q2_g64_fp16", columns, codes, _scales(records))


def import_q8_0(blocks: Octets, columns: int) -> bytes:
    """Return the `q8_g32_fp16` object of rows of GGUF `Q8_0` blocks, [rows, bytes].

    Raises:
        InvalidInput: for a code of -128, a scale of minus zero, or codes under a scale of zero.
    """
    records = _records(blocks, columns, values=32, nbytes=34)
    codes = np.ascontiguousarray(records[:, :, 2:]).view(np.int8)
    return import_groups("q8_g32_fp16", columns, codes, _scales(records))


def _records(blocks: Octets, columns: int, *, values: int, nbytes: int) -> Octets:
    if columns % values or blocks.shape[1:] != (columns // values * nbytes,):
        raise InvalidInput(
            "rows are not whole blocks", code="import-rows", found=f"{columns} columns"
        )
    return blocks.reshape(len(blocks), -1, nbytes)


def _scales(records: Octets) -> Array:
    return little(records[:, :, :2], "<f2")[:, :, 0]


def import_fp8(codes: Octets, scales: Array) -> bytes:
    """Return the `fp8_e4m3fn_row_bf16` object of codes [rows, columns] and multipliers.

    `scales` hold one number for each row, or one for all; they are rounded to BF16.

    Raises:
        InvalidInput: for codes or scales that the format does not allow.
    """
    format_ = "fp8_e4m3fn_row_bf16"
    flat = scales.astype(np.float32).reshape(-1)
    if flat.size not in {1, len(codes)}:
        expected = f"1 or {len(codes)} scales"
        raise InvalidInput(
            "not row scales", code="import-scales", expected=expected, found=flat.size
        )
    whole = geometry(format_, LAYOUT_OF[format_], (codes.shape[0], codes.shape[1]))
    with np.errstate(over="ignore"):
        words = bf16_words(np.broadcast_to(flat, len(codes)).copy())
    return _legal(whole, join(whole, {"codes": codes, "scales": as_octets(words)}))


def import_nvfp4(codes: Octets, scales: Octets, divisors: Floats) -> bytes:
    """Return the nvfp4 object of packed codes [rows, columns / 2], E4M3FN words and divisors.

    Scales are [rows, columns / 16], in natural order. Equal divisors are stored once. Where a
    checkpoint gives multipliers instead, `reciprocal` makes divisors of them.

    Raises:
        InvalidInput: for a shape, scales or divisors that the format does not allow.
    """
    shape = (codes.shape[0], codes.shape[1] * 2)
    if (divisors.view(np.uint32) == divisors.view(np.uint32)[0]).all():
        divisors = divisors[:1]
    whole = geometry(NVFP4, BLOCK_SCALE, shape, divisors.size)
    if scales.shape != (shape[0], shape[1] // nvfp4.BLOCK):
        raise InvalidInput("not the scales of the codes", code="import-scales", found=scales.shape)
    planes = {
        "codes": codes,
        "scales": nvfp4.swizzle(scales),
        "divisors": as_octets(divisors),
    }
    return _legal(whole, join(whole, planes))


_ONE: Final = np.float32(1)


def reciprocal(multiplier: np.float32) -> np.float32:
    """Return the divisor that stands for a multiplier, rounded to float32."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.float32(_ONE / multiplier)


def _legal(whole: Geometry, data: bytes) -> bytes:
    """Return `data`, after judging it as a file with it would be.

    Raises:
        InvalidInput: when the format forbids what was given.
    """
    try:
        Reading().require(CONTENT_RULES, Payload((), whole, memoryview(data)))
    except Rejected as error:
        raise InvalidInput(
            f"this cannot be stored: {error.detail}",
            code=error.code,
            section=error.section,
            expected=error.expected,
            found=error.found,
        ) from error
    return data
