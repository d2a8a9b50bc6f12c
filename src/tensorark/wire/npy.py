"""The header of a `.npy` array: a magic, a version, and a Python literal of three members.

Owns its syntax. The literal is parsed by a grammar of its own, never evaluated; what is written is
what numpy writes. Knows no type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

MAGIC: Final = b"\x93NUMPY"
PREAMBLE: Final = 12
"""Bytes that tell how long the header is, at most; the first version needs ten."""
LONGEST: Final = 1 << 20
"""Bytes of a header that are read; numpy itself stops at 10000 characters."""

_DEPTH: Final = 16
_SPACE: Final = re.compile(r"[ \t\n\r\f]*+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}(?![0-9])L?")
_WORD: Final = re.compile(r"True|False|None")
_TEXT: Final = re.compile(r"'([^'\\\n]*+)'|\"([^\"\\\n]*+)\"")
# What numpy writes, which the grammar below reads to the same, only slower.
_USUAL: Final = re.compile(
    r"\{'descr': *+'([^'\\\n]*+)', *+'fortran_order': *+(True|False), *+"
    r"'shape': *+\(((?:(?:[0-9]{1,19}, *+)++(?:[0-9]{1,19})?+)?+)\),? *+\} *+\n?"
)
_WORDS: Final = {"True": True, "False": False, "None": None}
_MEMBERS: Final = ("descr", "fortran_order", "shape")


class HeaderFault(Exception):
    """The bytes are no header of an array; `offset` is the byte where it shows."""

    def __init__(self, detail: str, offset: int, expected: object, found: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.offset = offset
        self.expected = expected
        self.found = found


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says: `descr` is text, or a list for records; `length` counts its bytes.

    `is_usual` says that it is spelled about as numpy spells it, and was cheap to read.
    """

    descr: object
    fortran_order: bool
    shape: tuple[int, ...]
    length: int
    is_usual: bool = field(default=False, compare=False)


def length_of(preamble: bytes | memoryview) -> int:
    """Return the length of a whole header, in bytes, from its first `PREAMBLE` bytes.

    Raises:
        HeaderFault: when they begin none.
    """
    head = bytes(preamble[:PREAMBLE])
    if head[:6] != MAGIC:
        raise HeaderFault("this is no .npy array", 0, MAGIC.hex(" "), head[:6].hex(" "))
    if head[6:8] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise HeaderFault("the version is unknown", 6, "1.0, 2.0 or 3.0", head[6:8].hex(" "))
    width = 2 if head[6] == 1 else 4
    if len(head) < 8 + width:
        raise HeaderFault("the header is cut short", 8, 8 + width, len(head))
    length = 8 + width + int.from_bytes(head[8 : 8 + width], "little")
    if length > LONGEST:
        raise HeaderFault("the header is too long", 8, f"at most {LONGEST} bytes", length)
    return length


def parse_header(data: bytes | memoryview) -> Header:
    """Read a whole header.

    Raises:
        HeaderFault: when it is malformed, or says anything but the three members.
    """
    raw = bytes(data)
    length = length_of(raw)
    if len(raw) < length:
        raise HeaderFault("the header is cut short", len(raw), length, len(raw))
    begin = 10 if raw[6] == 1 else 12
    try:
        text = raw[begin:length].decode("utf-8" if raw[6] == 3 else "latin-1")
    except UnicodeDecodeError as error:
        raise HeaderFault("the header is no UTF-8", begin + error.start, "UTF-8", "bytes") from None
    usual = _USUAL.fullmatch(text)
    if usual is not None:
        sizes = tuple(int(each) for each in usual[3].split(",") if each.strip())
        if all(size < 1 << 63 for size in sizes):
            return Header(usual[1], usual[2] == "True", sizes, length, is_usual=True)
    value = _Literal(text, begin).whole()
    if not isinstance(value, dict) or sorted(value) != list(_MEMBERS):
        raise HeaderFault("the header has other members", begin, " ".join(_MEMBERS), "others")
    order, shape = value["fortran_order"], value["shape"]
    if not isinstance(order, bool):
        raise HeaderFault("fortran_order is no boolean", begin, "True or False", _kind(order))
    if not isinstance(shape, tuple) or not all(type(n) is int and 0 <= n < 1 << 63 for n in shape):
        raise HeaderFault("the shape is no tuple of sizes", begin, "a tuple", _kind(shape))
    return Header(value["descr"], order, shape, length)


def header_bytes(descr: str, shape: Sequence[int]) -> bytes:
    """Return the header of a row-major array, as numpy writes it: a multiple of 64 bytes."""
    sizes = (
        "".join(f"{n}, " for n in shape).rstrip() if len(shape) == 1 else ", ".join(map(str, shape))
    )
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}"
    # With newline, preamble and up to 64 of padding: the length has two bytes in version 1.
    version, width = (1, 2) if len(text) + 1 + 10 + 64 < 1 << 16 else (2, 4)
    begin = len(MAGIC) + 2 + width
    text += " " * (-(begin + len(text) + 1) % 64) + "\n"
    return MAGIC + bytes((version, 0)) + len(text).to_bytes(width, "little") + text.encode("ascii")


def _kind(value: object) -> str:
    return type(value).__name__


class _Literal:
    """A recursive parser of the few literals that headers are made of."""

    __slots__ = ("_at", "_begin", "_text")

    def __init__(self, text: str, begin: int) -> None:
        self._text = text
        self._begin = begin
        self._at = 0

    def whole(self) -> object:
        """Parse the whole text."""
        value = self._value(0)
        if self._next():
            self._fail("the end")
        return value

    def _next(self) -> str:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> object:
        sign = self._next()
        if depth > _DEPTH:
            self._fail(f"at most {_DEPTH} levels")
        if sign == "{":
            return self._map(depth)
        if sign in ("(", "["):
            return self._items(")" if sign == "(" else "]", depth)
        if sign in ("'", '"'):
            found = _TEXT.match(self._text, self._at)
            if found is None:
                self._fail("text without escapes")
            self._at = found.end()
            return found[1] if found[1] is not None else found[2]
        found = _WORD.match(self._text, self._at) or _NUMBER.match(self._text, self._at)
        if found is None:
            self._fail("a literal")
        self._at = found.end()
        return _WORDS[found[0]] if found[0] in _WORDS else int(found[0].rstrip("L"))

    def _map(self, depth: int) -> dict[str, object]:
        members: dict[str, object] = {}
        self._at += 1
        while self._next() != "}":
            key = self._value(depth + 1)
            if not isinstance(key, str) or key in members or self._next() != ":":
                self._fail("a new member")
            self._at += 1
            members[key] = self._value(depth + 1)
            self._comma("}")
        self._at += 1
        return members

    def _items(self, end: str, depth: int) -> object:
        items: list[object] = []
        self._at += 1
        trailing = True
        while self._next() != end:
            items.append(self._value(depth + 1))
            trailing = self._comma(end)
        self._at += 1
        if end == "]":
            return items
        # As in Python, (3) is a number and (3,) a tuple.
        return items[0] if len(items) == 1 and not trailing else tuple(items)

    def _comma(self, end: str) -> bool:
        sign = self._next()
        if sign == ",":
            self._at += 1
            return True
        if sign != end:
            self._fail(f"a comma or {end}")
        return False

    def _fail(self, expected: str) -> NoReturn:
        found = self._text[self._at : self._at + 1] or "the end"
        raise HeaderFault(
            "the header is malformed", self._begin + self._at, expected, found
        ) from None
