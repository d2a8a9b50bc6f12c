"""The member that carries what `.npy` cannot: attributes, and what a void array is.

Owns its text: JSON in an array of bytes, which numpy loads like any other. What does not look like
ours is an array of somebody else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tensorark.wire.json import Malformed, parse

NAME: Final = "__tensorark__"
LONGEST: Final = 64 << 20
"""Bytes that are read of it: attributes of a file, not tensors."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Metadata, all of it text, None where there is none; and the types of void arrays by name."""

    metadata: Mapping[str, str] | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> bytes:
        """Return the bytes of the member; the same for the same content."""
        members: dict[str, object] = {"types": dict(self.types)}
        if self.metadata is not None:
            members["metadata"] = dict(self.metadata)
        text = json.dumps(members, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return text.encode("ascii")


def parse_marker(text: bytes | memoryview) -> Marker | None:
    """Read the bytes of the member; None when they are not what we write."""
    try:
        value = parse(text)
    except Malformed:
        return None
    if not isinstance(value, dict) or not value.keys() <= {"types", "metadata"}:
        return None
    types, metadata = _texts(value.get("types")), _texts(value.get("metadata"))
    if types is None or (metadata is None and "metadata" in value):
        return None
    return Marker(metadata, types)


def _texts(value: object) -> dict[str, str] | None:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        return None
    return value
