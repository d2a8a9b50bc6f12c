"""`tark prune`: of each M weights the N largest stay, with a report of what that took away."""

from __future__ import annotations

from typing import Any, Literal

import click

from tensorark import api
from tensorark.cli import parameters
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped
from tensorark.inspect.text import counted
from tensorark.pruning import Pruning, prune


@verb(
    "prune",
    examples=[
        ("tark prune model.safetensors model.tbm", "Two of each four weights; norms stay dense."),
        (
            "tark prune model.zt sparse.zt --nm 4:8 --nm '*.mlp.*=2:8' --exclude '*.0.*'",
            "Another pattern for some layers, and none for others.",
        ),
    ],
    exits={
        0: "pruned; what was removed was printed",
        2: "wrong usage, or the target exists and --force is not given",
        4: "the target cannot hold something; nothing was written",
    },
)
@click.argument("source", type=click.Path())
@parameters.target()
@click.option(
    "--nm",
    "patterns",
    metavar="[GLOB=]N:M",
    multiple=True,
    help="Keep N of each M weights (2:4); with GLOB= of the tensors so named, or `GLOB=dense`.",
)
@click.option("--include", metavar="GLOB", multiple=True, help="Prune these even if norms or so.")
@click.option("--exclude", metavar="GLOB", multiple=True, help="Leave these as they are.")
@click.option(
    "--recipe",
    type=click.Choice(["magnitude", "tensorbit"]),
    default="magnitude",
    help="tensorbit: first zero the smaller half of each tensor, as the public tool does.",
)
@click.option("--to", metavar="FORMAT", help="Format of the target, whatever its suffix says.")
@parameters.force
def command(
    source: str,
    target: str,
    *,
    patterns: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    recipe: Literal["magnitude", "tensorbit"],
    to: str | None,
    force: bool,
) -> None:
    """Prune a model: N of each M weights along the rows stay, the largest ones.

    Norms, embeddings, heads, routers and what is no matrix stay dense unless --include or --nm
    names them. A .zt or Tensorbit target gets masks, any other the zeros alone. Weights that stay
    are not changed.
    """
    plain = [text for text in patterns if "=" not in text]
    if len(plain) > 1:
        raise click.UsageError("give one --nm for all tensors, others as GLOB=N:M")
    choices = [tuple(text.rsplit("=", 1)) for text in patterns if "=" in text]
    out = terminal()
    with api.open(source) as file:
        total = sum(tensor.nbytes for tensor in file.catalog.tensors.values())
    with out.progress(total, "pruning") as progress:
        done = prune(
            source,
            target,
            pattern=plain[0] if plain else "2:4",
            choices=[(glob, text) for glob, text in choices],
            include=include,
            exclude=exclude,
            recipe=recipe,
            format=to,
            overwrite=force,
            progress=progress,
        )
    _show(out, done)


def _show(out: Terminal, done: Pruning) -> None:
    if out.json:
        out.document("prune", _as_json(done))
        return
    if out.quiet:
        for name in done.files:
            out.line(escaped(name))
        return
    head = ("tensor", "N:M", "zeros", "error", "largest removed")
    rows = [
        [
            escaped(each.name),
            each.pattern,
            f"{each.sparsity:.1%}",
            f"{each.error:.4f}",
            f"{each.largest:.4g}",
        ]
        for each in done.pruned
    ]
    if rows:
        out.table(rows, head=head, right={2, 3, 4})
    for name, reason in done.dense.items() if out.verbose else ():
        out.line(f"dense: {escaped(name)}: {escaped(reason)}")
    out.line(
        f"{escaped(done.source)} → {escaped(done.files[-1])}: "
        f"{counted(len(done.pruned), 'tensor')} pruned, {len(done.dense)} left as they are"
    )


def _as_json(done: Pruning) -> dict[str, Any]:
    return {
        "source": done.source,
        "target_format": done.target_format,
        "files": list(done.files),
        "pruned": [
            {
                "name": each.name,
                "pattern": each.pattern,
                "elements": each.elements,
                "zeros_before": each.zeros_before,
                "zeros": each.zeros,
                "error": each.error,
                "largest_removed": each.largest,
            }
            for each in done.pruned
        ],
        "dense": dict(done.dense),
    }
