"""The options that every verb takes, before or after its name, and what they add up to.

Owns `Settings`. Values are kept in the root context's `obj`, so both places mean the same.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import click


class Settings(NamedTuple):
    """What a user asked of every verb; `color` None follows the environment and the terminal."""

    json: bool = False
    quiet: bool = False
    verbose: int = 0
    color: bool | None = None
    progress: bool = True
    store: str | None = None


def settings() -> Settings:
    """Return the settings of the command that is running; the defaults where none is."""
    context = click.get_current_context(silent=True)
    known = context.find_root().obj if context is not None else None
    return Settings(**(known or {}))


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a value that was given; the word after the verb wins over the one before it."""
    was_given = value is not None and not (param.name == "verbose" and value == 0)
    if was_given and param.name is not None:
        root = ctx.find_root()
        root.obj = {**(root.obj or {}), param.name: value}


def _option(*names: str, **facts: Any) -> click.Option:
    return click.Option(list(names), expose_value=False, callback=_remember, **facts)


EVERYWHERE: Final = (
    _option("--json", is_flag=True, default=None, help="Print one JSON document."),
    _option("-q", "--quiet", is_flag=True, default=None, help="Print no more than is needed."),
    _option("-v", "--verbose", count=True, help="Say more, where there is more to say."),
    _option("--color/--no-color", default=None, help="Color, whatever the terminal says."),
    _option(
        "--store",
        type=click.Path(exists=True, file_okay=False),
        metavar="FOLDER",
        help="Look for shards of a .zt here too, an overlay's base among them.",
    ),
    _option(
        "--progress/--no-progress", default=None, help="Show progress on a terminal (default)."
    ),
)
"""Read back by `settings`."""
