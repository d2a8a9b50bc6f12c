"""The structure of `zt.zstd-seekable/1`: its seek table and its frames, as records and rules.

Owns everything that can be known without decompressing: arithmetic over headers. Must never
decompress, and never size anything by a number that was not checked against stored bytes.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import Where

ID: Final = "zt.zstd-seekable/1"

MOST_CONTENT: Final = 16 << 20
"""Decoded bytes that one frame may hold."""

SKIPPABLE_MAGIC: Final = 0x184D2A5E
FOOTER_MAGIC: Final = 0x8F92EAB1
FRAME_MAGIC: Final = 0xFD2FB528

HEAD: Final = struct.Struct("<II")
"""The start of a skippable frame: magic, length of what follows."""

FOOTER: Final = struct.Struct("<IBI")
"""The end of the table: number of frames, descriptor, magic."""

HAS_CHECKSUMS: Final = 0x80
"""The bit of the descriptor that says that entries carry a checksum."""

MOST_FAULTS: Final = 64
"""Faults that one rule reports of one part: a hostile part may have millions of frames."""

MOST_BLOCK: Final = 128 << 10
"""Most bytes of a block, stored or decoded (RFC 8878 §3.1.1.2.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A seek table: first its footer alone, then all of it; not trusted before it is judged.

    `nbytes` is the decoded size that the part declares; `stored` the length of all stored bytes,
    which lie at `offset` of their file. `head` is the magic and the length that begin the table,
    None as long as only the footer was read.
    """

    where: Where
    offset: int
    stored: int
    nbytes: int
    count: int
    descriptor: int
    magic: int
    head: tuple[int, int] | None = None
    compressed: Sequence[int] = ()
    decompressed: Sequence[int] = ()
    checksums: Sequence[int] | None = None

    @property
    def size(self) -> int:
        """Bytes of the table with its skippable frame around it."""
        width = 12 if self.descriptor & HAS_CHECKSUMS else 8
        return HEAD.size + self.count * width + FOOTER.size

    @property
    def start(self) -> int:
        """Where the table begins among the stored bytes; negative when it does not fit."""
        return self.stored - self.size


def parse_footer(tail: memoryview, *, where: Where, offset: int, stored: int, nbytes: int) -> Table:
    """Read the footer at the end of `tail`; the entries are still missing.

    Of fewer than nine bytes, what is missing counts as zeros: `zstd_table_size` sees it anyway.
    """
    count, descriptor, magic = FOOTER.unpack(bytes(tail[-FOOTER.size :]).rjust(FOOTER.size, b"\0"))
    return Table(
        where=where,
        offset=offset,
        stored=stored,
        nbytes=nbytes,
        count=count,
        descriptor=descriptor,
        magic=magic,
    )


def parse_table(footer: Table, data: memoryview) -> Table:
    """Read the table `data`, of which `footer` was read and judged before."""
    words = array("I", bytes(data[HEAD.size : len(data) - FOOTER.size]))
    if sys.byteorder == "big":
        words.byteswap()
    width = 3 if footer.descriptor & HAS_CHECKSUMS else 2
    return replace(
        footer,
        head=HEAD.unpack_from(data),
        compressed=words[0::width],
        decompressed=words[1::width],
        checksums=words[2::width] if width == 3 else None,
    )


@rule("zt.zstd-footer-magic", section=ID, stage="content")
def zstd_footer_magic(table: Table) -> Iterator[Fault]:
    """The stored bytes end with the magic of a seek table."""
    if table.stored >= HEAD.size + FOOTER.size and table.magic != FOOTER_MAGIC:
        offset = table.offset + table.stored - 4
        expected, found = f"{FOOTER_MAGIC:08x}", f"{table.magic:08x}"
        detail = "the stored bytes do not end with the magic of a seek table"
        yield Fault(table.where, detail, expected, found, offset)


@rule("zt.zstd-table-size", section=ID, stage="content")
def zstd_table_size(table: Table) -> Iterator[Fault]:
    """The seek table fits into the stored bytes, and states its true length."""
    least = HEAD.size + FOOTER.size
    if table.stored < least:
        detail = "the stored bytes are too few for a seek table"
        yield Fault(table.where, detail, f"at least {least}", table.stored, table.offset)
    elif table.start < 0 and table.magic == FOOTER_MAGIC:
        detail = f"a seek table of {table.count} frames is longer than all stored bytes"
        offset = table.offset + table.stored - FOOTER.size
        yield Fault(table.where, detail, f"at most {table.stored} bytes", table.size, offset)
    elif table.head is not None and table.head[0] == SKIPPABLE_MAGIC:
        stated, found = table.size - HEAD.size, table.head[1]
        if found != stated:
            offset = table.offset + table.start + 4
            detail = f"the length that the seek table states does not fit {table.count} frames"
            yield Fault(table.where, detail, stated, found, offset)


@rule("zt.zstd-descriptor", section=ID, stage="content")
def zstd_descriptor(table: Table) -> Iterator[Fault]:
    """Bits 0 to 6 of the table's descriptor are zero."""
    if table.descriptor & ~HAS_CHECKSUMS and table.magic == FOOTER_MAGIC:
        offset = table.offset + table.stored - 5
        found = f"{table.descriptor:02x}"
        yield Fault(table.where, "reserved bits are set", "00 or 80", found, offset)


@rule("zt.zstd-table-magic", section=ID, stage="content")
def zstd_table_magic(table: Table) -> Iterator[Fault]:
    """The seek table begins with the magic of its skippable frame."""
    if table.head is not None and table.head[0] != SKIPPABLE_MAGIC:
        detail = f"no seek table of {table.count} frames begins here"
        expected, found = f"{SKIPPABLE_MAGIC:08x}", f"{table.head[0]:08x}"
        yield Fault(table.where, detail, expected, found, table.offset + table.start)


@rule("zt.zstd-compressed-sizes", section=ID, stage="content")
def zstd_compressed_sizes(table: Table) -> Iterator[Fault]:
    """The compressed sizes of the table add up to the bytes before it."""
    found = sum(table.compressed)
    if found != table.start:
        detail = "the compressed sizes do not add up to the bytes before the seek table"
        yield Fault(table.where, detail, table.start, found, table.offset + table.start)


@rule("zt.zstd-decoded-length", section=ID, stage="content")
def zstd_decoded_length(table: Table) -> Iterator[Fault]:
    """The decompressed sizes of the table add up to the part's `decoded_length`."""
    found = sum(table.decompressed)
    if found != table.nbytes:
        detail = "the decompressed sizes do not add up to `decoded_length`"
        yield Fault(table.where, detail, table.nbytes, found, table.offset + table.start)


@rule("zt.zstd-frame-limit", section=ID, stage="content")
def zstd_frame_limit(table: Table) -> Iterator[Fault]:
    """A frame holds at most 16 MiB."""
    large = (each for each in enumerate(table.decompressed) if each[1] > MOST_CONTENT)
    for index, size in islice(large, MOST_FAULTS):
        where = (*table.where, "frames", index)
        expected = f"at most {MOST_CONTENT} bytes"
        yield Fault(where, f"frame {index} holds more than 16 MiB", expected, size, table.offset)


@rule("zt.zstd-equal-frames", section=ID, stage="content")
def zstd_equal_frames(table: Table) -> Iterator[Fault]:
    """All frames but the last hold equally many bytes."""
    sizes = table.decompressed
    unequal = (index for index in range(1, len(sizes) - 1) if sizes[index] != sizes[0])
    for index in islice(unequal, 1):
        where = (*table.where, "frames", index)
        detail = f"frame {index} is not the last and differs from the first in size"
        yield Fault(where, detail, sizes[0], sizes[index], table.offset)


FOOTER_RULES: Final[tuple[Rule[Table], ...]] = (
    zstd_footer_magic,
    zstd_table_size,
    zstd_descriptor,
)
"""Judged of the footer alone."""

HEAD_RULES: Final[tuple[Rule[Table], ...]] = (zstd_table_magic, zstd_table_size)
"""Judged before the entries mean anything."""

TABLE_RULES: Final[tuple[Rule[Table], ...]] = (
    zstd_compressed_sizes,
    zstd_decoded_length,
    zstd_frame_limit,
    zstd_equal_frames,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A frame header (RFC 8878 §3.1.1.1): its length with the magic, and what it says.

    `content` is the decoded size that it states, or None; `dictionary` 0 where it names none.
    """

    length: int
    content: int | None
    dictionary: int
    has_checksum: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """What the headers inside an entry say: `frames` zstd frames, beside `skippable` ones.

    `problem` is why they are not well-formed, or None; `most` the bytes that they can decode to at
    most, as far as they are. `header` is that of the first zstd frame, `checksum` what ends it;
    `is_checked` tells whether every frame has one. `largest` is the size of the largest block.
    """

    frames: int
    skippable: int
    problem: str | None
    most: int
    largest: int
    header: Header | None
    checksum: int | None
    is_checked: bool
    dictionary: int


def survey(data: memoryview) -> Structure:
    """Walk over the frames and blocks of an entry, by their headers alone."""
    frames = skippable = most = largest = dictionary = at = 0
    first: Header | None = None
    checksum: int | None = None
    problem: str | None = None
    is_checked = True
    while at < len(data) and problem is None:
        magic = int.from_bytes(data[at : at + 4], "little")
        if magic & ~15 == SKIPPABLE_MAGIC & ~15 and at + HEAD.size <= len(data):
            at += HEAD.size + HEAD.unpack_from(data, at)[1]
            skippable += 1
            problem = "a skippable frame runs past the entry" if at > len(data) else None
            continue
        header = parse_header(data[at : at + 18])
        if isinstance(header, str):
            problem = header
            break
        at, held, block, problem = _walk(data, at + header.length)
        most += held
        largest = max(largest, block)
        dictionary = dictionary or header.dictionary
        is_checked = is_checked and header.has_checksum
        if header.has_checksum and problem is None:
            at += 4
            problem = "the checksum is cut off" if at > len(data) else None
        if not frames:
            first = header
            if header.has_checksum and problem is None:
                checksum = int.from_bytes(data[at - 4 : at], "little")
        frames += 1
    return Structure(
        frames=frames,
        skippable=skippable,
        problem=problem,
        most=most,
        largest=largest,
        header=first,
        checksum=checksum,
        is_checked=is_checked,
        dictionary=dictionary,
    )


def parse_header(data: memoryview) -> Header | str:
    """Read the frame header at the start of `data`, or say why there is none."""
    if len(data) < 5 or int.from_bytes(data[:4], "little") != FRAME_MAGIC:
        return "no zstd frame begins here"
    flags = data[4]
    if flags & 8:
        return "a reserved bit of a frame header is set"
    is_single = bool(flags & 0x20)
    window = 0 if is_single else 1
    dictionary = (0, 1, 2, 4)[flags & 3]
    content = (1 if is_single else 0, 2, 4, 8)[flags >> 6]
    at = 5 + window
    length = at + dictionary + content
    if length > len(data):
        return "a frame header is cut off"
    stated = int.from_bytes(data[at + dictionary : length], "little")
    if content == 2:
        stated += 256
    return Header(
        length=length,
        content=stated if content else None,
        dictionary=int.from_bytes(data[at : at + dictionary], "little"),
        has_checksum=bool(flags & 4),
    )


def _walk(data: memoryview, start: int) -> tuple[int, int, int, str | None]:
    """Walk over the blocks of one frame.

    Returns where they end, what they decode to at most, the size of the largest, and what is odd.

    A block is a three-byte head, from the lowest bit: is it the last, its type, its size. Raw ones
    hold as many bytes, RLE ones a single byte, compressed ones decode to up to 128 KiB.
    """
    at, most, largest, last = start, 0, 0, 0
    while not last:
        if at + 3 > len(data):
            return at, most, largest, "the blocks are cut off"
        head = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        if kind == 3:
            return at, most, largest, "a block is of the reserved type"
        at += 3 + (1 if kind == 1 else size)
        if at > len(data):
            return at, most, largest, "a block runs past the entry"
        most += MOST_BLOCK if kind == 2 else size
        largest = max(largest, size)
    return at, most, largest, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One entry of the table beside what lies there, bytes [start, end) of the file.

    `size` and `column` are the entry's decompressed size and its checksum, if it carries one. With
    `lenient` what public readers accept is accepted: several frames, skippable ones, large blocks,
    missing checksums, a wrong checksum in the table.

    The rest is what decompressing found, where it failed: `produced` bytes came out, `computed` is
    the checksum of the content, `error` the reason.
    """

    where: Where
    index: int
    start: int
    end: int
    size: int
    column: int | None
    structure: Structure
    lenient: bool
    produced: int | None = None
    computed: int | None = None
    error: str | None = None

    def fault(self, detail: str, expected: object = None, found: object = None) -> Fault:
        """Return a fault of this frame: named, with its place in the file."""
        detail = f"frame {self.index} (bytes {self.start} to {self.end}): {detail}"
        return Fault((*self.where, "frames", self.index), detail, expected, found, self.start)


@rule("zt.zstd-frame", section=ID, stage="content")
def zstd_frame(frame: Frame) -> Iterator[Fault]:
    """An entry of the table is exactly one zstd frame."""
    found = frame.structure
    if found.problem is not None:
        yield frame.fault(found.problem)
    elif frame.lenient:
        return
    elif found.frames != 1 or found.skippable:
        shown = f"{found.frames} frames, {found.skippable} skippable ones"
        yield frame.fault("not exactly one zstd frame", "1 frame", shown)
    elif found.largest > MOST_BLOCK:
        yield frame.fault("a block is too large", f"at most {MOST_BLOCK} bytes", found.largest)


@rule("zt.zstd-checksum-flag", section=ID, stage="content")
def zstd_checksum_flag(frame: Frame) -> Iterator[Fault]:
    """Every frame carries a checksum of its content."""
    if not (frame.structure.is_checked or frame.lenient):
        yield frame.fault("the frame carries no checksum")


@rule("zt.zstd-dictionary", section=ID, stage="content")
def zstd_dictionary(frame: Frame) -> Iterator[Fault]:
    """No frame needs a dictionary."""
    if frame.structure.dictionary:
        yield frame.fault("the frame needs a dictionary", 0, frame.structure.dictionary)


@rule("zt.zstd-frame-size", section=ID, stage="content")
def zstd_frame_size(frame: Frame) -> Iterator[Fault]:
    """A frame decodes to the size in the table, and states no other."""
    found = frame.structure
    if found.problem is not None or not (found.frames or frame.lenient):
        return  # it is no frame at all
    stated = found.header.content if found.header and found.frames == 1 else None
    if stated is not None and stated != frame.size:
        yield frame.fault("the frame states another size than the table", frame.size, stated)
    elif found.most < frame.size:
        detail = "the frame cannot decode to as many bytes as the table says"
        yield frame.fault(detail, frame.size, f"at most {found.most}")
    elif frame.produced is not None and frame.produced != frame.size:
        longer = frame.produced > frame.size
        shown = f"more than {frame.size}" if longer else frame.produced
        detail = "the frame does not decode to as many bytes as the table says"
        yield frame.fault(detail, frame.size, shown)


@rule("zt.zstd-data", section=ID, stage="content")
def zstd_data(frame: Frame) -> Iterator[Fault]:
    """The blocks of a frame can be decompressed."""
    if frame.error is not None:
        yield frame.fault(f"the frame cannot be decompressed: {frame.error}")


@rule("zt.zstd-checksum", section=ID, stage="content")
def zstd_checksum(frame: Frame) -> Iterator[Fault]:
    """The checksum of a frame is the low half of the XXH64 of its content."""
    if frame.computed is not None:
        stored = f"{frame.structure.checksum or 0:08x}"
        yield frame.fault(
            "the content does not match its checksum", stored, f"{frame.computed:08x}"
        )


@rule("zt.zstd-table-checksum", section=ID, stage="content")
def zstd_table_checksum(frame: Frame) -> Iterator[Fault]:
    """A checksum in the table is that of the frame's content."""
    column, stored = frame.column, frame.structure.checksum
    if column is not None and not frame.lenient and column != stored and frame.computed is None:
        detail = "the checksum in the table is not that of the content"
        yield frame.fault(detail, f"{stored or 0:08x}", f"{column:08x}")


STRUCTURE_RULES: Final[tuple[Rule[Frame], ...]] = (
    zstd_frame,
    zstd_checksum_flag,
    zstd_dictionary,
    zstd_frame_size,
)
"""Judged before anything is decompressed."""

CONTENT_RULES: Final[tuple[Rule[Frame], ...]] = (
    zstd_data,
    zstd_frame_size,
    zstd_checksum,
    zstd_table_checksum,
)
"""Judged of a frame once it was decompressed."""

RULES: Final[tuple[Rule[Any], ...]] = (
    *FOOTER_RULES,
    zstd_table_magic,
    *TABLE_RULES,
    *STRUCTURE_RULES,
    zstd_data,
    zstd_checksum,
    zstd_table_checksum,
)
"""Every rule of the encoding, once."""
