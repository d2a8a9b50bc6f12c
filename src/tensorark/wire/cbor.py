"""Strict deterministic CBOR (RFC 8949 §4.2.1, narrowed by `.zt` §3.1), both directions.

Owns the six major types without tags, and every reason to refuse them. Whatever `decode` accepts,
`encode` writes back as the same bytes. Knows nothing of manifests. Typed plain Python on purpose:
this is the code that a compiled build would compile.
"""

from __future__ import annotations

import re
import reprlib
import struct
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from tensorark.core.limits import DEFAULT
from tensorark.errors import LimitExceeded

MAX_LEVEL: Final = 32
"""Deepest level of an item; the root is level 0 and every key, value and element one deeper."""

_UINT, _NINT, _BYTES, _TEXT, _ARRAY, _MAP = range(6)  # the major types but tags and the rest
_U64: Final = 1 << 64


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


Recognize = Callable[[bytes, int], tuple[object, int] | None]
"""Given data and the position of an item, may return its value in a form of its own, and the
position after it; it must only do so for bytes that `decode` would accept."""

Shortcut = tuple[str, Recognize, Callable[[object], bool]]
"""The key of a member of the root, what is asked first about the values in that map, and what tells
whether one that was decoded instead is sound: of others there are at most `free`."""


BYTES_PER_ITEM: Final = 4
"""A text may hold one element or entry for so many bytes beyond those that are free (`limits`)."""


def decode(
    data: bytes,
    shortcut: Shortcut | None = None,
    known: Container[str] | None = None,
    free: int = DEFAULT.free_values,
) -> object:
    """Decode the one item that `data` holds.

    Maps whose keys are all text become dict, any other map `Pairs`, arrays list. With `known`, a
    member of the root that is not among them is judged as strictly, but not built: it is None.

    Raises:
        CborFault: for the first byte that breaks the profile.
        LimitExceeded: when there are more elements and entries than a text of this length may hold,
            or more than `free` values in the map of the shortcut that are not sound.
    """
    room = [free + len(data) // BYTES_PER_ITEM, free]
    try:
        value, end = _item(data, 0, 0, room, shortcut, known)
    except IndexError:
        _truncated(len(data), "an item")
    if end != len(data):
        _trailing(end, len(data) - end)
    return value


def _item(
    data: bytes,
    pos: int,
    level: int,
    room: list[int],
    shortcut: Shortcut | None = None,
    known: Container[str] | None = None,
) -> tuple[object, int]:
    if level > MAX_LEVEL:
        _too_deep(pos)
    head = data[pos]
    if head < 0x18:
        return head, pos + 1
    if head >= 0xE0:
        return _simple(data, pos)
    # From 0xDC on the head itself is malformed, which `_head` says.
    if 0xC0 <= head < 0xDC:
        _tagged(pos)
    major = head >> 5
    argument, pos = _head(data, pos)
    if major == _UINT:
        return argument, pos
    if major == _TEXT:
        return _text(data, pos, argument)
    if major == _ARRAY:
        return _array(data, pos, argument, level + 1, room)
    if major == _MAP:
        return _map(data, pos, argument, level + 1, room, shortcut, known)
    if major == _BYTES:
        end = pos + argument
        if end > len(data):
            _truncated(pos, f"a byte string of {argument} bytes")
        return data[pos:end], end
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
    # What fits half the width has a shorter head.
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


_FEW: Final = 16
"""Entries of a map whose keys are likely to be the same words again and again: one object each."""


def _word(data: bytes, pos: int, length: int) -> tuple[str, int]:
    """Decode a text as `_text` does, to the same object where it was met lately."""
    end = pos + length
    try:
        if end <= len(data):
            return _interned(data[pos:end]), end
    except UnicodeDecodeError:
        pass
    return _text(data, pos, length)


_interned = lru_cache(1 << 8)(bytes.decode)


def _array(
    data: bytes, pos: int, count: int, level: int, room: list[int]
) -> tuple[list[object], int]:
    if count > len(data) - pos:  # every element takes a byte: refuse before allocating
        _truncated(pos, f"an array of {count} elements")
    _claim(data, count, room)
    values: list[object] = []
    for _ in range(count):
        value, pos = _item(data, pos, level, room)
        values.append(value)
    return values, pos


def _map(
    data: bytes,
    pos: int,
    count: int,
    level: int,
    room: list[int],
    shortcut: Shortcut | None,
    known: Container[str] | None,
) -> tuple[object, int]:
    if 2 * count > len(data) - pos:
        _truncated(pos, f"a map of {count} entries")
    _claim(data, count, room)
    if level > MAX_LEVEL and count:
        _too_deep(pos)
    is_small = count <= _FEW
    members: dict[str, object] = {}
    previous = b""
    for done in range(count):
        start = pos
        head = data[pos]
        if 0x60 <= head < 0x78:  # short text: nearly every key of a real manifest
            key, pos = (_word if is_small else _text)(data, pos + 1, head & 0x1F)
        elif head >> 5 == _TEXT:
            length, pos = _head(data, pos)
            key, pos = _text(data, pos, length)
        else:
            return _pairs(data, start, count - done, level, room, members, previous)
        # Keys are compared as they are encoded, head included: shorter ones come first.
        encoded = data[start:pos]
        if encoded <= previous:
            _misplaced_key(start, encoded == previous)
        previous = encoded
        head = data[pos]
        if 0x60 <= head < 0x78:
            is_word = is_small and head < 0x69
            members[key], pos = (_word if is_word else _text)(data, pos + 1, head & 0x1F)
            continue
        if known is not None and key not in known:
            members[key], pos = None, _skip(data, pos, level, [_MOST_STEPS])
        elif shortcut is None:
            members[key], pos = _item(data, pos, level, room)
        elif level == 1:  # the root: the shortcut is for one of its members
            members[key], pos = _item(data, pos, 1, room, shortcut if key == shortcut[0] else None)
        else:
            members[key], pos = shortcut[1](data, pos) or _value(data, pos, level, room, shortcut)
    return members, pos


def _pairs(
    data: bytes,
    pos: int,
    count: int,
    level: int,
    room: list[int],
    members: dict[str, object],
    previous: bytes,
) -> tuple[Pairs, int]:
    """Go on with a map in which a key that is not text was met."""
    items: list[tuple[object, object]] = list(members.items())
    for _ in range(count):
        start = pos
        key, pos = _item(data, pos, level, room)
        encoded = data[start:pos]
        if encoded <= previous:
            _misplaced_key(start, encoded == previous)
        previous = encoded
        value, pos = _item(data, pos, level, room)
        items.append((key, value))
    return Pairs(tuple(items)), pos


_MOST_STEPS: Final = 1 << 18
"""Items outside of runs that are skipped of one member: half a second of work."""
# One byte each, and nothing below them: small integers, empty strings and containers, constants.
_RUN: Final = re.compile(rb"[\x00-\x17\x20-\x37\x40\x60\x80\xa0\xf4-\xf6]*+")
# Integers of two and three bytes, of which an array may be made.
_WIDER: Final = {
    0x18: (re.compile(rb"(?:\x18[\x18-\xff])*+"), 2),
    0x19: (re.compile(rb"(?:\x19(?!\x00)[\x00-\xff]{2})*+"), 3),
}


def _skip(data: bytes, pos: int, level: int, steps: list[int]) -> int:
    """Return where the item at `pos` ends, judged as `_item` does and not built."""
    _claim(data, 1, steps)
    major = data[pos] >> 5
    if level > MAX_LEVEL or major not in (_ARRAY, _MAP) or data[pos] & 0x1F > 27:
        return _item(data, pos, level, [0, 0])[1]  # a scalar, or a fault
    count, pos = _head(data, pos)
    if count * (1 + (major == _MAP)) > len(data) - pos:
        what = f"an array of {count} elements" if major == _ARRAY else f"a map of {count} entries"
        _truncated(pos, what)
    if level + 1 > MAX_LEVEL and count:
        _too_deep(pos)
    if major == _ARRAY:
        return _skip_items(data, pos, count, level + 1, steps)
    previous = b""
    for _ in range(count):
        key = pos
        pos = _skip(data, pos, level + 1, steps)
        encoded = data[key:pos]
        if encoded <= previous:
            _misplaced_key(key, encoded == previous)
        previous = encoded
        pos = _skip(data, pos, level + 1, steps)
    return pos


def _skip_items(data: bytes, pos: int, count: int, level: int, steps: list[int]) -> int:
    """Return where `count` items end: long runs of small ones are one match each."""
    while count:
        pattern, width = _WIDER.get(data[pos], (_RUN, 1))
        found = pattern.match(data, pos)
        run = (found.end() - pos) // width if found else 0
        if run:
            run = min(run, count)
            pos, count = pos + run * width, count - run
            steps[0] -= 1
        else:
            pos, count = _skip(data, pos, level, steps), count - 1
    return pos


def _claim(data: bytes, count: int, room: list[int]) -> None:
    """Take `count` items from the room that is left."""
    room[0] -= count
    if room[0] < 0:
        raise LimitExceeded(
            "the manifest holds more items than one of its length may",
            expected=f"one for {BYTES_PER_ITEM} bytes, beside those that are free",
            found=f"more, in {len(data)} bytes",
        )


def _value(
    data: bytes, pos: int, level: int, room: list[int], shortcut: Shortcut
) -> tuple[object, int]:
    """Decode a value that the shortcut does not know; of those that are not sound, only so many."""
    value, pos = _item(data, pos, level, room)
    room[1] -= not shortcut[2](value)
    if room[1] < 0:
        raise LimitExceeded(f"too many entries of `{shortcut[0]}` mean nothing", found="more")
    return value, pos


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
        octets = bytes(value)  # the length of a view counts items, not bytes
        out += encode_head(_BYTES, len(octets))
        out += octets
    elif isinstance(value, Mapping):
        _encode_map(list(value.items()), out, level + 1)
    elif isinstance(value, Pairs):
        _encode_map(value.items, out, level + 1)
    elif isinstance(value, list | tuple):
        _encode_array(value, out, level + 1)
    else:
        known = "text, bytes, numbers, booleans, None, lists and maps"
        raise Unencodable(f"{type(value).__name__} is none of {known}")


def _encode_array(values: Sequence[object], out: bytearray, level: int) -> None:
    out += encode_head(_ARRAY, len(values))
    for index, value in enumerate(values):
        try:
            _encode(value, out, level)
        except Unencodable as error:
            raise Unencodable(error.detail, (index, *error.where)) from None


def _encode_map(items: Sequence[tuple[object, object]], out: bytearray, level: int) -> None:
    encoded: list[tuple[bytes, object, object]] = []
    for key, value in items:
        text = bytearray()
        _encode_below(key, key, text, level)
        encoded.append((bytes(text), key, value))
    encoded.sort(key=lambda entry: entry[0])
    out += encode_head(_MAP, len(encoded))
    previous = b""
    for text_, key, value in encoded:
        if text_ == previous:
            raise Unencodable("a map holds the same key twice", (_step(key),))
        previous = text_
        out += text_
        _encode_below(key, value, out, level)


def _encode_below(key: object, value: object, out: bytearray, level: int) -> None:
    """Encode `value`, which is the key or the value of an entry of a map."""
    try:
        _encode(value, out, level)
    except Unencodable as error:
        raise Unencodable(error.detail, (_step(key), *error.where)) from None


def _step(key: object) -> str:
    """Write a key for a place in a message."""
    if isinstance(key, str):
        return key
    try:
        return reprlib.repr(key)
    except ValueError:  # the interpreter's limit on the digits of an integer
        return type(key).__name__


_SHORT: Final = tuple(bytes((each,)) for each in range(256))


def encode_head(major: int, argument: int) -> bytes:
    """Encode a head: the major type and its argument in the shortest form."""
    kind = major << 5
    if argument < 24:
        return _SHORT[kind | argument]
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
        raise Unencodable(f"an integer of {value.bit_length()} bits does not fit 64")
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
    # Widths of 2, 4 and 8 bytes have the heads F9, FA and FB.
    return bytes((0xF9 + (width >> 2),)) + struct.pack(_FLOATS[width], value)


Places = dict[int, dict[object, int]]
"""The offsets of the items in large containers, by the offset of the container."""


def locate(data: bytes, where: Sequence[str | int], places: Places | None = None) -> int | None:
    """Return the offset of the item at the path `where` in `data`, which `decode` accepts.

    Text steps enter maps, integer steps arrays. None where the path leads nowhere. Reading keeps no
    offsets, so that it stays fast; an error looks its place up afterwards. With the same `places`
    given each time, no large container is scanned twice, however many places are asked for.
    """
    pos = 0
    for step in where:
        inside = (places or {}).get(pos)
        if inside is None:
            inside, end = _children(data, pos)
            if places is not None and end - pos > _LARGE:
                places[pos] = inside
        found = inside.get(step)
        if found is None:
            return None
        pos = found
    return pos


_LARGE: Final = 1024  # bytes


def _children(data: bytes, pos: int) -> tuple[dict[object, int], int]:
    """Return the offsets of the items in the array, or under the text keys of the map, at `pos`.

    And the end of it; nothing for an item of another kind.
    """
    major = data[pos] >> 5
    inside: dict[object, int] = {}
    if major not in {_ARRAY, _MAP}:
        return inside, pos
    count, pos = _head(data, pos)
    for index in range(count):
        step: object = index
        if major == _MAP:
            step, pos = _item(data, pos, 0, [len(data), 0])
        if major == _ARRAY or isinstance(step, str):
            inside[step] = pos
        pos = _skip(data, pos, 0, [len(data)])
    return inside, pos
