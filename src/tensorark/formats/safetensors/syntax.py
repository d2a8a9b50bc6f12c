"""The rules about JSON text, for headers and indexes: one for each way a text can be malformed.

`tensorark.wire.json` finds the fault; here it gets the id under which it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.formats.safetensors.header import METADATA
from tensorark.wire.json import Malformed, parse

DEPTH: Final = 127
"""Containers open at once: as many as the public library's JSON reader takes."""


def _when(bad: Malformed, slug: str) -> Iterator[Fault]:
    if bad.slug == slug:
        yield Fault(bad.where, bad.detail, bad.expected, bad.found, bad.offset)


@rule("safetensors.json-bom", section="format", stage="syntax")
def json_bom(bad: Malformed) -> Iterator[Fault]:
    """No byte order mark stands before the JSON text."""
    return _when(bad, "bom")


@rule("safetensors.json-utf8", section="format", stage="syntax")
def json_utf8(bad: Malformed) -> Iterator[Fault]:
    """The JSON text is UTF-8."""
    return _when(bad, "utf8")


@rule("safetensors.json-surrogate", section="format", stage="syntax")
def json_surrogate(bad: Malformed) -> Iterator[Fault]:
    """An escape never stands for half of a surrogate pair."""
    return _when(bad, "surrogate")


@rule("safetensors.json-depth", section="format", stage="syntax")
def json_depth(bad: Malformed) -> Iterator[Fault]:
    """At most 127 maps and lists are nested in each other."""
    return _when(bad, "depth")


@rule("safetensors.json-syntax", section="format", stage="syntax")
def json_syntax(bad: Malformed) -> Iterator[Fault]:
    """The text follows the grammar of JSON."""
    return _when(bad, "syntax")


@rule("safetensors.json-trailing", section="format", stage="syntax")
def json_trailing(bad: Malformed) -> Iterator[Fault]:
    """Nothing but white space follows the JSON text."""
    return _when(bad, "trailing")


@rule("safetensors.json-constant", section="format", stage="syntax")
def json_constant(bad: Malformed) -> Iterator[Fault]:
    """NaN and Infinity are not used: they are not JSON."""
    return _when(bad, "constant")


@rule("safetensors.json-number", section="format", stage="syntax")
def json_number(bad: Malformed) -> Iterator[Fault]:
    """A number is a finite double or an integer that can be read in reasonable time."""
    return _when(bad, "number")


@rule("safetensors.json-duplicate", section="format", stage="syntax")
def json_duplicate(bad: Malformed) -> Iterator[Fault]:
    """No map has two members of one name."""
    return _when(bad, "duplicate")


@rule("safetensors.duplicate-name", section="format", stage="syntax")
def duplicate_name(bad: Malformed) -> Iterator[Fault]:
    """No two tensors have the same name."""
    return _when(bad, "duplicate")


_ALWAYS: Final = (
    json_bom,
    json_utf8,
    json_surrogate,
    json_depth,
    json_syntax,
    json_trailing,
    json_constant,
    json_number,
)
JSON_RULES: Final[tuple[Rule[Malformed], ...]] = (*_ALWAYS, json_duplicate)
_NAME_RULES: Final[tuple[Rule[Malformed], ...]] = (*_ALWAYS, duplicate_name)


_ENTRY: Final = frozenset({"dtype", "shape", "data_offsets"})


def _is_entry(name: str, value: object) -> bool:
    return name == METADATA or (isinstance(value, dict) and value.keys() >= _ENTRY)


def _is_of_index(name: str, _value: object) -> bool:
    return name in {"metadata", "weight_map"}


def parse_json(data: memoryview, reading: Reading, *, start: int, named: bool) -> object:
    """Parse the JSON text that lies at byte `start` of its file.

    With `named`, the members of the outermost map are tensors, else those of an index.

    Raises:
        Rejected: for the rule that the text breaks.
    """
    free = reading.limits.free_values
    sound = _is_entry if named else _is_of_index
    try:
        return parse(data, depth=DEPTH, free=free, sound=sound)
    except Malformed as error:
        bad = error.with_traceback(None)
    bad.offset += start
    tensor = named and len(bad.where) == 1 and bad.where[0] != METADATA
    reading.require(_NAME_RULES if tensor else JSON_RULES, bad)
    raise AssertionError(f"no rule for {bad.slug}")
