"""The corpus of npz: which modules build which class, and the lines of its index."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from conformance.build.collection import Builder, Collection, Entry, sentence
from conformance.build.ruletable import Rule

from . import accept, refuse, reject
from .case import ACCEPT, FAULTY, REJECT, Case, Expect, contents
from .rules import RULES

_FORMAT = "npz"


def _entry(group: str, stem: str, builder: Builder) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    name = f"{group}/{stem}.npz"
    files = {name: case.image}
    line: dict[str, object] = {
        "path": name,
        "sha256": hashlib.sha256(case.image).hexdigest(),
        "class": group,
        "rule": case.rule,
        "section": case.section,
        "stage": RULES[case.rule].stage if case.rule else None,
        "expect": dict(case.expect),
        "contents": None,
        "sentence": sentence(builder),
    }
    if isinstance(built, Case):
        line["contents"] = f"{group}/{stem}.json"
        text = json.dumps(contents(case), indent=1, ensure_ascii=False) + "\n"
        files[f"{group}/{stem}.json"] = text.encode()
    return Entry(files=files, line=line)


def _breaking(stem: str, built: object) -> Case:
    """Return the case of a file of `reject/`: its name is the rule that it breaks."""
    if not isinstance(built, bytes):
        message = f"{stem} is no image"
        raise TypeError(message)
    rule = RULES[f"{_FORMAT}.{stem.split('--', maxsplit=1)[0]}"]
    return Case(image=built, section=rule.section, expect=_expect(rule), rule=rule.id)


def _expect(rule: Rule) -> Expect:
    """Return what the operations answer when a file breaks `rule`, and nothing else."""
    if rule.id == "npz.crc":  # decoding need not read the CRC of what lies there as it is
        return {"open": ACCEPT, "verify": REJECT}
    return FAULTY if rule.stage == "content" else {"open": REJECT}


CORPUS = Collection(
    format=_FORMAT,
    specification="zip (APPNOTE 6.3), npy 1.0 to 3.0",
    home=Path(__file__).resolve().parents[2] / _FORMAT,
    classes={"accept": (accept,), "reject": (reject,), "refuse": (refuse,)},
    rules=RULES,
    make=_entry,
)
