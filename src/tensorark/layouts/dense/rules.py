"""The core layout `dense` (§5.1): what its metadata must say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from tensorark.core.rules import Fault, rule
from tensorark.layouts.layout import Description, Layout, parts_fault, values_size, whole

ID: Final = "dense"
_PARTS: Final = {"data"}


@rule("zt.dense-parts", section="5.1", stage="open")
def dense_parts(objects: Sequence[Description]) -> Iterator[Fault]:
    """A dense object has exactly one part, named `data`."""
    for each in objects:
        if each.parts.keys() != _PARTS:
            yield parts_fault(each, "data")


@rule("zt.dense-size", section="5.1", stage="open")
def dense_size(objects: Sequence[Description]) -> Iterator[Fault]:
    """The decoded size of a dense part is its type's size function at the element count."""
    for each in whole(objects, _PARTS):
        dtype, type_, size = each.parts["data"]
        elements = prod(each.shape)
        expected = values_size(each.parts["data"], elements)
        if expected is not None and expected != size:
            where = each.place("parts", "data")
            detail = f"the size does not fit {elements} elements of {type_ or dtype}"
            yield Fault(where, detail, f"{expected} bytes", size)


LAYOUT: Final[Layout[Description]] = Layout(ID, lambda each: each, (dense_parts, dense_size))
