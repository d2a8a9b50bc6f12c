"""The layouts `ninfer.<layout>`: encoded objects of NInfer v3 in any file, as far as metadata goes.

One part holds the object; its logical type names the numeric format, and the attribute `divisors`
says how many nvfp4 sources are stacked. What is unknown is left to whoever interprets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensorark.core.rules import Fault, rule
from tensorark.layouts.layout import Description, Layout, ids_fault, parts_fault, size_fault
from tensorark.layouts.ninfer.geometry import (
    BLOCK_SCALE,
    CONTIGUOUS,
    GGUF_BLOCKS,
    LAYOUT_OF,
    PREFIX,
    ROW_INTERLEAVED,
    ROW_SCALE,
    ROW_SPLIT,
    divisors_of,
    geometry,
    misfit,
)

ID: Final = "ninfer.<layout>"

_MEMBERS: Final = tuple(
    PREFIX + each
    for each in (CONTIGUOUS, ROW_SPLIT, BLOCK_SCALE, ROW_SCALE, ROW_INTERLEAVED, GGUF_BLOCKS)
)


# The rules see objects without their layout id. A format has one layout only, so that it is known;
# whether the object states that one is found out when it is decoded.
@rule("ninfer.layout-parts", section="6.2", stage="open")
def layout_parts(objects: Sequence[Description]) -> Iterator[Fault]:
    """An object in an NInfer layout has exactly one part, `data`."""
    for each in objects:
        if each.parts.keys() != {"data"}:
            yield parts_fault(each, "data")


@rule("ninfer.layout-type", section="6.1", stage="open")
def layout_type(objects: Sequence[Description]) -> Iterator[Fault]:
    """`data` is u8 under a logical type that begins with `ninfer.`."""
    for each in objects:
        stored = each.parts.get("data")
        if stored is not None and _format(each) is None:
            yield ids_fault(each, "data", f"a type {PREFIX}<format> over u8")


@rule("ninfer.layout-shape", section="6.2", stage="open")
def layout_shape(objects: Sequence[Description]) -> Iterator[Fault]:
    """Shape and `divisors` are what the layout holds of the format."""
    for each in objects:
        format_ = _known_format(each)
        if format_ is None:
            continue
        layout, divisors = LAYOUT_OF[format_], divisors_of(each.attributes)
        reason = misfit(format_, layout, tuple(each.shape), divisors)
        if reason is not None:
            found = f"shape {list(each.shape)}, divisors {divisors}"
            yield Fault(each.place("shape"), reason, f"what {layout} holds of {format_}", found)


@rule("ninfer.layout-size", section="6.2", stage="open")
def layout_size(objects: Sequence[Description]) -> Iterator[Fault]:
    """`data` has as many bytes as format, layout and shape need."""
    for each in objects:
        format_ = _known_format(each)
        if format_ is None:
            continue
        layout, shape = LAYOUT_OF[format_], tuple(each.shape)
        divisors = divisors_of(each.attributes)
        if misfit(format_, layout, shape, divisors) is not None:
            continue
        needed = geometry(format_, layout, shape, divisors).nbytes
        if each.parts["data"][2] != needed:
            yield size_fault(each, "data", needed, f"the object of shape {list(shape)}")


def _format(each: Description) -> str | None:
    """Return the format that the type names; None where it names none."""
    dtype, type_, _ = each.parts["data"]
    if dtype != "u8" or type_ is None or not type_.startswith(PREFIX):
        return None
    return type_.removeprefix(PREFIX)


def _known_format(each: Description) -> str | None:
    """Return the format, if it is one that we know the geometry of."""
    format_ = _format(each) if "data" in each.parts else None
    return format_ if format_ in LAYOUT_OF else None


LAYOUT: Final[Layout[Description]] = Layout(
    ID,
    lambda each: each,
    (layout_parts, layout_type, layout_shape, layout_size),
    element="f32",
    judges_payload=True,
    members=_MEMBERS,
)
