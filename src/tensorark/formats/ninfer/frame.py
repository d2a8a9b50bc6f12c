"""The binary framing of NInfer v3 (§3): entry header, continuation headers, and their rules.

Owns the 32 bytes at the start of every file of a set and where its payload begins. Knows nothing of
the directory beyond where it lies.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import Unsupported
from tensorark.layouts.ninfer.geometry import align_up

HEADER: Final = struct.Struct("<8sQ16s")
HEADER_SIZE: Final = HEADER.size
PAGE: Final = 4096
"""Payload starts at a multiple of this in the entry, and exactly here in a continuation."""

VERSION: Final = 3
_ENTRY: Final = b"NINFER\0"
_PART: Final = b"NINPRT\0"
MAGIC: Final = _ENTRY + bytes([VERSION])
PART_MAGIC: Final = _PART + bytes([VERSION])


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFrame:
    """The first 32 bytes of a file of `size` bytes, whatever stands there.

    `number` is the length of the JSON text in an entry, the index in a continuation.
    """

    size: int
    magic: bytes
    number: int
    artifact_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """An entry's header that is in order: size of the file, of its JSON text, and the set's id."""

    size: int
    json_bytes: int
    artifact_id: bytes

    @property
    def payload_start(self) -> int:
        """Offset of the first payload byte in the entry."""
        return payload_start(self.json_bytes)


def payload_start(json_bytes: int) -> int:
    """Return where the payload of an entry starts whose JSON text has `json_bytes` bytes."""
    return align_up(HEADER_SIZE + json_bytes, PAGE)


def parse_frame(head: bytes | memoryview, size: int) -> RawFrame:
    """Read the header of an entry or a continuation; one cut short is filled up with zeros."""
    whole = bytes(head[:HEADER_SIZE]).ljust(HEADER_SIZE, b"\0")
    magic, number, artifact_id = HEADER.unpack(whole)
    return RawFrame(size=size, magic=magic, number=number, artifact_id=artifact_id)


def encode_header(json_bytes: int, artifact_id: bytes) -> bytes:
    """Write the header of an entry."""
    return HEADER.pack(MAGIC, json_bytes, artifact_id)


def encode_part_header(index: int, artifact_id: bytes) -> bytes:
    """Write the header of continuation `index`, counted from 1, with the zeros behind it."""
    return HEADER.pack(PART_MAGIC, index, artifact_id).ljust(PAGE, b"\0")


def sniff(head: bytes, _tail: bytes, _size: int) -> bool:
    """Tell whether a file is meant to be of NInfer: of any version, entry or continuation."""
    return head.startswith((_ENTRY, _PART))


def refuse_version(frame: RawFrame) -> None:
    """Refuse a file of another version by name.

    Raises:
        Unsupported: when the magic is that of another version than 3.
    """
    found = frame.magic[-1]
    if frame.magic[:-1] not in (_ENTRY, _PART) or found == VERSION:
        return
    hint = "upgrade the artifact to version 3" if found in (1, 2) else "a newer reader is needed"
    raise Unsupported(
        f"the file is of NInfer version {found}; version {VERSION} is read",
        code="ninfer-version",
        section="3.1",
        offset=len(frame.magic) - 1,
        expected=f"version {VERSION}",
        found=f"version {found}",
        hint=hint if found else None,
    )


# ------------------------------------------------------------------------------ rules about entries


@rule("ninfer.file-size", section="3.1", stage="frame")
def file_size(size: int) -> Iterator[Fault]:
    """An entry begins with a header of 32 bytes."""
    if size < HEADER_SIZE:
        yield Fault((), "the file ends inside its header", f"{HEADER_SIZE} bytes", size, size)


@rule("ninfer.magic", section="3.1", stage="frame")
def magic(frame: RawFrame) -> Iterator[Fault]:
    """An entry begins with the magic of an entry: sets are opened there, not at a continuation."""
    if frame.magic != MAGIC:
        detail = "the file does not begin with the magic"
        if frame.magic == PART_MAGIC:
            detail = f"this is continuation {frame.number} of a set; open the entry, not a part"
        yield Fault((), detail, MAGIC.hex(" "), frame.magic.hex(" "), 0)


@rule("ninfer.json-bytes", section="3.1", stage="frame")
def json_bytes(frame: RawFrame) -> Iterator[Fault]:
    """The JSON text has a positive length."""
    if frame.number == 0:
        yield Fault((), "the length of the directory is 0", "a positive length", 0, 8)


@rule("ninfer.json-bounds", section="3.1", stage="frame")
def json_bounds(frame: RawFrame) -> Iterator[Fault]:
    """The JSON text lies inside the entry."""
    room = frame.size - HEADER_SIZE
    if frame.number > room >= 0:
        detail = "the directory runs past the end of the file"
        yield Fault((), detail, f"at most {room} bytes", frame.number, 8)


FRAME_RULES: Final[tuple[Rule[RawFrame], ...]] = (magic, json_bytes, json_bounds)


# ------------------------------------------------------------------------ rules about continuations


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The header of a continuation, beside what the entry says of it.

    `label` is its name in the files table, `payload_bytes` its payload there.
    """

    label: str
    frame: RawFrame
    index: int
    artifact_id: bytes
    payload_bytes: int

    def fault(self, detail: str, expected: object, found: object, offset: int) -> Fault:
        """Return a fault of this file, placed at its line of the files table."""
        return Fault(("files", self.index), f"{detail}: {self.label!a}", expected, found, offset)


@rule("ninfer.part-header", section="3.2", stage="content")
def part_header(part: Continuation) -> Iterator[Fault]:
    """A continuation begins with a header of 32 bytes."""
    if part.frame.size < HEADER_SIZE:
        size = part.frame.size
        yield part.fault("a continuation ends inside its header", HEADER_SIZE, size, size)


@rule("ninfer.part-magic", section="3.2", stage="content")
def part_magic(part: Continuation) -> Iterator[Fault]:
    """A continuation begins with the magic of a continuation."""
    if part.frame.magic != PART_MAGIC:
        detail = "a continuation does not begin with its magic"
        yield part.fault(detail, PART_MAGIC.hex(" "), part.frame.magic.hex(" "), 0)


@rule("ninfer.part-index", section="3.2", stage="content")
def part_index(part: Continuation) -> Iterator[Fault]:
    """A continuation states the index under which the entry lists it."""
    if part.frame.number != part.index:
        detail = "a continuation has another index"
        yield part.fault(detail, part.index, part.frame.number, 8)


@rule("ninfer.part-artifact", section="3.2", stage="content")
def part_artifact(part: Continuation) -> Iterator[Fault]:
    """A continuation has the artifact id of its entry."""
    if part.frame.artifact_id != part.artifact_id:
        detail = "a continuation belongs to another artifact"
        yield part.fault(detail, part.artifact_id.hex(), part.frame.artifact_id.hex(), 16)


@rule("ninfer.part-size", section="3.2", stage="content")
def part_size(part: Continuation) -> Iterator[Fault]:
    """A continuation is exactly as long as the entry says."""
    expected = PAGE + part.payload_bytes
    if part.frame.size != expected:
        size = part.frame.size
        detail = "a continuation has the wrong length"
        yield part.fault(detail, f"{expected} bytes", size, min(size, expected))


PART_RULES: Final[tuple[Rule[Continuation], ...]] = (
    part_magic,
    part_index,
    part_artifact,
    part_size,
)
"""Judged after `part_header`, which says whether there is a header at all."""
