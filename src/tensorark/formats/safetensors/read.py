"""Opens a safetensors file: one round trip for its first 64 KiB, a second for a longer header.

`open_files` reads many files in the same two round trips, which a sharded set needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tensorark.core.conversation import Steps
from tensorark.core.ledger import Names
from tensorark.core.model import Catalog, Span
from tensorark.core.rules import Finding, Reading, Rule
from tensorark.errors import Error, LimitExceeded
from tensorark.formats.format import SizeOf
from tensorark.formats.safetensors import extents, rules
from tensorark.formats.safetensors.header import (
    METADATA,
    Columns,
    Frame,
    Header,
    RawHeader,
    Tensors,
    columns,
    raw_header,
    strange_members,
)
from tensorark.formats.safetensors.identity import unstamp
from tensorark.formats.safetensors.syntax import JSON_RULES, duplicate_name, parse_json
from tensorark.wire.attributes import restore_types
from tensorark.wire.gc_pause import pause_gc
from tensorark.wire.json_places import Places

GUESS: Final = 1 << 16
"""Bytes asked for before the length of the header is known."""


@dataclass(frozen=True, slots=True)
class SingleFile:
    """One file: the format's own record of it and its tensors."""

    header: Header
    tensors: Tensors


def read(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open one file, in at most two round trips."""
    files = yield from open_files({None: size_of(None)}, reading)
    only = files[None]
    carried = restore_types(only.header.metadata)
    only.tensors.attributes = carried.tensors
    return Catalog("safetensors", only.tensors, attributes=carried.file, native=only.header)


def open_files(
    sizes: Mapping[str | None, int], reading: Reading
) -> Steps[dict[str | None, SingleFile]]:
    """Open the files of these sizes, all headers together, in at most two round trips."""
    for label, size in sizes.items():
        with shard(label, reading) as inner:
            inner.require((rules.file_size,), size)
    heads = yield [Span(0, min(size, GUESS), label) for label, size in sizes.items()]
    frames: dict[str | None, Frame] = {}
    texts: dict[str | None, memoryview] = {}
    for (label, size), head in zip(sizes.items(), heads, strict=True):
        with shard(label, reading) as inner:
            frames[label] = _frame(head, size, inner)
        texts[label] = head[8 : frames[label].data_start]
    longer = [label for label, frame in frames.items() if frame.data_start > len(texts[label]) + 8]
    if longer:
        texts.update(
            zip(longer, (yield [Span(8, frames[x].length, x) for x in longer]), strict=True)
        )
    files: dict[str | None, SingleFile] = {}
    for label, frame in frames.items():
        with shard(label, reading) as inner, pause_gc():
            files[label] = _parse_file(texts.pop(label), frame, label, inner)
    return files


@contextmanager
def shard(label: str | None, reading: Reading) -> Iterator[Reading]:
    """Judge one file of a set: what goes wrong inside is placed under its label."""
    if label is None:
        yield reading
        return
    found: list[Finding] = []
    try:
        yield reading if reading.gathered is None else replace(reading, gathered=found)
    except Error as error:
        error.where = (label, *error.where)
        error.located(label)
        raise
    finally:
        if reading.gathered is not None:
            reading.gathered.extend(replace(each, where=(label, *each.where)) for each in found)


def _frame(head: memoryview, size: int, reading: Reading) -> Frame:
    length = int.from_bytes(head[:8], "little")
    frame = Frame(size=size, length=length, first=bytes(head[8 : 8 + min(length, 1)]))
    reading.require(rules.FRAME_RULES, frame)
    limit = reading.limits.safetensors_header
    if length > limit:
        raise LimitExceeded("the header is too large", expected=limit, found=length, offset=0)
    return frame


def _parse_file(text: memoryview, frame: Frame, label: str | None, reading: Reading) -> SingleFile:
    members = parse_json(text, reading, start=8, named=True)
    # The frame rules let nothing but an object through to here.
    order = tuple(cast("dict[str, object]", members))
    raw = raw_header(cast("dict[str, object]", members))
    judged = _judge(raw, text, frame, reading)
    metadata, set_id = unstamp(cast("dict[str, str] | None", raw.metadata))
    header = Header(
        length=frame.length,
        data_start=frame.data_start,
        metadata=metadata,
        members=order,
        set_id=set_id,
        strange=strange_members(raw),
    )
    return SingleFile(header, Tensors(judged, label))


def _judge(raw: RawHeader, text: memoryview, frame: Frame, reading: Reading) -> Columns:
    offset_of = Places(text, start=8).offset
    reading.require(rules.SCHEMA_RULES, raw, offset_of)
    judged = columns(raw, frame)
    # Where a range runs backwards, nothing can be said about what lies between tensors.
    reading.require((extents.offset_order,), judged, offset_of)
    reading.require(extents.OPEN_RULES, judged, offset_of)
    return judged


def sniff(head: bytes, _tail: bytes, _size: int) -> bool:
    """Whether a header length that could be meant is followed by the start of a JSON object.

    A shortened file is still recognized, so that it can be called shortened.
    """
    # From the two bytes of {} on; more than a tebibyte is other data, not a length.
    if int.from_bytes(head[:8], "little") not in range(2, 1 << 40):
        return False
    begin = head[8:].lstrip(b" \t\r\n")
    return begin[:1] == b"{" and begin[1:].lstrip(b" \t\r\n")[:1] in (b"", b'"', b"}")


def holds(origin: Catalog, _now: Catalog) -> Mapping[str, Names]:
    """State which fields of entries the format does not define."""
    header: Header = origin.native
    return {"fields": lambda: header.strange}


RULES: Final[tuple[Rule[Any], ...]] = (
    rules.file_size,
    *rules.FRAME_RULES,
    *JSON_RULES,
    duplicate_name,
    *rules.SCHEMA_RULES,
    extents.offset_order,
    *extents.OPEN_RULES,
)

__all__ = ["METADATA", "RULES", "SingleFile", "open_files", "read", "shard", "sniff"]
