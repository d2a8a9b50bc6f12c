"""Plans an artifact (§2.3, §11.4): where objects go, the text of the directory, the files of a set.

Pure: what is planned here is written elsewhere. The same directory, payload size, limit and
artifact id always make the same bytes. Every plan has passed the reader's own rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorark.core.limits import DEFAULT
from tensorark.core.rules import Reading
from tensorark.errors import InvalidInput, LimitExceeded, Rejected, unstorable
from tensorark.formats.ninfer.directory import Directory, Stored, StoredResource, StoredTensor
from tensorark.formats.ninfer.frame import (
    HEADER_SIZE,
    PAGE,
    Frame,
    encode_header,
    encode_part_header,
    payload_start,
)
from tensorark.formats.ninfer.read import judge_directory
from tensorark.layouts.ninfer.geometry import ALIGNMENT, RESOURCE_ENCODING, align_up, geometry
from tensorark.wire.json import Real
from tensorark.wire.json_places import after_space

ID_SIZE: Final = 16

Files = Sequence[Mapping[str, Any]]
"""A files table, as it stands in a directory."""


# -------------------------------------------------------------------------------------- the objects


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTensor:
    """A tensor object to be placed; its encoded size follows from format, layout and shape."""

    id: str
    shape: tuple[int, ...]
    format: str
    layout: str
    divisors: int = 1


@dataclass(frozen=True, slots=True)
class NewResource:
    """A resource object of `nbytes` bytes to be placed."""

    id: str
    nbytes: int


def place(objects: Sequence[NewTensor | NewResource]) -> tuple[Stored, ...]:
    """Place objects in the given order: tensors at multiples of 256, resources at the next byte.

    The payload ends where the last of them does.

    Raises:
        InvalidInput: when a shape does not fit its layout, or a resource is empty.
        Unsupported: when a format or layout is unknown.
    """
    placed: list[Stored] = []
    end = 0
    for each in objects:
        if isinstance(each, NewResource):
            if each.nbytes < 1:
                detail = "a resource has at least one byte"
                raise InvalidInput(detail, section="5.2", where=("objects", each.id), found=0)
            placed.append(
                StoredResource(
                    id=each.id, encoding=RESOURCE_ENCODING, offset=end, nbytes=each.nbytes
                )
            )
        else:
            needed = geometry(each.format, each.layout, each.shape, each.divisors).nbytes
            placed.append(
                StoredTensor(
                    id=each.id,
                    shape=each.shape,
                    format=each.format,
                    layout=each.layout,
                    offset=align_up(end, ALIGNMENT),
                    nbytes=needed,
                    divisors=each.divisors,
                )
            )
        end = placed[-1].offset + placed[-1].nbytes
    return tuple(placed)


def payload_size(objects: Sequence[Stored]) -> int:
    """Return the size of the payload that ends with the last of `objects`."""
    return objects[-1].offset + objects[-1].nbytes if objects else 0


def object_record(stored: Stored) -> dict[str, Any]:
    """Return the record of an object as it stands in a directory; `divisors` 1 is left out."""
    if isinstance(stored, StoredResource):
        return {
            "id": stored.id,
            "kind": "resource",
            "encoding": stored.encoding,
            "offset": stored.offset,
            "bytes": stored.nbytes,
        }
    record: dict[str, Any] = {
        "id": stored.id,
        "kind": "tensor",
        "shape": list(stored.shape),
        "format": stored.format,
        "layout": stored.layout,
        "offset": stored.offset,
        "bytes": stored.nbytes,
    }
    return record if stored.divisors == 1 else record | {"divisors": stored.divisors}


# ----------------------------------------------------------------------------------------- the text

_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_json(value: Any) -> str:
    """Write a parsed JSON value compactly: members in their order, real numbers as spelled.

    Raises:
        InvalidInput: for what JSON has no text for.
    """
    try:
        return "".join(_encode(value))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"this has no JSON text: {error}", code="json") from error


def _encode(value: Any) -> list[str]:
    if isinstance(value, Real):
        return [str(value)]
    if isinstance(value, Mapping):
        out = ["{"]
        for key, each in value.items():
            out += [",", _PLAIN.encode(key), ":"] if len(out) > 1 else [_PLAIN.encode(key), ":"]
            out += _encode(each)
        return [*out, "}"]
    if isinstance(value, list | tuple):
        out = ["["]
        for each in value:
            if len(out) > 1:
                out.append(",")
            out += _encode(each)
        return [*out, "]"]
    return [_PLAIN.encode(value)]


def _has_reals(value: Any) -> bool:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Real):
            return True
        if isinstance(each, Mapping):
            pending.extend(each.values())
        elif isinstance(each, list | tuple):
            pending.extend(each)
    return False


def _directory_text(members: Mapping[str, Any], files: Files) -> bytes:
    """Write a directory with this files table, which keeps its place among the members."""
    replaced = {**members, "files": list(files)}
    texts = []
    for key, value in replaced.items():
        # The catalog may be huge and the standard encoder is fast, but would quote a `Real`.
        text = encode_json(value) if _has_reals(value) else _PLAIN.encode(value)
        texts.append(f"{_PLAIN.encode(key)}:{text}")
    return ("{" + ",".join(texts) + "}").encode("utf-8")


def _respell(text: str, files: Files) -> bytes:
    """Write a directory's own text again, with this files table and without space behind it."""
    decode = json.JSONDecoder().raw_decode
    at = after_space(text, 0)
    while text[at] != "}":
        key, at = decode(text, after_space(text, at + 1))
        begin = after_space(text, after_space(text, at) + 1)
        _, end = decode(text, begin)
        if key == "files":
            text = text[:begin] + _PLAIN.encode(list(files)) + text[end:]
            break
        at = after_space(text, end)
    return text.rstrip(" \t\r\n").encode("utf-8")


# ---------------------------------------------------------------------------------------- the files


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of a set: its name, all that lies before its payload, and the bytes of payload."""

    name: str
    head: bytes
    payload_bytes: int

    @property
    def size(self) -> int:
        """Size of the whole file."""
        return len(self.head) + self.payload_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A set to be written: its files, the entry first, and the directory they will hold."""

    files: tuple[PlannedFile, ...]
    directory: Directory

    @property
    def payload_bytes(self) -> int:
        """Size of the logical payload."""
        return sum(each.payload_bytes for each in self.files)


def part_name(entry: str, index: int, turn: int = 0) -> str:
    """Return the name of continuation `index` of an entry (§2.1).

    A set that replaces another one takes the names of another `turn`, so that both may lie there.
    """
    return f"{entry}.part-{index:04}" if not turn else f"{entry}.r{turn}.part-{index:04}"


def split(payload_bytes: int, start: int, limit: int | None) -> tuple[int, ...]:
    """Return the payload of each file when the entry's starts at `start` (§2.3).

    Without a limit, or within it, that is one file. Else all but the last are filled, in multiples
    of 4096.

    Raises:
        InvalidInput: when a file of `limit` bytes has no room for payload.
    """
    if limit is None or start + payload_bytes <= limit:
        return (payload_bytes,)
    first, more = ((limit - each) // PAGE * PAGE for each in (start, PAGE))
    if first <= 0 or more <= 0:
        raise InvalidInput(
            "the limit leaves no room for payload",
            code="max-file-bytes",
            section="2.3",
            expected=f"at least {start + PAGE} bytes, more where more files are to be listed",
            found=limit,
        )
    rest = payload_bytes - first
    full, last = divmod(rest, more)
    return (first, *[more] * full, *([last] if last else []))


def plan(
    members: Mapping[str, Any],
    payload_bytes: int,
    *,
    entry: str,
    turn: int = 0,
    artifact_id: bytes,
    max_file_bytes: int | None = None,
) -> Plan:
    """Plan the set whose entry is called `entry`; `members` is the directory, `files` left open.

    The text is padded with spaces up to the payload, so that a longer files table need not move it.

    Raises:
        InvalidInput: when a reader would reject the directory, or the limit leaves no room.
    """

    def text(files: Files) -> bytes:
        return _directory_text(members, files)

    return _fit(text, payload_bytes, entry, turn, artifact_id, max_file_bytes)


def replan(
    directory: Directory,
    *,
    entry: str,
    turn: int = 0,
    artifact_id: bytes,
    max_file_bytes: int | None = None,
) -> Plan:
    """Plan another set for the payload of `directory`: its text as it is, but for the files table.

    Raises:
        InvalidInput: when the limit leaves no room for payload.
    """
    original = directory.text.decode("utf-8")

    def text(files: Files) -> bytes:
        return _respell(original, files)

    return _fit(text, directory.payload_bytes, entry, turn, artifact_id, max_file_bytes)


def _fit(
    text_of: Callable[[Files], bytes],
    payload_bytes: int,
    entry: str,
    turn: int,
    artifact_id: bytes,
    limit: int | None,
) -> Plan:
    """Plan a set, reserving more room for the text until its files table fits."""
    _check_id(artifact_id)
    single = text_of(_table(entry, turn, (payload_bytes,)))
    start = payload_start(len(single))
    # More files need a longer table, which needs more room: it only grows, so this ends.
    while True:
        sizes = split(payload_bytes, start, limit)
        text = single if len(sizes) == 1 else text_of(_table(entry, turn, sizes))
        if HEADER_SIZE + len(text) <= start:
            return _assemble(text.ljust(start - HEADER_SIZE), sizes, entry, turn, artifact_id)
        start = payload_start(len(text))


def restore(
    text: bytes, json_bytes: int, *, entry: str, artifact_id: bytes, gap: bytes = b""
) -> Plan:
    """Plan the one file that a directory of one file came from, its text as it is.

    `gap` is what lies between the text, filled up with spaces to `json_bytes`, and the payload.

    Raises:
        InvalidInput: when a reader would reject the directory, or it is one of several files.
        LimitExceeded: when the text, filled up to `json_bytes`, is larger than a reader takes.
    """
    _check_id(artifact_id)
    if json_bytes > DEFAULT.ninfer_directory:
        detail, most = "the directory is too large", DEFAULT.ninfer_directory
        raise LimitExceeded(detail, section="3.1", expected=most, found=json_bytes)
    padded = text.ljust(json_bytes)
    directory = _judge(padded, entry, artifact_id, None)
    if len(directory.files) != 1:
        raise InvalidInput("the directory is one of several files", code="ninfer-set")
    sizes = (directory.files[0].payload_bytes,)
    return _assemble(padded, sizes, entry, 0, artifact_id, gap)


def _assemble(
    text: bytes, sizes: Sequence[int], entry: str, turn: int, artifact_id: bytes, gap: bytes = b""
) -> Plan:
    start = payload_start(len(text))
    head = (encode_header(len(text), artifact_id) + text + gap).ljust(start, b"\0")
    files = [PlannedFile(entry, head, sizes[0])]
    for index, size in enumerate(sizes[1:], 1):
        part = encode_part_header(index, artifact_id)
        files.append(PlannedFile(part_name(entry, index, turn), part, size))
    directory = _judge(text, entry, artifact_id, files[0].size)
    return Plan(files=tuple(files), directory=directory)


def _table(entry: str, turn: int, sizes: Sequence[int]) -> list[dict[str, Any]]:
    names = [None, *(part_name(entry, index, turn) for index in range(1, len(sizes)))]
    return [{"path": name, "payload_bytes": size} for name, size in zip(names, sizes, strict=True)]


def _judge(text: bytes, entry: str, artifact_id: bytes, size: int | None) -> Directory:
    """Judge a text by the reader's own rules; `size` is that of the entry, None if not known."""
    frame = Frame(size=size or 0, json_bytes=len(text), artifact_id=artifact_id)
    try:
        return judge_directory(text, frame, Reading(name=entry), sized=size is not None)
    except Rejected as error:
        raise unstorable(error) from error


def _check_id(artifact_id: bytes) -> None:
    if len(artifact_id) != ID_SIZE:
        raise InvalidInput(
            "an artifact id has 16 bytes",
            code="artifact-id",
            section="2.1",
            expected=f"{ID_SIZE} bytes",
            found=len(artifact_id),
        )
