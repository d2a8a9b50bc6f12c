"""`tark mend`: a Tensorbit model written anew, with an index that is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import click

from tensorark.cli import dropping, parameters
from tensorark.cli.parameters import size
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
    type=click.Choice(["keep", "spell", "drop", "apply"]),
    default="keep",
    help="spell: as specified; drop: none; apply: zero what they prune.",
)
@click.option("--shapes", is_flag=True, help="Guess the shapes of flat projections.")
@click.option("--config", type=click.Path(), help="A JSON file that becomes `config`.")
@click.option("--architecture-name", metavar="NAME", help="Name of the architecture.")
@click.option("--join", "others", metavar="FILE", multiple=True, help="Take these models too.")
@parameters.max_size("Divide: most bytes of a container or a directory.")
@click.option("--align", type=size, metavar="SIZE", help="Begin blobs at multiples of this.")
@click.option("--to", metavar="FORMAT", help="tbm, tb or tensorbit-directory.")
@dropping.drop
@parameters.force
def command(source: str, target: str, *, others: tuple[str, ...], **wanted: Any) -> None:
    """Write a Tensorbit model anew: its index made right, tensors chosen, renamed.

    Offsets, counts, patterns and types come from the blobs themselves, which are found by walking
    from one to the next. Weights and masks are copied as they are unless --masking says otherwise.
    The source is not changed.
    """
    chosen = [name for name in _SINGLE if wanted[name] and wanted[name] != "keep"]
    for name, given in (("--join", others), ("--max-size", wanted["max_size"])):
        if given and chosen:
            raise click.UsageError(f"{name} does not go with {_flag(chosen[0])}: take two steps")
    out = terminal()
    with out.progress(_size_of([source, *others]), "writing") as progress:
        if others:
            done = [
                join(
                    [source, *others],
                    target,
                    format=wanted["to"],
                    align=wanted["align"],
                    drop=wanted["drop"],
                    overwrite=wanted["force"],
                    progress=progress,
                )
            ]
        elif wanted["max_size"]:
            done = part(
                source,
                target,
                wanted["max_size"],
                format=wanted["to"],
                align=wanted["align"],
                drop=wanted["drop"],
                overwrite=wanted["force"],
                progress=progress,
            )
        else:
            done = [_mend(source, target, progress, **wanted)]
    show(out, done)


_SINGLE = ("include", "exclude", "rename", "masking", "shapes", "config", "architecture_name")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _mend(source: str, target: str, progress: Any, **wanted: Any) -> Mended:
    masks: Literal["keep", "spell", "drop", "apply"] = wanted["masking"]
    return mend(
        source,
        target,
        masks=masks,
        include=wanted["include"],
        exclude=wanted["exclude"],
        rename=_renaming(wanted["rename"]),
        shapes=wanted["shapes"],
        config=None if wanted["config"] is None else _config(wanted["config"]),
        architecture=wanted["architecture_name"],
        format=wanted["to"],
        align=wanted["align"],
        drop=wanted["drop"],
        overwrite=wanted["force"],
        progress=progress,
    )


def show(out: Terminal, done: list[Mended]) -> None:
    """Say what was written, and every change."""
    if out.json:
        out.document("mend", {"written": [_as_json(each) for each in done]})
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


def _as_json(each: Mended) -> dict[str, Any]:
    return {
        "source": each.source,
        "files": list(each.files),
        "tensors": each.tensors,
        "changes": list(each.changes),
        "dropped": dropping.losses(each.dropped),
    }


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


def _size_of(paths: list[str]) -> int:
    return sum(Path(each).stat().st_size for each in paths if Path(each).is_file())
