"""The bytes of quantized checkpoints, repacked both ways without touching a value.

Owns the orders in which GPTQ and AWQ pack codes; what the tensors are called and what they mean is
decided elsewhere. Everything here is a permutation of codes, but for GPTQ's zero points, which its
first format stores less one.

Matrices are [out, in] on our side. On theirs codes are [in, out], eight to a word at 4 bits: GPTQ
packs along the input, lowest bits first; AWQ along the output, in an order of its own. Zero points
are [groups, out] on their side, packed along the output by both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.layouts.numbers.bits import pack, unpack

Codes = npt.NDArray[np.uint8]

AWQ_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight neighboring columns each four bits of an AWQ word hold, the lowest bits first."""

_BLOCK: Final = 4 << 20
_WORD: Final = 4


def transpose(data: memoryview, rows: int, columns: int, width: int) -> Iterator[memoryview]:
    """Yield the bytes of a matrix of `width`-byte elements, transposed, in blocks."""
    matrix = np.frombuffer(data, f"V{width}").reshape(rows, columns)
    step = max(1, _BLOCK // max(1, rows * width))
    for start in range(0, columns, step):
        block = np.ascontiguousarray(matrix[:, start : start + step].T)
        yield block.reshape(-1).view(np.uint8).data


def zeros_from_rows(
    data: memoryview, groups: int, outputs: int, bits: int, *, add: int, awq: bool = False
) -> memoryview:
    """Return zero points [groups, outputs], packed along the outputs, as [outputs, groups]."""
    codes = _rows(data, outputs, bits, awq=awq)
    return pack(_flat(codes.reshape(groups, outputs).T + np.uint8(add)), bits).data


def zeros_to_rows(
    data: memoryview, groups: int, outputs: int, bits: int, *, add: int, awq: bool = False
) -> memoryview:
    """Undo `zeros_from_rows`."""
    codes = unpack(data, bits).reshape(outputs, groups).T - np.uint8(add)
    return _pack_rows(codes, bits, awq=awq).data


def awq_to_words(data: memoryview, inputs: int, outputs: int) -> Iterator[memoryview]:
    """Yield the codes of an AWQ matrix as [outputs, inputs], lowest bits first, in blocks."""
    words = np.frombuffer(data, "<u4").reshape(inputs, outputs // 8)
    step = max(1, _BLOCK // (8 * max(1, inputs)))
    for start in range(0, outputs // 8, step):
        block = np.ascontiguousarray(words[:, start : start + step])
        codes = _rows(block.view(np.uint8).data, block.shape[1] * 8, 4, awq=True)
        yield pack(_flat(codes.T), 4).data


def awq_from_words(data: memoryview, inputs: int, outputs: int) -> Iterator[memoryview]:
    """Undo `awq_to_words`, block by block of inputs."""
    words = np.frombuffer(data, "<u4").reshape(outputs, inputs // 8)
    step = max(1, _BLOCK // (8 * max(1, outputs)))
    for start in range(0, inputs // 8, step):
        block = np.ascontiguousarray(words[:, start : start + step])
        codes = unpack(block.view(np.uint8).data, 4).reshape(outputs, -1).T
        yield _pack_rows(codes, 4, awq=True).data


def _rows(data: memoryview, columns: int, bits: int, *, awq: bool) -> Codes:
    """Return the codes of rows of whole words, as a matrix of `columns` columns."""
    codes = unpack(data, bits)
    if awq:
        codes = codes.reshape(-1, 8)[:, np.argsort(AWQ_ORDER)]
    return codes.reshape(-1, columns)


def _pack_rows(codes: Codes, bits: int, *, awq: bool) -> Codes:
    flat = _flat(codes)
    if awq:
        flat = _flat(flat.reshape(-1, 8)[:, AWQ_ORDER])
    return pack(flat, bits)


def _flat(codes: npt.NDArray[Any]) -> Codes:
    return np.ascontiguousarray(codes).reshape(-1)


def is_plain_order(data: memoryview, inputs: int, group_size: int) -> bool:
    """Tell whether a group index of i32 says no more than that groups follow each other."""
    found = np.frombuffer(data, "<i4")
    return bool(np.array_equal(found, np.arange(inputs, dtype=np.int64) // group_size))


def plain_order(inputs: int, group_size: int) -> memoryview:
    """Return the group index of groups that follow each other, as i32."""
    return (np.arange(inputs, dtype=np.int64) // group_size).astype("<i4").view(np.uint8).data
