"""`tark formats`: what is read and what is written."""

from __future__ import annotations

from typing import Any

from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.formats import FORMATS


@verb(
    "formats",
    examples=[
        ("tark formats", "The table."),
        ("tark formats --json", "The same for a program."),
    ],
)
def command() -> None:
    """List the formats that are read and written."""
    out = terminal()
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "title": each.title,
            "suffixes": list(each.suffixes),
            "read": True,
            "written": each.write is not None,
            "rules": len(each.rules),
        }
        for each in FORMATS
    ]
    if out.json:
        out.document("formats", {"formats": rows})
        return
    table = [
        [
            each["name"],
            "yes",
            "yes" if each["written"] else "no",
            " ".join(each["suffixes"]),
            each["title"],
        ]
        for each in rows
    ]
    out.table(table, head=["format", "read", "written", "suffixes", "what it is"])
