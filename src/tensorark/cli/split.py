"""`tark split`: one model into a root and shards, or the plan of it."""

from __future__ import annotations

from typing import Any

import click

from tensorark.cli import dropping, parameters
from tensorark.cli.sizes import payload_of
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.edit.split import SplitPlan, split
from tensorark.errors import escaped
from tensorark.report.text import count_text, nbytes_text


@verb(
    "split",
    examples=[
        ("tark split model.zt out/model.zt --max-size 5GB", "Shards of at most 5 GB each."),
        ("tark split model.zt out/model.zt --by layer --dry-run", "Show one shard for each layer."),
    ],
    exits={
        0: "split, or the plan was shown",
        1: "payload does not match its digest; nothing was written",
        2: "wrong usage, or a file exists and --force is not given",
        4: "a .zt does not keep all of it; nothing was written",
    },
)
@click.argument("source", type=click.Path())
@parameters.target("root")
@parameters.max_size("Most bytes of a shard: 5GB, 512MiB.")
@click.option("--by", type=click.Choice(["layer"]), help="Begin a new shard for every layer.")
@click.option(
    "--digest",
    "algorithm",
    type=click.Choice(["sha256", "xxh3"]),
    default="sha256",
    help="Identity of shards (sha256, which a signature of the root needs).",
)
@click.option("--full", is_flag=True, help="Make each shard a .zt that opens by itself.")
@parameters.align("Placement of blobs (64KiB).", "64KiB")
@dropping.drop
@parameters.force
@click.option("--dry-run", is_flag=True, help="Show the plan; write nothing.")
def command(source: str, root: str, *, dry_run: bool, **wanted: Any) -> None:
    """Split a model into a root .zt and shards.

    Shard 00001-of-00003 of model.zt is the file model-00001-of-00003.zt. Tensors fill shards in
    order of their names; no shard is a byte larger than --max-size, but where one tensor alone is.
    Blobs are copied as they are stored, and the content digest stays the same.
    """
    out = terminal()
    with out.progress(payload_of(source), "splitting") as progress:
        plan = split(source, root, dry_run=dry_run, progress=progress, **wanted)
    _show(out, plan, written=not dry_run)


def _show(out: Terminal, plan: SplitPlan, *, written: bool) -> None:
    if out.json:
        out.document("split", {"written": written, **dropping.facts(plan)})
        return
    if out.quiet:
        for shard in plan.shards:
            out.line(escaped(shard.path))
        out.line(escaped(plan.root))
        return
    rows = [
        [
            escaped(shard.path),
            f"{shard.size:,}",
            count_text(len(shard.tensors), "tensor"),
            "one tensor is larger than the limit" if shard.exceeds else "",
        ]
        for shard in plan.shards
    ]
    out.table(rows, right={1, 2})
    dropping.tell(out, plan.dropped)
    what = "written" if written else "planned, nothing written"
    out.line(
        f"{escaped(plan.root)}: {count_text(plan.tensors, 'tensor')}, {nbytes_text(plan.nbytes)} "
        f"in {count_text(len(plan.shards), 'shard')}; {what}"
    )
