"""How `tark` says that something went wrong: one line on standard error, and a hint.

With ``--json`` the error is a document on standard output. Names come from hostile files, so every
character that could steer a terminal is escaped.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from tensorark.cli.output import output
from tensorark.errors import Error, Hint, printable

if TYPE_CHECKING:
    from click import ClickException


def say(text: str) -> None:
    """Write one line to standard error, escaped."""
    if sys.stderr is not None:
        sys.stderr.write(printable(text) + "\n")


def error_facts(error: Error) -> dict[str, Any]:
    """Return an error as a JSON-able value."""
    from tensorark.report.plain import plain

    return {
        "kind": next(kind for kind in type(error).__mro__ if Error in kind.__bases__).__name__,
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "section": error.section,
        "path": error.path,
        "where": list(error.where),
        "offset": error.offset,
        "expected": plain(error.expected),
        "found": plain(error.found),
        "hint": hint_of(error),
        "exit": error.exit_code,
    }


def show_error(error: Error, *, as_json: bool = False) -> None:
    """Report an error of the library."""
    if as_json:
        _document({"error": error_facts(error)})
        return
    say(f"error: {error.message}")
    if error.hint:
        say(f"hint: {hint_of(error)}")


def hint_of(error: Error) -> str | None:
    """Return the hint of an error in the words of the command line."""
    return error.hint.tark if isinstance(error.hint, Hint) else error.hint


def show_usage_error(error: ClickException, *, as_json: bool = False) -> None:
    """Report a wrong word on the command line."""
    message = error.format_message()
    if as_json:
        facts = {"kind": "Usage", "code": "usage", "message": message, "exit": error.exit_code}
        _document({"error": facts})
        return
    say(f"error: {message}")
    context = getattr(error, "ctx", None)
    if context is not None:
        say(f"hint: {context.command_path} --help")


def show_defect(error: Exception, *, verbose: bool) -> None:
    """Report an exception that should not have come this far."""
    say(f"error: a defect of tark: {type(error).__name__}: {error}")
    if verbose:
        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line)
    else:
        say("hint: please report it, with what -v prints")


def _document(value: dict[str, Any]) -> None:
    from tensorark.report.plain import document

    if sys.stdout is not None:
        with output():
            sys.stdout.write(document("error", value) + "\n")
