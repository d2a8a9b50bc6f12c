"""A judge of `zt.zstd-seekable/1` made from the text of the profile, over the package zstandard.

It shares nothing with the library, is as simple as can be, and decompresses one frame at a time.
"""

from __future__ import annotations

import struct

import xxhash
import zstandard


class Broken(Exception):
    """The rule that a stream breaks."""


def require(rule, holds):
    if not holds:
        raise Broken(f"zt.zstd-{rule}")


def decode(stored, nbytes):
    """Return what a stream decodes to.

    Raises:
        Broken: naming the first rule that it breaks.
    """
    require("table-size", len(stored) >= 17)
    count, descriptor, magic = struct.unpack("<IBI", stored[-9:])
    require("footer-magic", magic == 0x8F92EAB1)
    require("descriptor", descriptor in (0, 0x80))
    width = 12 if descriptor else 8
    start = len(stored) - 17 - width * count
    require("table-size", start >= 0)
    magic, length = struct.unpack_from("<II", stored, start)
    require("table-magic", magic == 0x184D2A5E)
    require("table-size", length == width * count + 9)
    entries = list(struct.iter_unpack("<III" if descriptor else "<II", stored[start + 8 : -9]))
    require("compressed-sizes", sum(entry[0] for entry in entries) == start)
    require("decoded-length", sum(entry[1] for entry in entries) == nbytes)
    require("frame-limit", all(entry[1] <= 1 << 24 for entry in entries))
    require("equal-frames", len({entry[1] for entry in entries[:-1]}) <= 1)
    content, at = b"", 0
    for entry in entries:
        content += decode_frame(stored[at : at + entry[0]], *entry[1:])
        at += entry[0]
    return content


def decode_frame(data, size, checksum=None):
    require("frame", is_one_frame(data))
    if not data[4] & 0x20:  # no window is too large for 16 MiB in one piece, up to 4 GiB
        require("data", data[5] >> 3 <= 21)
        data = data[:5] + b"\x70" + data[6:]
    header = zstandard.get_frame_parameters(data)
    require("checksum-flag", header.has_checksum)
    require("dictionary", header.dict_id == 0)
    content = decompress(data[:4] + bytes([data[4] & ~4]) + data[5:-4], size)
    require("data", content is not None)
    require("frame-size", len(content) == size)
    right = (xxhash.xxh64_intdigest(content) & 0xFFFFFFFF).to_bytes(4, "little")
    require("checksum", data[-4:] == right)
    require("table-checksum", checksum is None or checksum.to_bytes(4, "little") == right)
    return content


def is_one_frame(data):
    """Say whether the headers and blocks of one frame end where `data` does."""
    if len(data) < 6 or data[:4] != b"\x28\xb5\x2f\xfd" or data[4] & 8:
        return False
    at = 5 + (not data[4] & 0x20) + (0, 1, 2, 4)[data[4] & 3]
    at += (data[4] >> 5 & 1, 2, 4, 8)[data[4] >> 6]
    last = False
    while not last and at + 3 <= len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if kind == 3 or size > 1 << 17:
            return False
        at += 3 + (1 if kind == 1 else size)
    return bool(last) and at + (data[4] & 4) == len(data)


def decompress(data, size):
    """Return the content of a frame, one byte more than `size` at most; None if it is damaged."""
    if zstandard.get_frame_parameters(data).content_size not in (
        zstandard.CONTENTSIZE_UNKNOWN,
        size,
    ):
        raise Broken("zt.zstd-frame-size")
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            return reader.read(size + 1)
    except zstandard.ZstdError:
        return None
