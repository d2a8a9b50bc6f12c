"""The layout `tensorbit.nm/1` as values: masked, scaled, and judged against its mask."""

from __future__ import annotations

from typing import Final

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.layouts.layout import Bytes
from tensorark.layouts.nm.census import count
from tensorark.layouts.nm.content import CONTENT_RULES
from tensorark.layouts.nm.rules import LAYOUT
from tensorark.layouts.nm.window import window_of
from tensorark.layouts.numbers.dtypes import Array
from tensorark.layouts.values import Values, all_of


def elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Array:
    """Return the flat elements [start, stop), masked, reading what they need and no more.

    int8 and int4 become f32 where they have scales, else int8.

    Raises:
        Rejected: when the metadata breaks a rule of the layout.
    """
    window = window_of(tensor, read)
    group = window.sparse.pattern.m if window.masked else 1
    # Whole groups: the mask says how many there are, so a cut one would pass for the short last.
    first, last = start // group * group, min(-(-stop // group) * group, tensor.elements)
    found = window.values(first, last)
    return found if (first, last) == (start, stop) else found[start - first : stop - first].copy()


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check metadata, and the mask against the weights."""
    LAYOUT.check(tensor, reading)
    reading.require(CONTENT_RULES, count(tensor, read))


assemble: Final = all_of(elements)
"""What the mask does not keep is 0, quantized weights are scaled."""

VALUES: Final = Values(LAYOUT, assemble, elements, judge)
