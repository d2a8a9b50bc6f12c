"""The corpus of `.zt`: which modules build which class, and the lines of its index."""

from __future__ import annotations

import hashlib
from pathlib import Path

from conformance.build.collection import Builder, Collection, Entry, sentence

from . import (
    accept,
    affine,
    canonical,
    content,
    either,
    frame,
    layout,
    profiles,
    refuse,
    schema,
    syntax,
    values,
    zstd,
)
from .case import ACCEPT, REFUSE, REJECT, Case
from .image import Sparse, json_bytes
from .rules import PROFILES, RULES

_SLUGS = {id_.removeprefix("zt.").replace(".", "-"): rule for id_, rule in RULES.items()}
"""What the name of a file in `reject/` begins with."""


def _entry(group: str, stem: str, builder: Builder) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    file = case.image.recipe() if isinstance(case.image, Sparse) else case.image
    path = f"zt/{group}/{stem}{'.sparse.json' if isinstance(case.image, Sparse) else '.zt'}"
    rule = RULES[case.rule] if case.rule else None
    line: dict[str, object] = {
        "path": path,
        "sha256": hashlib.sha256(file).hexdigest(),
        "class": group,
        "rule": case.rule,
        "section": case.section,
        "stage": rule.stage if rule else None,
        "operation": _decisive(case),
        "expect": dict(case.expect),
        "requires": _required(file, canonical=bool(rule and rule.stage == "canonical")),
        "contents": None,
        "sentence": sentence(builder),
    }
    files = {path: file}
    if not isinstance(built, bytes | Sparse):
        line["contents"] = f"zt/{group}/{stem}.json"
        files[f"zt/{group}/{stem}.json"] = json_bytes({**case.notes, **(case.contents or {})})
    return Entry(files=files, line=line)


def _required(file: bytes, *, canonical: bool) -> str | None:
    """Return the profile that a decoder must know; canonical form is judged without any."""
    found = (each for each in PROFILES if each.partition("<")[0].encode() in file)
    return None if canonical else next(found, None)


def _decisive(case: Case) -> str:
    """Return the operation that shows the file's class: the last with the telling outcome."""
    telling = REFUSE if REFUSE in case.expect.values() else REJECT if case.rule else ACCEPT
    return [operation for operation, outcome in case.expect.items() if outcome == telling][-1]


def _breaking(stem: str, image: object) -> Case:
    """Return the case of an image of `reject/`: the file's name is the rule it breaks."""
    if not isinstance(image, bytes | Sparse):
        message = f"{stem} is no image"
        raise TypeError(message)
    rule = _SLUGS[stem.split("--", maxsplit=1)[0]]
    return Case(image=image, section=rule.section, expect=_expect(rule.id), rule=rule.id)


def _expect(rule: str) -> dict[str, str]:
    """Return what the operations answer when a file breaks `rule`, and nothing else."""
    if rule == "zt.digest":  # decoding need not check digests
        return {"open": ACCEPT, "verify": REJECT}
    match RULES[rule].stage:
        case "content":
            return {"open": ACCEPT, "decode": REJECT, "verify": REJECT}
        case "canonical" if rule in {"zt.canonical-raw", "zt.canonical-shards"}:
            return {"open": ACCEPT, "canonical": REJECT}  # an encoding, a shard: more than we ask
        case "canonical":
            return {"open": ACCEPT, "verify": ACCEPT, "canonical": REJECT}
    return {"open": REJECT}


CORPUS = Collection(
    format="zt",
    specification="zTensor Container Format, Version 2, Draft 4",
    home=Path(__file__).parents[2],
    below="zt/",
    classes={
        "accept": (accept, values),
        "reject": (frame, syntax, schema, layout, profiles, affine, content, zstd, canonical),
        "refuse": (refuse,),
        "either": (either,),
    },
    rules=RULES,
    make=_entry,
)
