"""The corpus of NInfer: which modules build which class, and the answers of readers."""

from __future__ import annotations

from pathlib import Path

from conformance.build.case import ACCEPT, REJECT, Expect
from conformance.build.collection import Collection
from conformance.build.ruletable import Rule

from . import accept, binder, carried, content, either, refuse, reject
from .image import Carried, Set
from .rules import READ, RULES


def _place(stem: str, image: object) -> dict[str, bytes]:
    if isinstance(image, Set):  # its continuations lie beside it
        folder = stem.rpartition("/")[0]
        parts = {f"{folder}/{part}": data for part, data in image.items() if part}
        return {f"{stem}.ninfer": image[""], **parts}
    assert isinstance(image, bytes), stem
    return {f"{stem}.zt" if isinstance(image, Carried) else f"{stem}.ninfer": bytes(image)}


def _expect(rule: Rule) -> Expect:
    if rule.stage == "architecture":
        return {"open": ACCEPT, "decode": ACCEPT, "architecture": REJECT}
    if rule.stage != "content":
        return {"open": REJECT}
    if rule.slug == "input-columns":  # the matrix is one of GGUF blocks: more than we ask
        return {"open": ACCEPT, "verify": REJECT}
    decoded = REJECT if rule.slug.startswith(READ) else ACCEPT
    return {"open": ACCEPT, "decode": decoded, "verify": REJECT}


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
    place=_place,
    expect=_expect,
)
