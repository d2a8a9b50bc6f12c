"""`tark overlay`: a model that is another one with some tensors changed, at the price of those."""

from __future__ import annotations

from typing import Any

import click

from tensorark import files
from tensorark.cli import dropping, parameters
from tensorark.cli.sizes import payload_of
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.core.matching import choose
from tensorark.edit.overlay import Overlay, overlay
from tensorark.errors import escaped
from tensorark.report.text import count_text, nbytes_text


@verb(
    "overlay",
    examples=[
        ("tark overlay base.zt adapter.safetensors -o tuned.zt", "Base and adapter as one model."),
        ("tark overlay base.zt fixed.zt new.zt --exclude old.bias", "And without one tensor."),
    ],
    exits={
        0: "written",
        2: "wrong usage, or the target exists and --force is not given",
        4: "the base is no .zt, or a .zt does not keep all of the changes",
    },
)
@click.argument("base", type=click.Path())
@click.argument("changes", type=click.Path())
@parameters.target()
@click.option("--exclude", metavar="GLOB", multiple=True, help="Leave tensors of the base out.")
@click.option(
    "--digest",
    "algorithm",
    type=click.Choice(["sha256", "xxh3"]),
    default="sha256",
    help="Identity of the base (sha256, which a signature needs).",
)
@parameters.align("Placement of blobs (4096).", "4096")
@dropping.drop
@parameters.force
def command(
    base: str,
    changes: str,
    target: str,
    *,
    exclude: tuple[str, ...],
    **wanted: Any,
) -> None:
    """Write a .zt that takes tensors from a base and stores only what differs.

    Opened, it is the whole model, as long as the base lies beside it; `tark merge` makes one file
    of the two. Parts whose bytes are the base's are not stored. The base, a .zt, is known by its
    size and its digest. `tark diff BASE NEW -o DELTA` makes such a file of two whole models.
    """
    out = terminal()
    with files.open(base) as file:
        removed = choose(file, exclude) if exclude else []
    with out.progress(payload_of(changes), "comparing") as progress:
        done = overlay(base, changes, target, remove=removed, progress=progress, **wanted)
    if out.json:
        out.document("overlay", dropping.facts(done))
    elif not out.quiet:
        show(out, done)


def show(out: Terminal, done: Overlay) -> None:
    """Write what an overlay holds in one line."""
    dropping.tell(out, done.dropped)
    labels = ", ".join(map(escaped, done.shards)) or "nothing"
    out.line(
        f"{escaped(done.path)}: {count_text(done.tensors, 'tensor')}, of which "
        f"{len(done.stored):,} stored ({nbytes_text(done.nbytes)}); the others lie in "
        f"{escaped(done.base)} (shard {labels}); {len(done.removed):,} removed"
    )
