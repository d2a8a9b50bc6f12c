"""Names of tensors: their order for people, and the tree that dots make.

Pure. Names are hostile: depth and work are bounded, nothing is escaped here because nothing is
printed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

_NUMBER: Final = re.compile(r"([0-9]{1,18})")
_DEEPEST: Final = 32
"""Levels of the tree; what lies deeper stays one name."""


def natural(name: str) -> tuple[str | int, ...]:
    """Return a key that sorts numbers by value: ``layers.2`` before ``layers.10``."""
    pieces: list[str | int] = list(_NUMBER.split(name))
    pieces[1::2] = map(int, pieces[1::2])
    return tuple(pieces)


@dataclass(slots=True)
class _Node:
    """A step of a name: the tensor that ends here, if any, and the steps below."""

    tensor: Any = None
    below: dict[str, _Node] = field(default_factory=dict)


def tree(tensors: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tree of dotted names; `tensors` gives for each what tells it from others.

    Siblings that are numbers and look alike below are folded into one branch: its `name` has ``#``
    in place of the number when all siblings are alike, else their range; `numbers` says which, and
    `count` how many. A branch holds `tensor` where a name ends, its `branches`, and the `tensors`
    and `nbytes` of all that it stands for.
    """
    root = _Node()
    for name, facts in tensors.items():
        node = root
        for step in name.split(".", _DEEPEST - 1):
            node = node.below.setdefault(step, _Node())
        node.tensor = facts
    return [each.facts for each in _branches(root, {})]


class _Branch(NamedTuple):
    """A branch of the tree: `looks` is equal for branches that differ in their first step alone."""

    step: str
    looks: int
    facts: dict[str, Any]


def _branches(node: _Node, known: dict[object, int]) -> list[_Branch]:
    """Return what lies below a node; `known` numbers the looks that were met."""
    plain: list[_Branch] = []
    alike: dict[int, tuple[list[int], _Branch]] = {}
    for step in sorted(node.below, key=natural):
        branch = _branch(step, node.below[step], known)
        if _is_number(step):
            alike.setdefault(branch.looks, ([], branch))[0].append(int(step))
        else:
            plain.append(branch)
    return [*(_fold(numbers, each, len(alike)) for numbers, each in alike.values()), *plain]


def _is_number(step: str) -> bool:
    return step.isascii() and step.isdigit() and str(int(step[:18])) == step


def _branch(step: str, node: _Node, known: dict[object, int]) -> _Branch:
    """Describe one step; a branch with nothing beside it is joined to the step above it."""
    below = _branches(node, known)
    own = node.tensor
    looks = (
        None if own is None else repr(own),
        tuple((each.step, each.facts["count"], each.looks) for each in below),
    )
    number = known.setdefault(looks, len(known))
    if own is None and len(below) == 1:
        only = below[0].facts
        if only["count"] == 1 or not _is_number(step):  # a number keeps its own count
            return _Branch(step, number, {**only, "name": f"{step}.{only['name']}"})
    facts = {
        "name": step,
        "count": 1,
        "numbers": None,
        "tensor": own,
        "branches": [each.facts for each in below],
        "tensors": (own is not None) + sum(each.facts["tensors"] for each in below),
        "nbytes": (own["nbytes"] if own else 0) + sum(each.facts["nbytes"] for each in below),
    }
    return _Branch(step, number, facts)


def _fold(numbers: list[int], branch: _Branch, kinds: int) -> _Branch:
    """Let one branch stand for all `numbers`; `kinds` is how many different ones there are."""
    if len(numbers) == 1:
        return branch
    facts = branch.facts
    _, dot, rest = facts["name"].partition(".")
    spelled = ranges(numbers)
    folded = {
        **facts,
        "name": ("#" if kinds == 1 else spelled) + dot + rest,
        "count": len(numbers),
        "numbers": spelled,
        "tensors": facts["tensors"] * len(numbers),
        "nbytes": facts["nbytes"] * len(numbers),
    }
    return _Branch(spelled, branch.looks, folded)


def ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers shortly: ``0-2,5,7-9``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
