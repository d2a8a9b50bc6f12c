"""The corpus of npz: which modules build which class, and the lines of its index."""

from __future__ import annotations

from pathlib import Path

from conformance.build.collection import Builder, Collection, Entry, broken, entry
from conformance.build.ruletable import Rule

from . import accept, refuse, reject
from .case import ACCEPT, FAULTY, REJECT, Case, Expect, contents
from .rules import RULES


def _entry(group: str, stem: str, builder: Builder) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    found = contents(case) if isinstance(built, Case) else None
    files = {f"{group}/{stem}.npz": case.image}
    return entry(f"{group}/{stem}", files, case, builder, RULES, contents=found, parts=False)


def _breaking(stem: str, built: object) -> Case:
    assert isinstance(built, bytes), stem
    rule = broken("npz", stem, RULES)
    return Case(image=built, section=rule.section, expect=_expect(rule), rule=rule.id)


def _expect(rule: Rule) -> Expect:
    """Return what the operations answer when a file breaks `rule`, and nothing else."""
    if rule.id == "npz.crc":  # decoding need not read the CRC of what lies there as it is
        return {"open": ACCEPT, "verify": REJECT}
    return FAULTY if rule.stage == "content" else {"open": REJECT}


CORPUS = Collection(
    format="npz",
    specification="zip (APPNOTE 6.3), npy 1.0 to 3.0",
    home=Path(__file__).parents[1],
    classes={"accept": (accept,), "reject": (reject,), "refuse": (refuse,)},
    rules=RULES,
    make=_entry,
)
