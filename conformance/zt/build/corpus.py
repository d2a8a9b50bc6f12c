"""The corpus of `.zt`: which modules build which class, and the answers of readers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.build.case import ACCEPT, REFUSE, REJECT, Case, Expect
from conformance.build.collection import Collection
from conformance.build.ruletable import Rule

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
from .image import Sparse
from .rules import PROFILES, RULES


def _place(stem: str, image: object) -> dict[str, bytes]:
    if isinstance(image, Sparse):
        return {f"{stem}.sparse.json": image.recipe()}
    assert isinstance(image, bytes), stem
    return {f"{stem}.zt": image}


def _facts(case: Case, files: Mapping[str, bytes]) -> dict[str, object]:
    """Return the telling operation, and the profile that a decoder must know."""
    (file,) = files.values()
    rule = RULES[case.rule] if case.rule else None
    canonical = bool(rule and rule.stage == "canonical")
    return {"operation": _decisive(case), "requires": _required(file, canonical=canonical)}


def _required(file: bytes, *, canonical: bool) -> str | None:
    """Return the profile that a decoder must know; canonical form is judged without any."""
    found = (each for each in PROFILES if each.partition("<")[0].encode() in file)
    return None if canonical else next(found, None)


def _decisive(case: Case) -> str:
    """Return the operation that shows the file's class: the last with the telling outcome."""
    telling = REFUSE if REFUSE in case.expect.values() else REJECT if case.rule else ACCEPT
    return [operation for operation, outcome in case.expect.items() if outcome == telling][-1]


def _expect(rule: Rule) -> Expect:
    if rule.id == "zt.digest":  # decoding need not check digests
        return {"open": ACCEPT, "verify": REJECT}
    match rule.stage:
        case "content":
            return {"open": ACCEPT, "decode": REJECT, "verify": REJECT}
        case "canonical" if rule.id in {"zt.canonical-raw", "zt.canonical-shards"}:
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
    place=_place,
    expect=_expect,
    facts=_facts,
)
