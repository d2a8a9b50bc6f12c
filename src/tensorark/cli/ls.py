"""`tark ls`: names, types, shapes and sizes, without reading payload."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from tensorark.cli import leniency, parameters
from tensorark.cli.error_output import show_error
from tensorark.cli.models import Failure, Success, each_file, models, show_all
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.core.matching import choose
from tensorark.core.model import Tensor
from tensorark.errors import ReadFailed, escaped
from tensorark.files import File
from tensorark.report.names import natural
from tensorark.report.report import brief, element_type, full, totals
from tensorark.report.text import nbytes_text, part_text, shape_text, totals_text
from tensorark.wire.gc_pause import pause_gc

ORDERS: Final = ("name", "size", "type", "file")


@verb(
    "ls",
    examples=[
        ("tark ls model.safetensors", "Everything, and totals by type."),
        ("tark ls model/ --include '*.q_proj*' --sort size --limit 5", "The five largest of some."),
    ],
)
@parameters.paths
@parameters.choosing
@click.option(
    "--sort",
    type=click.Choice(ORDERS),
    default="name",
    show_default=True,
    help="By name (numbers by value), size (largest first), type, or as in the file.",
)
@click.option("-l", "--long", "is_long", is_flag=True, help="Layout, parts, places and digests.")
@click.option("--keep-going", is_flag=True, help="Where a shard is missing, list the others.")
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Show the first N.")
@leniency.opening
def command(
    paths: tuple[str, ...],
    *,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    sort: str,
    is_long: bool,
    limit: int | None,
    keep_going: bool,
    **opening: Any,
) -> int:
    """List the tensors of a model.

    Reads no payload. A folder may hold several models: each is listed under its path. With --quiet
    names alone are printed, one a line.
    """
    out = terminal()

    def listing(file: File) -> dict[str, Any]:
        with pause_gc():
            names = choose(file, include, exclude)
            tensors = _sort([file.catalog.tensors[name] for name in names], sort)
            return {
                "format": file.format.name,
                "tensors": [(full if is_long else brief)(each) for each in tensors[:limit]],
                "omitted": 0 if limit is None else max(0, len(tensors) - limit),
                "totals": totals(tensors),
            }

    def look(models: Sequence[str]) -> Iterator[Success | Failure]:
        return each_file(models, listing, **opening)

    seen = list(_each(paths, look, keep_going=keep_going))

    def show(each: Success) -> None:
        if len(seen) > 1 and not out.quiet:
            out.line(out.paint(escaped(each.path) + ":", "bold"))
        _show(out, each.value, is_long=is_long)

    return show_all("ls", seen, show)


def _each(
    paths: Sequence[str],
    look: Callable[[Sequence[str]], Iterator[Success | Failure]],
    *,
    keep_going: bool,
) -> Iterator[Success | Failure]:
    """List every model of `paths`; with `keep_going` the shards that incomplete sets have left."""
    if not keep_going:
        yield from look(paths)
        return
    for path in paths:
        try:
            yield from look([path])
        except ReadFailed as error:
            if error.code != "missing-shard":
                raise
            if not terminal().json:
                show_error(error)
            (index,) = models(path)
            yield Failure(index, error)
            for shard in _shards_beside(Path(index)):
                yield from look([str(shard)])


def _shards_beside(index: Path) -> list[Path]:
    """Return the files beside an index that are called as its shards are."""
    stem = re.escape(index.name.removesuffix(".safetensors.index.json"))
    pattern = re.compile(stem + r"-\d{5}-of-\d{5}\.safetensors")
    return sorted(each for each in index.parent.iterdir() if pattern.fullmatch(each.name))


def _sort(tensors: list[Tensor], order: str) -> list[Tensor]:
    if order != "file":
        tensors.sort(key=lambda each: natural(each.name))
    if order == "size":
        tensors.sort(key=lambda each: each.nbytes, reverse=True)
    if order == "type":
        tensors.sort(key=element_type)
    return tensors


def _show(out: Terminal, listing: dict[str, Any], *, is_long: bool) -> None:
    if out.quiet:
        for each in listing["tensors"]:
            out.line(escaped(each["name"]))
        return
    rows = []
    is_packed = any(each["scheme"] for each in listing["tensors"])
    for each in listing["tensors"]:
        shape, size = shape_text(each["shape"]), nbytes_text(each["nbytes"])
        row = [escaped(each["name"]), escaped(each["type"]), shape, size]
        if is_packed:
            row.append(escaped(each["scheme"] or ""))
        if is_long:
            parts = [f"{escaped(role)}: {part_text(part)}" for role, part in each["parts"].items()]
            row += [escaped(each["layout"]), "; ".join(parts)]
        rows.append(row)
    head = ["name", "type", "shape", "size"]
    head += ["scheme"] if is_packed else []
    head += ["layout", "parts"] if is_long else []
    out.table(rows, head=head, right={3})
    if listing["omitted"]:
        out.line(f"… and {listing['omitted']:,} more")
    out.line(out.paint(totals_text(listing["totals"]), "dim"))
