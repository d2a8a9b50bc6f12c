"""What a mask and its weights must agree in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.layouts.nm.census import Census


@rule("tb.pruned-zero", section="layout", stage="content")
def pruned_zero(found: Census) -> Iterator[Fault]:
    """A weight whose mask bit is clear is 0.0."""
    if found.stray:
        detail = "weights are not zero though their mask bit is clear"
        where = (*found.where, "parts", "weights", found.first_stray)
        yield Fault(where, detail, "none", found.stray)


@rule("tb.mask-count", section="mask", stage="content")
def mask_count(found: Census) -> Iterator[Fault]:
    """Every group keeps N weights, a short last group at most N."""
    if found.packing in {"none", "truncated"}:
        return
    wrong = sum(groups for count, groups in found.bits.items() if count != found.pattern.n)
    if wrong:
        detail = f"groups that do not keep {found.pattern.n} weights: {wrong}"
        counts = ", ".join(f"{count} in {groups}" for count, groups in found.bits.items())
        where = (*found.where, "parts", "mask", found.first_wrong)
        yield Fault(where, detail, f"{found.pattern.n} in each", counts)
    elif found.last is not None and found.last > found.pattern.n:
        where = (*found.where, "parts", "mask")
        detail = "the short last group keeps too many weights"
        yield Fault(where, detail, f"at most {found.pattern.n}", found.last)


@rule("tb.mask-truncated", section="mask", stage="content")
def mask_truncated(found: Census) -> Iterator[Fault]:
    """A mask has a bit for each weight of a group, also where M exceeds 8.

    The public pruning tool writes one byte a group and sets weights 8 and up to zero.
    """
    if found.packing == "truncated":
        detail = f"one mask byte a group at {found.pattern}: weights 8 and up count as pruned"
        expected = f"{found.pattern.mask_width} bytes a group"
        yield Fault((*found.where, "parts", "mask"), detail, expected, "1 byte a group")


CONTENT_RULES: Final[tuple[Rule[Census], ...]] = (pruned_zero, mask_count, mask_truncated)
