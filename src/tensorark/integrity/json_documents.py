"""Small JSON documents of our own, such as seals and signatures: one strict reader, one spelling.

Owns the check that every member is there, of its kind and known, and the bytes that a
document is written as. Must never turn a name that it reads into a path.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tensorark.errors import Rejected, quoted
from tensorark.io.open_file import read_bytes
from tensorark.wire.json import Malformed, parse

_COUNT: Final = 1 << 63


class Fields:
    """The members of one object, taken one by one; `end` refuses what nobody took."""

    __slots__ = ("_left", "path", "where")

    def __init__(self, value: object, path: str, where: tuple[str | int, ...] = ()) -> None:
        self.path = path
        self.where = where
        if not isinstance(value, dict):
            raise self.wrong("this is no object")
        self._left: dict[str, Any] = dict(value)

    def wrong(self, detail: str, name: str | None = None) -> Rejected:
        """Return the error that says what is wrong, and where."""
        where = self.where if name is None else (*self.where, name)
        return Rejected(detail, code="document", path=self.path, where=where)

    def has(self, name: str) -> bool:
        """Tell whether there is a member `name` that was not taken."""
        return name in self._left

    def take(self, name: str) -> Any:
        """Return the member `name`, whatever it is."""
        try:
            return self._left.pop(name)
        except KeyError:
            raise self.wrong("a member is missing", name) from None

    def text(self, name: str, pattern: str = r"(?s).*") -> str:
        """Return the string `name`, all of which matches `pattern`."""
        value = self.take(name)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise self.wrong("a member is not what it has to be", name)
        return value

    def count(self, name: str) -> int:
        """Return the integer `name`, at least 0 and below 2**63."""
        value = self.take(name)
        if type(value) is not int or not 0 <= value < _COUNT:
            raise self.wrong("a member is no count", name)
        return value

    def counts(self, name: str) -> tuple[int, ...]:
        """Return the list of counts `name`."""
        value = self._list(name)
        if any(type(each) is not int or not 0 <= each < _COUNT for each in value):
            raise self.wrong("a member is no list of counts", name)
        return tuple(value)

    def texts(self, name: str, pattern: str = r"(?s).*") -> tuple[str, ...]:
        """Return the list of strings `name`, each of which matches `pattern`."""
        value = self._list(name)
        if any(not isinstance(each, str) or not re.fullmatch(pattern, each) for each in value):
            raise self.wrong("a member is no list of what it has to be", name)
        return tuple(value)

    def object(self, name: str) -> Fields:
        """Return the object `name`."""
        return Fields(self.take(name), self.path, (*self.where, name))

    def objects(self, name: str) -> list[Fields]:
        """Return the list of objects `name`."""
        value = self._list(name)
        return [Fields(each, self.path, (*self.where, name, at)) for at, each in enumerate(value)]

    def end(self) -> None:
        """Refuse members that nobody took."""
        for name in self._left:
            raise self.wrong("there is no such member", name)

    def _list(self, name: str) -> list[Any]:
        value = self.take(name)
        if not isinstance(value, list):
            raise self.wrong("a member is no list", name)
        return value


def read_object(data: bytes, path: str) -> Fields:
    """Read one strict JSON object.

    Raises:
        Rejected: when `data` is anything else.
    """
    try:
        value = parse(data, depth=16)
    except Malformed as error:
        raise Rejected(
            error.detail,
            code="document",
            path=path,
            where=error.where,
            offset=error.offset,
            expected=error.expected,
            found=error.found,
        ) from None
    return Fields(value, path)


def read_document(path: str | os.PathLike[str], schema: str) -> Fields:
    """Read the document at `path`, which must be of `schema`.

    Raises:
        Rejected: when it is something else.
        LimitExceeded: when it is larger than such a document can be.
        ReadFailed: when it cannot be read.
    """
    fields = read_object(read_bytes(path), os.fspath(path))
    require_schema(fields, schema)
    return fields


def require_schema(fields: Fields, schema: str) -> None:
    """Take the member `schema` and refuse any but the one that is read."""
    found = fields.text("schema")
    if found != schema:
        raise fields.wrong(f"the document is no {schema} but {quoted(found)}", "schema")


def render_compact(value: object) -> bytes:
    """Return `value` in one spelling: ASCII, members sorted, no space."""
    text = json.dumps(
        value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode("ascii")


def render(value: Mapping[str, Any]) -> bytes:
    """Return a document as it is written: ASCII, in the order given, a line for each entry."""
    return (_text(value, 0) + "\n").encode("ascii")


def _text(value: object, depth: int) -> str:
    indent, outdent = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(value, Mapping) and value and depth < _UNFOLDED:
        members = [f"{json.dumps(key)}: {_text(each, depth + 1)}" for key, each in value.items()]
        return "{" + indent + ("," + indent).join(members) + outdent + "}"
    if isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
        return "[" + indent + ("," + indent).join(map(_line, value)) + outdent + "]"
    return _line(value)


_UNFOLDED: Final = 2


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
