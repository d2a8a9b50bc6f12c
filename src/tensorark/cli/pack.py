"""`tark pack`: a checkpoint of the Qwen3.5 family as an artifact, by a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tensorark.cli import dropping, parameters
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped
from tensorark.report.text import count_text, nbytes_text, shape_text


@verb(
    "pack",
    examples=[
        (
            "tark pack Qwen3.6-27B -o model.ninfer --recipe qwen3_6_27b --dry-run",
            "Every object that would be written: parameters, format, shape, bytes.",
        ),
        (
            "tark pack Qwen3.6-27B -o model.ninfer --recipe mine.toml --component vision",
            "By a recipe of your own, with the vision tower.",
        ),
    ],
    exits={
        0: "written, and judged by the reader's own rules",
        2: "wrong usage; checkpoint, recipe or values do not fit; or the target exists",
        4: "the checkpoint is of an architecture, quantized in a way, or has tensors that are not "
        "converted",
    },
)
@click.argument("folder", type=click.Path())
@parameters.target()
@click.option("--recipe", required=True, metavar="NAME|FILE", help="A preset, or a TOML/JSON file.")
@click.option(
    "--component",
    "components",
    multiple=True,
    type=click.Choice(["vision", "mtp", "dflash", "dflash2"]),
    help="Take this along with the text model; may be repeated.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=FOLDER",
    help="A further checkpoint: dflash, dflash2, mtp, or as the recipe calls it.",
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="ROLE=FILE",
    help="Another file for a role, such as chat_template.jinja.",
)
@click.option("--name", metavar="TEXT", help="Public name of the artifact.")
@parameters.max_size(name="max_file_bytes")
@parameters.artifact_id
@dropping.drop
@parameters.force
@click.option("--dry-run", is_flag=True, help="Decide and measure everything; write nothing.")
def command(folder: str, target: str, *, recipe: str, dry_run: bool, **wanted: Any) -> None:
    """Quantize a checkpoint into a .ninfer, by a recipe.

    FOLDER holds config.json, safetensors, and the files of the tokenizer. The recipe says which
    parameter gets which format and what is stored together; rounding to a format is lossy and never
    done unasked: the recipe `bf16` keeps bf16 weights as they are. The same checkpoint and recipe
    give the same payload. Tensors that the architecture does not know are refused, unless --drop
    tensors leaves them out.

    Presets: bf16, qwen3_6_27b, qwen3_8_27b, qwen3_6_35b_a3b, qwen3_6_27b_nvfp4, qwen3_8_27b_nvfp4.
    """
    from tensorark.ninfer.pack import convert_checkpoint

    out = terminal()
    wanted["components"] = ("text", *wanted["components"])
    wanted["sources"] = _pairs("--source", wanted["sources"])
    wanted["resources"] = _pairs("--resource", wanted["resources"])
    planned = convert_checkpoint(folder, target, recipe, dry_run=True, **wanted)
    if dry_run:
        _show_plan(out, planned)
        return
    parameters.require_free(target, overwrite=wanted["overwrite"])
    with out.progress(planned.payload_bytes, "packing") as progress:
        done = convert_checkpoint(folder, target, recipe, progress=progress, **wanted)
    _show_result(out, done)


def _pairs(option: str, words: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key or not value or key in found:
            raise click.UsageError(f"{option} takes NAME=PATH, each name once: {word!r}")
        found[key] = value
    return found


def _show_plan(out: Terminal, planned: Any) -> None:
    if out.json:
        out.document("pack-plan", dropping.facts(planned))
        return
    rows = [
        [
            escaped(each["object"]),
            each["format"],
            shape_text(each["shape"]) if "shape" in each else "",
            each.get("method", ""),
            f"{each['nbytes']:,}",
            _purpose(each),
        ]
        for each in planned.objects
    ]
    head = ["object", "format", "shape", "method", "bytes", "parameters"]
    out.table(rows, head=head)
    _show_totals(out, planned)
    _tell(out, planned)


def _purpose(row: Mapping[str, Any]) -> str:
    names = row.get("parameters", [])
    shown = ", ".join(names[:4])
    return escaped(f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown)


def _show_totals(out: Terminal, planned: Any) -> None:
    formats: dict[str, int] = {}
    for each in planned.objects:
        formats[each["format"]] = formats.get(each["format"], 0) + each["nbytes"]
    parts = ", ".join(f"{name} {nbytes_text(size)}" for name, size in formats.items())
    total = f"{count_text(len(planned.objects), 'object')}, {nbytes_text(planned.payload_bytes)}"
    out.line(out.paint(f"{total}: {parts}", "dim"))


def _tell(out: Terminal, planned: Any) -> None:
    """Say what of the checkpoint is not in the artifact."""
    dropping.tell(out, planned.dropped)
    for component, count in planned.unchosen.items():
        tensors = count_text(count, "tensor")
        out.note(f"note: {tensors} of {component} left out: --component {component} takes them")


def _show_result(out: Terminal, done: Any) -> None:
    if out.json:
        out.document("pack", dropping.facts(done))
        return
    for name in done.files:
        out.line(escaped(name))
    if not out.quiet:
        _show_totals(out, done)
        _tell(out, done)
