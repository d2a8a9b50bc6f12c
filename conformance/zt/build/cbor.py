"""A CBOR emitter that can be told to be wrong.

Owns the bytes of manifests. Left alone it writes the deterministic encoding of RFC 8949 §4.2.1;
`Raw`, `Pairs` and `head(width=…)` break it on purpose. It never reads CBOR.
"""

from __future__ import annotations

import math
import struct

UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP = range(6)

_ARGUMENT = {1: (24, ">B"), 2: (25, ">H"), 4: (26, ">I"), 8: (27, ">Q")}
_INLINE_LIMIT = 24


class Raw(bytes):
    """Bytes that go out exactly as they are, wherever an item is expected."""

    __slots__ = ()


class Pairs(tuple[tuple[object, object], ...]):
    """A map whose entries keep the order given, repeated keys included."""

    __slots__ = ()


def head(major: int, argument: int, *, width: int | None = None) -> bytes:
    """Return an item's head; a `width` of 1, 2, 4 or 8 bytes forces a longer form than needed."""
    if width is None:
        if argument < _INLINE_LIMIT:
            return bytes([major << 5 | argument])
        width = next(w for w in _ARGUMENT if argument < 1 << 8 * w)
    info, form = _ARGUMENT[width]
    return bytes([major << 5 | info]) + struct.pack(form, argument)


def encode(value: object) -> bytes:
    """Return `value` in the deterministic encoding, except where it holds `Raw` or `Pairs`."""
    match value:
        case Raw():
            return bytes(value)
        case Pairs():
            return _entries([(encode(key), encode(item)) for key, item in value])
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return head(UNSIGNED, value) if value >= 0 else head(NEGATIVE, -1 - value)
        case float():
            return _float(value)
        case bytes():
            return head(BYTES, len(value)) + value
        case str():
            return head(TEXT, len(value.encode())) + value.encode()
        case list():
            return head(ARRAY, len(value)) + b"".join(map(encode, value))
        case dict():
            return _entries(sorted((encode(key), encode(item)) for key, item in value.items()))
    message = f"no CBOR for {type(value).__name__}"
    raise TypeError(message)


def _entries(entries: list[tuple[bytes, bytes]]) -> bytes:
    return head(MAP, len(entries)) + b"".join(key + item for key, item in entries)


def _float(value: float) -> bytes:
    if math.isnan(value):
        return b"\xf9\x7e\x00"
    for first, form in (b"\xf9", ">e"), (b"\xfa", ">f"):
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[0] == value:
            return first + packed
    return b"\xfb" + struct.pack(">d", value)
