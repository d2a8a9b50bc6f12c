"""The corpus of npz: which modules build which class, and the answers of readers."""

from __future__ import annotations

from pathlib import Path

from conformance.build.case import ACCEPT, REJECT, Expect
from conformance.build.collection import Collection
from conformance.build.ruletable import Rule

from . import accept, refuse, reject
from .rules import RULES


def _place(stem: str, image: object) -> dict[str, bytes]:
    assert isinstance(image, bytes), stem
    return {f"{stem}.npz": image}


def _expect(rule: Rule) -> Expect:
    if rule.id == "npz.crc":  # decoding need not read the CRC of what lies there as it is
        return {"open": ACCEPT, "verify": REJECT}
    if rule.stage == "content":
        return {"open": ACCEPT, "decode": REJECT, "verify": REJECT}
    return {"open": REJECT}


CORPUS = Collection(
    format="npz",
    specification="zip (APPNOTE 6.3), npy 1.0 to 3.0",
    home=Path(__file__).parents[1],
    classes={"accept": (accept,), "reject": (reject,), "refuse": (refuse,)},
    rules=RULES,
    place=_place,
    expect=_expect,
)
