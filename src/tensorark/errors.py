"""The errors of tensorark, sorted by who is at fault. Nothing else may leave the library.

Error:
    ├── Rejected(ValueError)      the file breaks a rule of its format
    ├── Unsupported               the file is valid, but needs something we lack or refuse to guess
    ├── LimitExceeded             one of our caps (`tensorark.core.limits`), not the specification's
    ├── InvalidInput(ValueError)  the caller asked for something impossible
    ├── NotFound(KeyError)        no such tensor, part or resource
    └── ReadFailed(OSError)       short read, missing file or shard, file changed while it was read

Command-line exit codes (`exit_code`): 0 success, equal, valid · 1 the honest no (differs, digest
mismatch) · 2 usage · 3 malformed or truncated input · 4 understood but unsupported or refused ·
5 I/O, missing file or shard · 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import EACCES, ENOENT
from typing import ClassVar, Final, Self, cast

__all__ = [
    "Error",
    "Hint",
    "InvalidInput",
    "LimitExceeded",
    "NotFound",
    "ReadFailed",
    "Rejected",
    "Unsupported",
]

Where = Sequence[str | int]

_FIELDS: Final = ("code", "path", "where", "offset", "expected", "found", "hint", "section")


class Hint(str):
    """What may help, in the words of the library; `tark` has it in those of the command line.

    A plain string is a hint that names neither arguments nor options, and reads the same in both.
    """

    __slots__ = ("tark",)
    tark: str

    def __new__(cls, text: str, tark: str = "") -> Self:
        """Return `text`, whose `tark` is itself unless another is given."""
        made = super().__new__(cls, text)
        made.tark = tark or text
        return made


OVERWRITE: Final = Hint("overwrite=True replaces it", tark="--force replaces it")
RAW: Final = Hint("raw() gives the bytes of a part", tark="`tark cat --as raw` gives the bytes")


class Error(Exception):
    """Base of every exception that leaves the library; all of them pickle with their fields.

    `code` is stable: a rule id such as ``zt.blob-align``, or one of the words documented in
    ``docs/reference/errors.md``. `where` is the place inside the catalog, outermost first, `offset`
    a byte offset in the file at `path`.
    """

    default_code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        path: str | None = None,
        where: Where = (),
        offset: int | None = None,
        expected: object = None,
        found: object = None,
        hint: str | Callable[[], str | None] | None = None,
        section: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.default_code
        self.path = path
        self.where: tuple[str | int, ...] = tuple(where)
        self.offset = offset
        self.expected = expected
        self.found = found
        self._hint = hint
        self.section = section

    @property
    def hint(self) -> str | None:
        """What may help.

        What takes time is looked for when it is first asked for: many errors are caught unseen.
        """
        if callable(self._hint):
            self._hint = self._hint()
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by rebuilding from `detail` and restoring the fields."""
        return (type(self), (self.detail,), {name: getattr(self, name) for name in _FIELDS})

    def __setstate__(self, state: dict[str, object] | None) -> None:
        """Restore the fields that `__reduce__` saved."""
        for name, value in (state or {}).items():
            setattr(self, name, value)

    def __str__(self) -> str:
        """Say what is wrong, and what may help: one line, escaped."""
        return f"{self.message} (hint: {printable(self.hint)})" if self.hint else self.message

    @property
    def message(self) -> str:
        """What is wrong, then rule, section, place and byte offset: one line, escaped, no hint."""
        text = self.detail
        facts = [self.code + (f" §{self.section}" if self.section else "")]
        if self.where:
            facts.append("at " + place(self.where))
        if self.offset is not None:
            facts.append(f"byte {self.offset}")
        if self.path is not None:
            facts.append(f"in {_cut(self.path)}")
        return printable(f"{text}{disagreement(self.expected, self.found)} [{', '.join(facts)}]")

    def located(self, path: str) -> Error:
        """Return self, with `path` filled in when it was not known before."""
        if self.path is None:
            self.path = path
        return self


class Rejected(Error, ValueError):
    """The file breaks a MUST of its format; `code` is the rule's id, `section` its section."""

    default_code = "malformed"
    exit_code = 3


class Unsupported(Error):
    """The file is understood, but interpreting it needs an id or a capability that we lack."""

    default_code = "unsupported"
    exit_code = 4


class LimitExceeded(Error):
    """A cap of ours was reached; `expected` is the cap, `found` what the file asks for."""

    default_code = "limit"
    exit_code = 4


class InvalidInput(Error, ValueError):
    """The caller asked for something that cannot be done."""

    default_code = "invalid-input"
    exit_code = 2


class NotFound(Error, KeyError):
    """No tensor, part or resource of that name."""

    default_code = "not-found"
    exit_code = 2


class ReadFailed(Error, OSError):
    """Bytes could not be read: missing file or shard, short read, file changed under us.

    It is a `FileNotFoundError` where something is missing and a `PermissionError` where the system
    forbids it. `filename` is `path`; `errno` is that of the system, None where it did not say any.
    """

    default_code = "read-failed"
    exit_code = 5

    def __new__(cls, detail: str, *, code: str | None = None, **_facts: object) -> Self:
        """Return what is missing, or forbidden, as what Python calls that."""
        kind: type[ReadFailed] = cls
        if cls is ReadFailed and code is not None:
            kind = FileMissing if code.startswith("missing-") else _KINDS.get(code, cls)
        return cast("Self", super().__new__(kind, detail))

    @property
    def filename(self) -> str | None:
        """The path, as `OSError` has it."""
        return self.path

    @property
    def errno(self) -> int | None:  # type: ignore[override]
        """The number of the system's error."""
        return getattr(self.__cause__, "errno", None)


class FileMissing(ReadFailed, FileNotFoundError):
    """A file, shard, folder or resource is not there."""

    errno = ENOENT


class FileForbidden(ReadFailed, PermissionError):
    """The system does not let us read, or write."""

    errno = EACCES


_KINDS: Final[dict[str, type[ReadFailed]]] = {"forbidden": FileForbidden}


_LONGEST_STEP: Final = 120


def unstorable(error: Error) -> InvalidInput:
    """Return the fault of a caller whose file a reader would refuse with `error`."""
    return InvalidInput(
        f"this cannot be stored: {error.detail}",
        code=error.code,
        section=error.section,
        where=error.where,
        expected=error.expected,
        found=error.found,
    )


def place(where: Where) -> str:
    """Write a place inside a catalog as one readable path, such as ``objects["a.b"].parts``."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() and len(step) <= _LONGEST_STEP:
            text += f".{step}" if text else step
        else:
            text += "[" + quoted(step) + "]"
    return text


def quoted(text: str, limit: int = 120) -> str:
    """Quote `text` for a person: control, bidi and undecodable characters escaped, cut at `limit`.

    Names come from hostile files and messages reach terminals.
    """
    body = escaped(text if len(text) <= limit else text[:limit] + "…")
    return '"' + body.replace('"', '\\"') + '"'


def disagreement(expected: object, found: object) -> str:
    """Write what was expected and what was found, as far as they are known, after a colon."""
    sides = (("expected", expected), ("found", found))
    known = [f"{word} {_cut(value)}" for word, value in sides if value is not None]
    return ": " + ", ".join(known) if known else ""


def _cut(value: object, limit: int = 1000) -> str:
    """Write one side of a disagreement, which may be a text of a hostile file, of any length."""
    text = str(value)
    return text if len(text) <= limit else text[:limit] + "…"


def printable(text: str) -> str:
    """Escape what could steer a terminal in a message whose names are quoted already."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def escaped(text: str) -> str:
    """Escape every character of `text` that could steer a terminal or hide in it."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(
        c if (c.isprintable() and c != "\\") else c.encode("unicode_escape").decode("ascii")
        for c in text
    )
