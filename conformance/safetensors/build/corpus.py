"""The corpus of safetensors: which modules build which class, and the lines of its index."""

from __future__ import annotations

from pathlib import Path

from conformance.build.collection import Builder, Collection, Entry, broken, entry

from . import accept, either, refuse, reject
from .case import REJECT, Case, contents
from .image import INDEX, Set
from .rules import RULES


def _entry(group: str, stem: str, builder: Builder) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    found = contents(case) if isinstance(built, Case) else None
    files = _placed(f"{group}/{stem}", case.image)
    return entry(f"{group}/{stem}", files, case, builder, RULES, contents=found)


def _placed(stem: str, image: object) -> dict[str, bytes]:
    """Return all files of an image by name, first the one that is opened."""
    if isinstance(image, Set):
        parts = {f"{stem}/{part}": data for part, data in image.items()}
        index = f"{stem}/{INDEX}"
        return {index: parts.pop(index), **parts}
    assert isinstance(image, bytes), stem
    return {f"{stem}.safetensors": image}


def _breaking(stem: str, built: object) -> Case:
    assert isinstance(built, bytes | Set), stem
    rule = broken("safetensors", stem, RULES)
    return Case(image=built, section=rule.section, expect={"open": REJECT}, rule=rule.id)


CORPUS = Collection(
    format="safetensors",
    specification="safetensors, release 0.8",
    home=Path(__file__).parents[1],
    classes={"accept": (accept,), "reject": (reject,), "refuse": (refuse,), "either": (either,)},
    rules=RULES,
    make=_entry,
)
