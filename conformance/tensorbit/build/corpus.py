"""The corpus of Tensorbit: which modules build which class, and the lines of its index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.build.collection import Builder, Collection, Entry, broken, entry

from . import accept, content, either, profile, reject
from .case import FAULTY, REJECT, Case, contents
from .image import Container, Folder, Single, Tensor
from .rules import RULES

_SUFFIXES: Mapping[type, str] = {Container: ".tbm", Single: ".tb", Tensor: ".zt"}


def _entry(group: str, stem: str, builder: Builder) -> Entry:
    built = builder()
    case = built if isinstance(built, Case) else _breaking(stem, built)
    found = contents(case) if isinstance(built, Case) else None
    files = _placed(f"{group}/{stem}", case.image)
    return entry(f"{group}/{stem}", files, case, builder, RULES, contents=found)


def _placed(stem: str, image: object) -> dict[str, bytes]:
    """Return all files of an image by name, first the one that is opened."""
    if isinstance(image, Folder):
        parts = {f"{stem}/{part}": data for part, data in image.items()}
        manifest = f"{stem}/manifest.json"
        return {manifest: parts.pop(manifest), **parts}
    assert isinstance(image, bytes), stem
    return {stem + _SUFFIXES[type(image)]: bytes(image)}


def _breaking(stem: str, built: object) -> Case:
    assert isinstance(built, Container | Single | Tensor | Folder), stem
    rule = broken("tb", stem, RULES)
    expect = FAULTY if rule.stage == "content" else {"open": REJECT}
    return Case(image=built, section=rule.section, expect=expect, rule=rule.id)


CORPUS = Collection(
    format="tensorbit",
    specification="TBM_FORMAT.md",
    home=Path(__file__).parents[1],
    classes={"accept": (accept,), "reject": (reject, profile, content), "either": (either,)},
    rules=RULES,
    make=_entry,
)
