"""The corpus of npy: which modules build which class, and the answers of readers."""

from __future__ import annotations

from pathlib import Path

from conformance.build.case import REJECT, Expect
from conformance.build.collection import Collection
from conformance.build.ruletable import Rule

from . import accept, refuse, reject
from .rules import RULES


def _place(stem: str, image: object) -> dict[str, bytes]:
    assert isinstance(image, bytes), stem
    return {f"{stem}.npy": image}


def _expect(rule: Rule) -> Expect:
    del rule
    return {"open": REJECT}


CORPUS = Collection(
    format="npy",
    specification="npy 1.0 to 3.0",
    home=Path(__file__).parents[1],
    classes={"accept": (accept,), "reject": (reject,), "refuse": (refuse,)},
    rules=RULES,
    place=_place,
    expect=_expect,
)
