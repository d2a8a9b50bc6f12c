"""What the frame and the members of a safetensors header must fulfill, one function each.

Sections name the part of the format's public description. A rule over tensors first asks whether
any of them shows a fault at all and looks at single tensors only then. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import quoted
from tensorark.formats.safetensors.header import METADATA, U64, Frame, RawHeader

# -------------------------------------------------------------------------------------------- frame


@rule("safetensors.file-size", section="format", stage="frame")
def file_size(size: int) -> Iterator[Fault]:
    """A file begins with the eight bytes of the header's length."""
    if size < 8:
        yield Fault((), "the file ends before its header's length does", "8 bytes", size, size)


@rule("safetensors.header-bounds", section="format", stage="frame")
def header_bounds(frame: Frame) -> Iterator[Fault]:
    """The header lies inside the file."""
    if frame.data_start > frame.size:
        yield Fault((), "the file ends inside its header", frame.data_start, frame.size, 0)


@rule("safetensors.header-begin", section="format", stage="frame")
def header_begin(frame: Frame) -> Iterator[Fault]:
    """The header begins with an opening brace, without space before it."""
    if frame.first != b"{" and (frame.first or not frame.length):
        found = f"byte 0x{frame.first.hex().upper()}" if frame.first else "an empty header"
        yield Fault((), "the header is not a JSON object", '"{"', found, 8)


# ------------------------------------------------------------------------------------------- schema


@rule("safetensors.metadata-map", section="format", stage="schema")
def metadata_map(raw: RawHeader) -> Iterator[Fault]:
    """``__metadata__``, if present, is a map; a null counts as absent."""
    if raw.metadata is not None and not isinstance(raw.metadata, dict):
        yield Fault((METADATA,), "the metadata is no map", "a map", kind(raw.metadata))


@rule("safetensors.metadata-text", section="format", stage="schema")
def metadata_text(raw: RawHeader) -> Iterator[Fault]:
    """Every value of ``__metadata__`` is text."""
    if isinstance(raw.metadata, dict):
        for key, value in raw.metadata.items():
            if not isinstance(value, str):
                detail = f"metadata value of {quoted(key)} is {kind(value)}"
                yield Fault((METADATA, key), detail, "text", kind(value))


@rule("safetensors.tensor-map", section="format", stage="schema")
def tensor_map(raw: RawHeader) -> Iterator[Fault]:
    """The entry of a tensor is a map; members other than the three known ones are ignored."""
    if len(raw.entries) != len(raw.tensors):
        for name, entry in raw.tensors.items():
            if not isinstance(entry, dict):
                yield Fault((name,), f"entry of {quoted(name)} is no map", "a map", kind(entry))


@rule("safetensors.dtype", section="format", stage="schema")
def dtype(raw: RawHeader) -> Iterator[Fault]:
    """``dtype`` is present and text; a name that is not known is no fault, but cannot be read."""
    if {type(entry.get("dtype")) for entry in raw.entries.values()} - {str}:
        for name, entry in raw.entries.items():
            if not isinstance(entry.get("dtype"), str):
                yield _member(name, entry, "dtype", "text")


@rule("safetensors.shape", section="format", stage="schema")
def shape(raw: RawHeader) -> Iterator[Fault]:
    """``shape`` is present and a list of unsigned integers below 2^64."""
    if not _are_unsigned([entry.get("shape") for entry in raw.entries.values()]):
        for name, entry in raw.entries.items():
            if not _are_unsigned([entry.get("shape")]):
                yield _member(name, entry, "shape", "a list of unsigned integers below 2^64")


@rule("safetensors.data-offsets", section="format", stage="schema")
def data_offsets(raw: RawHeader) -> Iterator[Fault]:
    """``data_offsets`` is present and a list of two unsigned integers below 2^64."""
    if not _pairs([entry.get("data_offsets") for entry in raw.entries.values()]):
        for name, entry in raw.entries.items():
            if not _pairs([entry.get("data_offsets")]):
                yield _member(name, entry, "data_offsets", "two unsigned integers below 2^64")


def _are_unsigned(lists: list[Any]) -> bool:
    if set(map(type, lists)) - {list}:
        return False
    if set(map(type, chain.from_iterable(lists))) - {int}:
        return False
    return (
        min(chain.from_iterable(lists), default=0) >= 0
        and max(chain.from_iterable(lists), default=0) < U64
    )


def _pairs(lists: list[Any]) -> bool:
    return _are_unsigned(lists) and not set(map(len, lists)) - {2}


def _member(name: str, entry: Any, member: str, expected: str) -> Fault:
    if member not in entry:
        return Fault((name,), f"{quoted(name)} has no {member}", expected, "nothing")
    found = describe(entry[member])
    return Fault((name, member), f"{member} of {quoted(name)} is wrong", expected, found)


def kind(value: object) -> str:
    """Name the JSON kind of `value`, with its article."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "a map")


def describe(value: object) -> str:
    """Show a raw JSON value in a few words: scalars and short lists as they are, else the kind."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _short(value)
    if isinstance(value, list) and len(value) <= 8:
        return "[" + ", ".join(map(describe, value)) + "]" if _flat(value) else "a nested list"
    return kind(value)


def _flat(values: list[object]) -> bool:
    return not any(isinstance(value, (list, dict)) for value in values)


def _short(value: float) -> str:
    if isinstance(value, int) and abs(value) >= 1 << 128:
        return "a huge number"
    return str(value)


# The first byte comes first: a file that is something else should not be called cut short.
FRAME_RULES: Final[tuple[Rule[Frame], ...]] = (header_begin, header_bounds)
SCHEMA_RULES: Final[tuple[Rule[RawHeader], ...]] = (
    metadata_map,
    metadata_text,
    tensor_map,
    dtype,
    shape,
    data_offsets,
)
