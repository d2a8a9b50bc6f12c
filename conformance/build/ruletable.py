"""Rule tables: what a file of `reject/` can break, one line per rule.

Owns the form of a table. It never says how a rule is checked.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One requirement a file can break, named for ever by its id; its files begin with its slug."""

    id: str
    slug: str
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
        name, section, requirement = line.split(" | ")
        slug = name.replace(".", "-")
        id_ = name if "." in name else f"{prefix}.{name}"
        rules[id_] = Rule(id=id_, slug=slug, section=section, stage=stage, requirement=requirement)
    return rules
