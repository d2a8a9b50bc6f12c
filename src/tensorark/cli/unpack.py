"""`tark unpack`: an artifact's weights as safetensors: a checkpoint, parameters, or objects."""

from __future__ import annotations

from typing import Any, Final

import click

from tensorark.cli import parameters
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.errors import InvalidInput, escaped

_WAYS: Final = ("checkpoint", "parameters", "objects")


@verb(
    "unpack",
    examples=[
        (
            "tark unpack model.ninfer -o folder",
            "A checkpoint: tensors under their authors' names, config, tokenizer.",
        ),
        (
            "tark unpack model.ninfer -o objects.safetensors --as objects",
            "The bytes of every object as they are, with the directory.",
        ),
    ],
    exits={
        2: "wrong usage, no NInfer artifact, or the target exists",
        4: "a format is not decoded, or the architecture is not one of a checkpoint",
    },
)
@parameters.path
@parameters.target()
@click.option(
    "--as",
    "way",
    type=click.Choice(_WAYS),
    default=_WAYS[0],
    help="A checkpoint in a folder (default), one file of parameters, or one of objects.",
)
@click.option("--cast", type=click.Choice(["bf16"]), help="Round decoded weights: lossy.")
@parameters.max_size()
@parameters.force
def command(path: str, target: str, *, way: str, overwrite: bool, **wanted: Any) -> None:
    """Write the weights of a .ninfer as safetensors.

    Decoding is exact: bf16, fp32 and int32 stay as they are, every other format is defined as f32
    values. What quantizing lost is not found again. With --as objects nothing is decoded.
    """
    from tensorark.ninfer import objects, unpack

    out = terminal()
    options: dict[str, Any] = {"overwrite": overwrite}
    if way == "objects":
        if wanted["cast"] or wanted["max_size"] is not None:
            detail = "objects are written as they are, into one file"
            raise InvalidInput(detail, code="option", found="--cast or --max-size")
        write: Any = objects.export_objects
    else:
        options |= {"rounded": wanted["cast"] is not None, "max_shard_size": wanted["max_size"]}
        write = unpack.export_checkpoint if way == "checkpoint" else unpack.export_parameters
    with out.progress(0, "unpacking") as progress:
        files = write(path, target, progress=progress, **options)
    if out.json:
        out.document("unpack", {"source": path, "as": way, "files": files})
        return
    for name in files:
        out.line(escaped(name))
