"""Kinds of values on the command line: sizes with units, and the options that several verbs take.

Owns how words become values; a word that does not fit is a usage error that names what would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click

from tensorark.core.sizes import size_of
from tensorark.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])


def size(text: str) -> int:
    """Return the bytes that ``4096``, ``64KiB`` (binary), ``5GB`` or ``1.5GB`` (decimal) mean.

    Raises:
        click.BadParameter: when it is no size.
    """
    try:
        return size_of(text)
    except InvalidInput as error:
        raise click.BadParameter(error.message) from error


class _Output(click.Path):
    """A path that is written; ``-`` is none, and never becomes a file of that name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse ``-``: what appears whole or not at all has a name."""
        if value == "-":
            detail = "'-' is no file: name one, which appears when it is complete (or ./-)"
            raise click.BadParameter(detail, ctx, param)
        return super().convert(value, param, ctx)


OUTPUT: Final = _Output()
"""The type of every path that a verb writes."""


def output(text: str) -> Callable[[F], F]:
    """Add --output, where something is written without it too, or elsewhere."""
    return click.option("-o", "--output", type=OUTPUT, metavar="PATH", help=text)


def target(name: str = "target") -> Callable[[F], F]:
    """Add the path that is written: as the last argument, or with --output."""

    def add(function: F) -> F:
        @wraps(function)
        def resolved(*words: Any, **named: Any) -> Any:
            given = named.pop("output")
            if (named[name] is None) == (given is None):
                raise click.UsageError(f"name one {name}: as the last argument, or with -o")
            goal = named[name] or given
            with _folder_of(goal):
                return function(*words, **{**named, name: goal})

        option = output(f"The {name}, instead of as an argument.")
        argument = click.argument(name, type=OUTPUT, required=False)
        return cast("F", argument(option(resolved)))

    return add


@contextmanager
def _folder_of(path: str) -> Iterator[None]:
    """Make the folder that a target lies in, and take it back where nothing came into it."""
    made: list[Path] = []
    try:
        for each in reversed(Path(path).absolute().parents):
            if not each.exists():
                each.mkdir()
                made.append(each)
        yield
    finally:
        for each in reversed(made):
            with suppress(OSError):  # it holds what was written
                each.rmdir()


def max_size(
    text: str = "Split into files of at most this: 5GB, 512MiB.", name: str = "max_size"
) -> Callable[[F], F]:
    """Add --max-size, handed on as `name`."""
    return click.option("--max-size", name, type=size, metavar="SIZE", help=text)


force: Final = click.option("-f", "--force", "overwrite", is_flag=True, help="Replace what exists.")
"""Handed on as `overwrite`."""


def require_free(target: str, *, overwrite: bool) -> None:
    """Require that a target may be written, before long work is begun.

    Raises:
        InvalidInput: when it is there and `overwrite` is false.
    """
    if Path(target).exists() and not overwrite:
        hint = "--force replaces it"
        raise InvalidInput("the file exists already", code="exists", path=target, hint=hint)


def align(text: str, default: str | None = None) -> Callable[[F], F]:
    """Add --align."""
    return click.option("--align", type=size, metavar="SIZE", default=default, help=text)


def _artifact_id(text: str) -> bytes:
    if not re.fullmatch(r"[0-9A-Fa-f]{32}", text):
        raise click.BadParameter(f"{text!r} is no id: write 32 hexadecimal digits")
    return bytes.fromhex(text)


artifact_id: Final = click.option(
    "--artifact-id",
    type=_artifact_id,
    metavar="HEX",
    help="Name the .ninfer set by these 32 digits; then the bytes are the same every time.",
)
"""The 16 bytes that name a set of files."""


def choosing(function: F) -> F:
    """Add --include and --exclude, which choose tensors by glob."""
    exclude = click.option("--exclude", metavar="GLOB", multiple=True, help="Leave these out.")
    include = click.option(
        "--include",
        metavar="GLOB",
        multiple=True,
        help="Take these tensors only; * matches dots too, and the option may be repeated.",
    )
    return include(exclude(function))


def digests(function: F) -> F:
    """Add --trust-digests and --digests, which stand for reading files whole."""
    trust = click.option(
        "--trust-digests",
        is_flag=True,
        help="Take the sha256 digests that a .zt gives as they are.",
    )
    given = click.option(
        "--digests",
        type=click.Path(),
        metavar="SUMS",
        help="Take sha256 digests of files from here, as sha256sum writes them.",
    )
    return trust(given(function))


threads: Final = click.option(
    "--threads", type=click.IntRange(1, 1024), metavar="N", help="Threads (default: all cores)."
)

path: Final = click.argument("path", type=click.Path())
"""The one argument of most verbs."""

paths: Final = click.argument("paths", type=click.Path(), nargs=-1, required=True)
"""The argument of verbs that judge one model after the other."""
