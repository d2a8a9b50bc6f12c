"""Judges a JSON value by a schema, in the part of JSON Schema that our schemas use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "reference" / "schemas"
KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
KNOWN = {"type", "properties", "required", "items", "enum", "const", "anyOf", "$ref"}
NOTES = {"$schema", "$defs", "title", "description", "additionalProperties"}


@cache
def schema_of(name: str) -> dict[str, Any]:
    return json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))


def judge(document: dict[str, Any]) -> list[str]:
    """Return what is wrong with a document by the schema that it names."""
    name = document["schema"].removeprefix("tensorark.").removesuffix("/1")
    return list(faults(document, schema_of(name), schema_of(name), "$"))


def faults(value: Any, by: dict[str, Any], root: dict[str, Any], at: str) -> Iterator[str]:
    assert by.keys() <= KNOWN | NOTES, by.keys()
    if "$ref" in by:
        yield from faults(value, root["$defs"][by["$ref"].removeprefix("#/$defs/")], root, at)
    if "anyOf" in by:
        tried = [list(faults(value, each, root, at)) for each in by["anyOf"]]
        if all(tried):
            yield f"{at}: none of {tried}"
    if "const" in by and not same(value, by["const"]):
        yield f"{at}: {value!r} is not {by['const']!r}"
    if "enum" in by and not any(same(value, each) for each in by["enum"]):
        yield f"{at}: {value!r} is none of {by['enum']}"
    kinds = by.get("type", list(KINDS))
    if not any(is_kind(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        yield f"{at}: {value!r} is no {kinds}"
    if isinstance(value, dict):
        known = by.get("properties", {})
        yield from (f"{at}: no {key}" for key in by.get("required", ()) if key not in value)
        for key, each in value.items():
            own = known.get(key, by.get("additionalProperties", True))
            if own is False:
                yield f"{at}: {key} is not known"
            elif own is not True:
                yield from faults(each, own, root, f"{at}.{key}")
    if isinstance(value, list) and "items" in by:
        for index, each in enumerate(value):
            yield from faults(each, by["items"], root, f"{at}[{index}]")


def is_kind(value: Any, kind: str) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def same(value: Any, other: Any) -> bool:
    """Whether two values are one in JSON, where true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
