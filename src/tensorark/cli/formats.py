"""`tark formats`: what is read and what is written."""

from __future__ import annotations

from typing import Any

from tensorark.cli.terminal import terminal
from tensorark.cli.verb import verb
from tensorark.conversion.pipeline import targets
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
    written = {each.name: each for each in targets()}
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "title": each.title,
            "suffixes": list(each.suffixes),
            "read": True,
            "written": each.name in written,
            "rules": len(each.rules),
        }
        for each in FORMATS
    ]
    read = {each.name for each in FORMATS}
    rows += [
        {
            "name": name,
            "title": name,
            "suffixes": list(target.suffixes),
            "read": False,
            "written": True,
            "rules": 0,
        }
        for name, target in written.items()
        if name not in read
    ]
    if out.json:
        out.document("formats", {"formats": rows})
        return
    table = [
        [
            each["name"],
            "yes" if each["read"] else "no",
            "yes" if each["written"] else "no",
            " ".join(each["suffixes"]),
            each["title"],
        ]
        for each in rows
    ]
    out.table(table, head=["format", "read", "written", "suffixes", "what it is"])
