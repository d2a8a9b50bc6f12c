"""Values of any format as JSON that every reader accepts.

What JSON lacks becomes an object with one key that says so: ``$bytes`` (hexadecimal), ``$float``
(``nan``, ``inf``, ``-inf``), ``$map`` (pairs, for keys that are no text).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tensorark.wire.cbor import Pairs
from tensorark.wire.json import Real


def plain(value: object) -> Any:
    """Return `value` in JSON's own types, without losing anything."""
    if isinstance(value, Real):  # a number of a strict JSON text, as it was spelled
        return plain(float(value))
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": bytes(value).hex()}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Pairs):
        return {"$map": [[plain(key), plain(item)] for key, item in value.items]}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def document(name: str, value: Mapping[str, Any], *, indent: int | None = None) -> str:
    """Return a JSON document of the schema ``tensorark.<name>/1``; pure ASCII, so safe to print."""
    return json.dumps({"schema": f"tensorark.{name}/1", **value}, indent=indent, allow_nan=False)
