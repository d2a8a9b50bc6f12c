"""Which parameters are stored together in one parent: the standard groups, and those of a recipe.

Owns the choice of groups alone. Parameters of a group follow each other along their first axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tensorark.errors import InvalidInput

Group = tuple[str, ...]

_ROLES: Final = (
    ("attention/query", "attention/key", "attention/gate", "attention/value"),
    ("attention/query", "attention/key", "attention/value"),
    ("attention/query_bias", "attention/key_bias", "attention/value_bias"),
    ("gdn/query", "gdn/key", "gdn/value", "gdn/z"),
    ("gdn/a_projection", "gdn/b_projection"),
    ("mlp/gate", "mlp/up"),
    ("moe/router", "moe/shared_score"),
    ("moe/shared/gate", "moe/shared/up"),
)

# Where not all four can share a parent, two and two may.
_HALVES: Final = (
    ("attention/query", "attention/key"),
    ("attention/gate", "attention/value"),
    ("gdn/query", "gdn/key"),
    ("gdn/value", "gdn/z"),
)

_GATED: Final = "attention/gate"


def standard_groups(names: Sequence[str]) -> Iterator[Group]:
    """Yield the groups of the Qwen3.5 family among `names`, in the order they are tried."""
    known = set(names)
    for prefix in _layers(names):
        gated = prefix + _GATED in known
        halves = _HALVES if gated or prefix + "gdn/z" in known else ()
        for roles in (*_ROLES, *halves):
            # Three of four would leave the gate alone; they are a group only where there is none.
            if gated and roles == _ROLES[1]:
                continue
            group = tuple(prefix + role for role in roles)
            if known.issuperset(group):
                yield group
        yield from _expert_groups(prefix, known)


def _layers(names: Sequence[str]) -> dict[str, None]:
    """Return the prefixes of layers, in order."""
    found: dict[str, None] = {}
    for name in names:
        head, layers, rest = name.partition("/layers/")
        if layers:
            found[f"{head}{layers}{rest.partition('/')[0]}/"] = None
    return found


def _expert_groups(prefix: str, known: set[str]) -> Iterator[Group]:
    gates, downs = [], []
    expert = 0
    while (at := f"{prefix}moe/experts/{expert}/") + "gate" in known:
        gates += [at + "gate", at + "up"]
        downs.append(at + "down")
        expert += 1
    if gates:
        yield tuple(gates)
        yield tuple(downs)


def expand(group: Group, names: Sequence[str]) -> list[Group]:
    """Return a group with `{}` in its names once for each layer that has them all.

    Raises:
        InvalidInput: when there is none (code ``recipe``).
    """
    known = set(names)
    if not any("{}" in each for each in group):
        found = [group] if known.issuperset(group) else []
    else:
        numbers = dict.fromkeys(prefix.rstrip("/").rpartition("/")[2] for prefix in _layers(names))
        filled = [tuple(each.replace("{}", number) for each in group) for number in numbers]
        found = [each for each in filled if known.issuperset(each)]
    if not found:
        raise InvalidInput(
            "the recipe fuses or shares parameters that are not there",
            code="recipe",
            found=" ".join(group),
        )
    return found


def pack(
    names: Sequence[str], groups: Iterator[Group], fits: Callable[[Group], bool]
) -> list[Group]:
    """Return the parents: each of `groups` whose members are all free and fit, then what is left.

    Parents come in the order in which their first parameters do.
    """
    parent: dict[str, Group] = {}
    for group in groups:
        if not any(each in parent for each in group) and fits(group):
            parent.update(dict.fromkeys(group, group))
    return list(dict.fromkeys(parent.get(name, (name,)) for name in names))
