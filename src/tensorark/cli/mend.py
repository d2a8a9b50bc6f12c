"""`tark mend`: a Tensorbit model written anew, with an index that is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from tensorark.cli import dropping, parameters
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.edit.account import Mended
from tensorark.edit.join import join
from tensorark.edit.part import part
from tensorark.edit.tensorbit_repair import mend
from tensorark.errors import InvalidInput, escaped
from tensorark.io.inputs import note_path
from tensorark.report.text import count_text


@verb(
    "mend",
    examples=[
        ("tark mend broken.tbm right.tbm", "Offsets from the blobs; every change is listed."),
        ("tark mend a.tbm out.tbm --join b.tbm --join c.tb", "Several models into one."),
    ],
    exits={
        0: "written; what differs from the source was printed",
        2: "wrong usage, not Tensorbit, or the target exists and --force is not given",
        4: "there is no telling which blob belongs to which entry",
    },
)
@click.argument("source", type=click.Path())
@parameters.target()
@parameters.choosing
@click.option("--rename", metavar="OLD=NEW", multiple=True, help="Put NEW for OLD in names.")
@click.option(
    "--masking",
    "masks",
    type=click.Choice(["keep", "spell", "drop", "apply"]),
    default="keep",
    help="spell: as specified; drop: none; apply: zero what they prune.",
)
@click.option("--shapes", is_flag=True, help="Guess the shapes of flat projections.")
@click.option("--config", type=click.Path(), help="A JSON file that becomes `config`.")
@click.option(
    "--architecture-name", "architecture", metavar="NAME", help="Name of the architecture."
)
@click.option("--join", "others", metavar="FILE", multiple=True, help="Take these models too.")
@parameters.max_size("Divide: most bytes of a container or a directory.")
@parameters.align("Begin blobs at multiples of this.")
@click.option("--to", "format", metavar="FORMAT", help="tbm, tb or tensorbit-directory.")
@dropping.drop
@parameters.force
def command(
    source: str, target: str, *, others: tuple[str, ...], max_size: int | None, **wanted: Any
) -> None:
    """Write a Tensorbit model anew: its index made right, tensors chosen, renamed.

    Offsets, counts, patterns and types come from the blobs themselves, which are found by walking
    from one to the next. Weights and masks are copied as they are unless --masking says otherwise.
    The source is not changed.
    """
    chosen = [flag for name, flag in _SINGLE.items() if wanted[name] and wanted[name] != "keep"]
    for name, given in (("--join", others), ("--max-size", max_size)):
        if given and chosen:
            raise click.UsageError(f"{name} does not go with {chosen[0]}: take two steps")
    out = terminal()
    single = {name: wanted.pop(name) for name in _SINGLE}
    total = sum(Path(each).stat().st_size for each in (source, *others) if Path(each).is_file())
    with out.progress(total, "writing") as progress:
        if others:
            done = [join([source, *others], target, progress=progress, **wanted)]
        elif max_size:
            done = part(source, target, max_size, progress=progress, **wanted)
        else:
            single["rename"] = _renaming(single["rename"])
            single["config"] = None if single["config"] is None else _config(single["config"])
            done = [mend(source, target, progress=progress, **single, **wanted)]
    show(out, done)


_SINGLE: Final = {
    "include": "--include",
    "exclude": "--exclude",
    "rename": "--rename",
    "masks": "--masking",
    "shapes": "--shapes",
    "config": "--config",
    "architecture": "--architecture-name",
}
"""What is said of a model that is neither joined nor divided, and the options that say it."""


def show(out: Terminal, done: list[Mended]) -> None:
    """Say what was written, and every change."""
    if out.json:
        out.document("mend", {"written": [dropping.facts(each) for each in done]})
        return
    for each in done:
        if out.quiet:
            out.line(escaped(each.files[-1]))
            continue
        for change in each.changes:
            out.line("  " + escaped(change))
        out.line(
            f"{escaped(each.source)} → {escaped(each.files[-1])}: "
            f"{count_text(each.tensors, 'tensor')}, {count_text(len(each.changes), 'change')}"
        )


def _renaming(pairs: tuple[str, ...]) -> Any:
    found = [tuple(pair.split("=", 1)) for pair in pairs]
    if any(len(pair) != 2 or not pair[0] for pair in found):
        raise click.UsageError("--rename takes OLD=NEW")
    if not found:
        return None

    def rename(name: str) -> str:
        for old, new in found:
            name = name.replace(old, new)
        return name

    return rename


def _config(path: str) -> dict[str, object]:
    """Read a configuration: ours, or that of a Hugging Face model."""
    note_path(path)
    try:
        value: object = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"not a configuration: {error}", code="config", path=path) from error
    if not isinstance(value, dict):
        raise InvalidInput("a configuration is an object", code="config", path=path)
    return value
