"""The options --lenient and --structural: what they let pass is let pass, and said.

Owns the options and the notes. Verbs that take one open their files through `open_model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import click

from tensorark import files
from tensorark.cli.terminal import terminal
from tensorark.errors import NotFound, Rejected, place, quoted
from tensorark.files import File
from tensorark.layouts import layout_of

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN: Final = 8


lenient: Final = click.option(
    "--lenient", is_flag=True, help="Let pass what public readers do (Tensorbit, zstd frames)."
)
_structural: Final = click.option(
    "--structural", is_flag=True, help="Open a .zt whose layouts are broken, and name those."
)
generation: Final = click.option(
    "--generation",
    type=click.IntRange(1),
    metavar="N",
    help="Take a .zt as it was at this generation, counted from 1: `tark doctor` lists them.",
)


def opening(function: F) -> F:
    """Add all options that say how a model is opened: what `open_model` takes."""
    return lenient(_structural(generation(function)))


def length_of(path: str, number: int | None) -> int | None:
    """Return the bytes of a file that are its generation `number`; None for the newest one.

    Raises:
        NotFound: when it has no such generation.
    """
    if number is None:
        return None
    from tensorark.report.diagnosis import diagnose

    known = diagnose(path).generations
    for each in known:
        if each.number == number:
            return each.length
    raise NotFound(
        "the file has no such generation",
        code="generation",
        path=path,
        expected=f"1 to {len(known)}" if known else "a .zt",
        found=number,
    )


def open_model(
    path: str,
    *,
    lenient: bool = False,
    structural: bool = False,
    generation: int | None = None,
) -> File:
    """Open `path`, leniently or structurally; say on standard error what was let pass."""
    length = length_of(path, generation)
    file = files.open(path, lenient=lenient, structural=structural, length=length)
    if structural:
        _tell([str(each) for each in _layout_faults(file)], "tensors")
    found = getattr(file.catalog.native, "forgiven", ())
    _tell([f"{each.detail}, at {place(each.where)} ({each.rule})" for each in found], "faults")
    for name in getattr(file.catalog.native, "left_out", ())[:_SHOWN]:
        terminal().note(f"left out: {quoted(name)}: it has no bytes to give")
    return file


def _tell(passed: Sequence[str], what: str) -> None:
    """Say the first things that were let pass, and how many more there are."""
    out = terminal()
    for each in passed[:_SHOWN]:
        out.note(f"let pass: {each}")
    if len(passed) > _SHOWN:
        out.note(f"let pass: {len(passed) - _SHOWN} more {what}")


def _layout_faults(file: File) -> Iterator[Rejected]:
    """Yield what breaks a rule of its layout, the first fault of each tensor."""
    for tensor in file.catalog.tensors.values():
        layout = layout_of(tensor.layout)
        if layout is not None:
            try:
                layout.check(tensor)
            except Rejected as error:
                yield error
