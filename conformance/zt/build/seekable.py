"""Streams of the encoding profile `zt.zstd-seekable/1`, put together by hand.

Owns frames, block by block, and seek tables, so that their bytes never change: raw blocks, RLE
blocks, and compressed blocks that hold literals alone. It never compresses and never checks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import xxhash

from .image import FLOOR
from .manifest import Map, part, tensor, xxh3
from .rules import ZSTD

SKIPPABLE = 0x184D2A5E
BLOCK_LIMIT = 128 << 10

Entry = tuple[int, ...]
"""Compressed size, decompressed size and, maybe, a checksum."""


def low_half(content: bytes) -> int:
    """Return the checksum of a frame: the low half of an XXH64."""
    return xxhash.xxh64_intdigest(content) & 0xFFFFFFFF


def raw(data: bytes, *, last: bool = True) -> bytes:
    """Return a raw block."""
    return (len(data) << 3 | last).to_bytes(3, "little") + data


def rle(byte: int, count: int, *, last: bool = True) -> bytes:
    """Return a block that stands for `count` equal bytes."""
    return (count << 3 | 2 | last).to_bytes(3, "little") + bytes([byte])


def compressed(data: bytes, *, last: bool = True) -> bytes:
    """Return a compressed block of the bytes given, whatever they mean."""
    return (len(data) << 3 | 4 | last).to_bytes(3, "little") + data


def literals(data: bytes) -> bytes:
    """Return the inside of a compressed block: at most 31 raw literals, no sequences."""
    return bytes([len(data) << 3]) + data + b"\0"


def zeros(count: int) -> bytes:
    """Return RLE blocks of `count` zeros in all."""
    sizes = [min(BLOCK_LIMIT, count - done) for done in range(0, count, BLOCK_LIMIT)]
    return b"".join(rle(0, size, last=n == len(sizes)) for n, size in enumerate(sizes, 1))


def frame(
    content: bytes,
    blocks: bytes | None = None,
    *,
    checksum: int | None = None,
    flags: int = 4,
    window: bytes = b"\x58",
    dictionary: bytes = b"",
    stated: bytes = b"",
) -> bytes:
    """Return a frame with one raw block, or with the blocks given; flag 4 asks for a checksum."""
    head = b"\x28\xb5\x2f\xfd" + bytes([flags]) + window + dictionary + stated
    end = low_half(content) if checksum is None else checksum
    return head + (raw(content) if blocks is None else blocks) + struct.pack("<I", end)[: flags & 4]


def table(
    entries: Iterable[Entry],
    *,
    magic: int = SKIPPABLE,
    length: int | None = None,
    count: int | None = None,
    descriptor: int = 0,
    end: int = 0x8F92EAB1,
) -> bytes:
    """Return a seek table; with the right numbers where none are given."""
    listed = list(entries)
    body = b"".join(struct.pack(f"<{len(entry)}I", *entry) for entry in listed)
    length = len(body) + 9 if length is None else length
    count = len(listed) if count is None else count
    return struct.pack("<II", magic, length) + body + struct.pack("<IBI", count, descriptor, end)


def stream(*frames: tuple[bytes, int], checksums: Iterable[int] = (), **table_fields: int) -> bytes:
    """Return a stream of frames, each with its decompressed size, and its table."""
    columns = [(each,) for each in checksums] or [()] * len(frames)
    entries = [
        (len(data), size, *column) for (data, size), column in zip(frames, columns, strict=True)
    ]
    return b"".join(data for data, _ in frames) + table(entries, **table_fields)


def encoded(stored: bytes, content: bytes | int, at: int = FLOOR, **fields: object) -> Map:
    """Return a tensor of u8 stored as `stored`; a number stands for a content without digest."""
    nbytes = content if isinstance(content, int) else len(content)
    digest = {} if isinstance(content, int) else {"digest": xxh3(content)}
    coded = part(
        blob=[at, len(stored)], encoding=ZSTD, decoded_length=nbytes, **{**digest, **fields}
    )
    return tensor(shape=[nbytes], parts={"data": coded})
