"""The account of an edit: what was written, and everything in it that differs from its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorark.conversion.ledger import Settlement
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.errors import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """What was written, and everything in it that differs from the source.

    `dropped` is what the sources held and the target does not; `changes` tell it as well.
    """

    __repr__ = brief

    source: str
    files: tuple[str, ...]
    tensors: int
    changes: tuple[str, ...]
    dropped: tuple[Loss, ...] = ()


def write(
    settled: Settlement, changes: Sequence[str] = (), others: Sequence[Settlement] = ()
) -> Mended:
    """Write a model; return what was written and what changed on the way.

    `others` are models whose tensors are in it too: what is lost of them is told with their names.
    """
    made = settled.write()
    told = [*changes, *_losses(settled)]
    for each in others:
        told += _losses(each, f" of {Path(each.file.path).name}")
    return Mended(
        source=settled.file.path,
        files=tuple(made),
        tensors=len(settled.file),
        changes=tuple(told),
        dropped=tuple(loss for each in (settled, *others) for loss in each.dropped),
    )


def _losses(settled: Settlement, whose: str = "") -> list[str]:
    return [f"left out{whose}: {each.kind} {quoted(each.name)}" for each in settled.dropped]
