"""Opens an archive of arrays: the directory, then local headers and array headers together.

Two round trips for most files. Names of members are labels, never paths; those that end in `.npy`
are tensors, others are only listed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from tensorark.core.conversation import Steps
from tensorark.core.ledger import Names
from tensorark.core.model import Blob, Catalog, Encoded, Part, Raw, Span, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import Error, LimitExceeded, Rejected, Unsupported
from tensorark.formats.format import SizeOf
from tensorark.formats.npz import marker, rules
from tensorark.formats.npz.rules import SUFFIX, ArrayMember, Listing, Member
from tensorark.formats.npz.strangers import stranger
from tensorark.wire.attributes import restore_types
from tensorark.wire.gc_pause import pause_gc
from tensorark.wire.npy import PREAMBLE, HeaderFault, length_of, parse_header
from tensorark.wire.npy_types import PREFIX, VOIDS, Dtype, dtype_of
from tensorark.wire.zip import (
    END,
    END_MAGIC,
    LOCAL,
    LOCAL_MAGIC,
    STORED,
    TAIL,
    End,
    Entry,
    ZipFault,
    first_names,
    parse_end,
    parse_entries,
    parse_local,
)

NAME: Final = "npz"
ARRAY: Final = "npy.array/1"
"""Encoding: a CRC-32, then the `.npy` array that it is of; decodes to row-major little-endian."""
DEFLATE: Final = "npy.deflate/1"
"""Encoding: the same with the array in a deflate stream."""

_HEAD: Final = 4096
_GUESS: Final = 256
"""Bytes behind the name in which a local header ends and an array header fits, mostly."""
_SLACK: Final = 64 << 10
_SHORT: Final = 192
_CRC_AT: Final = 16
_CRC_SIZE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What an archive says beside its tensors.

    `others` are members that are no arrays. `checksums` are the CRC-32 of each array that lies
    there as it is, and that of its header alone, from which to go on. `metadata` is the text that
    carries attributes.
    """

    members: tuple[str, ...]
    others: tuple[str, ...]
    checksums: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    metadata: Mapping[str, str] | None = None


def read(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open one archive."""
    size = size_of(None)
    length = min(size, TAIL)
    head, tail = yield [Span(0, min(size, _HEAD)), Span(size - length, length)]
    try:
        with _report_zip_fault(reading):
            end = parse_end(bytes(tail), size)
    except Rejected as error:
        raise _cut(head, error) from None
    limit = reading.limits.index_file
    if end.length > limit:
        raise LimitExceeded("the directory is too large", expected=limit, found=end.length)
    begin = size - length
    if end.offset >= begin:
        text = tail[end.offset - begin :][: end.length]
    else:
        (text,) = yield [Span(end.offset, end.length)]
    with _report_zip_fault(reading):
        entries = parse_entries(text, end)
    if entries and not any(map(_is_array, entries)):
        raise stranger([each.label for each in entries])
    reading.require(rules.LISTED_RULES, Listing(entries, end))
    members, heads = yield from _members(entries, end, reading)
    arrays = yield from _arrays(members, heads, reading)
    return (yield from _catalog(members, arrays))


def _cut(head: memoryview, error: Rejected) -> Error:
    """Say of an archive without a directory what it was, unless it was one of arrays."""
    names = [name.decode("utf-8", "replace") for name in first_names(bytes(head))]
    kind = stranger(names) if names else error
    return kind if isinstance(kind, Unsupported) else error


@contextmanager
def _report_zip_fault(reading: Reading) -> Iterator[None]:
    """Turn what is no zip directory into the finding that it is."""
    try:
        yield
    except ZipFault as bad:
        reading.require((rules.directory,), bad)
        raise


def _members(
    entries: Sequence[Entry], end: End, reading: Reading
) -> Steps[tuple[list[Member], list[memoryview]]]:
    """Read the local headers, and the first bytes behind them."""
    spans = [
        Span(each.offset, min(LOCAL.size + len(each.name) + _GUESS, end.offset - each.offset))
        for each in entries
    ]
    found = (yield spans) if spans else []
    members = []
    for entry, data in zip(entries, found, strict=True):
        with _report_zip_fault(reading):
            members.append(Member(entry, parse_local(data, entry.offset)))
    reading.require(rules.MEMBER_RULES, members)
    reading.require((rules.data_bounds,), (members, end))
    heads = [
        data[member.local.length :][: member.entry.compressed]
        for member, data in zip(members, found, strict=True)
    ]
    return members, heads


def _arrays(
    members: Sequence[Member], heads: Sequence[memoryview], reading: Reading
) -> Steps[dict[str, tuple[ArrayMember, int]]]:
    """Read the headers of the arrays, and the CRC of each; further where they are longer.

    None is kept once it is understood.
    """
    waiting = [
        (member, head)
        for member, head in zip(members, heads, strict=True)
        if _is_array(member.entry)
    ]
    names = [member.entry.label.removesuffix(SUFFIX) for member, _ in waiting]
    arrays: dict[str, tuple[ArrayMember, int]] = {}
    odd, limit = 0, reading.limits.npz_headers
    for last in (False, False, True):  # once for the length, once for the header
        longer: list[Span] = []
        left: list[Member] = []
        with pause_gc():
            for member, head in waiting:
                wanted, text = _header(member, head, reading)
                # Incompressible blocks cost five bytes each; one that costs more is malformed.
                slack = 0 if member.entry.method == STORED else _SLACK
                further = min(wanted + slack, member.entry.compressed)
                if len(text) < wanted and further > len(head) and not last:
                    longer.append(Span(member.start, further))
                    left.append(member)
                    continue
                described = _parse_array(member, text, reading)
                if len(text) > _SHORT or not described.header.is_usual:
                    odd += len(text)
                if odd > limit:
                    detail = "the long or unusual headers of the arrays are too large together"
                    raise LimitExceeded(detail, expected=limit, found="more")
                crc = zlib.crc32(text[: described.header.length])
                arrays[member.entry.label.removesuffix(SUFFIX)] = (described, crc)
        if not longer:
            break
        waiting = list(zip(left, (yield longer), strict=True))
    reading.require((rules.data_size,), [arrays[name][0] for name in names])
    return {name: arrays[name] for name in names}


def _parse_array(member: Member, text: bytes, reading: Reading) -> ArrayMember:
    try:
        header = parse_header(text)
        if header.length > member.entry.size:
            raise _too_long(member, header.length)
    except HeaderFault as bad:
        reading.require((rules.header,), (member, bad))
        raise
    # What records are made of is not kept: it says nothing that we use, and takes much room.
    return ArrayMember(member, replace(header, descr=None), dtype_of(header.descr))


def _too_long(member: Member, length: int) -> HeaderFault:
    detail = "the header is longer than its member"
    return HeaderFault(detail, 8, member.entry.size, length)


def _is_array(entry: Entry) -> bool:
    return entry.label.endswith(SUFFIX)


def _header(member: Member, head: memoryview, reading: Reading) -> tuple[int, bytes]:
    """Return how long a header is, and as much of it as `head` gives."""
    entry = member.entry
    try:
        text = bytes(head) if entry.method == STORED else _inflate(head, PREAMBLE)
        if len(text) < min(PREAMBLE, entry.size) and len(head) < entry.compressed:
            return PREAMBLE, text
        wanted = length_of(text)
        if entry.method != STORED:
            text = _inflate(head, wanted)
    except HeaderFault as bad:
        reading.require((rules.header,), (member, bad))
        raise
    return wanted, text[:wanted]


def _inflate(data: memoryview, most: int) -> bytes:
    """Return the first bytes of a deflate stream, `most` of them at most."""
    try:
        # -15: the stream has no header of zlib; and a bound of 0 would mean none.
        return zlib.decompressobj(-15).decompress(data, max(1, most))
    except zlib.error as error:
        detail = "the member is no deflate stream"
        raise HeaderFault(detail, 0, "deflated data", str(error)[:80]) from None


def _catalog(
    members: Sequence[Member], arrays: Mapping[str, tuple[ArrayMember, int]]
) -> Steps[Catalog]:
    notes, is_ours = marker.Marker(), False
    if marker.NAME in arrays:
        text = yield from _marker(arrays[marker.NAME][0])
        ours = None if text is None else marker.parse_marker(text)
        notes, is_ours = ours or notes, ours is not None
    tensors: dict[str, Tensor] = {}
    checksums: dict[str, tuple[int, int]] = {}
    for name, (each, header_crc) in arrays.items():
        if is_ours and name == marker.NAME:
            continue
        tensors[name] = _tensor(name, each, notes.types.get(name))
        if isinstance(tensors[name].parts["data"].blob, Raw):
            checksums[name] = (each.member.entry.crc, header_crc)
    native = Archive(
        members=tuple(each.entry.label for each in members),
        others=tuple(
            each.entry.label
            for each in members
            if not _is_array(each.entry) and not each.entry.label.endswith("/")
        ),
        checksums=checksums,
        metadata=notes.metadata,
    )
    carried = restore_types(notes.metadata)
    for name, held in carried.tensors.items():
        if name in tensors:
            tensors[name] = replace(tensors[name], attributes=held)
    return Catalog(NAME, tensors, attributes=carried.file, native=native)


def _marker(array: ArrayMember) -> Steps[bytes | None]:
    """Read the member with our name, if it is an array of bytes."""
    entry = array.member.entry
    plain = (array.dtype.dtype, array.dtype.type, len(array.header.shape)) == ("u8", None, 1)
    if not plain or entry.size > marker.LONGEST:
        return None
    (data,) = yield [Span(array.member.start, entry.compressed)]
    try:
        text = bytes(data) if entry.method == STORED else _inflate(data, entry.size)
    except HeaderFault:
        return None
    return text[array.header.length :]


def _tensor(name: str, array: ArrayMember, note: str | None) -> Tensor:
    header, dtype = array.header, array.dtype
    named = _name_type(dtype, note)
    part = Part(_blob(array), *named)
    return Tensor(name, header.shape, "dense", {"data": part})


def _name_type(dtype: Dtype, note: str | None) -> tuple[str, str | None]:
    """Return the ids of an array; a note names what is a void to numpy, and nothing else."""
    if dtype.is_void and note is not None:
        for ids, width in VOIDS.items():
            if note == (ids[1] or ids[0]) and width == dtype.width:
                return ids
    return dtype.dtype, dtype.type


def _blob(array: ArrayMember) -> Blob:
    """Say where the bytes are: as they are where they need no change."""
    member, header = array.member, array.header
    known = array.dtype.width is not None
    # Order is a matter of two dimensions that both have something to order.
    ordered = header.fortran_order and sum(n != 1 for n in header.shape) > 1
    entry = member.entry
    if entry.method == STORED and not (known and (ordered or array.dtype.is_swapped)):
        return Raw((Span(member.start + header.length, array.nbytes),))
    spans = (
        # That of the directory: a local header may leave its CRC out.
        Span(entry.place + _CRC_AT, _CRC_SIZE),
        Span(member.start, entry.compressed),
    )
    return Encoded(spans, ARRAY if entry.method == STORED else DEFLATE, array.nbytes)


def checksum(catalog: Catalog, name: str) -> rules.RunningCrc | None:
    """Return the CRC of an array that lies there as it is, begun with its header; or None."""
    native = catalog.native
    known = native.checksums.get(name) if isinstance(native, Archive) else None
    return None if known is None else rules.RunningCrc(name, *known)


def holds(origin: Catalog, _now: Catalog) -> Mapping[str, Names]:
    """State which members are no arrays, and which arrays mean nothing outside of numpy."""
    archive: Archive = origin.native
    folders = [label for label in archive.members if label.endswith("/")]
    return {
        "members": lambda: [*archive.others, *folders],
        "objects": lambda: [
            name
            for name, tensor in origin.tensors.items()
            for part in tensor.parts.values()
            if part.type is not None and part.type.startswith(PREFIX)
        ],
    }


def sniff(head: bytes, _tail: bytes, size: int) -> bool:
    """Whether the file is a zip archive: what it is of stands in its directory."""
    return size >= END.size and head.startswith((LOCAL_MAGIC, END_MAGIC))
