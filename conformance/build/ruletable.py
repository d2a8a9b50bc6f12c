"""Rule tables: what a file of `reject/` can break, one line per rule.

Owns the form of a table. It never says how a rule is checked.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One requirement a file can break, named for ever by its id."""

    id: str
    section: str
    stage: str
    requirement: str


def table(prefix: str, text: str) -> dict[str, Rule]:
    """Return the rules of a table by id.

    A line is `id | section | requirement`, the id without its prefix unless it has another one; a
    line without a bar opens a stage.
    """
    rules = {}
    stage = ""
    for line in filter(None, text.splitlines()):
        if "|" not in line:
            stage = line
            continue
        slug, section, requirement = line.split(" | ")
        name = slug if "." in slug else f"{prefix}.{slug}"
        rules[name] = Rule(id=name, section=section, stage=stage, requirement=requirement)
    return rules
