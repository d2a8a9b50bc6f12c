"""`tark explain`: what a rule demands, or what an error code means."""

from __future__ import annotations

from dataclasses import asdict

import click

from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.errors import NotFound, quoted
from tensorark.report.codes import everything, explain


@verb(
    "explain",
    examples=[
        ("tark explain zt.blob-align", "Section, requirement and the message of one rule."),
        ("tark explain", "All rules and codes."),
    ],
    exits={2: "there is no such code"},
)
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Explain a rule or an error code.

    Codes are the words in square brackets at the end of every message; they are stable. Without a
    code, all are listed.
    """
    out = terminal()
    if code is None:
        found = list(everything())
        if out.json:
            out.document("explain", {"codes": [asdict(each) for each in found]})
        else:
            rows = [[each.code, _section(each.section), each.requirement] for each in found]
            out.table(rows)
        return
    one = explain(code)
    if one is None:
        from difflib import get_close_matches

        near = get_close_matches(code, [each.code for each in everything()], 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`tark explain` lists all"
        raise NotFound(f"there is no code {quoted(code)}", hint=hint)
    if out.json:
        out.document("explain", {"codes": [asdict(one)]})
        return
    lines = [
        ("code", one.code),
        ("kind", f"rule of {one.format}, judged at stage {one.stage}" if one.is_rule else "error"),
        ("section", one.section),
        ("demands" if one.is_rule else "means", one.requirement),
        ("example", one.example),
    ]
    out.facts((label, text) for label, text in lines if text)


def _section(section: str) -> str:
    return f"§{section}" if section else ""
