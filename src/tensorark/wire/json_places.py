"""Finds places in JSON text: of what a scanner refused, and of members in a text it accepted.

Everything here is slow beside parsing and runs only when a fault is to be reported. Positions are
characters of the decoded text; what is reported are bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

# The closing quote is optional: else each quote in an unfinished string would scan to the end.
STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
NUMBERS: Final = re.compile(STRING + r"|(-?[0-9][0-9.eE+-]*+)", re.DOTALL)
CONSTANTS: Final = re.compile(STRING + r"|(NaN|-?Infinity)", re.DOTALL)
_KEYS: Final = re.compile(rf"({STRING})[ \t\n\r]*+:|{STRING}|[\[{{]|[\]}}]", re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_CHUNK: Final = 1 << 16


def after_space(text: str, position: int) -> int:
    """Return the first position from `position` on that is not white space."""
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def bytes_before(text: str, position: int) -> int:
    """Return the byte offset in UTF-8 of the character at `position`."""
    return position if text.isascii() else len(text[:position].encode("utf-8"))


def first(text: str, pattern: re.Pattern[str], test: Callable[[str], bool]) -> tuple[int, str]:
    """Return place and text of the first token outside strings that passes `test`."""
    for match in pattern.finditer(text):
        if match[1] is not None and test(match[1]):
            return match.start(), match[1]
    raise AssertionError("the scanner met such a token")


def repetition(text: str) -> tuple[int, tuple[str, ...]]:
    """Return the place of the first member whose name its map has already, and the names to it."""
    seen: list[set[str] | None] = []
    path: list[str | None] = []
    for match in _KEYS.finditer(text):
        names = seen[-1] if seen else None
        if match[1] is not None and names is not None:
            key = str(json.loads(match[1]))
            path[-1] = key
            if key in names:
                return match.start(), tuple(step for step in path if step is not None)
            names.add(key)
        elif match[0] in "[{":
            seen.append(set() if match[0] == "{" else None)
            path.append(None)
        elif match[0] in "]}":
            seen.pop()
            path.pop()
    raise AssertionError("the scanner met a repeated member")


_Place = tuple[int, int]
_Children = tuple[dict[str | int, _Place], Iterator[tuple[str | int, _Place]]]
"""The children of a container that were met so far, and those that were not."""


class Places:
    """Byte offsets inside a text that was accepted and lies at byte `start` of its file.

    Costs nothing until it is asked; then each container on the way is scanned at most once.
    """

    def __init__(self, data: bytes | memoryview, start: int = 0) -> None:
        self._data = data
        self._start = start
        self._decode = json.JSONDecoder().raw_decode
        self._children: dict[int, _Children] = {}

    def offset(self, where: Sequence[str | int]) -> int:
        """Return the file offset of the member or element `where`, or of its nearest ancestor."""
        mark = value = after_space(self._text, 0)
        for step in where:
            if value not in self._children:
                self._children[value] = ({}, self._scan(value))
            known, rest_of = self._children[value]
            while step not in known and (child := next(rest_of, None)) is not None:
                known[child[0]] = child[1]
            if step not in known:
                break
            mark, value = known[step]
        chunk, rest = divmod(mark, _CHUNK)
        head = self._text[mark - rest : mark]
        return self._start + self._sums[chunk] + len(head.encode("utf-8"))

    @cached_property
    def _text(self) -> str:
        return str(self._data, "utf-8")

    @cached_property
    def _sums(self) -> list[int]:
        """Bytes before each chunk of characters, so that no place costs a pass over the text."""
        starts = range(0, len(self._text), _CHUNK)
        sizes = (len(self._text[start : start + _CHUNK].encode("utf-8")) for start in starts)
        return [0, *accumulate(sizes)]

    def _scan(self, position: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
        """Yield each child of the container at `position`: its key, its mark and its value."""
        text, step = self._text, 0
        kind = text[position]
        if kind not in "[{":
            return
        position = after_space(text, position + 1)
        while text[position] not in "]}":
            key: str | int
            key, mark, step = step, position, step + 1
            if kind == "{":
                key, position = self._decode(text, position)
                position = after_space(text, after_space(text, position) + 1)
            yield key, (mark, position)
            _, position = self._decode(text, position)
            position = after_space(text, position)
            if text[position] == ",":
                position = after_space(text, position + 1)
