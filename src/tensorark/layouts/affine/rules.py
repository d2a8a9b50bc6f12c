"""The layout profile `mlx.affine/1`, ours: quantized tensors of MLX, kept without rounding.

MLX computes scale · code + bias. No zero point expresses that exactly, so these tensors do not fit
`zt.quant_group/1` and have a profile of their own, written down in `spec/profiles/mlx.affine-1.md`.
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
    width,
)

ID: Final = "mlx.affine/1"
_PARTS: Final = {"data", "scales", "biases"}
_BITS: Final = frozenset({2, 3, 4, 5, 6, 8})
_FACTORS: Final = frozenset({"f32", "f16", "bf16"})
_WORD: Final = 32


class Affine(NamedTuple):
    """The scheme of one object. Fields that the file states wrongly are None."""

    entry: Description
    bits: int | None
    group_size: int | None


def parse_affine(each: Description) -> Affine:
    """Read the attributes of an object. Total: what is wrong becomes None."""
    bits, group_size = each.attributes.get("bits"), each.attributes.get("group_size")
    if type(bits) is not int or bits not in _BITS:
        bits = None
    if (
        type(group_size) is not int
        or group_size < 1
        or not each.shape
        or each.shape[-1] % group_size
    ):
        group_size = None
    return Affine(each, bits, group_size)


@rule("mlx.parts", section=ID, stage="open")
def mlx_parts(objects: Sequence[Affine]) -> Iterator[Fault]:
    """An MLX object has exactly the parts `data`, `scales` and `biases`."""
    for each in objects:
        if each.entry.parts.keys() != _PARTS:
            yield parts_fault(each.entry, "data, scales, biases")


@rule("mlx.bits", section=ID, stage="open")
def mlx_bits(objects: Sequence[Affine]) -> Iterator[Fault]:
    """`bits` is present and 2, 3, 4, 5, 6 or 8."""
    for each in objects:
        if each.bits is None:
            yield attribute_fault(each.entry, "bits", "2, 3, 4, 5, 6 or 8")


@rule("mlx.group-size", section=ID, stage="open")
def mlx_group_size(objects: Sequence[Affine]) -> Iterator[Fault]:
    """`group_size` is present, at least 1, and divides the last dimension, so there is one."""
    for each in objects:
        if each.group_size is None:
            yield attribute_fault(each.entry, "group_size", "a divisor of the last dimension")


@rule("mlx.dtypes", section=ID, stage="open")
def mlx_dtypes(objects: Sequence[Affine]) -> Iterator[Fault]:
    """`data` is u32, `scales` and `biases` are both f32, f16 or bf16; none has a logical type."""
    for each in _whole(objects):
        data, scales, biases = (each.entry.parts[role] for role in ("data", "scales", "biases"))
        if data[:2] != ("u32", None):
            yield ids_fault(each.entry, "data", "u32")
        if scales[1] is not None or scales[0] not in _FACTORS:
            yield ids_fault(each.entry, "scales", "f32, f16 or bf16")
        elif biases[:2] != scales[:2]:
            yield ids_fault(each.entry, "biases", scales[0])


@rule("mlx.data-size", section=ID, stage="open")
def mlx_data_size(objects: Sequence[Affine]) -> Iterator[Fault]:
    """`data` holds the codes of each row, the last dimension, in whole words."""
    for each in objects:
        stored = each.entry.parts.get("data")
        if stored is None or each.bits is None or not each.entry.shape:
            continue
        row = each.entry.shape[-1] * each.bits
        if row % _WORD:
            where = each.entry.place("parts", "data")
            detail = "the codes of a row do not fill whole words"
            yield Fault(where, detail, f"a multiple of {_WORD} bits", row)
        elif stored[2] != prod(each.entry.shape) * each.bits // 8:
            expected = prod(each.entry.shape) * each.bits // 8
            yield size_fault(each.entry, "data", expected, f"{prod(each.entry.shape)} codes")


@rule("mlx.scales-size", section=ID, stage="open")
def mlx_scales_size(objects: Sequence[Affine]) -> Iterator[Fault]:
    """`scales` and `biases` hold one element for each group."""
    for each in _whole(objects):
        if each.group_size is None:
            continue
        groups = prod(each.entry.shape) // each.group_size
        for role in ("scales", "biases"):
            stored = each.entry.parts[role]
            if stored[2] != groups * width(stored):
                yield size_fault(each.entry, role, groups * width(stored), f"{groups} elements")


def _whole(objects: Sequence[Affine]) -> Iterator[Affine]:
    return (each for each in objects if each.entry.parts.keys() == _PARTS)


LAYOUT: Final[Layout[Affine]] = Layout(
    ID,
    parse_affine,
    (mlx_parts, mlx_bits, mlx_group_size, mlx_dtypes, mlx_data_size, mlx_scales_size),
    element="f32",
)
