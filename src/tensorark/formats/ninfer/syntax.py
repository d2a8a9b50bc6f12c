"""The rules about the JSON text of a directory (§1, §4): one for each way it can be malformed.

`tensorark.wire.json` finds the fault; here it gets the id under which it is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.errors import LimitExceeded
from tensorark.formats.ninfer.frame import HEADER_SIZE
from tensorark.wire.json import Malformed, Real, parse

DEPTH: Final = 256
"""Containers open at once; a cap of ours, far above what any directory needs."""


def _when(bad: Malformed, slug: str) -> Iterator[Fault]:
    if bad.slug == slug:
        yield Fault(bad.where, bad.detail, bad.expected, bad.found, bad.offset)


@rule("ninfer.json-bom", section="1", stage="syntax")
def json_bom(bad: Malformed) -> Iterator[Fault]:
    """No byte order mark stands before the JSON text."""
    return _when(bad, "bom")


@rule("ninfer.json-utf8", section="1", stage="syntax")
def json_utf8(bad: Malformed) -> Iterator[Fault]:
    """The JSON text is UTF-8."""
    return _when(bad, "utf8")


@rule("ninfer.json-surrogate", section="1", stage="syntax")
def json_surrogate(bad: Malformed) -> Iterator[Fault]:
    """An escape never stands for half of a surrogate pair: it would have no UTF-8."""
    return _when(bad, "surrogate")


@rule("ninfer.json-syntax", section="1", stage="syntax")
def json_syntax(bad: Malformed) -> Iterator[Fault]:
    """The text follows the grammar of JSON."""
    return _when(bad, "syntax")


@rule("ninfer.json-trailing", section="3.1", stage="syntax")
def json_trailing(bad: Malformed) -> Iterator[Fault]:
    """Nothing but white space follows the JSON text."""
    return _when(bad, "trailing")


@rule("ninfer.json-constant", section="1", stage="syntax")
def json_constant(bad: Malformed) -> Iterator[Fault]:
    """NaN and Infinity are not used: they are not JSON."""
    return _when(bad, "constant")


@rule("ninfer.json-duplicate", section="1", stage="syntax")
def json_duplicate(bad: Malformed) -> Iterator[Fault]:
    """No object has two members of one name, at any depth."""
    return _when(bad, "duplicate")


JSON_RULES: Final[tuple[Rule[Malformed], ...]] = (
    json_bom,
    json_utf8,
    json_surrogate,
    json_syntax,
    json_trailing,
    json_constant,
    json_duplicate,
)


REQUIRED: Final = ("components", "objects", "bindings", "uses", "files")
OPTIONAL: Final = ("metadata", "provenance")
"""The members that the root has, and those that it may have (§4.1)."""


def _is_of_root(name: str, _value: object) -> bool:
    return name in REQUIRED or name in OPTIONAL


def parse_json(text: bytes, reading: Reading) -> object:
    """Parse the text of a directory; real numbers stay `Real`, in their spelling.

    Raises:
        Rejected: for the rule that the text breaks.
        LimitExceeded: when it is nested too deeply, or an integer has too many digits.
    """
    free = reading.limits.free_values
    try:
        return parse(text, depth=DEPTH, float_text=True, free=free, sound=_is_of_root)
    except Malformed as error:
        bad = error.with_traceback(None)
    if bad.offset is not None:
        bad.offset += HEADER_SIZE
    if bad.slug in {"depth", "number"}:
        raise LimitExceeded(bad.detail, offset=bad.offset, expected=bad.expected, found=bad.found)
    reading.require(JSON_RULES, bad)
    raise AssertionError(f"no rule for {bad.slug}")


def infinite(value: object, where: tuple[str | int, ...]) -> Iterator[Fault]:
    """Yield a fault for every real number in an open value that is beyond a double.

    The parser keeps their spelling and does not look at their size.
    """
    pending = [(where, value)]
    while pending:
        at, each = pending.pop()
        if isinstance(each, Real):
            if math.isinf(float(each)):
                shown = each if len(each) <= 40 else f"{len(each)} characters"
                yield Fault(at, "a number is out of range", "a finite double", str(shown))
        elif isinstance(each, dict):
            pending.extend(((*at, key), item) for key, item in each.items())
        elif isinstance(each, list):
            pending.extend(((*at, index), item) for index, item in enumerate(each))
