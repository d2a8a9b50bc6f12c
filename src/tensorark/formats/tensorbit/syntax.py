"""The rules about JSON text of an index or a manifest."""

from __future__ import annotations

from typing import Final

from tensorark.core.rules import Reading
from tensorark.wire import json_rules
from tensorark.wire.json import DEPTH

JSON_RULES: Final = json_rules.json_rules("tb", section="index", depth=DEPTH)


def _is_of_index(name: str, _value: object) -> bool:
    return name in {"architecture", "config", "tensors"}


def parse_json(data: memoryview, reading: Reading, *, start: int) -> object:
    """Parse the JSON text that lies at byte `start` of its file.

    Raises:
        Rejected: for the rule that the text breaks.
    """
    return json_rules.parse_json(
        data, reading, lambda _bad: JSON_RULES, start=start, depth=DEPTH, sound=_is_of_index
    )
