"""`tark diff`: two models tensor by tensor, whatever files they are in."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from tensorark.cli import dropping, leniency, overlay, parameters
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.edit.overlay import delta
from tensorark.errors import escaped
from tensorark.formats.ninfer.describe import STATEMENTS
from tensorark.integrity.change import Change, Difference
from tensorark.integrity.diff import diff
from tensorark.integrity.diff_parameters import diff_parameters
from tensorark.report.plain import plain
from tensorark.report.text import count_text, value_text


@verb(
    "diff",
    maps=True,
    examples=[
        ("tark diff model.safetensors model.zt", "Prove that a conversion changed nothing."),
        ("tark diff base.zt tuned.zt -o delta.zt", "What changed, and a file of that alone."),
    ],
    exits={0: "equal", 1: "different"},
)
@click.argument("left", type=click.Path())
@click.argument("right", type=click.Path())
@click.option(
    "--parameters",
    is_flag=True,
    help="Compare two .ninfer by what their logical parameters mean, however stored.",
)
@click.option("--values", is_flag=True, help="Compare decoded values, however tensors are stored.")
@click.option(
    "--limit", type=click.IntRange(0), metavar="N", default=50, help="Lines a section (default 50)."
)
@parameters.output("Write an overlay: LEFT made into RIGHT.")
@dropping.drop
@parameters.force
@leniency.lenient
def command(
    left: str,
    right: str,
    *,
    parameters: bool,
    values: bool,
    limit: int,
    output: str | None,
    drop: tuple[str, ...],
    overwrite: bool,
    lenient: bool,
) -> int:
    """Compare two models, whatever their formats.

    Names, shapes, types, layouts, attributes of tensors, and every byte of payload; of a .ninfer
    also resources, components, configs, roles, bindings, uses, metadata and provenance. Attributes
    of the file, and of a .ninfer its id and files, are shown and do not count. Digests are not
    trusted. With --parameters, what code gets: the decoded elements of every parameter, configs,
    resources by role, and uses.
    """
    if drop and output is None:
        raise click.UsageError("--drop is a matter of -o")
    if parameters and output is not None:
        raise click.UsageError("-o writes tensors, so it excludes --parameters")
    if parameters and values:
        raise click.UsageError("--parameters compares values already")
    if lenient and output is not None:
        raise click.UsageError("-o reads strictly, so it excludes --lenient")
    out = terminal()
    with (
        leniency.open_model(left, lenient=lenient) as first,
        leniency.open_model(right, lenient=lenient) as second,
    ):
        if parameters:
            total = sum(first.parameters[name].size for name in first.parameters)
        else:
            shared = [name for name in first if name in second]
            total = sum(first.catalog.tensors[name].nbytes for name in shared)
        with out.progress(total, "comparing") as progress:
            if parameters:
                found = diff_parameters(first, second, progress=progress)
            else:
                found = diff(first, second, values=values, progress=progress)
    made = None
    if output is not None:
        with out.progress(total, "writing") as progress:
            made = delta(left, right, output, drop=drop, overwrite=overwrite, progress=progress)
    if out.json:
        emitted = None if made is None else dropping.facts(made)
        value = {"left": left, "right": right, **_as_json(found), "emitted": emitted}
        out.document("diff", value)
    elif not out.quiet:
        _show(out, found, left, right, limit, noun="parameter" if parameters else "tensor")
        if made is not None:
            overlay.show(out, made)
    return 0 if found.is_equal else 1


def _as_json(found: Difference) -> dict[str, Any]:
    return {
        "equal": found.is_equal,
        "same": found.equal,
        "only_left": list(found.only_left),
        "only_right": list(found.only_right),
        "changes": [
            {field.name: plain(getattr(change, field.name)) for field in fields(change)}
            for change in found.changes
        ],
        "attributes": list(found.attributes),
    }


def _show(
    out: Terminal, found: Difference, left: str, right: str, limit: int, *, noun: str
) -> None:
    for title, sign, color, names in (
        (f"only in {escaped(left)}", "-", "red", found.only_left),
        (f"only in {escaped(right)}", "+", "green", found.only_right),
    ):
        if names:
            out.line(out.paint(f"{title} ({len(names):,})", "bold"))
            for name in names[:limit]:
                out.line(out.paint(f"  {sign} {escaped(name)}", color))
            _more(out, len(names), limit)
    if found.changes:
        out.line(out.paint(f"changed ({len(found.changes):,})", "bold"))
        rows = [[escaped(each.name), each.what, _change(each)] for each in found.changes[:limit]]
        out.table(rows, indent=2)
        _more(out, len(found.changes), limit)
    if found.attributes:
        keys = ", ".join(map(escaped, found.attributes[:limit])) or len(found.attributes)
        out.line(f"attributes of the file differ, which does not count: {keys}")
    verdict = "equal" if found.is_equal else "different"
    parts = [
        f"{count_text(found.equal, noun)} equal",
        f"{len({each.name for each in found.changes}):,} changed",
        f"{len(found.only_left):,} only left",
        f"{len(found.only_right):,} only right",
    ]
    out.line(f"{verdict}: {', '.join(parts)}")


def _change(each: Change) -> str:
    if each.what in STATEMENTS:
        return f"{escaped(str(each.left or 'nothing'))} → {escaped(str(each.right or 'nothing'))}"
    if each.what != "values":
        return f"{value_text(plain(each.left))} → {value_text(plain(each.right))}"
    if each.elements is None:
        return "bytes differ" if each.left is None else f"bytes of part {escaped(str(each.left))}"
    text = f"{count_text(each.elements, 'element')}, first at {each.first}"
    if each.left != each.right:  # the formats of a parameter
        text = f"{each.left} → {each.right}: {text}"
    return text if each.largest is None else f"{text}, by at most {each.largest:.6g}"


def _more(out: Terminal, count: int, limit: int) -> None:
    if count > limit:
        out.line(f"  … and {count - limit:,} more")
