"""`tark merge`: the shards of a model back into one file."""

from __future__ import annotations

from typing import Any

import click

from tensorark.cli import dropping, parameters
from tensorark.cli.sizes import payload_of
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.edit.merge import merge
from tensorark.errors import escaped
from tensorark.report.text import count_text, nbytes_text


@verb(
    "merge",
    examples=[
        ("tark merge model.zt whole.zt", "One canonical file; the shards are found."),
        ("tark merge delta.zt tuned.zt --align 4096", "An overlay and its base, blobs as stored."),
    ],
    exits={
        0: "merged, or what would be merged was shown",
        2: "wrong usage, a shard was named, or the target exists and --force is not given",
        4: "a .zt does not keep all of it; nothing was written",
        5: "a shard is missing or the wrong one; nothing was written",
    },
)
@click.argument("root", type=click.Path())
@parameters.target()
@parameters.align("Keep blobs as stored, at multiples of this.")
@dropping.drop
@parameters.force
@click.option("--dry-run", is_flag=True, help="Show what would be read; write nothing.")
def command(root: str, target: str, *, dry_run: bool, **wanted: Any) -> None:
    """Merge a model that is split into one .zt.

    Takes the root (or the index, or the overlay) alone and finds the rest, so that no pattern of
    file names can go wrong. The target is canonical unless --align is given. Inputs are never
    written.
    """
    out = terminal()
    with out.progress(payload_of(root), "merging") as progress:
        done = merge(root, target, dry_run=dry_run, progress=progress, **wanted)
    if out.json:
        out.document("merge", {"written": not dry_run, **dropping.facts(done)})
    elif out.quiet:
        out.line(escaped(done.target))
    else:
        for shard in done.shards if out.verbose else ():
            out.line(f"  {escaped(shard)}")
        dropping.tell(out, done.dropped)
        what = "written" if not dry_run else "planned, nothing written"
        out.line(
            f"{escaped(done.root)} and {count_text(len(done.shards), 'shard')} → "
            f"{escaped(done.target)}: {count_text(done.tensors, 'tensor')}, "
            f"{nbytes_text(done.nbytes)}; {what}"
        )
