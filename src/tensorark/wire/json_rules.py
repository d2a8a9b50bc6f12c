"""The rules about JSON text, made for a format: one for each way it can be malformed.

`wire.json` finds the fault; here it gets the id under which a format reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.errors import LimitExceeded
from tensorark.wire.json import Malformed, parse

_REQUIREMENTS: Final[Mapping[str, str]] = {
    "bom": "No byte order mark stands before the JSON text.",
    "utf8": "The JSON text is UTF-8.",
    "surrogate": "An escape never stands for half of a surrogate pair, which has no UTF-8.",
    "depth": "At most {depth} {container}s and lists are nested in each other.",
    "syntax": "The text follows the grammar of JSON.",
    "trailing": "Nothing but white space follows the JSON text.",
    "constant": "NaN and Infinity are not used: they are not JSON.",
    "number": "A number is a finite double or an integer that can be read in reasonable time.",
    "duplicate": "No {container} has two members of one name, at any depth.",
}


def json_rules(
    prefix: str,
    *,
    section: str,
    container: str = "object",
    depth: int | None = None,
    elsewhere: Mapping[str, str] | None = None,
) -> tuple[Rule[Malformed], ...]:
    """Return the rules ``<prefix>.json-<slug>``; `elsewhere` are those of another section.

    Without a `depth` of its own a format has no rules about depth and numbers: there, they are caps
    of ours.
    """
    known = {"depth", "number"} if depth is None else set()
    return tuple(
        json_rule(
            f"{prefix}.json-{slug}",
            slug,
            (elsewhere or {}).get(slug, section),
            text.format(depth=depth, container=container),
        )
        for slug, text in _REQUIREMENTS.items()
        if slug not in known
    )


def json_rule(id_: str, slug: str, section: str, requirement: str) -> Rule[Malformed]:
    """Return the rule that a text malformed in the way `slug` breaks."""

    def check(bad: Malformed) -> Iterator[Fault]:
        if bad.slug == slug:
            yield Fault(bad.where, bad.detail, bad.expected, bad.found, bad.offset)

    check.__name__ = id_.partition(".")[2].replace("-", "_")
    check.__doc__ = requirement
    return rule(id_, section=section, stage="syntax")(check)


def parse_json(
    data: bytes | memoryview,
    reading: Reading,
    rules_for: Callable[[Malformed], Sequence[Rule[Malformed]]],
    *,
    start: int,
    depth: int,
    sound: Callable[[str, object], bool],
    float_text: bool = False,
) -> object:
    """Parse the JSON text that lies at byte `start` of its file, judged by ``rules_for(fault)``.

    `depth`, `sound` and `float_text` are those of `wire.json.parse`.

    Raises:
        Rejected: for the rule that the text breaks.
        LimitExceeded: where there is none, as a cap of ours was exceeded.
    """
    free = reading.limits.free_values
    try:
        return parse(data, depth=depth, free=free, sound=sound, float_text=float_text)
    except Malformed as error:
        bad = error.with_traceback(None)
    if bad.offset is not None:
        bad.offset += start
    reading.require(rules_for(bad), bad)
    raise LimitExceeded(bad.detail, offset=bad.offset, expected=bad.expected, found=bad.found)
