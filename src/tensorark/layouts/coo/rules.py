"""The layout profile `zt.sparse_coo/1`: what its metadata must say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensorark.core.rules import Fault, rule
from tensorark.layouts.layout import (
    Description,
    Layout,
    ids_fault,
    parts_fault,
    size_fault,
    values_size,
    whole,
    width,
)

ID: Final = "zt.sparse_coo/1"
_PARTS: Final = {"values", "coords"}
_COORDS: Final = (("u32", None), ("u64", None))


@rule("zt.coo-rank", section=ID, stage="open")
def coo_rank(objects: Sequence[Description]) -> Iterator[Fault]:
    """A COO object has at least one dimension."""
    for each in objects:
        if not each.shape:
            detail = "a COO object is a scalar"
            yield Fault(each.place("shape"), detail, "rank 1 or more", 0)


@rule("zt.coo-parts", section=ID, stage="open")
def coo_parts(objects: Sequence[Description]) -> Iterator[Fault]:
    """A COO object has exactly the parts `values` and `coords`."""
    for each in objects:
        if each.parts.keys() != _PARTS:
            yield parts_fault(each, "values, coords")


@rule("zt.coo-coords-dtype", section=ID, stage="open")
def coo_coords_dtype(objects: Sequence[Description]) -> Iterator[Fault]:
    """`coords` is u32 or u64, without a logical type."""
    for each in whole(objects, _PARTS):
        if each.parts["coords"][:2] not in _COORDS:
            yield ids_fault(each, "coords", "u32 or u64")


@rule("zt.coo-coords-size", section=ID, stage="open")
def coo_coords_size(objects: Sequence[Description]) -> Iterator[Fault]:
    """The size of `coords` is a multiple of the coordinate width times the rank."""
    for each in whole(objects, _PARTS):
        step = width(each.parts["coords"]) * len(each.shape)
        size = each.parts["coords"][2]
        if step and size % step:
            where = each.place("parts", "coords")
            detail = "`coords` does not hold the same number of indices for each dimension"
            yield Fault(where, detail, f"a multiple of {step} bytes", size)


@rule("zt.coo-values-size", section=ID, stage="open")
def coo_values_size(objects: Sequence[Description]) -> Iterator[Fault]:
    """`values` holds one element for each cell that `coords` names."""
    for each in whole(objects, _PARTS):
        step = width(each.parts["coords"]) * len(each.shape)
        if not step or each.parts["coords"][2] % step:
            continue
        entries = each.parts["coords"][2] // step
        expected = values_size(each.parts["values"], entries)
        if expected is not None and each.parts["values"][2] != expected:
            yield size_fault(each, "values", expected, f"{entries} elements")


LAYOUT: Final[Layout[Description]] = Layout(
    ID,
    lambda each: each,
    (coo_rank, coo_parts, coo_coords_dtype, coo_coords_size, coo_values_size),
    judges_payload=True,
)
