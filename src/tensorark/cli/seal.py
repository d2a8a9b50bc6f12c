"""`tark seal`: digests for a model whose format carries none."""

from __future__ import annotations

from typing import Any

import click

from tensorark import files
from tensorark.cli import parameters
from tensorark.cli.sizes import payload_of
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped
from tensorark.formats.zt.digest import ALGORITHMS
from tensorark.integrity.seal import seal, seal_path
from tensorark.report.text import count_text


@verb(
    "seal",
    examples=[
        ("tark seal model.safetensors", "Write model.safetensors.seal.json."),
        ("tark seal model/ --digest xxh3 --digest sha256", "Both digests of every part."),
    ],
    exits={0: "written", 2: "wrong usage, or the seal exists and --force is not given"},
)
@parameters.path
@parameters.output("Where to write it, instead of beside the model.")
@click.option(
    "--digest",
    "algorithms",
    type=click.Choice(ALGORITHMS),
    multiple=True,
    default=["xxh3"],
    help="Digest of every part (xxh3); may be repeated.",
)
@parameters.force
@parameters.threads
def command(path: str, *, output: str | None, **wanted: Any) -> None:
    """Write the digests of a model into a file beside it.

    For formats that carry none: `tark verify model.safetensors --seal model.safetensors.seal.json`
    then names damaged tensors and the bytes where the damage is. The same model gives the same
    seal. Whoever can change the model can change its seal: against that, `tark sign`.
    """
    out = terminal()
    with files.open(path) as file:
        opened = file.path
        total = payload_of(file) + sum(file.source.size(label) for label in file.labels)
    goal = output if output is not None else str(seal_path(opened))
    with out.progress(total, "sealing") as progress:
        made = seal(path, goal, progress=progress, **wanted)
    content = {name: f"{name}:{digest}" for name, digest in made.content.items()}
    if out.json:
        value = {"path": path, "seal": goal, "tensors": len(made.tensors), "content": content}
        out.document("seal", {**value, "files": len(made.files)})
    elif not out.quiet:
        about = (
            f"{count_text(len(made.tensors), 'tensor')} in {count_text(len(made.files), 'file')}"
        )
        out.line(f"{escaped(goal)}: {about}, {', '.join(content.values())}")
