"""`tark sparsity`: how many weights are zero, by tensor and by layer, and what the masks say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import click

from tensorark.cli import leniency, parameters
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped
from tensorark.report.sparsity import Counts, counts, first_groups

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")


@verb(
    "sparsity",
    examples=[
        ("tark sparsity model.tbm", "Zeros, masks and faults of every tensor, and by layer."),
        (
            "tark sparsity model.tbm model.layers.0.mlp.up_proj.weight",
            "One tensor, with the bits of its first mask bytes.",
        ),
    ],
    exits={0: "counted", 1: "a mask and its weights disagree"},
)
@parameters.path
@click.argument("name", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 1000), metavar="N", default=16, help="Groups shown (16)."
)
@leniency.lenient
def command(path: str, name: str | None, *, limit: int, lenient: bool) -> int:
    """Count zeros and mask bits; reads every weight.

    `stray` weights are not zero though their mask bit is clear, `idle` ones are zero though their
    bit is set. Dense matrices show the tightest N:M that their zeros follow.
    """
    out = terminal()
    with leniency.open_model(path, lenient=lenient) as file:
        names = [name] if name is not None else list(file)
        total = sum(file[each].nbytes for each in names)
        with out.progress(total, "counting") as progress:
            found = list(counts(file, names, progress=progress))
        shown = list(first_groups(file[name], limit)) if name is not None else []
    if out.json:
        value = {"path": path, "tensors": [_as_json(each) for each in found]}
        out.document("sparsity", value | {"groups": [list(each) for each in shown]})
    else:
        _show(out, found)
        if name is None:
            _show_layers(out, found)
        for group, octets, kept in shown:
            out.line(f"group {group}: {octets}  {kept}")
    return 1 if any(each.stray or each.wrong for each in found) else 0


def _show(out: Terminal, found: list[Counts]) -> None:
    head = ("tensor", "N:M", "mask", "zeros", "stray", "idle", "-0.0")
    rows = [
        [
            escaped(each.name),
            each.pattern or (f"({each.detected})" if each.detected else "dense"),
            each.packing,
            f"{each.sparsity:.1%}",
            f"{each.stray:,}",
            f"{each.idle:,}",
            f"{each.negative_zeros:,}",
        ]
        for each in found
    ]
    out.table(rows, head=head, right={3, 4, 5, 6})


def _show_layers(out: Terminal, found: Iterable[Counts]) -> None:
    rows = [[label, f"{zeros / elements:.1%}"] for label, zeros, elements in _layers(found)]
    if len(rows) > 1:
        out.table(rows, head=("layer", "zeros"), right={1})


def _layers(found: Iterable[Counts]) -> Iterator[tuple[str, int, int]]:
    """Yield the layers in order, with their zeros and weights; what lies outside comes last."""
    sums: dict[int, list[int]] = {}
    for each in found:
        match = _LAYER.search(each.name)
        layer = int(match[1]) if match else -1
        held = sums.setdefault(layer, [0, 0])
        held[0] += each.zeros
        held[1] += each.elements
    for layer in sorted(sums, key=lambda number: (number < 0, number)):
        zeros, elements = sums[layer]
        if elements:
            yield ("elsewhere" if layer < 0 else str(layer)), zeros, elements


def _as_json(each: Counts) -> dict[str, Any]:
    facts = asdict(each)
    bits, wrong = facts.pop("bits"), facts.pop("wrong")
    return {**facts, "kept_by_groups": bits, "wrong_groups": wrong}
