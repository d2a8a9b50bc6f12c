"""Strict JSON (RFC 8259) over the standard library's scanner, so that large headers parse in C.

Owns what that scanner lets pass: repeated members, NaN, numbers beyond a double, lone surrogates,
byte order marks, unbounded depth. Whatever costs time, such as finding the place of a fault, runs
only after a document was refused. Never knows what a document means.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, NoReturn, cast

from tensorark.core.limits import DEFAULT
from tensorark.errors import LimitExceeded, quoted
from tensorark.wire.gc_pause import pause_gc
from tensorark.wire.json_places import (
    CONSTANTS,
    NUMBERS,
    STRING,
    after_space,
    bytes_before,
    first,
    repetition,
)

Slug = Literal[
    "bom", "utf8", "surrogate", "depth", "syntax", "trailing", "duplicate", "constant", "number"
]

DEPTH: Final = 64
"""Containers that may be open at once, unless the format says otherwise."""


class Malformed(Exception):
    """The text is not strict JSON; `slug` says why and `offset` is the byte where it shows.

    `where` names the members on the way to the fault, outermost first.
    """

    def __init__(
        self,
        slug: Slug,
        offset: int,
        detail: str,
        *,
        where: Sequence[str] = (),
        expected: str,
        found: str,
    ) -> None:
        super().__init__(slug, offset, detail)
        self.slug = slug
        self.offset = offset
        self.detail = detail
        self.where = tuple(where)
        self.expected = expected
        self.found = found


class Real(str):
    """A number with a fraction or an exponent, in its original spelling."""

    __slots__ = ()


def parse(
    data: bytes | memoryview,
    *,
    depth: int = DEPTH,
    float_text: bool = False,
    free: int = DEFAULT.free_values,
    sound: Sound | None = None,
) -> object:
    """Parse one JSON text of at most `free` values, and one more for six bytes.

    Integers are exact `int`; ``1.0``, ``1e3`` and ``-0`` are `float`, or `Real` with `float_text`.
    Of the members of the outermost map at most `free` are not `sound`, where it has very many.

    Raises:
        Malformed: for anything but one strict JSON text.
        LimitExceeded: when it holds more values than a text of its length may.
    """
    raw = _whole(data)
    if raw.startswith(b"\xef\xbb\xbf"):
        raise Malformed(
            "bom", 0, "the text begins with a byte order mark", expected="JSON", found="EF BB BF"
        )
    _refuse_surrogate(raw)
    _refuse_depth(raw, depth)
    _refuse_crowd(raw, free)
    _refuse_bulk(raw, free)
    text = _decode(raw)
    colons = raw.count(b":")
    is_flat = colons > free + _MEMBERS_PER_MAP * raw.count(b"{")
    count = _Count()
    decoder = json.JSONDecoder(
        object_hook=count.hook,
        parse_constant=_constant,
        parse_float=Real if float_text else _finite,
        # The scanner reads -0 as the integer 0; a call per number is only paid where it may occur.
        parse_int=(_integer_text if float_text else _integer) if _has_minus_zero(raw) else None,
    )
    del raw
    decode: _Decode = decoder.raw_decode
    if sound is not None and is_flat:
        decode = partial(_walk, decoder=decoder, count=count, sound=sound, others=free)
    with pause_gc():
        value = _scan(text, decode)
    # Every member has a colon: as many as there are, or as stand outside of strings.
    if count.members != colons and count.members != _members(text):
        raise _refused(text, "duplicate")
    return value


Sound = Callable[[str, object], bool]
"""Says whether the outermost map may have such a member, by name and value: if not, it is one of
few, which a rule refuses or the reader ignores."""

_Decode = Callable[[str, int], tuple[object, int]]

_MEMBERS_PER_MAP: Final = 8
"""Where there are more members for each map, most of them lie in maps that are large."""


def _whole(data: bytes | memoryview) -> bytes:
    """Return `data` as bytes, without a copy where they are bytes that are viewed whole."""
    if isinstance(data, memoryview) and isinstance(data.obj, bytes):
        return data.obj if len(data.obj) == data.nbytes else bytes(data)
    return bytes(data)


# ------------------------------------------------------------------------------- before the scanner


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02X}"
        raise Malformed(
            "utf8", error.start, "the text is not UTF-8", expected="UTF-8", found=found
        ) from None


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# Every escape is consumed from the left: an escaped backslash cannot pose as the start of one.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _refuse_surrogate(raw: bytes) -> None:
    """Refuse half of a surrogate pair: it has no UTF-8, so it could never be written back."""
    if _SURROGATE.search(raw) is None:
        return
    for match in _ESCAPE.finditer(raw):
        if match[1] is not None:
            found = "\\" + match[1].decode("ascii")
            detail = "a string holds half of a surrogate pair"
            raise Malformed("surrogate", match.start(), detail, expected="a character", found=found)


_STRINGS: Final = re.compile(STRING.encode(), re.DOTALL)
_BRACKETS: Final = re.compile(STRING.encode() + rb"|[\[{]|[\]}]", re.DOTALL)
_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_BUT_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"\\'))


def _refuse_depth(raw: bytes, limit: int) -> None:
    """Refuse more than `limit` open containers, before the scanner recurses into them.

    Nearly every text is cleared by a few passes in C: what is left of it without strings and
    scalars is taken apart from the innermost brackets outwards, two levels a round.
    """
    marks = raw.translate(None, _BUT_MARKS).replace(b'""', b"")
    if b'"' in marks or b"\\" in marks:  # a string holds a bracket, a quote or a backslash
        marks = _STRINGS.sub(b"", raw).translate(None, _BUT_BRACKETS)
    for _ in range(min(limit // 2, 4)):
        marks = marks.replace(b"[]", b"").replace(b"{}", b"")
        if not marks:
            return
    depth = 0
    for match in _BRACKETS.finditer(raw):
        mark = raw[match.start()]
        if mark in b"[{":
            depth += 1
        elif mark in b"]}":
            depth -= 1
        if depth > limit:
            raise Malformed(
                "depth",
                match.start(),
                "containers are nested too deeply",
                expected=f"at most {limit}",
                found="more",
            )


BYTES_PER_VALUE: Final = 6
"""A text may hold one value for so many bytes beyond those that are free (`limits`)."""


def _refuse_crowd(raw: bytes, free: int) -> None:
    """Refuse a text of hardly anything but values, before each becomes an object."""
    most = free + len(raw) // BYTES_PER_VALUE
    if _values(raw) > most and (found := sum(map(_values, _outside_strings(raw)))) > most:
        raise LimitExceeded(
            "the JSON text holds more values than one of its length may", expected=most, found=found
        )


_BYTES_PER_BYTE: Final = 16
"""What a text may turn into for each byte of it: a tensor of a header, with a short name, does."""
_BYTES_PER_FREE_VALUE: Final = 512


def _refuse_bulk(raw: bytes, free: int) -> None:
    """Refuse a text of hardly anything but small containers and strings, which are far larger."""
    most = max(free * _BYTES_PER_FREE_VALUE, len(raw) * _BYTES_PER_BYTE)
    if _bulk(raw) > most and (found := sum(map(_bulk, _outside_strings(raw)))) > most:
        raise LimitExceeded(
            "the JSON text takes more memory than one of its length may", expected=most, found=found
        )


def _bulk(raw: bytes) -> int:
    """Return about the bytes that the values of a text take, by the marks in it."""
    maps, lists, members = raw.count(b"{"), raw.count(b"["), raw.count(b":")
    return 200 * maps + 72 * lists + 40 * members + 16 * raw.count(b",") + 27 * raw.count(b'"')


def _members(text: str) -> int:
    """Count the members of all maps of a text, which is JSON: the colons outside of strings."""
    return sum(plain.count(b":") for plain in _outside_strings(text.encode()))


def _values(raw: bytes) -> int:
    """Count commas and opening brackets: about as many values."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


_PIECE: Final = 1 << 17


def _outside_strings(raw: bytes) -> Iterator[bytes]:
    """Yield a text with all strings empty, a piece at a time."""
    # In this order: of a row of backslashes the last may escape a quote, the pairs before it not.
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    is_inside = False
    for start in range(0, len(plain), _PIECE):
        pieces = plain[start : start + _PIECE].split(b'"')
        yield b'""'.join(pieces[is_inside::2])
        # An odd number of quotes: the next piece begins on their other side.
        is_inside ^= len(pieces) % 2 == 0


# -------------------------------------------------------------------------------------- the scanner


class _Refused(Exception):
    """A hook of the scanner refuses a value: it knows what, but not where."""


class _Count:
    """Counts the members of the maps that the scanner builds: where one is repeated, too few."""

    __slots__ = ("members",)

    def __init__(self) -> None:
        self.members = 0

    def hook(self, members: dict[str, Any]) -> dict[str, Any]:
        self.members += len(members)
        return members


def _constant(text: str) -> NoReturn:
    raise _Refused("constant", text)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Refused("number")
    return value


def _has_minus_zero(raw: bytes) -> bool:
    """Tell whether the integer -0 may occur; the exponent of 1e-06, say, is none.

    A text with many other places of that kind is not searched to its end.
    """
    at = raw.find(b"-0")
    for _ in range(64):
        if at < 0:
            return False
        if raw[at - 1 : at] not in {b"e", b"E"} and raw[at + 2 : at + 3] not in _NUMBER_GOES_ON:
            return True
        at = raw.find(b"-0", at + 2)
    return at >= 0


_NUMBER_GOES_ON: Final = frozenset(bytes([each]) for each in b"0123456789.eE")


def _integer(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def _integer_text(text: str) -> int | Real:
    return Real(text) if text == "-0" else int(text)


def _walk(
    text: str, at: int, *, decoder: json.JSONDecoder, count: _Count, sound: Sound, others: int
) -> tuple[object, int]:
    """Decode a text, the members of its outermost map one by one, up to `others` not `sound`."""
    if text[at : at + 1] != "{":
        return decoder.raw_decode(text, at)
    members: dict[str, object] = {}
    limit = others
    at = after_space(text, at + 1)
    if text[at : at + 1] == "}":
        return members, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting property name in double quotes", text, at)
        name, at = decoder.raw_decode(text, at)
        at = after_space(text, at)
        if text[at : at + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
        value, at = decoder.raw_decode(text, after_space(text, at + 1))
        count.members += name not in members
        members[name] = value
        others -= not sound(name, value)
        if others < 0:
            raise LimitExceeded(
                "the JSON text has too many members that mean nothing",
                expected=limit,
                found="more",
            )
        at = after_space(text, at)
        if text[at : at + 1] == "}":
            return members, at + 1
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = after_space(text, at + 1)


def _scan(text: str, decode: _Decode) -> object:
    value: object
    try:
        value, end = decode(text, after_space(text, 0))
    except json.JSONDecodeError as error:
        raise _syntax(text, error) from None
    except RecursionError:
        # The depth is bounded already: the caller stood near the interpreter's own limit.
        raise Malformed(
            "depth", 0, "no stack left", expected="a shallower call", found="a deep one"
        ) from None
    except _Refused as refusal:
        raise _refused(text, refusal.args[0]) from None
    except ValueError:  # the interpreter's limit on the digits of an integer
        raise _refused(text, "integer") from None
    end = after_space(text, end)
    if end != len(text):
        extra = f"{len(text) - end} more characters"
        raise Malformed(
            "trailing", bytes_before(text, end), "text follows", expected="the end", found=extra
        )
    return value


def _syntax(text: str, error: json.JSONDecodeError) -> Malformed:
    word = "Expecting "
    expected = error.msg.removeprefix(word) if error.msg.startswith(word) else "JSON"
    detail = (
        "not JSON" if expected != "JSON" else f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
    )
    found = quoted(text[error.pos : error.pos + 1]) if error.pos < len(text) else "the end"
    offset = bytes_before(text, min(error.pos, len(text)))
    return Malformed("syntax", offset, detail, expected=expected, found=found)


def _refused(text: str, slug: str) -> Malformed:
    """Say where the value stands that a hook, or the interpreter, refused."""
    if slug == "duplicate":
        position, where = repetition(text)
        detail = f"duplicate key {quoted(where[-1])}"
        expected, found = "one member of a name", "another"
    elif slug == "constant":
        position, found = first(text, CONSTANTS, lambda _token: True)
        where, detail, expected = (), "not a JSON number", "JSON"
    else:
        position, found = first(text, NUMBERS, _too_long if slug == "integer" else _infinite)
        where, detail = (), "a number is out of range"
        expected = "at most 4300 digits" if slug == "integer" else "a finite double"
        if len(found) > 40:
            found = f"{len(found)} characters"
    return Malformed(
        "number" if slug == "integer" else cast("Slug", slug),
        bytes_before(text, position),
        detail,
        where=where,
        expected=expected,
        found=found,
    )


def _infinite(token: str) -> bool:
    return not token.lstrip("-").isdecimal() and math.isinf(float(token))


def _too_long(token: str) -> bool:
    try:
        int(token)
    except ValueError:
        return token.lstrip("-").isdecimal()
    return False
