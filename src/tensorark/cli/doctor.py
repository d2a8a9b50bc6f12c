"""`tark doctor`: what is wrong with a file, in words, and what is left of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tensorark.cli import parameters
from tensorark.cli.error_output import error_facts
from tensorark.cli.terminal import Terminal, terminal
from tensorark.cli.verb import verb
from tensorark.errors import escaped, printable
from tensorark.report.diagnosis import Diagnosis, diagnose
from tensorark.report.report import finding
from tensorark.report.text import finding_text


@verb(
    "doctor",
    examples=[
        ("tark doctor broken.zt", "Why it does not open, and how much of it is good."),
        ("tark doctor grown.zt", "The generations of a file that was appended to."),
    ],
    exits={
        0: "nothing is wrong with the file",
        3: "the file is broken; what is wrong was printed",
        4: "the file is of a format that is not read",
        5: "a shard is missing or the wrong one, or the file cannot be read",
    },
)
@parameters.path
def command(path: str) -> int:
    """Explain a file that does not open; list the generations of a .zt.

    Of a .zt whose end is damaged it searches the longest beginning that is a valid file, as an
    append that was interrupted leaves one. Nothing is changed: a broken file is not repaired.
    """
    out = terminal()
    total = Path(path).stat().st_size if Path(path).is_file() else 0
    with out.progress(total, "searching") as progress:
        found = diagnose(path, progress=progress)
    if out.json:
        out.document("doctor", _as_json(found))
    elif not out.quiet or not found.is_healthy:
        _show(out, found)
    return _exit_code(found)


def _exit_code(found: Diagnosis) -> int:
    if found.findings:
        return 3
    if found.error is not None:
        return found.error.exit_code
    return 5 if found.missing else 0


def _show(out: Terminal, found: Diagnosis) -> None:
    out.line(f"{escaped(found.path)}: {found.size:,} bytes")
    for each in found.words:
        out.line("  " + printable(each))
    if out.verbose:
        for fault in found.findings:
            out.line("  " + finding_text(finding(fault)))
    if len(found.generations) > 1 or not found.is_healthy:
        rows = [
            [
                str(each.number),
                f"{each.length:,}",
                f"{each.tensors:,}",
                f"+{len(each.added):,} ~{len(each.superseded):,} -{len(each.removed):,}",
            ]
            for each in found.generations
        ]
        head = ("generation", "bytes", "tensors", "changed")
        out.table(rows, head=head, right={0, 1, 2}, indent=2)


def _as_json(found: Diagnosis) -> dict[str, Any]:
    return {
        "path": found.path,
        "size": found.size,
        "format": found.format,
        "healthy": found.is_healthy,
        "words": list(found.words),
        "findings": [finding(each) for each in found.findings],
        "error": None if found.error is None else error_facts(found.error),
        "generations": [asdict(each) for each in found.generations],
        "missing": {label: list(names) for label, names in found.missing.items()},
    }
