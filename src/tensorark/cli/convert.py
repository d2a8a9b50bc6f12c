"""`tark convert`: one format into another, verbatim, or what would be done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tensorark import files
from tensorark.cli import dropping, leniency, parameters
from tensorark.cli.parameters import size
from tensorark.cli.sizes import holes_note, sizes_of, sizes_text
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.conversion.as_zt_model import normalize
from tensorark.conversion.pipeline import Conversion, convert, target_of
from tensorark.errors import escaped, quoted
from tensorark.files import File
from tensorark.formats.format import Format
from tensorark.io.inputs import refuse_input
from tensorark.report.report import PAGE, totals
from tensorark.report.text import count_text, nbytes_text, totals_text


@verb(
    "convert",
    examples=[
        ("tark convert model.safetensors model.zt", "A canonical .zt of the same tensors."),
        (
            "tark convert model.zt -o out/model.safetensors --max-size 5GB",
            "A shard set with its index.",
        ),
    ],
    exits={
        0: "converted, and what is in the result is what was in the source",
        2: "wrong usage, or the target exists and --force is not given",
        4: "the target cannot hold something; nothing was written",
    },
)
@click.argument("source", type=click.Path())
@parameters.target()
@click.option(
    "--to", "format", metavar="FORMAT", help="Format of the target, whatever its suffix says."
)
@parameters.align("Place blobs of a .zt at multiples of this (4096·n).")
@click.option(
    "--compact", is_flag=True, help="Place blobs of a .zt as closely as is legal; not canonical."
)
@parameters.max_size("Split a safetensors or .ninfer target: 5GB, 512MiB.", "max_shard_size")
@parameters.artifact_id
@click.option("--encoding", metavar="NAME", help="Store parts of a .zt under zstd; not canonical.")
@click.option("--level", type=int, metavar="N", help="Level of zstd (default 3).")
@click.option("--frame-size", type=size, metavar="SIZE", help="Decoded bytes of a zstd frame.")
@click.option(
    "--digest",
    type=click.Choice(["xxh3", "sha256", "none"]),
    help="Digests of the parts of a .zt, instead of those they have; only xxh3 is canonical.",
)
@click.option(
    "--quantized",
    "quantized",
    type=click.Choice(["import", "export"]),
    help="Gather the tensors of GPTQ, AWQ and MLX layers into one each, exactly, or undo that.",
)
@click.option(
    "--sparse",
    type=click.Choice(["import", "detect", "export"]),
    help="Masks of other tools as N:M tensors, N:M found in zeros, or packed for CUTLASS.",
)
@click.option(
    "--masking",
    type=click.Choice(["checked", "masked", "stored"]),
    help="N:M tensors made dense: refuse what masks change (default), apply, or drop masks.",
)
@click.option(
    "--cast",
    type=click.Choice(["f64", "f32", "f16", "bf16"]),
    help="Round all float weights to this type, and say what that changed.",
)
@click.option("--include", multiple=True, metavar="GLOB", help="Only tensors so named; repeatable.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Not those so named; repeatable.")
@dropping.drop
@parameters.force
@click.option("--dry-run", is_flag=True, help="Check and show the plan; write nothing.")
@leniency.lenient
@leniency.generation
def command(
    source: str,
    target: str,
    *,
    dry_run: bool,
    compact: bool,
    lenient: bool,
    generation: int | None,
    format: str | None,  # noqa: A002 - the word users know
    overwrite: bool,
    **wanted: Any,
) -> int | None:
    """Convert a model into another format, verbatim.

    Nothing is cast, rounded or dropped: what the target cannot hold is refused before the first
    byte, unless --drop names its kind. The target appears when it is complete and has passed the
    reader's own rules, and not at all after an error or an interrupt. Inputs are never written.
    """
    if compact and wanted["align"] is not None:
        raise click.UsageError("--compact is an alignment: --align is another")
    wanted["align"] = PAGE if compact else wanted["align"]
    out = terminal()
    with leniency.open_model(source, lenient=lenient, generation=generation) as file:
        plan = _plan(file, target, format, wanted, overwrite=overwrite)
    with out.progress(plan["totals"]["nbytes"], "converting") as progress:
        done = convert(
            source,
            target,
            format=format,
            overwrite=overwrite,
            lenient=lenient,
            length=leniency.length_of(source, generation),
            dry_run=dry_run,
            progress=progress,
            **{name: each for name, each in wanted.items() if each is not None},
        )
    if dry_run:
        lost = {
            "dropped": dropping.losses(done.dropped),
            "beside": list(done.beside),
            "densified": list(done.densified),
        }
        _show_plan(out, {**plan, **lost})
        return None
    return _show_result(out, plan, done)


def _plan(
    file: File, goal: str, name: str | None, wanted: dict[str, Any], *, overwrite: bool
) -> dict[str, Any]:
    """Return what will be done, having refused a target that is there."""
    kind: Format = target_of(goal, name)
    order = [each.name for each in command.params]
    refuse_input(Path(goal))
    parameters.require_free(goal, overwrite=overwrite)
    return {
        "source": file.path,
        "source_format": file.format.name,
        "target": goal,
        "target_format": kind.name,
        "options": {
            key: _show(wanted[key]) for key in sorted(wanted, key=order.index) if wanted[key]
        },
        # The resources of an artifact are tensors of a .zt, and count on both sides.
        "totals": totals((normalize(file) if kind.name == "zt" else file).catalog.tensors.values()),
    }


def _show(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _show_plan(out: Terminal, plan: dict[str, Any]) -> None:
    if out.json:
        out.document("convert-plan", plan)
        return
    rows = [
        ("source", f"{escaped(plan['source'])} ({plan['source_format']})"),
        ("target", f"{escaped(plan['target'])} ({plan['target_format']})"),
        ("options", ", ".join(f"{k} {v}" for k, v in plan["options"].items()) or "none"),
        ("tensors", totals_text(plan["totals"])),
        ("lost", _lost(plan["options"], plan["dropped"])),
    ]
    out.facts(rows)
    dropping.tell_densified(out, plan["densified"], plan["target_format"])
    dropping.tell_beside(out, plan["beside"])


def _lost(options: dict[str, Any], dropped: dict[str, list[str]]) -> str:
    """Say what a conversion loses that was asked to."""
    asked = {
        "cast": f"what does not fit {options.get('cast')}, which will be counted",
        "masking": "masks, where the target knows none",
    }
    found = [words for key, words in asked.items() if key in options]
    found += [f"{kind} {', '.join(map(quoted, names))}" for kind, names in dropped.items()]
    return "; ".join(found) or "nothing: a conversion is verbatim or refused"


def _show_result(out: Terminal, plan: dict[str, Any], done: Conversion) -> int:
    """Open what was written and say that as much came out as went in."""
    entry = plan["target"] if plan["target"] in done.files else done.files[-1]
    with files.open(entry) as file:
        held = normalize(file) if done.source_format == "zt" else file
        result = totals(held.catalog.tensors.values())
    whole = (result["tensors"], result["nbytes"]) == (done.tensors, done.nbytes)
    recast = done.quantized or done.sparse
    sizes = sizes_of(done.files)
    if out.json:
        value = {
            "source": done.source,
            "source_format": done.source_format,
            "target_format": done.target_format,
            "files": list(done.files),
            "in": {key: plan["totals"][key] for key in ("tensors", "nbytes")},
            "out": {key: result[key] for key in ("tensors", "nbytes")},
            **sizes,
            "dropped": dropping.losses(done.dropped),
            "beside": list(done.beside),
            "densified": list(done.densified),
            "cast": done.cast
            and {
                "dtype": done.cast.dtype,
                "tensors": list(done.cast.names),
                "changed": done.cast.changed,
                "overflowed": done.cast.overflowed,
                "max_error": done.cast.max_error,
            },
            "quantized": recast
            and {
                "made": list(recast.made),
                "replaced": list(recast.replaced),
                "left": dict(recast.left),
            },
        }
        out.document("convert", value)
    elif out.quiet:
        for name in done.files:
            out.line(escaped(name))
    else:
        more = f" and {count_text(len(done.files) - 1, 'file')} more" if len(done.files) > 1 else ""
        ways = (f"{way} {_amount(each)}" for way, each in (("in", plan["totals"]), ("out", result)))
        line = f"{escaped(done.source)} → {escaped(entry)}{more}: {'; '.join(ways)}"
        out.line(f"{line}; written {sizes_text(sizes)}")
        if done.target_format == "zt" and not plan["options"].keys() & {"align", "encoding"}:
            out.note(holes_note(sizes, result["nbytes"]))
        if done.cast is not None:
            cast = done.cast
            out.note(
                f"cast to {cast.dtype}: {cast.changed:,} of {cast.values:,} values changed, by at "
                f"most {cast.max_error:.3g}; {cast.overflowed:,} became infinite"
            )
        dropping.tell(out, done.dropped)
        dropping.tell_densified(out, done.densified, done.target_format)
        dropping.tell_beside(out, done.beside)
        if recast is not None and not recast.made:
            out.note("note: nothing was there to import, detect or export")
        for name, reason in (recast.left if recast else {}).items():
            out.note(f"left as it is: {quoted(name)}: {reason}")
    if not whole:
        out.note("error: not as much came out as went in")
    return 0 if whole else 1


def _amount(amounts: dict[str, Any]) -> str:
    return f"{count_text(amounts['tensors'], 'tensor')}, {nbytes_text(amounts['nbytes'])}"
