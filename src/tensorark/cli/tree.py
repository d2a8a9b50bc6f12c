"""`tark tree`: the names of a model as a tree, in which layers that look alike are one."""

from __future__ import annotations

from typing import Any

import click

from tensorark.cli import leniency, parameters
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.core.matching import choose
from tensorark.report.names import tree
from tensorark.report.report import brief, totals
from tensorark.report.text import totals_text, tree_rows
from tensorark.wire.gc_pause import pause_gc


@verb(
    "tree",
    examples=[
        ("tark tree model.safetensors", "The whole model; `layers.# ×32` stands for 32 layers."),
        ("tark tree model/ --include 'model.layers.0.*' --depth 3", "Three levels of one layer."),
    ],
)
@parameters.path
@parameters.choosing
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Show N levels.")
@leniency.lenient
@leniency.generation
def command(
    path: str,
    *,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    depth: int | None,
    **opening: Any,
) -> None:
    """Show the names as a tree, with repeated layers folded.

    Names are split at dots. Numbered siblings with the same names, types and shapes below them are
    one branch: `#` where all are alike, else the range of their numbers.
    """
    out = terminal()
    with leniency.open_model(path, **opening) as file:
        with pause_gc():
            names = choose(file, include, exclude)
            tensors = [file.catalog.tensors[name] for name in names]
            facts = [brief(each) for each in tensors]
            kept = ("type", "shape", "layout", "nbytes")
            branches = tree({each["name"]: {key: each[key] for key in kept} for each in facts})
            value = totals(tensors)
        if out.json:
            out.document("tree", {"path": file.path, "branches": branches, "totals": value})
            return
        out.table(list(tree_rows(branches, most=depth)), right={3})
        out.line(out.paint(totals_text(value), "dim"))
