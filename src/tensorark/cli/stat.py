"""`tark stat`: what the numbers of every tensor are like, in one pass and bounded memory."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tensorark.cli import leniency, parameters
from tensorark.cli.error_output import say
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.core.matching import choose
from tensorark.core.progress import Progress
from tensorark.errors import LimitExceeded, Unsupported, escaped
from tensorark.files import File
from tensorark.report.names import natural
from tensorark.report.plain import plain
from tensorark.report.report import brief
from tensorark.report.text import shape_text


@verb(
    "stat",
    maps=True,
    examples=[
        ("tark stat model.safetensors", "One line a tensor; NaN and infinities stand out."),
        ("tark stat model.zt --include '*.weight' --json", "The same for a program."),
    ],
    exits={4: "some tensor cannot be read as numbers; the others are shown"},
)
@parameters.path
@parameters.choosing
@parameters.threads
@leniency.lenient
@leniency.generation
def command(
    path: str,
    *,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    threads: int | None,
    **opening: Any,
) -> int:
    """Compute minimum, maximum, mean and more of every tensor.

    Minimum, maximum, mean and standard deviation (over n) are those of the finite values; zeros,
    NaN and infinities are counted. Of complex numbers the magnitude is measured. Payload is read in
    blocks of a mebibyte for each thread.
    """
    out = terminal()
    with leniency.open_model(path, **opening) as file:
        names = sorted(choose(file, include, exclude), key=natural)
        total = sum(file.catalog.tensors[name].nbytes for name in names)
        with out.progress(total, "reading") as progress:
            rows = _measure(file, names, threads, progress)
        if out.json:
            out.document("stat", {"path": file.path, "tensors": rows})
        else:
            _show(out, rows)
    return 4 if any("refused" in row for row in rows) else 0


def _measure(
    file: File, names: list[str], threads: int | None, progress: Progress
) -> list[dict[str, Any]]:
    from tensorark.report.statistics import measure

    def look(name: str) -> dict[str, Any]:
        tensor = file.catalog.tensors[name]
        facts = brief(tensor)
        try:
            found = measure(file, tensor, progress)
        except (Unsupported, LimitExceeded) as error:
            return {**facts, "refused": error.message}
        return {
            **facts,
            "min": plain(found.minimum),
            "max": plain(found.maximum),
            "mean": plain(found.mean) if found.finite else None,
            "std": plain(found.deviation),
            "zeros": found.zeros,
            "nan": found.nan,
            "inf": found.infinite,
        }

    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        return list(pool.map(look, names))


def _show(out: Terminal, rows: list[dict[str, Any]]) -> None:
    head = ["name", "type", "shape", "min", "max", "mean", "std", "zeros", "NaN", "inf"]
    table = []
    for row in rows:
        facts = [escaped(row["name"]), escaped(row["type"]), shape_text(row["shape"])]
        if "refused" in row:
            say(f"not read: {row['refused']}")
            continue
        numbers = [_number(row[key]) for key in ("min", "max", "mean", "std")]
        counts = [f"{row[key]:,}" for key in ("zeros", "nan", "inf")]
        table.append([*facts, *numbers, *counts])
    if table:
        out.table(table, head=() if out.quiet else head, right=set(range(3, 10)))
    elif not rows and not out.quiet:
        out.line("no tensors")


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.6g}" if isinstance(value, float) else value["$float"]
