"""What a verb may leave out, by kind: the option, and how what was left out is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from tensorark.cli.terminal import Terminal
from tensorark.core.ledger import BY_LENIENCE, KINDS, Loss
from tensorark.errors import quoted
from tensorark.report.text import count_text

drop: Final = click.option(
    "--drop",
    multiple=True,
    type=click.Choice(sorted(KINDS - BY_LENIENCE)),
    metavar="KIND",
    help="Leave out what the target does not keep of this kind, and list it; repeatable.",
)


def losses(dropped: Iterable[Loss]) -> dict[str, list[str]]:
    """Return the names of what was left out, by kind."""
    found: dict[str, list[str]] = {}
    for each in dropped:
        found.setdefault(each.kind, []).append(each.name)
    return found


def facts(done: Any) -> dict[str, Any]:
    """Return what a verb has done, a dataclass, as a JSON-able value; what was left out by kind."""
    return {**asdict(done), "dropped": losses(done.dropped)}


def tell(out: Terminal, dropped: Iterable[Loss]) -> None:
    """Say what was left out."""
    for kind, names in losses(dropped).items():
        out.note(f"left out: {kind} {', '.join(map(quoted, names))}")


def tell_beside(out: Terminal, names: Sequence[str]) -> None:
    """Say what belongs to a model and is not taken along, as it lies in files of its own."""
    if names:
        out.note(f"note: beside the model, and not taken along: {', '.join(names)}")


def tell_densified(out: Terminal, names: Sequence[str], target: str) -> None:
    """Say which masks became zeros among other zeros."""
    if names:
        few = ", ".join(map(quoted, names[:3])) + (", …" if len(names) > 3 else "")
        tensors = count_text(len(names), "tensor")
        out.note(f"note: {tensors} made dense ({few}): {target} keeps the zeros and no masks")
