"""`tark resources`: the resources of an artifact by role, out of it and into a new one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tensorark import files
from tensorark.cli import parameters
from tensorark.cli.output import destination
from tensorark.cli.terminal import is_terminal, terminal
from tensorark.cli.verb import verb
from tensorark.errors import InvalidInput, ReadFailed, escaped
from tensorark.formats.ninfer.directory import directory_of
from tensorark.io.inputs import note_path
from tensorark.ninfer.resources import read_resource, replace_resources, resources
from tensorark.report.text import nbytes_text


@verb(
    "resources",
    examples=[
        (
            "tark resources model.ninfer --extract chat_template.jinja -o old.jinja",
            "The bytes of one resource.",
        ),
        (
            "tark resources model.ninfer --resource chat_template.jinja=new.jinja -o new.ninfer",
            "A new chat template; weights are copied as they are.",
        ),
    ],
    exits={2: "wrong usage, no such resource, or no NInfer artifact"},
)
@parameters.path
@click.option("--extract", metavar="ROLE", help="Write the bytes of this resource.")
@click.option(
    "--resource",
    "replaced",
    metavar="ROLE=FILE",
    multiple=True,
    help="Another file for a role: write a new artifact.",
)
@parameters.output("The file that is written.")
@parameters.max_size(name="max_file_bytes")
@parameters.artifact_id
@parameters.force
def command(
    path: str,
    *,
    extract: str | None,
    replaced: tuple[str, ...],
    output: str | None,
    **wanted: Any,
) -> None:
    """List, extract or replace the resources of a .ninfer.

    A resource is named by its role, or by component/role where several components have that role.
    Replacing writes a new artifact, which appears when it is complete; the source is never changed.
    """
    if extract is not None and replaced:
        raise click.UsageError("--extract and --resource exclude each other")
    if replaced:
        _replace(path, replaced, output, **wanted)
    elif extract is not None:
        _extract(path, extract, output, overwrite=wanted["overwrite"])
    else:
        _list(path)


def _list(path: str) -> None:
    out = terminal()
    with files.open(path) as file:
        known = resources(directory_of(file.catalog.native, file.path))
    found: list[dict[str, Any]] = [
        {"component": component, "role": role, "object": each.id, "nbytes": each.nbytes}
        for (component, role), each in known.items()
    ]
    if out.json:
        out.document("resources", {"path": path, "resources": found})
        return
    if out.quiet:
        for row in found:
            out.line(escaped(f"{row['component']}/{row['role']}"))
        return
    keys = ("component", "role", "object")
    rows = [[*(escaped(row[key]) for key in keys), nbytes_text(row["nbytes"])] for row in found]
    out.table(rows, head=[*keys, "size"], right={3})


def _extract(path: str, role: str, output: str | None, *, overwrite: bool) -> None:
    with files.open(path) as file:
        data = read_resource(file, role)
    if output is None and is_terminal(sys.stdout):
        raise click.UsageError("bytes are not for a terminal: use -o or a pipe")
    with destination(output, overwrite=overwrite) as write:
        write(data)


def _replace(path: str, replaced: tuple[str, ...], output: str | None, **wanted: Any) -> None:
    if output is None:
        raise click.UsageError("--resource writes a new artifact: name it with -o")
    found = {}
    for word in replaced:
        role, separator, source = word.partition("=")
        if not separator or not role or not source:
            raise InvalidInput("no replacement", code="replace", expected="ROLE=FILE", found=word)
        note_path(source)
        try:
            found[role] = Path(source).read_bytes()
        except OSError as error:
            raise ReadFailed(error.strerror or str(error), path=source) from error
    out = terminal()
    with out.progress(Path(path).stat().st_size, "writing") as progress:
        files = replace_resources(path, output, found, progress=progress, **wanted)
    if out.json:
        out.document("resources", {"path": path, "files": files})
    elif not out.quiet:
        for each in files:
            out.line(escaped(each))
