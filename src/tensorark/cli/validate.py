"""`tark validate`: every rule of the format, and what breaks it."""

from __future__ import annotations

from typing import Any

import click

from tensorark import files
from tensorark.cli import parameters
from tensorark.cli.models import Success, each_model, show_all
from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.core.rules import Finding
from tensorark.errors import escaped
from tensorark.report.report import finding
from tensorark.report.text import count_text, finding_text


@verb(
    "validate",
    examples=[
        ("tark validate model.zt", "One line for each fault, or that there is none."),
        ("tark validate models/ --canonical", "Every model of a folder; canonical form as well."),
    ],
    exits={0: "valid", 3: "a rule is broken, or it is no tensor file"},
)
@parameters.paths
@click.option(
    "--canonical", is_flag=True, help="Demand canonical form too; reads all of the file (.zt only)."
)
@click.option(
    "--architecture",
    is_flag=True,
    help="Demand what the architecture calls for too (.ninfer only).",
)
def command(paths: tuple[str, ...], *, canonical: bool, architecture: bool) -> int:
    """Judge files by every rule of their format.

    Reads no payload: digests and values are what `tark verify` checks. All faults of the first
    stage that has any are shown, since later stages build on it. Notes tell what no rule forbids,
    such as a blob of a .tbm that has no entry.
    """

    def judge(model: str) -> dict[str, Any]:
        notes: list[Finding] = []
        found = files.validate(model, canonical=canonical, architecture=architecture, notes=notes)
        return {
            "valid": not found,
            "findings": [finding(each) for each in found],
            "notes": [finding(each) for each in notes],
        }

    seen = each_model(paths, judge, lambda value: 0 if value["valid"] else 3)
    return show_all("validate", seen, _show)


def _show(each: Success) -> None:
    out = terminal()
    findings = each.value["findings"]
    if findings:
        verdict = out.paint(count_text(len(findings), "fault"), "red")
        out.line(f"{escaped(each.path)}: {verdict}")
    elif not out.quiet:
        out.line(f"{escaped(each.path)}: {out.paint('valid', 'green')}")
        for note in each.value["notes"]:
            out.line("  note: " + finding_text(note))
    for line in findings:
        out.line("  " + finding_text(line))
        if out.verbose:
            out.line(f"    tark explain {escaped(line['rule'])}")
