"""`tark repack`: a `.zt` anew, canonical, without what older generations left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tensorark.cli import dropping, parameters
from tensorark.cli.mend import show
from tensorark.cli.sizes import payload_of, sizes_of, sizes_text
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.edit.repack import repack
from tensorark.edit.tensorbit_repair import is_tensorbit, mend
from tensorark.errors import escaped
from tensorark.report.text import count_text, nbytes_text


@verb(
    "repack",
    examples=[
        ("tark repack grown.zt model.zt", "Drop superseded tensors; canonical form."),
        ("tark repack packed.zt plain.zt --force", "Store compressed parts plainly."),
    ],
    exits={
        0: "written",
        2: "wrong usage, no .zt, a split model, or the target exists and --force is not given",
    },
)
@click.argument("source", type=click.Path())
@parameters.target()
@dropping.drop
@parameters.force
def command(source: str, target: str, **wanted: Any) -> None:
    """Write a .zt anew in canonical form.

    One generation, parts stored plainly, equal blobs once: the same tensors give the same file. The
    source is not changed. Of a Tensorbit container the index is made right, as `tark mend` does.
    """
    out = terminal()
    if is_tensorbit(source):
        show(out, [mend(source, target, **wanted)])
        return
    with out.progress(payload_of(source), "repacking") as progress:
        done = repack(source, target, progress=progress, **wanted)
    before, sizes = Path(done.source).stat().st_size, sizes_of([target])
    if out.json:
        value = {
            "source": done.source,
            "target": target,
            "before": before,
            "after": sizes["file_bytes"],
            "dropped": dropping.losses(done.dropped),
        }
        out.document("repack", {**value, "tensors": done.tensors, **sizes})
    elif not out.quiet:
        dropping.tell(out, done.dropped)
        out.line(
            f"{escaped(done.source)} → {escaped(target)}: {count_text(done.tensors, 'tensor')}, "
            f"{nbytes_text(before)} → {sizes_text(sizes)}"
        )
