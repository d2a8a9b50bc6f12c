"""The layout profile `zt.quant_group/1`: its scheme, and what its metadata must say.

Owns the one reading of the attributes; `Quant` is used by the rules here and by the codec. Where
the profile's text is open, the choices are those of `spec/profiles/zt.quant_group-1.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorark.core.rules import Fault, rule
from tensorark.core.types import DTYPES
from tensorark.layouts.layout import (
    FLOATS,
    Description,
    Layout,
    ids_fault,
    is_count,
    parts_fault,
    size_fault,
)
from tensorark.wire.cbor import Pairs

ID: Final = "zt.quant_group/1"

WORDS: Final[Mapping[str, int]] = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}
"""Widths in bits of the words that codes are packed in."""

ORDERS: Final = ("lsb_first", "msb_first")
SCALE_FORMS: Final = ("f32_factors", "f16_factors", "e8m0_exponent")
ZERO_FORMS: Final = ("none", "implied", "tensor")
ZERO_PACKINGS: Final = ("same_as_data", "plain")
_BITS: Final = frozenset({2, 3, 4, 5, 6, 8})
_SHOWN: Final = 80


@dataclass(slots=True)
class Quant:
    """The scheme of one object. Fields that the file states wrongly, or not at all, are None.

    `bits` divides the bits of `word`; `group_size` divides the extent of `axis`, 0 is per channel.
    `elements` and `scales` are counts; the latter is None too where it is none that there can be.
    """

    entry: Description
    bits: int | None
    group_size: int | None
    axis: int | None
    word: str | None
    order: str | None
    per_word: object
    scale_form: str | None
    zero_form: str | None
    zero_value: int | None
    zero_packing: str | None
    elements: int
    scales: int | None = None

    @property
    def along(self) -> int:
        """Extent of the axis that is divided into groups."""
        return self.entry.shape[self.axis or 0]

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of scales that the profile can mean: one, or two where `group_size` is 0.

        For 0 the prose asks for one scale per index of the axis, the formula for one per element.
        """
        if self.group_size:
            return (self.elements // self.group_size,)
        return (self.along, self.elements)


def parse_quant(each: Description) -> Quant:
    """Read the attributes of an object. Total: what is wrong becomes None."""
    get = each.attributes.get
    packing, zero = _members(get("packing")), _members(get("zero_point"))
    word, bits, axis, group_size = packing.get("word"), get("bits"), get("axis"), get("group_size")
    known = word if isinstance(word, str) and word in WORDS else None
    if type(bits) is not int or bits not in _BITS or (known and WORDS[known] % bits):
        bits = None
    if type(axis) is not int or not 0 <= axis < len(each.shape):
        axis = None
    if (
        type(group_size) is not int
        or group_size < 0
        or (group_size and axis is not None and each.shape[axis] % group_size)
    ):
        group_size = None
    form, value = _one_of(zero.get("form"), ZERO_FORMS), zero.get("value")
    scheme = Quant(
        each,
        bits,
        group_size,
        axis,
        known,
        _one_of(packing.get("order"), ORDERS),
        packing.get("per_word"),
        _one_of(get("scale_form"), SCALE_FORMS),
        form,
        value if type(value) is int else None,
        _one_of(zero.get("packing"), ZERO_PACKINGS),
        prod(each.shape),
    )
    if axis is not None and group_size is not None and "scales" in each.parts:
        dtype, _, size = each.parts["scales"]
        step = DTYPES[dtype]
        scheme.scales = next((count for count in scheme.counts if count * step == size), None)
    return scheme


_NONE: Final[Mapping[str, object]] = {}


def _members(value: object) -> Mapping[str, object]:
    """Return the members of a map whose keys are text; others are unknown and do not matter."""
    if isinstance(value, Pairs):
        return {key: item for key, item in value.items if isinstance(key, str)}
    return value if isinstance(value, Mapping) else _NONE


def _one_of(value: object, known: tuple[str, ...]) -> str | None:
    return value if isinstance(value, str) and value in known else None


@rule("zt.quant-parts", section=ID, stage="open")
def quant_parts(objects: Sequence[Quant]) -> Iterator[Fault]:
    """The parts are `data` and `scales`, and `zeros` exactly where the zero point is a tensor."""
    for each in objects:
        found = each.entry.parts.keys()
        if each.zero_form is None:
            wrong = found - {"zeros"} != _PLAIN
        else:
            wrong = found != (_ZEROED if each.zero_form == "tensor" else _PLAIN)
        if wrong:
            expected = "data, scales, zeros" if each.zero_form == "tensor" else "data, scales"
            yield parts_fault(each.entry, expected)


_PLAIN: Final = {"data", "scales"}
_ZEROED: Final = {"data", "scales", "zeros"}


@rule("zt.quant-bits", section=ID, stage="open")
def quant_bits(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`bits` is 2, 3, 4, 5, 6 or 8 and divides the bits of the word."""
    for each in objects:
        if each.bits is None:
            yield _attribute(each, "2, 4 or 8", "bits")


@rule("zt.quant-axis", section=ID, stage="open")
def quant_axis(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`axis` is a dimension of the object."""
    for each in objects:
        if each.axis is None:
            yield _attribute(each, f"an integer below the rank, {len(each.entry.shape)}", "axis")


@rule("zt.quant-group-size", section=ID, stage="open")
def quant_group_size(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`group_size` is 0 or divides the extent of the axis."""
    for each in objects:
        if each.group_size is None:
            known = is_count(each.entry.attributes.get("group_size")) and each.axis is not None
            expected = f"0 or a divisor of {each.along}" if known else "an unsigned integer"
            yield _attribute(each, expected, "group_size")


@rule("zt.quant-packing", section=ID, stage="open")
def quant_packing(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`packing` names a `word`, u8 to u64, and an `order`, lsb_first or msb_first."""
    for each in objects:
        if each.word is None:
            yield _attribute(each, "one of " + " ".join(WORDS), "packing", "word")
        if each.order is None:
            yield _attribute(each, " or ".join(ORDERS), "packing", "order")


@rule("zt.quant-per-word", section=ID, stage="open")
def quant_per_word(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`packing.per_word` is the number of codes that a word has room for."""
    for each in objects:
        if each.word is None or each.bits is None:
            continue
        expected = WORDS[each.word] // each.bits
        if type(each.per_word) is not int or each.per_word != expected:
            yield _attribute(each, str(expected), "packing", "per_word")


@rule("zt.quant-scale-form", section=ID, stage="open")
def quant_scale_form(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`scale_form` is f32_factors, f16_factors or e8m0_exponent."""
    for each in objects:
        if each.scale_form is None:
            yield _attribute(each, "one of " + " ".join(SCALE_FORMS), "scale_form")


@rule("zt.quant-zero-point", section=ID, stage="open")
def quant_zero_point(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`zero_point` has a form: none, implied with an integer value, or tensor with a packing."""
    for each in objects:
        if each.zero_form is None:
            yield _attribute(each, "one of " + " ".join(ZERO_FORMS), "zero_point", "form")
        elif each.zero_form == "implied" and each.zero_value is None:
            yield _attribute(each, "an integer", "zero_point", "value")
        elif each.zero_form == "tensor" and each.zero_packing is None:
            yield _attribute(each, " or ".join(ZERO_PACKINGS), "zero_point", "packing")


@rule("zt.quant-data-dtype", section=ID, stage="open")
def quant_data_dtype(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`data` is of the word's type or its signed counterpart, without a logical type."""
    for each in objects:
        if each.word is not None and "data" in each.entry.parts:
            dtype, type_, _ = each.entry.parts["data"]
            if type_ is not None or dtype not in _words(each.word):
                yield ids_fault(each.entry, "data", " or ".join(_words(each.word)))


@rule("zt.quant-scales-dtype", section=ID, stage="open")
def quant_scales_dtype(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`scales` has the type that `scale_form` demands."""
    for each in objects:
        if each.scale_form is None or "scales" not in each.entry.parts:
            continue
        dtype, type_, _ = each.entry.parts["scales"]
        if each.scale_form == "e8m0_exponent":
            if (dtype, type_) != ("u8", "f8_e8m0"):
                yield ids_fault(each.entry, "scales", "f8_e8m0 over u8")
        elif type_ is not None or dtype not in _FACTORS[each.scale_form]:
            yield ids_fault(each.entry, "scales", " or ".join(_FACTORS[each.scale_form]))


_FACTORS: Final = {"f32_factors": sorted(FLOATS), "f16_factors": ["f16", "bf16"]}


@rule("zt.quant-zeros-dtype", section=ID, stage="open")
def quant_zeros_dtype(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`zeros` has no logical type; packed like the data, it is of the word's type, or signed."""
    for each in _with_zeros(objects):
        dtype, type_, _ = each.entry.parts["zeros"]
        if each.zero_packing == "plain":
            if type_ is not None:
                yield ids_fault(each.entry, "zeros", "a storage type alone")
        elif each.word is not None and (type_ is not None or dtype not in _words(each.word)):
            yield ids_fault(each.entry, "zeros", " or ".join(_words(each.word)))


@rule("zt.quant-data-size", section=ID, stage="open")
def quant_data_size(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`data` holds the codes of all elements in whole words, none of them left over."""
    for each in objects:
        if each.word is not None and each.bits is not None and "data" in each.entry.parts:
            yield from _packed_size(each, "data", each.elements)


@rule("zt.quant-scales-size", section=ID, stage="open")
def quant_scales_size(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`scales` holds one scale for each group."""
    for each in objects:
        if (
            each.scales is None
            and each.axis is not None
            and each.group_size is not None
            and "scales" in each.entry.parts
        ):
            step = DTYPES[each.entry.parts["scales"][0]]
            yield size_fault(each.entry, "scales", each.counts[0] * step, _counts(each, "scales"))


@rule("zt.quant-zeros-size", section=ID, stage="open")
def quant_zeros_size(objects: Sequence[Quant]) -> Iterator[Fault]:
    """`zeros` holds as many zero points as there are scales."""
    for each in _with_zeros(objects):
        count = each.scales
        if count is None:
            continue
        if each.zero_packing == "plain":
            dtype, _, size = each.entry.parts["zeros"]
            if size != count * DTYPES[dtype]:
                expected = count * DTYPES[dtype]
                yield size_fault(each.entry, "zeros", expected, f"{count} zero points")
        elif each.word is not None and each.bits is not None:
            yield from _packed_size(each, "zeros", count)


def _attribute(each: Quant, expected: str, *keys: str) -> Fault:
    """Return the fault of an attribute that is missing or wrong."""
    found: object = each.entry.attributes
    for key in keys:
        found = _members(found).get(key, _MISSING)
    shown = "nothing" if found is _MISSING else repr(found)[:_SHOWN]
    where = each.entry.attribute(*keys)
    return Fault(where, f"the attribute {'.'.join(keys)} is not usable", expected, shown)


_MISSING: Final = object()


def _words(word: str) -> tuple[str, str]:
    return word, "i" + word[1:]


def _with_zeros(objects: Sequence[Quant]) -> Iterator[Quant]:
    """Yield the objects that have zero points as a tensor, in a form that is known."""
    for each in objects:
        if each.zero_form == "tensor" and each.zero_packing and "zeros" in each.entry.parts:
            yield each


def _counts(each: Quant, what: str) -> str:
    return " or ".join(str(count) for count in dict.fromkeys(each.counts)) + f" {what}"


def _packed_size(each: Quant, role: str, count: int) -> Iterator[Fault]:
    """Judge the size of `count` codes packed in words."""
    bits = WORDS[each.word or ""]
    per_word = bits // (each.bits or 1)
    found = each.entry.parts[role][2]
    if count % per_word:
        where = each.entry.place("parts", role)
        detail = f"{count} codes do not fill whole words"
        yield Fault(where, detail, f"a multiple of {per_word} codes", count)
    elif found * 8 != count // per_word * bits:
        yield size_fault(each.entry, role, count // per_word * bits // 8, f"{count} codes")


LAYOUT: Final[Layout[Quant]] = Layout(
    ID,
    parse_quant,
    (
        quant_parts,
        quant_bits,
        quant_axis,
        quant_group_size,
        quant_packing,
        quant_per_word,
        quant_scale_form,
        quant_zero_point,
        quant_data_dtype,
        quant_scales_dtype,
        quant_zeros_dtype,
        quant_data_size,
        quant_scales_size,
        quant_zeros_size,
    ),
    element="f32",
)
