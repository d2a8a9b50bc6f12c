"""Raw npz images: arrays with their headers, members, a directory, an end record.

Owns where bytes go and what headers say, true or not. It never checks anything: a builder may place
every number.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

DEFLATED = 8
FULL = (1 << 32) - 1
ZEROS = bytes(4)


def npy(text: str, data: bytes = ZEROS, version: int = 1) -> bytes:
    """Return an array with this text as its header."""
    width = 2 if version == 1 else 4
    encoded = text.encode()
    head = b"\x93NUMPY" + bytes((version, 0)) + len(encoded).to_bytes(width, "little")
    return head + encoded + data


def described(descr: str, shape: str, data: bytes = ZEROS, *, fortran: bool = False) -> bytes:
    """Return an array with a header as numpy writes it, padded to a multiple of 64."""
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    return npy(text + " " * (-(len(text) + 11) % 64) + "\n", data)


PLAIN = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }")
"""One f32, whose header has no padding."""


def deflated(data: bytes) -> bytes:
    """Return a deflate stream."""
    engine = zlib.compressobj(9, wbits=-15)
    return engine.compress(data) + engine.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member; what is None is what it should be. A ghost is known to the directory alone."""

    name: bytes = b"a.npy"
    data: bytes = PLAIN
    method: int = 0
    flags: int = 0
    stored: bytes | None = None
    size: int | None = None
    crc: int | None = None
    offset: int | None = None
    local: bytes | None = None
    local_crc: int | None = None
    extra: bytes = b""
    extra_length: int | None = None
    is_ghost: bool = False

    @property
    def body(self) -> bytes:
        """What is stored."""
        if self.stored is not None:
            return self.stored
        return deflated(self.data) if self.method == DEFLATED else self.data

    @property
    def facts(self) -> tuple[int, int, int]:
        """CRC, stored size and size."""
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        return crc, len(self.body), len(self.data) if self.size is None else self.size


def _local(each: Member) -> bytes:
    """Return a member as it lies in the file: its local header and what is stored."""
    crc, compressed, size = each.facts
    name = each.name if each.local is None else each.local
    shown = crc if each.local_crc is None else each.local_crc
    extra = len(each.extra) if each.extra_length is None else each.extra_length
    head = struct.pack("<4s5H", b"PK\3\4", 20, each.flags, each.method, 0, 33)
    head += struct.pack("<3L2H", shown, compressed, size, len(name), extra)
    return head + name + each.extra + each.body


def _entry(each: Member, offset: int) -> bytes:
    head = struct.pack("<4s6H", b"PK\1\2", 20, 20, each.flags, each.method, 0, 33)
    return head + struct.pack("<3L5H2L", *each.facts, len(each.name), *[0] * 5, offset) + each.name


END = struct.Struct("<4s4H2LH")


def archive(*members: Member, comment: bytes = b"", zip64: bool = False, **end: int) -> bytes:
    """Return an archive. `end` replaces fields of the end record.

    With `zip64` the record of 64 bits holds the numbers, and the old one says so.
    """
    file = directory = b""
    for each in members:
        offset = len(file) if each.offset is None else each.offset
        file += b"" if each.is_ghost else _local(each)
        directory += _entry(each, offset)
    count = len(members)
    fields: Mapping[str, int] = {
        "disk": 0,
        "first_disk": 0,
        "here": count,
        "count": count,
        "length": len(directory),
        "offset": len(file),
        **end,
    }
    wide = b""
    if zip64:
        numbers = (0, 0, count, count, len(directory), len(file))
        wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, *numbers)
        wide += struct.pack("<4sLQL", b"PK\6\7", 0, len(file) + len(directory), 1)
        fields = {**fields, "here": 65535, "count": 65535, "length": FULL, "offset": FULL}
    last = END.pack(b"PK\5\6", *fields.values(), len(comment)) + comment
    return file + directory + wide + last


def alone(**facts: object) -> bytes:
    """Return an archive of one member with these facts."""
    return archive(Member(**facts))  # type: ignore[arg-type]


def headed(text: str, data: bytes = ZEROS) -> bytes:
    """Return an archive of one array with this text as its header."""
    return archive(Member(data=npy(text, data)))
