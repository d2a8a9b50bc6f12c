"""The rules about the JSON text of a directory (§1, §4), and its members."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tensorark.core.rules import Fault, Reading
from tensorark.formats.ninfer.frame import HEADER_SIZE
from tensorark.wire import json_rules
from tensorark.wire.json import Real

DEPTH: Final = 256
"""Containers open at once; a cap of ours, far above what any directory needs."""


JSON_RULES: Final = json_rules.json_rules("ninfer", section="1", elsewhere={"trailing": "3.1"})

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
    return json_rules.parse_json(
        text,
        reading,
        lambda _bad: JSON_RULES,
        start=HEADER_SIZE,
        depth=DEPTH,
        sound=_is_of_root,
        float_text=True,
    )


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
