"""The rules about JSON text of headers and indexes."""

from __future__ import annotations

from typing import Final

from tensorark.core.rules import Reading, Rule
from tensorark.formats.safetensors.header import METADATA
from tensorark.wire import json_rules
from tensorark.wire.json import Malformed

DEPTH: Final = 127
"""Containers open at once: as many as the public library's JSON reader takes."""

JSON_RULES: Final = json_rules.json_rules(
    "safetensors", section="format", container="map", depth=DEPTH
)
duplicate_name: Final = json_rules.json_rule(
    "safetensors.duplicate-name", "duplicate", "format", "No two tensors have the same name."
)
_NAME_RULES: Final[tuple[Rule[Malformed], ...]] = (*JSON_RULES[:-1], duplicate_name)

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

    def rules_for(bad: Malformed) -> tuple[Rule[Malformed], ...]:
        is_tensor = named and len(bad.where) == 1 and bad.where[0] != METADATA
        return _NAME_RULES if is_tensor else JSON_RULES

    sound = _is_entry if named else _is_of_index
    return json_rules.parse_json(data, reading, rules_for, start=start, depth=DEPTH, sound=sound)
