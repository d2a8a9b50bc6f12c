"""`tark append`: tensors of another model into a `.zt`, without rewriting it."""

from __future__ import annotations

import click

from tensorark import files
from tensorark.cli import dropping
from tensorark.cli.parameters import size
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.edit.append import append
from tensorark.errors import escaped
from tensorark.report.text import count_text, nbytes_text


@verb(
    "append",
    examples=[
        ("tark append model.zt adapter.safetensors", "Add tensors; what was there stays."),
        ("tark append model.zt fixed.zt --replace", "Put some in the place of their namesakes."),
    ],
    exits={
        0: "appended",
        2: "wrong usage, or the file has such a tensor and --replace is not given",
        4: "the file has no place for all of it; nothing was written",
    },
)
@click.argument("path", type=click.Path())
@click.argument("changes", type=click.Path())
@click.option("--replace", is_flag=True, help="Supersede tensors of the same name.")
@click.option("--align", type=size, metavar="SIZE", help="Placement (default: that of the file).")
@dropping.drop
def command(
    path: str, changes: str, *, replace: bool, align: int | None, drop: tuple[str, ...]
) -> None:
    """Append the tensors of another model to a .zt.

    Its attributes are added to those of the file. Where both have one of a name, and not the same,
    --replace takes that of the other model and --drop attributes that of the file.

    The bytes that the file has stay as they are: new blobs, a new manifest and a new footer come
    behind them. After a failure the file is cut back. Should the machine stop meanwhile, readers
    refuse the file, and `tark doctor` tells the length that was good; `tark overlay` is atomic.
    """
    out = terminal()
    with files.open(changes) as file:
        total = sum(tensor.nbytes for tensor in file.catalog.tensors.values())
    with out.progress(total, "appending") as progress:
        done = append(path, changes, replace=replace, align=align, drop=drop, progress=progress)
    if out.json:
        value = {
            "path": done.path,
            "before": done.before,
            "after": done.after,
            "tensors": list(done.tensors),
            "superseded": list(done.superseded),
            "dropped": dropping.losses(done.dropped),
        }
        out.document("append", value)
    elif not out.quiet:
        dropping.tell(out, done.dropped)
        out.line(
            f"{escaped(done.path)}: {count_text(len(done.tensors), 'tensor')} appended, "
            f"{len(done.superseded):,} of them superseding; {nbytes_text(done.before)} → "
            f"{nbytes_text(done.after)}"
        )
