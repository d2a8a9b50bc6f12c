"""Codes of a few bits in words, both ways: the packing of quantized tensors.

A code stream is cut into words; a word of W bits, little-endian in the file, holds W / bits codes,
the first in its lowest bits (`lsb`) or in its highest. Owns no layout and knows no attributes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]


@cache
def code_table(bits: int, *, msb: bool = False, signed: bool = False) -> npt.NDArray[np.int64]:
    """Return the codes that each byte holds: 256 rows of 8 / bits codes, for 1, 2, 4 or 8 bits."""
    octets = np.arange(256, dtype=np.int64)[:, None]
    shifts = np.arange(0, 8, bits)[:: -1 if msb else 1]
    codes = (octets >> shifts) & ((1 << bits) - 1)
    if signed:
        codes = np.where(codes >> (bits - 1), codes - (1 << bits), codes)
    codes.flags.writeable = False
    return codes


def look_up(table: npt.NDArray[Any], octets: Codes) -> npt.NDArray[Any]:
    """Return the row of `table` for each byte, all rows in one flat array."""
    width = table.shape[1] * table.itemsize
    whole = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}.get(width)
    if whole is None:
        return table[octets].reshape(-1)
    # Rows are moved as single elements: much faster than as short rows.
    rows = np.ascontiguousarray(table).view(whole).reshape(-1)
    return rows.take(octets.astype(np.intp), mode="clip").view(table.dtype)


def octets_in_order(data: memoryview, word: int, *, msb: bool) -> Codes:
    """Return the bytes of words of `word` bytes in the order in which their codes come.

    With the first code in the lowest bits that is the order in the file, else that of each word
    reversed.
    """
    if msb and word > 1:
        return np.frombuffer(data, f"<u{word}").byteswap().view(np.uint8)
    return np.frombuffer(data, np.uint8)


def pack(codes: Codes, bits: int, word: int = 1, *, msb: bool = False) -> Codes:
    """Pack codes of 1, 2, 4 or 8 bits into words of `word` bytes and return their bytes.

    The codes must fill whole words and fit into `bits` bits.
    """
    per_octet = 8 // bits
    lanes = codes.reshape(-1, per_octet)
    octets = np.zeros(len(lanes), np.uint8)
    for lane in range(per_octet):
        shift = bits * (per_octet - 1 - lane if msb else lane)
        octets |= lanes[:, lane] << np.uint8(shift)
    if msb and word > 1:
        return octets.view(f"u{word}").byteswap().view(np.uint8)
    return octets


def unpack(data: memoryview, bits: int, word: int = 1, *, msb: bool = False) -> Codes:
    """Return the codes of 1, 2, 4 or 8 bits in words of `word` bytes, one to a byte."""
    table = code_table(bits, msb=msb).astype(np.uint8)
    return look_up(table, octets_in_order(data, word, msb=msb))


def unpack_stream(data: memoryview, bits: int) -> Codes:
    """Return the codes of a stream whose code `i` has bits `bits`·i and up, lowest bits first.

    Any width up to 8 is possible, also those that words cut: a code may begin in one byte and end
    in the next. The stream must hold whole codes.
    """
    if 8 % bits == 0:
        return unpack(data, bits)
    planes = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, bits)
    codes = np.zeros(len(planes), np.uint8)
    for place in range(bits):
        codes |= planes[:, place] << np.uint8(place)
    return codes
