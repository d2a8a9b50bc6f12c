"""The corpus of NInfer: which modules build which class, and the lines of its index."""

from __future__ import annotations

from pathlib import Path

from conformance.build.collection import Builder, Collection, Entry, broken, entry

from . import accept, binder, carried, content, either, refuse, reject
from .case import ACCEPT, REJECT, Case, contents
from .rules import READ, RULES


def _entry(group: str, stem: str, builder: Builder) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    found = contents(case) if isinstance(built, Case) else None
    suffix = ".zt" if builder.__module__ == carried.__name__ else ".ninfer"
    files = {f"{group}/{stem}{suffix}": case.files[""]}
    files |= {f"{group}/{part}": data for part, data in case.files.items() if part}
    return entry(f"{group}/{stem}", files, case, builder, RULES, contents=found)


def _breaking(stem: str, built: object) -> Case:
    files = {"": built} if isinstance(built, bytes) else built
    assert isinstance(files, dict), stem
    rule = broken("ninfer", stem, RULES)
    return Case(files=files, section=rule.section, expect=_expect(rule.id), rule=rule.id)


def _expect(rule: str) -> dict[str, str]:
    """Return what the operations answer when a file breaks `rule`, and nothing else."""
    if RULES[rule].stage == "architecture":
        return {"open": ACCEPT, "decode": ACCEPT, "architecture": REJECT}
    if RULES[rule].stage != "content":
        return {"open": REJECT}
    if rule == "ninfer.input-columns":  # the matrix is one of GGUF blocks: more than we ask
        return {"open": ACCEPT, "verify": REJECT}
    is_read = rule.removeprefix("ninfer.").startswith(READ)
    return {"open": ACCEPT, "decode": REJECT if is_read else ACCEPT, "verify": REJECT}


CORPUS = Collection(
    format="ninfer",
    specification="NInfer v3 container",
    home=Path(__file__).parents[1],
    unit="sets",
    classes={
        "accept": (accept,),
        "reject": (reject, content, binder, carried),
        "refuse": (refuse,),
        "either": (either,),
    },
    rules=RULES,
    make=_entry,
)
