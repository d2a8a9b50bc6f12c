"""Strict deterministic CBOR (RFC 8949 §4.2.1, narrowed by `.zt` §3.1), both directions.

Owns the six major types without tags, and every reason to refuse them. Whatever `decode` accepts,
`encode` writes back as the same bytes. Knows nothing of manifests. Typed plain Python on purpose:
this is the code that a compiled build would compile.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

MAX_LEVEL: Final = 32
"""Deepest level of an item; the root is level 0 and every key, value and element one deeper."""

_UINT, _NINT, _BYTES, _TEXT, _ARRAY, _MAP, _TAG = range(7)  # the major types
_U64: Final = 1 << 64
_RECOGNISED: Final = 2  # the level of the values in a map that is a member of the root


class CborFault(Exception):
    """The bytes are not deterministic CBOR; `slug` names the broken rule, `offset` the byte."""

    def __init__(self, slug: str, offset: int, detail: str) -> None:
        super().__init__(detail)
        self.slug = slug
        self.offset = offset
        self.detail = detail


class Unencodable(ValueError):
    """A Python value that the profile cannot hold; `where` is the path to it."""

    def __init__(self, detail: str, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.where = where


@dataclass(frozen=True, slots=True)
class Pairs:
    """A map with at least one key that is not text, as (key, value) pairs in encoded order.

    A Python dict cannot hold such a map faithfully: 1, 1.0 and true would be one key.
    """

    items: tuple[tuple[object, object], ...]


Recognise = Callable[[bytes, int], tuple[object, int] | None]
"""Given data and the position of a map, may return the map's value in a form of its own, and the
position after it; it must only do so for bytes that `decode` would accept."""


def decode(data: bytes, recognise: Recognise | None = None) -> object:
    """Decode the one item that `data` holds.

    Maps whose keys are all text become dict, any other map `Pairs`, arrays list. `recognise` is
    asked first about the maps two levels below the root.

    Raises:
        CborFault: for the first byte that breaks the profile.
    """
    try:
        value, end = _item(data, 0, 0, recognise)
    except IndexError:
        _truncated(len(data), "an item")
    if end != len(data):
        _trailing(end, len(data) - end)
    return value


def _item(
    data: bytes, pos: int, level: int, recognise: Recognise | None = None
) -> tuple[object, int]:
    if level > MAX_LEVEL:
        _too_deep(pos)
    head = data[pos]
    if head < 0x18:
        return head, pos + 1
    if head >= 0xE0:
        return _simple(data, pos)
    major = head >> 5
    start = pos
    argument, pos = _head(data, pos)
    if major == _UINT:
        return argument, pos
    if major == _TEXT:
        return _text(data, pos, argument)
    if major == _ARRAY:
        return _array(data, pos, argument, level + 1)
    if major == _MAP:
        return _map(data, pos, argument, level + 1, recognise)
    if major == _BYTES:
        end = pos + argument
        if end > len(data):
            _truncated(pos, f"a byte string of {argument} bytes")
        return data[pos:end], end
    if major == _TAG:
        _tagged(start)
    return -1 - argument, pos


def _head(data: bytes, pos: int) -> tuple[int, int]:
    """Read the argument of the head at `pos`; return it and the position after the head."""
    low = data[pos] & 0x1F
    if low < 24:
        return low, pos + 1
    if low > 27:
        _bad_information(pos, low)
    width = 1 << (low - 24)
    end = pos + 1 + width
    if end > len(data):
        _truncated(pos, "a head")
    argument = int.from_bytes(data[pos + 1 : end], "big")
    if argument < (24 if width == 1 else 1 << (4 * width)):
        _not_shortest(pos, argument)
    return argument, end


def _text(data: bytes, pos: int, length: int) -> tuple[str, int]:
    end = pos + length
    if end > len(data):
        _truncated(pos, f"a text of {length} bytes")
    try:
        return data[pos:end].decode(), end
    except UnicodeDecodeError as error:
        raise CborFault(
            "cbor-utf8", pos + error.start, "a text string is not valid UTF-8"
        ) from None


def _array(data: bytes, pos: int, count: int, level: int) -> tuple[list[object], int]:
    if count > len(data) - pos:  # every element takes a byte: refuse before allocating
        _truncated(pos, f"an array of {count} elements")
    values: list[object] = []
    for _ in range(count):
        value, pos = _item(data, pos, level)
        values.append(value)
    return values, pos


def _map(
    data: bytes, pos: int, count: int, level: int, recognise: Recognise | None
) -> tuple[object, int]:
    if 2 * count > len(data) - pos:
        _truncated(pos, f"a map of {count} entries")
    if level > MAX_LEVEL and count:
        _too_deep(pos)
    members: dict[str, object] = {}
    previous = b""
    for done in range(count):
        start = pos
        head = data[pos]
        if 0x60 <= head < 0x78:  # short text: nearly every key of a real manifest
            key, pos = _text(data, pos + 1, head & 0x1F)
        elif head >> 5 == _TEXT:
            length, pos = _head(data, pos)
            key, pos = _text(data, pos, length)
        else:
            return _pairs(data, start, count - done, level, members, previous)
        encoded = data[start:pos]
        if encoded <= previous:
            _misplaced_key(start, encoded == previous)
        previous = encoded
        head = data[pos]
        if 0x60 <= head < 0x78:
            members[key], pos = _text(data, pos + 1, head & 0x1F)
            continue
        if level == _RECOGNISED and recognise is not None:
            known = recognise(data, pos)
            if known is not None:
                members[key], pos = known
                continue
        members[key], pos = _item(data, pos, level, recognise)
    return members, pos


def _pairs(
    data: bytes, pos: int, count: int, level: int, members: dict[str, object], previous: bytes
) -> tuple[Pairs, int]:
    """Go on with a map in which a key that is not text was met."""
    items: list[tuple[object, object]] = list(members.items())
    for _ in range(count):
        start = pos
        key, pos = _item(data, pos, level)
        encoded = data[start:pos]
        if encoded <= previous:
            _misplaced_key(start, encoded == previous)
        previous = encoded
        value, pos = _item(data, pos, level)
        items.append((key, value))
    return Pairs(tuple(items)), pos


def _simple(data: bytes, pos: int) -> tuple[object, int]:
    head = data[pos]
    if head == 0xF4:
        return False, pos + 1
    if head == 0xF5:
        return True, pos + 1
    if head == 0xF6:
        return None, pos + 1
    if 0xF9 <= head <= 0xFB:
        return _float(data, pos)
    if head >= 0xFC:
        _bad_information(pos, head & 0x1F)
    raise CborFault(
        "cbor-simple", pos, "a simple value other than false, true and null (such as undefined)"
    )


def _float(data: bytes, pos: int) -> tuple[float, int]:
    width = 2 << (data[pos] - 0xF9)
    end = pos + 1 + width
    if end > len(data):
        _truncated(pos, f"a float of {width} bytes")
    value: float = struct.unpack_from(_FLOATS[width], data, pos + 1)[0]
    if value != value:  # noqa: PLR0124 - the definition of NaN
        if data[pos:end] != _NAN:
            raise CborFault("cbor-nan", pos, "a NaN other than f9 7e00")
    elif width > 2 and _fits(value, width // 2):
        raise CborFault(
            "cbor-float-shortest", pos, f"the float {value!r} is wider than its value requires"
        )
    return value, end


_FLOATS: Final = {2: ">e", 4: ">f", 8: ">d"}
_NAN: Final = b"\xf9\x7e\x00"


def _fits(value: float, width: int) -> bool:
    """Tell whether a float of `width` bytes holds `value` exactly."""
    try:
        narrow: float = struct.unpack(_FLOATS[width], struct.pack(_FLOATS[width], value))[0]
    except OverflowError:
        return False
    return narrow == value


# One function per reason, so that each rule is raised in exactly one place.


def _truncated(pos: int, what: str) -> NoReturn:
    raise CborFault("cbor-truncated", pos, f"{what} runs past the end")


def _trailing(pos: int, count: int) -> NoReturn:
    raise CborFault("cbor-trailing", pos, f"{count} bytes after the item")


def _too_deep(pos: int) -> NoReturn:
    raise CborFault("cbor-depth", pos, f"an item lies deeper than {MAX_LEVEL} levels")


def _not_shortest(pos: int, argument: int) -> NoReturn:
    raise CborFault("cbor-shortest", pos, f"the head of {argument} is not in its shortest form")


def _tagged(pos: int) -> NoReturn:
    raise CborFault("cbor-tag", pos, "a tag")


def _bad_information(pos: int, low: int) -> NoReturn:
    if low == 31:
        raise CborFault("cbor-indefinite", pos, "an indefinite length or a break")
    raise CborFault("cbor-reserved", pos, f"the reserved additional information {low}")


def _misplaced_key(pos: int, repeated: bool) -> NoReturn:  # noqa: FBT001 - private, one caller
    if repeated:
        raise CborFault("cbor-key-unique", pos, "a map holds the same key twice")
    raise CborFault("cbor-key-order", pos, "map keys are not in ascending order")


def encode(value: object) -> bytes:
    """Encode `value` in the deterministic profile: shortest heads and floats, sorted keys.

    Takes None, bool, int (64-bit argument), float, str, bytes, list, tuple, mappings and `Pairs`.

    Raises:
        Unencodable: for anything else, for an integer out of range and for nesting below level 32.
    """
    out = bytearray()
    _encode(value, out, 0)
    return bytes(out)


def _encode(value: object, out: bytearray, level: int) -> None:
    if level > MAX_LEVEL:
        raise Unencodable(f"nested deeper than {MAX_LEVEL} levels")
    if isinstance(value, str):
        out += encode_text(value)
    elif value is None:
        out.append(0xF6)
    elif isinstance(value, bool):
        out.append(0xF5 if value else 0xF4)
    elif isinstance(value, int):
        out += encode_integer(value)
    elif isinstance(value, float):
        out += _encode_float(value)
    elif isinstance(value, bytes | bytearray | memoryview):
        out += encode_head(_BYTES, len(value))
        out += value
    elif isinstance(value, Mapping):
        _encode_map(list(value.items()), out, level + 1)
    elif isinstance(value, Pairs):
        _encode_map(value.items, out, level + 1)
    elif isinstance(value, list | tuple):
        out += encode_head(_ARRAY, len(value))
        for index, element in enumerate(value):
            _encode_child(element, out, level + 1, index)
    else:
        raise Unencodable(f"a {type(value).__name__} has no place in CBOR metadata")


def _encode_child(value: object, out: bytearray, level: int, step: str | int) -> None:
    try:
        _encode(value, out, level)
    except Unencodable as error:
        raise Unencodable(error.detail, (step, *error.where)) from None


def _encode_map(items: Sequence[tuple[object, object]], out: bytearray, level: int) -> None:
    encoded: list[tuple[bytes, object, object]] = []
    for key, value in items:
        text = bytearray()
        _encode_child(key, text, level, str(key))
        encoded.append((bytes(text), key, value))
    encoded.sort(key=lambda entry: entry[0])
    out += encode_head(_MAP, len(encoded))
    previous = b""
    for text_, key, value in encoded:
        if text_ == previous:
            raise Unencodable("a map holds the same key twice", (str(key),))
        previous = text_
        out += text_
        _encode_child(value, out, level, str(key))


def encode_head(major: int, argument: int) -> bytes:
    """Encode a head: the major type and its argument in the shortest form."""
    kind = major << 5
    if argument < 24:
        return bytes((kind | argument,))
    if argument < 1 << 8:
        return bytes((kind | 24, argument))
    if argument < 1 << 16:
        return struct.pack(">BH", kind | 25, argument)
    if argument < 1 << 32:
        return struct.pack(">BI", kind | 26, argument)
    return struct.pack(">BQ", kind | 27, argument)


def encode_integer(value: int) -> bytes:
    """Encode an integer of −2^64 … 2^64 − 1; anything outside is refused, never made a float."""
    if not -_U64 <= value < _U64:
        raise Unencodable(f"the integer {value:#x} does not fit 64 bits")
    return encode_head(_UINT, value) if value >= 0 else encode_head(_NINT, -1 - value)


def encode_text(value: str) -> bytes:
    """Encode a text string."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unencodable("a text string is not valid Unicode") from None
    return encode_head(_TEXT, len(data)) + data


def _encode_float(value: float) -> bytes:
    if value != value:  # noqa: PLR0124 - the definition of NaN
        return _NAN
    width = next(width for width in (2, 4, 8) if width == 8 or _fits(value, width))
    return bytes((0xF9 + (width >> 2),)) + struct.pack(_FLOATS[width], value)


def locate(data: bytes, where: Sequence[str | int]) -> int | None:
    """Return the offset of the item at the path `where` in `data`, which `decode` accepts.

    Text steps enter maps, integer steps arrays. None where the path leads nowhere. Reading keeps no
    offsets, so that it stays fast; an error looks its place up afterwards.
    """
    pos = 0
    for step in where:
        major = data[pos] >> 5
        count, pos = _head(data, pos)
        if major == _ARRAY and isinstance(step, int) and step < count:
            for _ in range(step):
                _, pos = _item(data, pos, 0)
        elif major == _MAP and isinstance(step, str):
            for _ in range(count):
                key, pos = _item(data, pos, 0)
                if key == step:
                    break
                _, pos = _item(data, pos, 0)
            else:
                return None
        else:
            return None
    return pos
