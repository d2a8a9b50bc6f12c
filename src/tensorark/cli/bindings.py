"""`tark bindings`: which elements of which objects, in which files, each logical parameter is."""

from __future__ import annotations

from typing import Any

import click

from tensorark.cli import parameters
from tensorark.cli.models import Failure, each_file
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.core.matching import choose
from tensorark.errors import escaped
from tensorark.files import File
from tensorark.formats.ninfer.directory import Directory, directory_of
from tensorark.formats.ninfer.parameters import Parameter, Parameters, Piece
from tensorark.report.text import count_text, shape_text


@verb(
    "bindings",
    examples=[
        ("tark bindings model.ninfer", "Every parameter and where it comes from."),
        (
            "tark bindings model.ninfer --include 'text/layers/3/*' --uses",
            "One layer, with policies and auxiliaries of its uses.",
        ),
    ],
    exits={2: "wrong usage, or no NInfer artifact"},
)
@parameters.path
@parameters.choosing
@click.option("--uses", "with_uses", is_flag=True, help="Inputs, policies and auxiliaries too.")
def command(
    path: str, *, include: tuple[str, ...], exclude: tuple[str, ...], with_uses: bool
) -> int:
    """Show where each logical parameter of a .ninfer lies.

    A row of the table is one piece of a parameter: a range of elements of an object, with the
    object's rows where it is whole rows, and the files that hold the object. Reads no payload and
    opens no continuation. With --quiet names alone are printed.
    """
    out = terminal()

    def listing(file: File) -> dict[str, Any]:
        directory = directory_of(file.catalog.native, file.path)
        known = Parameters(directory)
        names = choose(known, include, exclude)
        found: dict[str, Any] = {"parameters": [_parameter(known[name]) for name in names]}
        if with_uses:
            found["uses"] = _uses(directory, set(names))
        return found

    seen = list(each_file([path], listing))
    if out.json:
        out.document("bindings", {"models": [each.as_json() for each in seen]})
    for each in () if out.json else seen:
        if len(seen) > 1 and not out.quiet:
            out.line(out.paint(escaped(each.path) + ":", "bold"))
        if not isinstance(each, Failure):
            _show(out, each.value)
    return max(each.exit_code for each in seen)


def _parameter(found: Parameter) -> dict[str, Any]:
    return {
        "name": found.name,
        "shape": list(found.shape),
        "elements": found.elements,
        "whole": found.whole,
        "pieces": [_piece(each) for each in found.pieces],
    }


def _piece(each: Piece) -> dict[str, Any]:
    return {
        "object": each.stored.id,
        "range": [each.range.begin, each.range.end],
        "rows": None if each.rows is None else list(each.rows),
        "object_shape": list(each.stored.shape),
        "format": each.stored.format,
        "layout": each.stored.layout,
        "files": list(dict.fromkeys(span.file for span in each.spans)),
    }


def _uses(directory: Directory, names: set[str]) -> list[dict[str, Any]]:
    return [
        {
            "parameter": use.parameter,
            "input": use.input,
            "activation_policy": use.activation_policy,
            "auxiliaries": {
                role: [[each.object, each.begin, each.end] for each in binding.ranges]
                for role, binding in use.auxiliaries.items()
            },
        }
        for use in directory.uses
        if use.parameter in names
    ]


def _show(out: Terminal, listing: dict[str, Any]) -> None:
    if out.quiet:
        for each in listing["parameters"]:
            out.line(escaped(each["name"]))
        return
    rows = []
    for each in listing["parameters"]:
        name, shape = escaped(each["name"]), shape_text(each["shape"])
        for piece in each["pieces"]:
            rows.append([name, shape, *_cells(each["whole"], piece)])
            name = shape = ""
    head = ["parameter", "shape", "object", "elements", "rows", "format", "files"]
    out.table(rows, head=head)
    for use in listing.get("uses", ()):
        policy = use["activation_policy"] or "no policy"
        line = f"{escaped(use['parameter'])} @ {escaped(use['input'])}: {policy}"
        for role, ranges in use["auxiliaries"].items():
            parts = ", ".join(f"{escaped(o)} [{begin}, {end})" for o, begin, end in ranges)
            line += f"; {escaped(role)} = {parts}"
        out.line(line)
    pieces = sum(len(each["pieces"]) for each in listing["parameters"])
    total = f"{count_text(len(listing['parameters']), 'parameter')}, {count_text(pieces, 'piece')}"
    out.line(out.paint(total, "dim"))


def _cells(whole: object, piece: dict[str, Any]) -> list[str]:
    begin, end = piece["range"]
    first, last = piece["rows"] or (None, None)
    return [
        escaped(piece["object"]),
        "all" if whole else f"[{begin}, {end})",
        "" if first is None else f"[{first}, {last})",
        escaped(piece["format"]),
        ", ".join("entry" if file is None else escaped(file) for file in piece["files"]),
    ]
