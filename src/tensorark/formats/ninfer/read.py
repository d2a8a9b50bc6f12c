"""Opens an artifact (§11.1): one round trip for its first 64 KiB, a second for a longer directory.

Continuations are not touched: an `Admission` judges one when the first byte of it is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self, cast

from tensorark.core.conversation import Steps
from tensorark.core.model import Catalog, Span
from tensorark.core.rules import Reading
from tensorark.errors import LimitExceeded, Rejected, Where
from tensorark.formats.format import SizeOf
from tensorark.formats.ninfer import rules, schema
from tensorark.formats.ninfer.directory import (
    Directory,
    RawDirectory,
    Tensors,
    build_directory,
)
from tensorark.formats.ninfer.frame import (
    FRAME_RULES,
    HEADER_SIZE,
    PART_RULES,
    Continuation,
    Frame,
    file_size,
    parse_frame,
    part_header,
    refuse_version,
)
from tensorark.formats.ninfer.syntax import parse_json
from tensorark.wire.attributes import restore_types
from tensorark.wire.gc_pause import pause_gc
from tensorark.wire.json import Real

NAME: Final = "ninfer"
GUESS: Final = 1 << 16
"""Bytes asked for before the length of the directory is known."""


def read(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open an artifact at its entry, in at most two round trips; no payload byte is read.

    The catalog's `native` is a `Directory`, its attributes what `metadata` says, as text.
    """
    size = size_of(None)
    reading.require((file_size,), size)
    (head,) = yield (Span(0, min(size, GUESS)),)
    raw_frame = parse_frame(head, size)
    refuse_version(raw_frame)
    reading.require(FRAME_RULES, raw_frame)
    frame = Frame(size=size, json_bytes=raw_frame.number, artifact_id=raw_frame.artifact_id)
    if frame.json_bytes > reading.limits.ninfer_directory:
        raise LimitExceeded(
            "the directory is too large",
            expected=reading.limits.ninfer_directory,
            found=frame.json_bytes,
            offset=8,
        )
    end = HEADER_SIZE + frame.json_bytes
    if end > len(head):
        (text,) = yield (Span(HEADER_SIZE, frame.json_bytes),)
    else:
        text = head[HEADER_SIZE:end]
    with pause_gc():
        directory = judge_directory(bytes(text), frame, reading)
        tensors = Tensors(directory)
    labels = tuple(cast("str", each.path) for each in directory.files[1:])
    attributes = restore_types(attributes_of(directory.metadata)).file
    return Catalog(NAME, tensors, attributes, directory, labels)


def judge_directory(
    text: bytes, frame: Frame, reading: Reading, *, sized: bool = True
) -> Directory:
    """Check the text of a directory by every rule of §11.1 and build the trusted record.

    `sized` False leaves the size of the entry out, for a text that is not in its file.
    When faults are gathered, what keeps single objects from being read is judged too.
    """
    root = parse_json(text, reading)
    raw = RawDirectory(frame=frame, text=text, root=root, entry=reading.name or None)
    for each in schema.PASSES:
        reading.require(each, raw, raw.offset_of)
    directory = build_directory(raw)
    passed = rules.OPEN_RULES if sized else rules.TEXT_RULES
    reading.require(passed, rules.Set(directory, raw), directory.offset_of)
    if reading.gathered is not None and not reading.structural:
        _judge_objects(directory, reading)
    return directory


def _judge_objects(directory: Directory, reading: Reading) -> None:
    """Judge every object by the rules that hold when it is read, and gather the faults of all."""
    first: Rejected | None = None
    for row in range(len(directory.ids)):
        try:
            _judge_object(directory, row, reading)
        except Rejected as error:
            first = first or error
    if first is not None:
        raise first


def _judge_object(directory: Directory, row: int, reading: Reading) -> None:
    def offset_of(_where: Where) -> int | None:
        return directory.offset_of(("objects", row))

    reading.require(rules.OBJECT_RULES, directory.stored(row), offset_of)


def judge(catalog: Catalog, name: str, reading: Reading) -> None:
    """Judge tensor `name` by the rules that hold when an object is read (§11.1).

    Raises:
        Rejected: when it breaks one.
    """
    directory = catalog.native
    if isinstance(directory, Directory):
        _judge_object(directory, directory.rows[name], reading)


@dataclass(frozen=True, slots=True)
class ContinuationCheck:
    """Judges continuations before payload is read from them (§3.2); picklable."""

    artifact_id: bytes
    files: Mapping[str, tuple[int, int]]
    """Index and payload bytes by name."""

    @classmethod
    def of(cls, directory: Directory) -> Self:
        """Return the check of the continuations that `directory` lists."""
        listed = {
            each.path or "": (index, each.payload_bytes)
            for index, each in enumerate(directory.files)
            if index
        }
        return cls(directory.frame.artifact_id, listed)

    def __call__(self, label: str, head: bytes, size: int) -> None:
        """Judge the file `label` by its first bytes and its size.

        Raises:
            Rejected: when it is not the file that the entry means.
        """
        index, payload_bytes = self.files[label]
        part = Continuation(
            label=label,
            frame=parse_frame(head, size),
            index=index,
            artifact_id=self.artifact_id,
            payload_bytes=payload_bytes,
        )
        reading = Reading()
        reading.require((part_header,), part)
        reading.require(PART_RULES, part)


def attributes_of(metadata: Mapping[str, object]) -> dict[str, str] | None:
    """Return `metadata` as text: text as it is, anything else as JSON; None where it is empty."""
    if not metadata:
        return None
    return {key: _show(value) for key, value in metadata.items()}


def _show(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
