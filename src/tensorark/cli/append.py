"""`tark append`: tensors of another model into a `.zt`, without rewriting it."""

from __future__ import annotations

from typing import Any

import click

from tensorark.cli import dropping, parameters
from tensorark.cli.sizes import payload_of
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
@parameters.align("Placement (default: that of the file).")
@dropping.drop
def command(path: str, changes: str, **wanted: Any) -> None:
    """Append the tensors of another model to a .zt.

    Its attributes are added to those of the file. Where both have one of a name, and not the same,
    --replace takes that of the other model and --drop attributes that of the file.

    The bytes that the file has stay as they are: new blobs, a new manifest and a new footer come
    behind them. After a failure the file is cut back. Should the machine stop meanwhile, readers
    refuse the file, and `tark doctor` tells the length that was good; `tark overlay` is atomic.
    """
    out = terminal()
    with out.progress(payload_of(changes), "appending") as progress:
        done = append(path, changes, progress=progress, **wanted)
    if out.json:
        out.document("append", dropping.facts(done))
    elif not out.quiet:
        dropping.tell(out, done.dropped)
        out.line(
            f"{escaped(done.path)}: {count_text(len(done.tensors), 'tensor')} appended, "
            f"{len(done.superseded):,} of them superseding; {nbytes_text(done.before)} → "
            f"{nbytes_text(done.after)}"
        )
