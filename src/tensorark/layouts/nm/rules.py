"""The layout profile `tensorbit.nm/1`, ours: N:M sparsity, as far as metadata goes.

Owns patterns, groups and the sizes of masks, shared by the format that stores them and the codec
that turns them into numbers. Sizes only: reads no payload and makes no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final, Literal, NamedTuple

from tensorark.core.rules import Fault, rule
from tensorark.core.types import DTYPES
from tensorark.errors import InvalidInput
from tensorark.layouts.layout import (
    FLOATS,
    Description,
    Layout,
    ids_fault,
    is_count,
    parts_fault,
    size_fault,
)

ID: Final = "tensorbit.nm/1"
"""Layout id: weights stored in full, with one bit for each that says whether it is kept."""

KEY: Final = "tensorbit"
"""The attribute, of a file or of a tensor, that holds what is Tensorbit's."""

Packing = Literal["groups", "floor", "truncated", "none"]
"""How mask bytes cover the weights.

`groups`: each group of M weights has ceil(M / 8) bytes, a short last group too. `floor`: the same,
but a short last group has none, so its weights are kept. `truncated`: one byte a group although M
exceeds 8, so that weights 8 and up of each group count as pruned. `none`: no mask is stored.
"""

QUANTIZED: Final[Mapping[str, tuple[str, int]]] = {"int8": ("i8", 8), "int4": ("u8", 4)}
"""Storage type and bits per weight of the quantized types, which scales may go with."""

_U64: Final = 1 << 64


class Pattern(NamedTuple):
    """N:M sparsity: of every `m` weights in a row, `n` are kept; 0:0 is dense."""

    n: int
    m: int

    def __str__(self) -> str:
        return f"{self.n}:{self.m}"

    @property
    def is_dense(self) -> bool:
        """Whether there are no groups."""
        return self.m == 0

    @property
    def mask_width(self) -> int:
        """Mask bytes of a group."""
        return -(-self.m // 8)


DENSE: Final = Pattern(0, 0)


def parse_pattern(text: str) -> Pattern:
    """Return the pattern that ``N:M`` stands for, with 0 < N < M.

    Raises:
        InvalidInput: when `text` is no such pattern.
    """
    match = re.fullmatch(r"([0-9]{1,4}):([0-9]{1,4})", text)
    n, m = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 < n < m:
        raise InvalidInput(
            "not a sparsity pattern", code="pattern", expected="N:M with 0 < N < M", found=text
        )
    return Pattern(n, m)


def packing_of(elements: int, pattern: Pattern, mask_bytes: int) -> Packing | None:
    """Return how `mask_bytes` bytes cover `elements` weights; None when no way fits."""
    if mask_bytes == 0:
        return "none"
    if pattern.is_dense:
        return None
    whole, rest = divmod(elements, pattern.m)
    if mask_bytes == mask_size(elements, pattern):
        return "groups"
    if rest and mask_bytes == whole * pattern.mask_width:
        return "floor"
    if not rest and pattern.m > 8 and mask_bytes == whole:
        return "truncated"
    return None


def mask_size(elements: int, pattern: Pattern) -> int:
    """Return the mask bytes of `elements` weights, as we write them: 0 for dense."""
    return 0 if pattern.is_dense else -(-elements // pattern.m) * pattern.mask_width


def weight_size(dtype: str, elements: int) -> int:
    """Return the bytes of `elements` weights of a storage type, or of int8 or int4."""
    if dtype in QUANTIZED:
        return -(-elements * QUANTIZED[dtype][1] // 8)
    return DTYPES[dtype] * elements


class Sparse(NamedTuple):
    """How the weights of one object are to be read, once its metadata passed the rules.

    `dtype` is a storage type, or ``int8`` or ``int4``. Scale `i // group_size` belongs to weight
    `i`; 0 is one group for the whole tensor.
    """

    elements: int
    pattern: Pattern
    packing: Packing
    dtype: str
    group_size: int = 0

    @property
    def is_quantized(self) -> bool:
        """Whether the weights are int8 or int4."""
        return self.dtype in QUANTIZED


class Record(NamedTuple):
    """What an object says of itself. Fields that the file states wrongly are None."""

    entry: Description
    pattern: Pattern | None
    quantized: str | None
    group_size: int | None

    @property
    def dtype(self) -> str | None:
        """Type of the weights; None where nothing says it."""
        stored = self.entry.parts.get("weights")
        return self.quantized or (None if stored is None else stored[0])

    @property
    def sparse(self) -> Sparse:
        """How the weights are to be read; only for an object that passed the rules."""
        elements, pattern = prod(self.entry.shape), self.pattern or DENSE
        mask = self.entry.parts.get("mask", ("u8", None, 0))[2]
        return Sparse(
            elements=elements,
            pattern=pattern,
            packing=packing_of(elements, pattern, mask) or "none",
            dtype=self.dtype or "f32",
            group_size=self.group_size or 0,
        )


def members(attributes: Mapping[str, object] | None) -> Mapping[str, object]:
    """Return what attributes hold under our key; empty where that is no map."""
    found = (attributes or {}).get(KEY)
    return found if isinstance(found, Mapping) else {}


def parse_nm(each: Description) -> Record:
    """Read the attributes of an object. Total: what is wrong becomes None."""
    found = members(each.attributes)
    n, m, dtype = found.get("n"), found.get("m"), found.get("dtype")
    group_size = found.get("group_size", 0)
    usable = type(n) is int and type(m) is int and 0 <= n <= m < _U64
    return Record(
        each,
        Pattern(n, m) if usable and isinstance(n, int) and isinstance(m, int) else None,
        dtype if isinstance(dtype, str) else None,
        group_size if isinstance(group_size, int) and is_count(group_size) else None,
    )


@rule("tb.nm-pattern", section=ID, stage="open")
def nm_pattern(objects: Sequence[Record]) -> Iterator[Fault]:
    """`tensorbit` is a map with the integers `n` and `m`, N at most M."""
    for each in objects:
        if each.pattern is None:
            where = each.entry.attribute(KEY)
            yield Fault(where, "the pattern is not usable", "integers n and m, n at most m")


@rule("tb.nm-dtype", section=ID, stage="open")
def nm_dtype(objects: Sequence[Record]) -> Iterator[Fault]:
    """`dtype` in `tensorbit`, if present, is int8 or int4."""
    for each in objects:
        if each.quantized not in {None, *QUANTIZED}:
            where = each.entry.attribute(KEY, "dtype")
            found = (each.quantized or "")[:40]
            yield Fault(where, "an unknown quantized type", "int8 or int4", found)


@rule("tb.nm-group-size", section=ID, stage="open")
def nm_group_size(objects: Sequence[Record]) -> Iterator[Fault]:
    """`group_size` in `tensorbit`, if present, is an unsigned integer."""
    for each in objects:
        if each.group_size is None:
            where = each.entry.attribute(KEY, "group_size")
            yield Fault(where, "the group size is not usable", "an unsigned integer")


@rule("tb.nm-parts", section=ID, stage="open")
def nm_parts(objects: Sequence[Record]) -> Iterator[Fault]:
    """The parts are `weights`, perhaps `mask` and, beside quantized weights, perhaps `scales`."""
    for each in objects:
        allowed = {"weights", "mask", *(("scales",) if each.quantized else ())}
        found = each.entry.parts.keys()
        if "weights" not in found or not found <= allowed:
            yield parts_fault(
                each.entry, "weights, and perhaps " + ", ".join(sorted(allowed - {"weights"}))
            )


@rule("tb.nm-types", section=ID, stage="open")
def nm_types(objects: Sequence[Record]) -> Iterator[Fault]:
    """`weights` are floats, i8 for int8, u8 for int4; `mask` is u8 and `scales` is f32."""
    for each in objects:
        stored_as = QUANTIZED.get(each.quantized or "")
        weights = FLOATS if stored_as is None else frozenset({stored_as[0]})
        wanted = {"weights": weights, "mask": _OCTETS, "scales": _SCALES}
        for role, stored in each.entry.parts.items():
            if role in wanted and (stored[0] not in wanted[role] or stored[1] is not None):
                yield ids_fault(each.entry, role, " ".join(sorted(wanted[role])))


@rule("tb.nm-weights-size", section=ID, stage="open")
def nm_weights_size(objects: Sequence[Record]) -> Iterator[Fault]:
    """`weights` holds every element of the shape."""
    for each in objects:
        stored, dtype = each.entry.parts.get("weights"), each.dtype
        if stored is None or dtype not in {*QUANTIZED, *FLOATS}:
            continue
        elements = prod(each.entry.shape)
        needed = weight_size(str(dtype), elements)
        if stored[2] != needed:
            yield size_fault(each.entry, "weights", needed, f"{elements} weights of {dtype}")


@rule("tb.nm-mask-size", section=ID, stage="open")
def nm_mask_size(objects: Sequence[Record]) -> Iterator[Fault]:
    """`mask` has the bytes that pattern and shape ask for."""
    for each in objects:
        stored, elements = each.entry.parts.get("mask"), prod(each.entry.shape)
        if stored is None or each.pattern is None:
            continue
        if packing_of(elements, each.pattern, stored[2]) is None:
            needed = mask_size(elements, each.pattern)
            why = f"the groups of {elements} weights at {each.pattern}"
            yield size_fault(each.entry, "mask", needed, why)


@rule("tb.nm-scales-size", section=ID, stage="open")
def nm_scales_size(objects: Sequence[Record]) -> Iterator[Fault]:
    """`scales` holds whole elements."""
    for each in objects:
        stored = each.entry.parts.get("scales")
        if stored is not None and stored[2] % 4:
            yield size_fault(each.entry, "scales", stored[2] // 4 * 4, "whole elements")


_OCTETS: Final = frozenset({"u8"})
_SCALES: Final = frozenset({"f32"})


def nm_element(each: Record) -> str | None:
    """Return the type of decoded weights: that stored, i8 for codes alone, f32 with scales."""
    if each.quantized is None:
        return each.dtype
    return "f32" if "scales" in each.entry.parts else "i8"


LAYOUT: Final[Layout[Record]] = Layout(
    ID,
    parse_nm,
    (
        nm_pattern,
        nm_dtype,
        nm_group_size,
        nm_parts,
        nm_types,
        nm_weights_size,
        nm_mask_size,
        nm_scales_size,
    ),
    nm_element,
    judges_payload=True,
)
