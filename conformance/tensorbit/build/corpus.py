"""The corpus of Tensorbit: which modules build which class, and the answers of readers."""

from __future__ import annotations

from pathlib import Path

from conformance.build.case import REJECT
from conformance.build.collection import Collection

from . import accept, content, either, profile, reject
from .case import FAULTY
from .image import Container, Folder, Single, Tensor
from .rules import RULES

_SUFFIXES = {Container: ".tbm", Single: ".tb", Tensor: ".zt"}


def _place(stem: str, image: object) -> dict[str, bytes]:
    if isinstance(image, Folder):
        parts = {f"{stem}/{part}": data for part, data in image.items()}
        manifest = f"{stem}/manifest.json"
        return {manifest: parts.pop(manifest), **parts}
    assert isinstance(image, Container | Single | Tensor), stem
    return {stem + _SUFFIXES[type(image)]: bytes(image)}


CORPUS = Collection(
    format="tensorbit",
    specification="TBM_FORMAT.md",
    home=Path(__file__).parents[1],
    classes={"accept": (accept,), "reject": (reject, profile, content), "either": (either,)},
    rules=RULES,
    place=_place,
    expect=lambda rule: FAULTY if rule.stage == "content" else {"open": REJECT},
)
