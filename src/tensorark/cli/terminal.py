"""Standard output and standard error as a verb sees them: lines, tables, documents, progress.

Owns color and width. Data goes to standard output, everything else to standard error. Whoever
prints a name from a file escapes it first (`tensorark.errors.escaped`).
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TextIO

from tensorark.cli.error_output import say
from tensorark.cli.options import settings
from tensorark.cli.output import output
from tensorark.cli.progress import Bar
from tensorark.core.progress import Progress
from tensorark.report.plain import document

_STYLES: Final[Mapping[str, str]] = MappingProxyType(
    {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
)


class Terminal(NamedTuple):
    """Where a verb writes; made by `terminal`."""

    json: bool
    quiet: bool
    verbose: int
    color: bool
    progress_shown: bool

    def line(self, text: str = "") -> None:
        """Write one line of data, with its names escaped already."""
        if sys.stdout is not None:
            with output():
                sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """Write one line to standard error, escaped; nothing when quiet, or nothing to say."""
        if text and not self.quiet:
            say(text)

    def document(self, name: str, value: Mapping[str, Any]) -> None:
        """Write the one JSON document of a verb."""
        self.line(document(name, value, indent=2 if is_terminal(sys.stdout) else None))

    def paint(self, text: str, style: str) -> str:
        """Return `text` in a style, where color is shown."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and text else text

    def table(
        self,
        rows: Sequence[Sequence[str]],
        *,
        head: Sequence[str] = (),
        right: Collection[int] = (),
        indent: int = 0,
    ) -> None:
        """Write aligned columns; those in `right` are flush right, the last one is not padded.

        Without rows nothing is written.
        """
        if not rows:
            return
        every = [head, *rows] if head else rows
        columns = list(zip(*every, strict=True))
        aligned = [
            _align(column, right=at in right, last=at == len(columns) - 1)
            for at, column in enumerate(columns)
        ]
        for number, cells in enumerate(zip(*aligned, strict=True)):
            text = "  ".join(cells).rstrip()
            styled = self.paint(text, "bold") if head and number == 0 else text
            self.line(" " * indent + styled)

    def facts(self, lines: Iterable[tuple[str, str]]) -> None:
        """Write labels and what they label, aligned."""
        known = list(lines)
        columns = max((width(label) for label, _ in known), default=0)
        for label, text in known:
            space = " " * (columns - width(label) + 2)
            self.line(self.paint(label, "bold") + space + text)

    @contextmanager
    def progress(self, total: int, purpose: str) -> Iterator[Progress]:
        """Give a callback that counts bytes; a bar shows them when the work takes a while."""
        if not self.progress_shown:
            yield lambda _done: None
            return
        with Bar(total, purpose) as bar:
            yield bar.advance


def terminal() -> Terminal:
    """Return the terminal as the running command's settings and the environment want it."""
    wanted = settings()
    return Terminal(
        json=wanted.json,
        quiet=wanted.quiet,
        verbose=wanted.verbose,
        color=_is_colored() if wanted.color is None else wanted.color,
        progress_shown=wanted.progress
        and not wanted.quiet
        and is_terminal(sys.stderr)
        and os.environ.get("TERM") != "dumb",
    )


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a stream is a terminal; one that was closed is none."""
    return stream is not None and stream.isatty()


def _is_colored() -> bool:
    """Follow NO_COLOR, FORCE_COLOR and TERM, in this order; else color is for terminals."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return os.environ.get("TERM") != "dumb" and is_terminal(sys.stdout)


def width(text: str) -> int:
    """Return the columns that printable `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(unicodedata.combining(each) != 0 for each in text)


def _align(cells: Sequence[str], *, right: bool, last: bool) -> Sequence[str]:
    """Bring the cells of one column to one width; the last column is not filled up."""
    widths = list(map(width, cells))
    most = max(widths)
    if right:
        return [" " * (most - own) + cell for cell, own in zip(cells, widths, strict=True)]
    if last:
        return cells
    return [cell + " " * (most - own) for cell, own in zip(cells, widths, strict=True)]
