"""The option --lenient: what a format's public readers let pass is let pass, and said.

Owns the option and the notes. Verbs that take it open their file through `opened`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tensorark import api
from tensorark.api import File
from tensorark.cli.terminal import Terminal
from tensorark.errors import place, quoted

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN = 8


def lenient(function: F) -> F:
    """Add --lenient."""
    return click.option(
        "--lenient", is_flag=True, help="Let pass what the public loader does (Tensorbit)."
    )(function)


def opened(path: str, out: Terminal, *, lenient: bool) -> File:
    """Open `path`; in a lenient reading, say on standard error what was let pass."""
    file = api.open(path, lenient=lenient)
    found = getattr(file.catalog.native, "forgiven", ())
    for each in found[:_SHOWN]:
        out.note(f"let pass: {each.detail}, at {place(each.where)} ({each.rule})")
    if len(found) > _SHOWN:
        out.note(f"let pass: {len(found) - _SHOWN} more faults")
    for name in getattr(file.catalog.native, "left_out", ())[:_SHOWN]:
        out.note(f"left out: {quoted(name)}: it has no bytes to give")
    return file
