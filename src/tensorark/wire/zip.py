"""The central directory of a zip archive, as bytes: end records, entries, local headers.

Owns their syntax, with zip64. Reads no payload, follows no name, repairs nothing; what the entries
of an archive must fulfill together is judged by the format that uses it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

STORED: Final = 0
DEFLATED: Final = 8
UTF8: Final = 1 << 11
"""Flag: the name is UTF-8, else it is in code page 437."""
DESCRIPTOR: Final = 1 << 3
"""Flag: the local header leaves out sizes and CRC; they follow the data."""
ENCRYPTED: Final = 1 << 0 | 1 << 6 | 1 << 13
"""Flags: the data, or the directory, is encrypted."""

END: Final = struct.Struct("<4s4H2LH")
END64: Final = struct.Struct("<4sQ2H2L4Q")
LOCATOR: Final = struct.Struct("<4sLQL")
ENTRY: Final = struct.Struct("<4s6H3L5H2L")
LOCAL: Final = struct.Struct("<4s5H3L2H")

END_MAGIC: Final = b"PK\x05\x06"
END64_MAGIC: Final = b"PK\x06\x06"
LOCATOR_MAGIC: Final = b"PK\x06\x07"
ENTRY_MAGIC: Final = b"PK\x01\x02"
LOCAL_MAGIC: Final = b"PK\x03\x04"

TAIL: Final = END.size + (1 << 16) + LOCATOR.size + END64.size
"""Bytes from the end that hold the end records, whatever the length of the comment."""

_ZIP64: Final = 1
_UNICODE_PATH: Final = b"\x75\x70"
_FULL16: Final = (1 << 16) - 1
_FULL32: Final = (1 << 32) - 1


class ZipFault(Exception):
    """The bytes are no zip directory; `offset` is the byte of the file where it shows."""

    def __init__(self, detail: str, offset: int, expected: object, found: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.offset = offset
        self.expected = expected
        self.found = found


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where the directory lies and how many entries it has; `limit` is where it has to end."""

    offset: int
    length: int
    count: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member: what the directory says of it.

    `place` is where its record begins in the file, `offset` where its local header does.
    """

    name: bytes
    flags: int
    method: int
    crc: int
    compressed: int
    size: int
    offset: int
    place: int

    @property
    def label(self) -> str:
        """The name as text: UTF-8 where its flag says so, else code page 437."""
        if self.flags & UTF8:
            return self.name.decode("utf-8", "surrogateescape")
        return self.name.decode("cp437")


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """One local header: what it repeats of the entry, and its own length."""

    name: bytes
    flags: int
    method: int
    crc: int
    compressed: int
    size: int
    length: int


def first_names(head: bytes) -> Iterator[bytes]:
    """Yield the names in the local headers that lie in `head`, the beginning of an archive."""
    at = 0 if head.startswith(LOCAL_MAGIC) else -1
    while at >= 0:
        begin = at + LOCAL.size
        # The length of the name is the last field but one of the header.
        yield head[begin : begin + int.from_bytes(head[begin - 4 : begin - 2], "little")]
        at = head.find(LOCAL_MAGIC, begin)


def parse_end(tail: bytes, size: int) -> End:
    """Find the end records in the last bytes of a file of `size` bytes, at most `TAIL` of them.

    Raises:
        ZipFault: when there are none, or they contradict each other.
    """
    base = size - len(tail)
    # The last one: where a comment holds the magic itself, the file is refused, never guessed at.
    at = tail.rfind(END_MAGIC)
    if at < 0 or at + END.size > len(tail):
        raise ZipFault("there is no end of a zip directory", size, "PK 5 6", "nothing")
    _, disk, first, here, count, length, offset, comment = END.unpack_from(tail, at)
    if at + END.size + comment != len(tail):
        raise ZipFault(
            "the end record is not the end of the file", base + at, size, base + at + END.size
        )
    limit = at
    short = (disk, first, here, count, length, offset)
    is_full = _FULL16 in short[:4] or _FULL32 in short[4:]
    if is_full or tail[max(0, at - LOCATOR.size) :].startswith(LOCATOR_MAGIC):
        *wide, limit = _end64(tail, at, base)
        full = (_FULL16,) * 4 + (_FULL32,) * 2
        # A short field repeats the wide one, or is full to say that the wide one counts.
        if any(a not in (b, c) for a, b, c in zip(short, wide, full, strict=True)):
            raise ZipFault("the end records contradict each other", base + at, wide, list(short))
        disk, first, here, count, length, offset = wide
    if (disk, first) != (0, 0) or here != count:
        raise ZipFault("the archive has several disks", base + at, "one", disk + 1)
    if offset + length != base + limit:
        detail = "the directory does not end where its end records begin"
        raise ZipFault(detail, base + at, base + limit, offset + length)
    # Before entries are read: the count may be any number.
    if count * ENTRY.size > length:
        raise ZipFault("the directory is too short for its entries", base + at, count, length)
    return End(offset=offset, length=length, count=count, limit=base + limit)


def _end64(tail: bytes, at: int, base: int) -> tuple[int, int, int, int, int, int, int]:
    """Read the end records of zip64, which lie right before that at `at`."""
    start = at - LOCATOR.size - END64.size
    if start < 0 or tail[at - LOCATOR.size :][:4] != LOCATOR_MAGIC:
        raise ZipFault("the locator of zip64 is missing", base + at, "PK 6 7", "something else")
    _, disk, where, disks = LOCATOR.unpack_from(tail, at - LOCATOR.size)
    # The record may be longer than what we know of it; then it begins earlier.
    start = where - base
    if (disk, disks) != (0, 1) or not 0 <= start <= at - LOCATOR.size - END64.size:
        raise ZipFault("the end record of zip64 is not where it should be", base + at, 1, disks)
    magic, length, _, _, disk, first, here, count, size, offset = END64.unpack_from(tail, start)
    if magic != END64_MAGIC or start + 12 + length != at - LOCATOR.size:
        raise ZipFault("the end record of zip64 is damaged", where, "PK 6 6", magic.hex())
    return disk, first, here, count, size, offset, start


def parse_entries(data: memoryview, end: End) -> list[Entry]:
    """Read the entries of a directory.

    Raises:
        ZipFault: when they do not fill it.
    """
    entries = []
    at = 0
    for _ in range(end.count):
        place = end.offset + at
        if at + ENTRY.size > len(data) or bytes(data[at : at + 4]) != ENTRY_MAGIC:
            raise ZipFault("an entry of the directory is missing", place, "PK 1 2", len(data) - at)
        (_, _, _, flags, method, _, _, crc, compressed, size, named, extra, comment, disk, _, _,
         offset) = _fields(data, at)  # fmt: skip
        name_end = at + ENTRY.size + named
        if name_end + extra + comment > len(data):
            raise ZipFault("an entry of the directory is cut short", place, "its name", "the end")
        if extra and _UNICODE_PATH in data[name_end : name_end + extra].tobytes():
            _refuse_other_name(bytes(data[name_end : name_end + extra]), place)
        fields = [size, compressed, offset]
        if _FULL32 in fields or disk == _FULL16:
            fields = _wide(bytes(data[name_end : name_end + extra]), fields, place)
        entries.append(
            Entry(
                name=bytes(data[at + ENTRY.size : name_end]),
                flags=flags,
                method=method,
                crc=crc,
                compressed=fields[1],
                size=fields[0],
                offset=fields[2],
                place=place,
            )
        )
        at = name_end + extra + comment
    if at != len(data):
        place = end.offset + at
        raise ZipFault("bytes follow the last entry", place, end.limit, place)
    return entries


def _refuse_other_name(extra: bytes, place: int) -> None:
    """Refuse a second name, which some readers take instead of the first."""
    at = 0
    while at + 4 <= len(extra):
        if extra[at : at + 2] == _UNICODE_PATH:
            detail = "an extra field gives a member another name"
            raise ZipFault(detail, place, "one name", "the field 0x7075")
        at += 4 + int.from_bytes(extra[at + 2 : at + 4], "little")


def _fields(data: memoryview, at: int) -> tuple[int, ...]:
    return ENTRY.unpack_from(data, at)


def parse_local(data: memoryview, place: int) -> Local:
    """Read the local header that lies at `place`; `data` begins there and holds its name.

    Raises:
        ZipFault: when it is none.
    """
    if len(data) < LOCAL.size or bytes(data[:4]) != LOCAL_MAGIC:
        raise ZipFault("there is no local header", place, "PK 3 4", bytes(data[:4]).hex(" "))
    _, _, flags, method, _, _, crc, compressed, size, named, extra = LOCAL.unpack_from(data)
    name_end = LOCAL.size + named
    sizes = [size, compressed]
    if _FULL32 in sizes and len(data) >= name_end + extra:
        sizes = _wide(bytes(data[name_end : name_end + extra]), sizes, place)
    return Local(
        name=bytes(data[LOCAL.size : name_end]),
        flags=flags,
        method=method,
        crc=crc,
        compressed=sizes[1],
        size=sizes[0],
        length=name_end + extra,
    )


def _wide(extra: bytes, fields: list[int], place: int) -> list[int]:
    """Replace what is too large for 32 bits by what the extra field of zip64 says."""
    at = 0
    while at + 4 <= len(extra):
        id_, length = struct.unpack_from("<2H", extra, at)
        body = extra[at + 4 : at + 4 + length]
        if id_ == _ZIP64:
            # The extra field holds only what is full, in the order of `fields`.
            wanted = [i for i, value in enumerate(fields) if value == _FULL32]
            if len(body) < 8 * len(wanted):
                break
            found = list(fields)
            for index, slot in enumerate(wanted):
                found[slot] = int.from_bytes(body[8 * index : 8 * index + 8], "little")
            return found
        at += 4 + length
    raise ZipFault("the extra field of zip64 is missing", place, "sizes in 64 bits", "nothing")
