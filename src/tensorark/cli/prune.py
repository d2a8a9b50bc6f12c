"""`tark prune`: of each M weights the N largest stay, with a report of what that took away."""

from __future__ import annotations

from typing import Any

import click

from tensorark.cli import dropping, parameters
from tensorark.cli.sizes import payload_of
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.edit.prune import Pruning, prune
from tensorark.edit.prune.report import Pruned
from tensorark.errors import escaped
from tensorark.report.plain import plain
from tensorark.report.text import count_text


@verb(
    "prune",
    examples=[
        ("tark prune model.safetensors model.tbm", "Two of each four weights; norms stay dense."),
        (
            "tark prune model.zt sparse.zt --scores wanda.safetensors --nm 4:8 --exclude '*.0.*'",
            "By scores that another tool has found, some layers left as they are.",
        ),
    ],
    exits={
        0: "pruned, and what was removed was printed; or what would be pruned was",
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
@click.option(
    "--scores",
    type=click.Path(),
    metavar="MODEL",
    help="Keep what has the largest scores: tensors with the names and shapes of those to prune.",
)
@click.option(
    "--masks", type=click.Path(), metavar="MODEL", help="Keep what is not zero in these, likewise."
)
@click.option(
    "--axis",
    type=int,
    metavar="N",
    default=-1,
    help="Group weights along this axis (the last); along others only zeros are stored.",
)
@click.option(
    "--to", "format", metavar="FORMAT", help="Format of the target, whatever its suffix says."
)
@dropping.drop
@parameters.force
@click.option("--dry-run", is_flag=True, help="Show what would be pruned; write nothing.")
def command(source: str, target: str, *, patterns: tuple[str, ...], **wanted: Any) -> None:
    """Prune a model: N of each M weights along the rows stay, the largest ones.

    Norms, embeddings, heads, routers and what is no matrix stay dense unless --include names them.
    With --scores or --masks, which is how the results of Wanda or SparseGPT are applied, exactly
    the tensors in that file are pruned. A .zt or Tensorbit target gets masks, any other the zeros
    alone. Weights that stay are not changed. What the target cannot hold at all, such as a counter
    of batches in a .tbm, --drop tensors leaves out.
    """
    bare = [text for text in patterns if "=" not in text]
    if len(bare) > 1:
        raise click.UsageError("give one --nm for all tensors, others as GLOB=N:M")
    wanted["pattern"] = bare[0] if bare else "2:4"
    wanted["choices"] = [tuple(text.rsplit("=", 1)) for text in patterns if "=" in text]
    out = terminal()
    with out.progress(payload_of(source), "pruning") as progress:
        done = prune(source, target, progress=progress, **wanted)
    _show(out, done)


def _show(out: Terminal, done: Pruning) -> None:
    if out.json:
        out.document("prune" if done.files else "prune-plan", _as_json(done))
        return
    if out.quiet:
        for name in done.files:
            out.line(escaped(name))
        return
    is_plan = not done.files
    head = ("tensor", "N:M", *(("elements",) if is_plan else ("zeros", "error", "largest removed")))
    rows = [_row(each, is_plan=is_plan) for each in done.pruned]
    out.table(rows, head=head, right={2, 3, 4})
    for name, reason in done.dense.items() if out.verbose or is_plan else ():
        out.line(f"dense: {escaped(name)}: {escaped(reason)}")
    dropping.tell(out, done.dropped)
    dropping.tell_beside(out, done.beside)
    total = done.total
    if total.elements and not is_plan:
        out.line(
            f"in all {total.sparsity:.1%} of {count_text(total.elements, 'weight')} are zero, "
            f"{_whole(done):.1%} of the model; error {total.error:.4f}"
        )
        if total.nan:
            out.note(f"note: {total.nan:,} of the removed weights are NaN")
    goal = "would be" if is_plan else escaped(done.files[-1]) + ":"
    out.line(
        f"{escaped(done.source)} → {goal} {count_text(len(done.pruned), 'tensor')} pruned, "
        f"{len(done.dense)} left as they are ({count_text(done.dense_elements, 'element')})"
    )


def _row(each: Pruned, *, is_plan: bool) -> list[str]:
    known = [escaped(each.name), each.pattern]
    if is_plan:
        return [*known, f"{each.elements:,}"]
    return [*known, f"{each.sparsity:.1%}", f"{each.error:.4f}", f"{each.largest:.4g}"]


def _whole(done: Pruning) -> float:
    """Return the share of zeros among all elements of the model, those left dense taken as full."""
    return done.total.zeros / (done.total.elements + done.dense_elements)


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
                "masked": each.masked,
                **({} if not done.files else _account(each)),
            }
            for each in done.pruned
        ],
        "dense": dict(done.dense),
        "dropped": dropping.losses(done.dropped),
        "beside": list(done.beside),
        "totals": {
            "tensors": len(done.pruned),
            "elements": done.total.elements,
            "dense_elements": done.dense_elements,
            **({} if not done.files else _account(done.total)),
        },
    }


def _account(each: Pruned) -> dict[str, Any]:
    return {
        "zeros_before": each.zeros_before,
        "zeros": each.zeros,
        "error": plain(each.error),
        "largest_removed": plain(each.largest),
        "nan_removed": each.nan,
    }
