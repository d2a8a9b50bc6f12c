"""The layout profile `zt.mx/1`: its scheme, and what its metadata must say.

Owns the one reading of the attributes; `Mx` is used by the rules here and by the codec. Where the
profile's text is open, the choices are those of `spec/profiles/zt.mx-1.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from tensorark.core.rules import Fault, rule
from tensorark.layouts.layout import (
    Description,
    Layout,
    attribute_fault,
    ids_fault,
    parts_fault,
    size_fault,
    values_size,
)

ID: Final = "zt.mx/1"
SCALE_FORM: Final = "e8m0_exponent"
ELEMENTS: Final = (("u8", "f4_e2m1"), ("u8", "f8_e4m3fn"), ("u8", "f8_e5m2"), ("i8", None))
"""Storage and logical types of the elements; a plain i8 counts sixty-fourths (MXINT8)."""

_PARTS: Final = {"data", "scales"}


class Mx(NamedTuple):
    """The scheme of one object. Fields that the file states wrongly are None."""

    entry: Description
    axis: int | None
    block_size: int | None


def parse_mx(each: Description) -> Mx:
    """Read the attributes of an object. Total: what is wrong becomes None."""
    rank = len(each.shape)
    axis = each.attributes.get("axis", rank - 1)
    block_size = each.attributes.get("block_size")
    if type(axis) is not int or not 0 <= axis < rank:
        axis = None
    if (
        type(block_size) is not int
        or block_size < 2
        or (axis is not None and each.shape[axis] % block_size)
    ):
        block_size = None
    return Mx(each, axis, block_size)


@rule("zt.mx-parts", section=ID, stage="open")
def mx_parts(objects: Sequence[Mx]) -> Iterator[Fault]:
    """An MX object has exactly the parts `data` and `scales`."""
    for each in objects:
        if each.entry.parts.keys() != _PARTS:
            yield parts_fault(each.entry, "data, scales")


@rule("zt.mx-axis", section=ID, stage="open")
def mx_axis(objects: Sequence[Mx]) -> Iterator[Fault]:
    """`axis`, if present, is a dimension of the object; the last one otherwise, so there is one."""
    for each in objects:
        if each.axis is None:
            expected = f"an integer below the rank, {len(each.entry.shape)}"
            yield attribute_fault(each.entry, "axis", expected)


@rule("zt.mx-block-size", section=ID, stage="open")
def mx_block_size(objects: Sequence[Mx]) -> Iterator[Fault]:
    """`block_size` is present, at least 2, and divides the extent of the axis."""
    for each in objects:
        if each.block_size is None:
            along = "" if each.axis is None else f" that divides {each.entry.shape[each.axis]}"
            yield attribute_fault(each.entry, "block_size", f"an integer of at least 2{along}")


@rule("zt.mx-scale-form", section=ID, stage="open")
def mx_scale_form(objects: Sequence[Mx]) -> Iterator[Fault]:
    """`scale_form` is present and e8m0_exponent."""
    for each in objects:
        if each.entry.attributes.get("scale_form") != SCALE_FORM:
            yield attribute_fault(each.entry, "scale_form", SCALE_FORM)


@rule("zt.mx-scales-dtype", section=ID, stage="open")
def mx_scales_dtype(objects: Sequence[Mx]) -> Iterator[Fault]:
    """`scales` is f8_e8m0."""
    for each in objects:
        stored = each.entry.parts.get("scales")
        if stored is not None and stored[:2] != ("u8", "f8_e8m0"):
            yield ids_fault(each.entry, "scales", "f8_e8m0 over u8")


@rule("zt.mx-data-dtype", section=ID, stage="open")
def mx_data_dtype(objects: Sequence[Mx]) -> Iterator[Fault]:
    """`data` without a logical type is i8; one whose type this profile lacks is not interpreted."""
    for each in objects:
        stored = each.entry.parts.get("data")
        if stored is not None and stored[1] is None and stored[0] != "i8":
            yield ids_fault(each.entry, "data", "i8, or a logical type")


@rule("zt.mx-data-size", section=ID, stage="open")
def mx_data_size(objects: Sequence[Mx]) -> Iterator[Fault]:
    """`data` holds the elements of the shape."""
    for each in objects:
        stored = each.entry.parts.get("data")
        if stored is None:
            continue
        elements = prod(each.entry.shape)
        expected = values_size(stored, elements)
        if expected is not None and stored[2] != expected:
            yield size_fault(each.entry, "data", expected, f"{elements} elements")


@rule("zt.mx-scales-size", section=ID, stage="open")
def mx_scales_size(objects: Sequence[Mx]) -> Iterator[Fault]:
    """`scales` holds one scale for each block."""
    for each in objects:
        stored = each.entry.parts.get("scales")
        if stored is None or each.block_size is None or each.axis is None:
            continue
        blocks = prod(each.entry.shape) // each.block_size
        if stored[2] != blocks:
            yield size_fault(each.entry, "scales", blocks, f"{blocks} scales")


LAYOUT: Final[Layout[Mx]] = Layout(
    ID,
    parse_mx,
    (
        mx_parts,
        mx_axis,
        mx_block_size,
        mx_scale_form,
        mx_scales_dtype,
        mx_data_dtype,
        mx_data_size,
        mx_scales_size,
    ),
    element="f32",
    judges_payload=True,
)
