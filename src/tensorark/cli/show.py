"""`tark show`: a file, or one of its tensors, described in full."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from tensorark.cli import leniency, parameters
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.errors import LimitExceeded
from tensorark.files.view import TensorView
from tensorark.layouts.nm.rules import ID as NM
from tensorark.report.plain import plain
from tensorark.report.report import full, report
from tensorark.report.text import report_lines, tensor_lines
from tensorark.wire.gc_pause import pause_gc

_WHOLE = 1 << 30  # bytes of a tensor that is decoded as a whole to show its first values


@verb(
    "show",
    examples=[
        ("tark show model.zt", "Format, sizes, shards, alignment, aliases and attributes."),
        ("tark show model.zt lm_head.weight --decode", "One tensor, with its first values."),
    ],
)
@parameters.path
@click.argument("name", required=False)
@click.option("--decode", is_flag=True, help="Read the first values of the tensor, and mask bits.")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", default=8, help="How many (8).")
@leniency.opening
def command(path: str, name: str | None, *, decode: bool, limit: int, **opening: Any) -> None:
    """Describe a file, or one tensor in full.

    Reads no payload without --decode. What a model is guessed to be comes from the names of its
    tensors and is no more than a guess.
    """
    if decode and name is None:
        raise click.UsageError("--decode needs the name of a tensor")
    out = terminal()
    with leniency.open_model(path, **opening) as file:
        if name is None:
            with pause_gc():
                value = report(file)
            _show(out, value, report_lines(value))
            return
        view = file[name]
        value = {"path": file.path, "tensor": full(view.tensor)}
        lines = list(tensor_lines(value["tensor"]))
        if decode:
            value["values"] = [_plain(each) for each in _first(view, limit)]
            lines.append(("values", " ".join(map(str, value["values"])) or "none"))
            bits = _mask_bits(view, limit)
            if bits:
                value["mask_bits"] = bits
                lines.append(("mask bits", " ".join(bits)))
        _show(out, value, lines)


def _show(out: Terminal, value: dict[str, Any], lines: Iterable[tuple[str, str]]) -> None:
    if out.json:
        out.document("show", value)
    else:
        out.facts(lines)


def _first(view: TensorView, count: int) -> list[Any]:
    """Return the first values of the first row, reading little more than them."""
    if not view.size:
        return []
    if view.layout != "dense" and view.size * 16 > _WHOLE:
        raise LimitExceeded("the tensor is too large to be decoded at once", code="decoded-size")
    index = (0,) * (view.ndim - 1) + (slice(count),) if view.shape else ()
    row = view[index]
    return list(row.reshape(-1)[:count]) if view.shape else [row]


def _mask_bits(view: TensorView, count: int) -> list[str]:
    """Return the bits of the groups that hold the first weights of an N:M tensor; 1 is kept."""
    if view.layout != NM:
        return []
    from tensorark.report.sparsity import first_groups

    bits = [kept for _, _, kept in first_groups(view, count)]
    groups = -(-count // len(bits[0])) if bits else 0
    return bits[:groups]


def _plain(value: Any) -> Any:
    """Return a numpy scalar as a JSON-able number, or as text where JSON has none."""
    number = value.item() if hasattr(value, "item") else value
    return plain(number) if isinstance(number, bool | int | float) else str(number)
