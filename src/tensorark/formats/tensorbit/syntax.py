"""The rules about the JSON text of an index or a manifest: one for each way to be malformed.

`tensorark.wire.json` finds the fault; here it gets the id under which it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.wire.json import DEPTH, Malformed, parse


def _when(bad: Malformed, slug: str) -> Iterator[Fault]:
    if bad.slug == slug:
        yield Fault(bad.where, bad.detail, bad.expected, bad.found, bad.offset)


@rule("tb.json-bom", section="index", stage="syntax")
def json_bom(bad: Malformed) -> Iterator[Fault]:
    """No byte order mark stands before the JSON text."""
    return _when(bad, "bom")


@rule("tb.json-utf8", section="index", stage="syntax")
def json_utf8(bad: Malformed) -> Iterator[Fault]:
    """The JSON text is UTF-8."""
    return _when(bad, "utf8")


@rule("tb.json-surrogate", section="index", stage="syntax")
def json_surrogate(bad: Malformed) -> Iterator[Fault]:
    """An escape never stands for half of a surrogate pair."""
    return _when(bad, "surrogate")


@rule("tb.json-depth", section="index", stage="syntax")
def json_depth(bad: Malformed) -> Iterator[Fault]:
    """At most 64 objects and lists are nested in each other."""
    return _when(bad, "depth")


@rule("tb.json-syntax", section="index", stage="syntax")
def json_syntax(bad: Malformed) -> Iterator[Fault]:
    """The text follows the grammar of JSON."""
    return _when(bad, "syntax")


@rule("tb.json-trailing", section="index", stage="syntax")
def json_trailing(bad: Malformed) -> Iterator[Fault]:
    """Nothing but white space follows the JSON text."""
    return _when(bad, "trailing")


@rule("tb.json-constant", section="index", stage="syntax")
def json_constant(bad: Malformed) -> Iterator[Fault]:
    """NaN and Infinity are not used: they are not JSON."""
    return _when(bad, "constant")


@rule("tb.json-number", section="index", stage="syntax")
def json_number(bad: Malformed) -> Iterator[Fault]:
    """A number is a finite double or an integer that can be read in reasonable time."""
    return _when(bad, "number")


@rule("tb.json-duplicate", section="index", stage="syntax")
def json_duplicate(bad: Malformed) -> Iterator[Fault]:
    """No object has two members of one name."""
    return _when(bad, "duplicate")


JSON_RULES: Final[tuple[Rule[Malformed], ...]] = (
    json_bom,
    json_utf8,
    json_surrogate,
    json_depth,
    json_syntax,
    json_trailing,
    json_constant,
    json_number,
    json_duplicate,
)


def _is_of_index(name: str, _value: object) -> bool:
    return name in {"architecture", "config", "tensors"}


def parse_json(data: memoryview, reading: Reading, *, start: int) -> object:
    """Parse the JSON text that lies at byte `start` of its file.

    Raises:
        Rejected: for the rule that the text breaks.
    """
    free = reading.limits.free_values
    try:
        return parse(data, depth=DEPTH, free=free, sound=_is_of_index)
    except Malformed as error:
        bad = error.with_traceback(None)
    if bad.offset is not None:
        bad.offset += start
    reading.require(JSON_RULES, bad)
    raise AssertionError(f"no rule for {bad.slug}")
