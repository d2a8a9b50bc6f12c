"""The common form of an object, recognized from its bytes without building CBOR values.

Nearly every object of a real manifest is dense and raw, with one digest: one pattern match
says so, and that these bytes are deterministic CBOR and fit the schema. Whatever does not match is
decoded in full, so this changes the speed and nothing else (a property test compares the two).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from tensorark.core.types import DTYPES, TYPES

_UINT: Final = (  # shortest form only: an argument that fits a shorter head does not match
    rb"(?:[\x00-\x17]"
    rb"|\x18[\x18-\xff]"
    rb"|\x19(?!\x00)[\x00-\xff]{2}"
    rb"|\x1a(?!\x00\x00)[\x00-\xff]{4}"
    rb"|\x1b(?!\x00\x00\x00\x00)[\x00-\xff]{8})"
)


_IDS: Final = {bytes((0x60 + len(text),)) + text.encode(): text for text in (*DTYPES, *TYPES)}


def _one_of(texts: Mapping[str, object]) -> bytes:
    return b"(" + b"|".join(re.escape(key) for key, text in _IDS.items() if text in texts) + b")"


_OBJECT: Final = re.compile(
    rb"\xa3\x65parts\xa1\x64data([\xa2-\xa5])"
    rb"\x64blob\x82(" + _UINT + rb")(" + _UINT + rb")"
    rb"(?:\x64type" + _one_of(TYPES) + rb")?"
    rb"\x65dtype"
    + _one_of(DTYPES)
    # The name may match too far, into what follows: its length is compared afterwards.
    + rb"(?:\x65shard([\x61-\x77]|\x78[\x18-\x40])([A-Za-z0-9_-][A-Za-z0-9._-]{0,63}))?"
    + rb"(?:\x66digest(\x75xxh3:[0-9a-f]{16}|\x78\x47sha256:[0-9a-f]{64}))?"
    rb"\x65shape([\x80-\x97](?:" + _UINT + rb"){0,23})"
    rb"\x66layout\x65dense"
)


class PlainObject(NamedTuple):
    """A dense object with one raw part, as it stands in the manifest.

    `type`, `shard` and `digest` are None where the part has no such field.
    """

    shape: list[object]
    dtype: str
    type: str | None
    blob: list[object]
    shard: str | None
    digest: str | None


def recognize(data: bytes, pos: int) -> tuple[PlainObject, int] | None:
    """Return the plain object that is encoded at `pos` and the position after it, or None."""
    found = _OBJECT.match(data, pos)
    if found is None:
        return None
    count, offset, length, type_, dtype, head, shard, digest, shape = found.groups()
    # The head of the map must count the members that matched: two, and the optional ones.
    if count[0] != 0xA2 + (type_ is not None) + (shard is not None) + (digest is not None):
        return None
    # A text of up to 23 bytes has its length in the head, 0x60 + n, a longer one behind it.
    if shard is not None and len(shard) != (head[1] if len(head) == 2 else head[0] - 0x60):
        return None
    dimensions = _shape(shape)
    if len(dimensions) != shape[0] - 0x80:
        return None
    # Digests are texts of 21 bytes (xxh3, head 0x75) or 71 (sha256).
    each = PlainObject(
        dimensions,
        _IDS[dtype],
        None if type_ is None else _IDS[type_],
        [_integer(offset), _integer(length)],
        None if shard is None else _name(shard),
        None if digest is None else digest[-21 if digest[0] == 0x75 else -71 :].decode(),
    )
    return each, found.end()


def is_sound(value: object) -> bool:
    """Tell whether a decoded object has what every object has (§3.3), and each of its parts."""
    if type(value) is not dict or type(value.get("shape")) is not list or "layout" not in value:
        return False
    parts = value.get("parts")
    return type(parts) is dict and bool(parts) and all(map(_is_part, parts.values()))


def _is_part(value: object) -> bool:
    return type(value) is dict and "dtype" in value and "blob" in value


def _integer(encoded: bytes) -> int:
    return encoded[0] if len(encoded) == 1 else int.from_bytes(encoded[1:], "big")


_name = lru_cache(1 << 10)(bytes.decode)  # many parts lie in few shards


@lru_cache(1 << 10)  # models repeat few shapes many times
def _shape(encoded: bytes) -> list[object]:
    """Decode the unsigned integers that follow the head of an array."""
    pos = 1
    values: list[object] = []
    while pos < len(encoded):
        head = encoded[pos]
        end = pos + 1 + (0 if head < 0x18 else 1 << (head - 0x18))
        values.append(head if head < 0x18 else int.from_bytes(encoded[pos + 1 : end], "big"))
        pos = end
    return values
