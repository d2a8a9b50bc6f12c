"""The corpus of safetensors: which modules build which class, and the answers of readers."""

from __future__ import annotations

from pathlib import Path

from conformance.build.case import REJECT
from conformance.build.collection import Collection

from . import accept, either, refuse, reject
from .image import INDEX, Set
from .rules import RULES


def _place(stem: str, image: object) -> dict[str, bytes]:
    if isinstance(image, Set):
        parts = {f"{stem}/{part}": data for part, data in image.items()}
        index = f"{stem}/{INDEX}"
        return {index: parts.pop(index), **parts}
    assert isinstance(image, bytes), stem
    return {f"{stem}.safetensors": image}


CORPUS = Collection(
    format="safetensors",
    specification="safetensors, release 0.8",
    home=Path(__file__).parents[1],
    classes={"accept": (accept,), "reject": (reject,), "refuse": (refuse,), "either": (either,)},
    rules=RULES,
    place=_place,
    expect=lambda _: {"open": REJECT},
)
