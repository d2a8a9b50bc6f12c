"""What an archive of arrays must fulfill, one function each.

Sections name the part: `zip` for the archive, `npy` for its members. Nothing is read here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.errors import Rejected, quoted
from tensorark.wire.npy import Header, HeaderFault
from tensorark.wire.npy_types import Dtype
from tensorark.wire.zip import (
    DEFLATED,
    DESCRIPTOR,
    ENCRYPTED,
    LOCAL,
    STORED,
    UTF8,
    End,
    Entry,
    Local,
    ZipFault,
)

SUFFIX: Final = ".npy"
"""What the name of a member that is an array ends with."""
GROWTH: Final = 1032
"""Bytes that one byte of a deflate stream can become: 258 for two bits."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a directory, and the end records."""

    entries: Sequence[Entry]
    end: End


@dataclass(frozen=True, slots=True)
class Member:
    """An entry, with its local header and where its data begin."""

    entry: Entry
    local: Local

    @property
    def start(self) -> int:
        """The first byte of what is stored."""
        return self.entry.offset + self.local.length

    @property
    def stop(self) -> int:
        """The first byte behind what is stored."""
        return self.start + self.entry.compressed


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """A member that is an array: what its header says."""

    member: Member
    header: Header
    dtype: Dtype

    @property
    def nbytes(self) -> int:
        """Bytes behind the header."""
        return self.member.entry.size - self.header.length


def _of(
    entry: Entry, detail: str, expected: object, found: object, *, local: bool = False
) -> Fault:
    label = entry.label
    place = entry.offset if local else entry.place
    return Fault((label,), f"{quoted(label)} {detail}", expected, found, place)


@rule("npz.directory", section="zip", stage="frame")
def directory(bad: ZipFault) -> Iterator[Fault]:
    """The file ends with a complete zip directory of one disk, whose parts agree."""
    yield Fault((), bad.detail, bad.expected, bad.found, bad.offset)


@rule("npz.name", section="zip", stage="open")
def name(listed: Listing) -> Iterator[Fault]:
    """A name whose flag says UTF-8 is UTF-8."""
    for entry in listed.entries:
        if entry.flags & UTF8:
            try:
                entry.name.decode("utf-8")
            except UnicodeDecodeError:
                found = entry.name[:40].hex(" ")
                yield Fault((), "a name is no UTF-8", "UTF-8", found, entry.place)


@rule("npz.duplicate-name", section="zip", stage="open")
def duplicate_name(listed: Listing) -> Iterator[Fault]:
    """No two members have one name; names that differ by case are two."""
    seen: set[str] = set()
    for entry in listed.entries:
        if entry.label in seen:
            yield _of(entry, "is there twice", "another name", "the same")
        seen.add(entry.label)


@rule("npz.ambiguous-name", section="zip", stage="open")
def ambiguous_name(listed: Listing) -> Iterator[Fault]:
    """No member has the name of an array without `.npy`, and none holds a zero byte.

    numpy would read the first one, and zip readers cut a name at the second.
    """
    labels = {entry.label for entry in listed.entries}
    for entry in listed.entries:
        if b"\0" in entry.name:
            yield _of(entry, "holds a zero byte", "a name without", "one that is cut there")
        elif entry.label.endswith(SUFFIX) and entry.label.removesuffix(SUFFIX) in labels:
            other = quoted(entry.label.removesuffix(SUFFIX))
            yield _of(entry, f"and {other} have one name in numpy", "another name", other)


@rule("npz.encrypted", section="zip", stage="open")
def encrypted(listed: Listing) -> Iterator[Fault]:
    """No member is encrypted."""
    for entry in listed.entries:
        if entry.flags & ENCRYPTED:
            yield _of(entry, "is encrypted", "no such flag", f"0x{entry.flags:04X}")


@rule("npz.method", section="zip", stage="open")
def method(listed: Listing) -> Iterator[Fault]:
    """A member is stored or deflated."""
    for entry in listed.entries:
        if entry.method not in (STORED, DEFLATED):
            yield _of(entry, "is compressed in another way", "0 or 8", entry.method)


@rule("npz.stored-size", section="zip", stage="open")
def stored_size(listed: Listing) -> Iterator[Fault]:
    """A stored member is as long as it decodes to; a deflated one grows 1032-fold at most."""
    for entry in listed.entries:
        if entry.method == STORED and entry.size != entry.compressed:
            yield _of(entry, "is stored in another size", entry.size, entry.compressed)
        elif entry.size > entry.compressed * GROWTH:
            expected = f"at most {entry.compressed * GROWTH} bytes"
            yield _of(entry, "cannot decode to its size", expected, entry.size)


@rule("npz.entry-bounds", section="zip", stage="open")
def entry_bounds(listed: Listing) -> Iterator[Fault]:
    """Each member lies before the directory."""
    for entry in listed.entries:
        stop = entry.offset + LOCAL.size + len(entry.name) + entry.compressed
        if stop > listed.end.offset:
            yield _of(entry, "does not lie before the directory", listed.end.offset, stop)


@rule("npz.local-header", section="zip", stage="open")
def local_header(members: Sequence[Member]) -> Iterator[Fault]:
    """The local header of a member says what the directory says."""
    for member in members:
        entry, local = member.entry, member.local
        if (entry.name, entry.method, entry.flags) != (local.name, local.method, local.flags):
            detail = "has another name, method or flags in its local header"
            yield _of(entry, detail, f"method {entry.method}", local.method, local=True)
            continue
        sizes = (entry.crc, entry.compressed, entry.size)
        found = (local.crc, local.compressed, local.size)
        if found != sizes and not (entry.flags & DESCRIPTOR and local.crc == 0):
            yield _of(entry, "has other sizes in its local header", sizes, found, local=True)


@rule("npz.overlap", section="zip", stage="open")
def overlap(members: Sequence[Member]) -> Iterator[Fault]:
    """Members do not overlap, nor reach into the directory."""
    end = 0
    for member in sorted(members, key=lambda each: each.entry.offset):
        if member.entry.offset < end:
            yield _of(member.entry, "overlaps another member", end, member.entry.offset)
        end = max(end, member.stop)


@rule("npz.data-bounds", section="zip", stage="open")
def data_bounds(listed: tuple[Sequence[Member], End]) -> Iterator[Fault]:
    """What is stored of a member ends before the directory."""
    members, end = listed
    for member in members:
        if member.stop > end.offset:
            yield _of(member.entry, "reaches into the directory", end.offset, member.stop)


@rule("npz.header", section="npy", stage="schema")
def header(bad: tuple[Member, HeaderFault]) -> Iterator[Fault]:
    """An array begins with a header of version 1 to 3 whose three members have their types."""
    member, fault = bad
    label = member.entry.label
    place = member.start + fault.offset if member.entry.method == STORED else member.start
    yield Fault((label,), f"{quoted(label)}: {fault.detail}", fault.expected, fault.found, place)


@rule("npz.data-size", section="npy", stage="schema")
def data_size(arrays: Sequence[ArrayMember]) -> Iterator[Fault]:
    """An array has as many bytes as its shape and its dtype call for."""
    for each in arrays:
        if each.dtype.width is None:  # objects and records: nothing says how long they are
            continue
        expected = each.dtype.width * prod(each.header.shape)
        if each.nbytes != expected:
            yield _of(each.member.entry, "has another size than its shape", expected, each.nbytes)


@dataclass(frozen=True, slots=True)
class RunningCrc:
    """The CRC of an array: that which the directory gives, and that of the bytes so far."""

    name: str
    stored: int
    computed: int

    def after(self, data: memoryview) -> RunningCrc:
        """Return the same with more bytes."""
        return RunningCrc(self.name, self.stored, zlib.crc32(data, self.computed))

    def require(self, reading: Reading, path: str | None = None) -> None:
        """Judge it at the end of the bytes.

        Raises:
            Rejected: when they are not those that were written.
        """
        try:
            reading.require((crc,), self)
        except Rejected as error:
            if path is not None:
                error.located(path)
            raise


@rule("npz.crc", section="zip", stage="content")
def crc(running: RunningCrc) -> Iterator[Fault]:
    """The CRC-32 of a member is that of its bytes."""
    if running.stored != running.computed:
        where = ("objects", running.name)
        expected, found = f"{running.stored:08x}", f"{running.computed:08x}"
        yield Fault(where, "the bytes do not match their CRC", expected, found)


LISTED_RULES: Final[tuple[Rule[Listing], ...]] = (
    name,
    duplicate_name,
    ambiguous_name,
    encrypted,
    method,
    stored_size,
    entry_bounds,
)
MEMBER_RULES: Final[tuple[Rule[Sequence[Member]], ...]] = (local_header, overlap)
