"""What an artifact says beside its tensors, as one text: the same text for the same meaning.

Everything of the directory but where things lie: not the artifact id, not the table of files, not
offsets, sizes and order of objects, not spelling. Tensors say themselves what they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tensorark.formats.ninfer.directory import Directory, StoredResource
from tensorark.formats.ninfer.syntax import DEPTH
from tensorark.wire.json import Malformed, Real, parse

MEMBERS: Final = ("bindings", "components", "metadata", "provenance", "resources", "uses")
"""The members of a description, in their order."""

STATEMENTS: Final = (
    "binding",
    "component",
    "config",
    "encoding",
    "metadata",
    "provenance",
    "role",
    "use",
)
"""The kinds of what a description says."""

_SORTED: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
)


def summary(directory: Directory) -> dict[str, object]:
    """Return what a report says of an artifact beside its objects: id, components, counts."""
    return {
        "artifact_id": directory.artifact_id,
        "metadata": directory.metadata,
        "provenance": directory.provenance,
        "components": {
            name: {
                "target": each.target,
                "config": each.config,
                "resources": each.resources,
                "proposal": each.proposal,
            }
            for name, each in directory.components.items()
        },
        "parameters": len(directory.root["bindings"]),
        "uses": len(directory.root["uses"]),
    }


def describe(directory: Directory) -> bytes:
    """Return the description of an artifact: compact JSON in UTF-8, members sorted by code points.

    Numbers keep their spelling. What may be left out because it is empty is left out, but for
    `metadata` and `provenance`; `resources` gives the encoding of every resource object by id, and
    uses are sorted, since their order means nothing.
    """
    root = directory.root
    value = {
        "bindings": root["bindings"],
        "components": {
            name: _without_empty(each, "resources") for name, each in root["components"].items()
        },
        "metadata": directory.metadata,
        "provenance": directory.provenance,
        "resources": {
            stored.id: stored.encoding
            for stored in map(directory.stored, _resource_rows(directory))
            if isinstance(stored, StoredResource)
        },
        "uses": sorted(
            (_without_empty(each, "auxiliaries") for each in root["uses"]),
            key=lambda each: (each["parameter"], each["input"]),
        ),
    }
    return _canonical({name: value[name] for name in MEMBERS}).encode("utf-8")


def parse_description(text: bytes | memoryview) -> dict[str, Any] | None:
    """Return the members of a description; None where the text is none."""
    try:
        root = parse(text, depth=DEPTH, float_text=True)
    except Malformed:
        return None
    if not isinstance(root, dict) or tuple(root) != MEMBERS:
        return None
    is_sound = all(type(root[each]) is (list if each == "uses" else dict) for each in MEMBERS)
    return root if is_sound else None


def statements(root: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return what a description says, one by one: kind and name to canonical JSON.

    A statement whose record is of another kind than it has to be stands there as a whole.
    """
    found = {("binding", name): each for name, each in root["bindings"].items()}
    found |= {("encoding", name): each for name, each in root["resources"].items()}
    for member in ("metadata", "provenance"):
        found |= {(member, name): each for name, each in root[member].items()}
    for name, each in root["components"].items():
        record = dict(each) if isinstance(each, dict) else {"": each}
        for member, kind in (("config", "config"), ("resources", "role")):
            inner = record.pop(member, None)
            if isinstance(inner, dict):
                found |= {(kind, f"{name}/{key}"): item for key, item in inner.items()}
        found["component", name] = record
    for each in root["uses"]:
        record = dict(each) if isinstance(each, dict) else {"": each}
        place = record.pop("parameter", None), record.pop("input", None)
        found["use", " at ".join(map(str, place))] = record
    return {key: _canonical(each) for key, each in found.items()}


def _resource_rows(directory: Directory) -> list[int]:
    return [row for name, row in directory.rows.items() if name not in directory.elements]


def _without_empty(record: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    if record.get(member) != {}:
        return record
    return {key: value for key, value in record.items() if key != member}


def _canonical(value: object) -> str:
    """Encode a parsed value. The standard encoder is fast, but would quote a `Real`."""
    if isinstance(value, Real):
        return str(value)
    if isinstance(value, Mapping):
        texts = [f"{_SORTED.encode(key)}:{_canonical(value[key])}" for key in sorted(value)]
        return "{" + ",".join(texts) + "}"
    if not isinstance(value, list):
        return _SORTED.encode(value)
    kinds = set(map(type, value))
    if kinds.isdisjoint({Real, list, dict}):
        return _SORTED.encode(value)
    return "[" + ",".join(map(_canonical, value)) + "]"
