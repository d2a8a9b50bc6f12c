"""Arrays of floats quantized to `zt.quant_group/1`: affine codes in groups, packed into words."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tensorark.errors import InvalidInput
from tensorark.layouts.numbers.bits import pack
from tensorark.layouts.numbers.dtypes import numpy_dtype
from tensorark.layouts.numbers.quantization import (
    Double,
    Octets,
    Quantization,
    as_floats,
    axis_of,
    quantize_groups,
)
from tensorark.layouts.parts import TensorParts, check
from tensorark.layouts.quant.rules import ID, ORDERS, WORDS

ScaleType = Literal["f64", "f32", "f16", "bf16", "f8_e8m0"]

_FORMS: Final = {
    "f64": "f32_factors",
    "f32": "f32_factors",
    "f16": "f16_factors",
    "bf16": "f16_factors",
    "f8_e8m0": "e8m0_exponent",
}


def make(
    values: Any,
    *,
    bits: int,
    group_size: int,
    axis: int,
    zero_point: str,
    zero_packing: str,
    scale: str,
    word: str,
    order: str,
) -> tuple[TensorParts, Quantization]:
    """Quantize an array of floats, as `tensorark.quantize.quantize` says.

    Raises:
        InvalidInput: when values are not finite or too large for the scale type, when groups or
            codes do not come out even, and for an option that there is not.
    """
    source = as_floats(values)
    where = axis_of(source, axis)
    _require_choices(bits, zero_point, scale, word, order)
    along = source.shape[where]
    size = group_size or 1
    if group_size < 0 or along % size or (not group_size and source.ndim != 1):
        raise InvalidInput(
            "the groups do not come out even",
            code="group-size",
            expected=f"a divisor of {along}" + (", or 0 for a vector" if group_size == 0 else ""),
            found=group_size,
        )
    has_zeros, signed = zero_point == "tensor", zero_point == "none"
    way = partial(_quantize, bits=bits, has_zeros=has_zeros, signed=signed, scale=scale)
    found = quantize_groups(source, where, size, way)
    parts = {
        "data": _pack_codes(found.codes, bits, word, order, signed=signed),
        "scales": _scales_part(found.scales, scale),
    }
    zero: dict[str, object] = {"form": zero_point}
    if zero_point == "implied":
        zero["value"] = 1 << (bits - 1)
    if has_zeros:
        zero["packing"] = zero_packing
        parts["zeros"] = (
            (("u8", None), [found.zeros.data])
            if zero_packing == "plain"
            else _pack_codes(found.zeros, bits, word, order, signed=False)
        )
    attributes = {
        "axis": where,
        "bits": bits,
        "group_size": group_size,
        "packing": {"order": order, "per_word": WORDS[word] // bits, "word": word},
        "scale_form": _FORMS[scale],
        "zero_point": zero,
    }
    laid = TensorParts(shape=source.shape, layout=ID, parts=parts, attributes=attributes)
    return check(laid, "narrower words, or plain zero points, always come out even"), found


def _require_choices(bits: int, zero_point: str, scale: str, word: str, order: str) -> None:
    choices: list[tuple[str, object, tuple[object, ...]]] = [
        ("bits", bits, (2, 4, 8)),
        ("zero_point", zero_point, ("tensor", "implied", "none")),
        ("scale", scale, tuple(_FORMS)),
        ("word", word, tuple(WORDS)),
        ("order", order, ORDERS),
    ]
    if zero_point == "none":
        choices += [("bits", bits, (8,)), ("word", word, ("u8",))]
    for name, found, known in choices:
        if found not in known:
            expected = "one of " + " ".join(map(str, known))
            raise InvalidInput(f"no such {name}", code=name, expected=expected, found=found)


def _quantize(
    chunk: Double, *, bits: int, has_zeros: bool, signed: bool, scale: str
) -> tuple[Octets, npt.NDArray[Any], Octets, Double]:
    """Return codes, stored scales, zero points, and the values that they stand for.

    Zero points are those of each group where it `has_zeros`, else one for all.
    """
    top = (1 << bits) - 1
    if has_zeros:
        least = np.minimum(chunk.min(1, initial=0, keepdims=True), 0)
        most = np.maximum(chunk.max(1, initial=0, keepdims=True), 0)
        scales, steps = _round_up((most - least) / top, scale)
        zeros = np.rint(-least / steps)
    else:
        middle = 0 if signed else 1 << (bits - 1)
        reach = np.abs(chunk).max(1, initial=0, keepdims=True)
        scales, steps = _round_up(reach / ((1 << (bits - 1)) - 1), scale)
        zeros = np.full_like(steps, middle)
    low, high = (-(top // 2), top // 2) if signed else (0, top)
    codes = np.clip(np.rint(chunk / steps) + zeros, low, high)
    stored = codes.astype(np.int8).view(np.uint8) if signed else codes.astype(np.uint8)
    return stored, scales, zeros.astype(np.uint8), (codes - zeros) * steps


def _round_up(steps: Double, scale: str) -> tuple[npt.NDArray[Any], Double]:
    """Return scales as they are stored and as they are used: at least `steps`, 1 for 0."""
    wanted = np.where(steps > 0, steps, 1.0)
    stored: npt.NDArray[Any]
    if scale == "f8_e8m0":
        fraction, exponent = np.frexp(wanted)
        power = np.where(fraction == 0.5, exponent - 1, exponent).clip(min=-127)
        _require_fit(power <= 127, scale)
        return (power + 127).astype(np.uint8), np.ldexp(1.0, power)
    with np.errstate(over="ignore"):
        if scale == "bf16":
            single = _least_above(wanted, np.dtype(np.float32)).view(np.uint32)
            halves = ((single.astype(np.uint64) + 0xFFFF) >> 16).astype(np.uint16)
            used = (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            stored = halves
        else:
            stored = _least_above(wanted, numpy_dtype(scale))
            used = stored.astype(np.float64)
    _require_fit(np.isfinite(used), scale)
    return stored, used


def _least_above(wanted: Double, element: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the smallest floats of `element` that are not below `wanted`."""
    nearest = wanted.astype(element)
    above = np.nextafter(nearest, element.type(np.inf))
    return np.where(nearest.astype(np.float64) < wanted, above, nearest)


def _require_fit(fits: npt.NDArray[np.bool_], scale: str) -> None:
    if not fits.all():
        detail = "the values are too large for scales of this type"
        raise InvalidInput(detail, code="scale", found=scale, hint="take wider scales")


_Part = tuple[tuple[str, str | None], list[memoryview]]


def _pack_codes(codes: Octets, bits: int, word: str, order: str, *, signed: bool) -> _Part:
    """Return codes as a part: packed into words, which they must fill."""
    width = WORDS[word] // 8
    if codes.size % (WORDS[word] // bits):
        raise InvalidInput(
            f"{codes.size} codes do not fill whole words",
            code="word",
            expected=f"a multiple of {WORDS[word] // bits} codes",
            found=codes.size,
            hint="take narrower words, or plain zero points",
        )
    octets = pack(codes, bits, width, msb=order == "msb_first")
    return ("i8" if signed else word, None), [octets.data]


def _scales_part(scales: npt.NDArray[Any], scale: str) -> _Part:
    ids = ("u8", "f8_e8m0") if scale == "f8_e8m0" else (scale, None)
    return ids, [scales.reshape(-1).view(np.uint8).data]
