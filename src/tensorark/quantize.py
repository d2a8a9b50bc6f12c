"""Quantising arrays on purpose, with the error it makes: `zt.quant_group/1` and `zt.mx/1`.

Nothing else in the library quantises. What is made here is stored by ``Writer.add_laid``; opened
again, ``numpy()`` gives the values back as f32, and `dequantize` does so before.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tensorark.core.brief import brief
from tensorark.errors import InvalidInput
from tensorark.layouts.mx.rules import ID as MX
from tensorark.layouts.numbers.bits import pack
from tensorark.layouts.numbers.dtypes import Array, as_array, encode, ids_of, numpy_dtype
from tensorark.layouts.parts import TensorParts, as_tensor, check
from tensorark.layouts.quant.rules import ID as QUANT_GROUP
from tensorark.layouts.quant.rules import ORDERS, WORDS

__all__ = ["Quantized", "dequantize", "quantize", "quantize_mx"]

Double = npt.NDArray[np.float64]
ScaleType = Literal["f64", "f32", "f16", "bf16", "f8_e8m0"]
ElementType = Literal["f4_e2m1", "f8_e4m3fn", "f8_e5m2", "i8"]

_CHUNK: Final = 1 << 20
"""Elements that are quantised at a time, unless a single group has more."""

_FORMS: Final = {
    "f64": "f32_factors",
    "f32": "f32_factors",
    "f16": "f16_factors",
    "bf16": "f16_factors",
    "f8_e8m0": "e8m0_exponent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """A quantised tensor, and the largest and the mean absolute difference from the original."""

    __repr__ = brief

    laid: TensorParts
    max_error: float
    mean_error: float


def dequantize(laid: TensorParts) -> Array:
    """Return the values of a tensor that is laid out, as reading it from a file would.

    Raises:
        Rejected: when it breaks a rule of its layout.
        Unsupported: when its layout is unknown.
    """
    from tensorark.layouts.gate import assemble

    return assemble(*as_tensor(laid))


def quantize(
    values: Any,
    *,
    bits: Literal[2, 4, 8] = 4,
    group_size: int = 32,
    axis: int = -1,
    zero_point: Literal["tensor", "implied", "none"] = "tensor",
    zero_packing: Literal["plain", "same_as_data"] = "plain",
    scale: ScaleType = "f16",
    word: Literal["u8", "u16", "u32", "u64"] = "u8",
    order: Literal["lsb_first", "msb_first"] = "lsb_first",
) -> Quantized:
    """Quantise an array of floats to `zt.quant_group/1`: (code − zero) · scale.

    Each `group_size` neighbours along `axis` share a scale, and with ``zero_point="tensor"`` a zero
    point; ``"implied"`` is 2^(bits − 1) for all, ``"none"`` takes signed codes of 8 bits. A scale
    is the smallest of its type with which the codes cover the group, and 0. An element is off by at
    most half its scale, but for the rounding of f32.

    Raises:
        InvalidInput: when values are not finite or too large for the scale type, or when groups or
            codes do not come out even.
    """
    source = _floats(values)
    where = _axis(source, axis)
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
    maker = _Groups(bits, zero_point == "tensor", signed=zero_point == "none", scale=scale)
    made = _gathered(source, where, size, maker.quantize)
    parts = {
        "data": _codes(made.codes, bits, word, order, signed=zero_point == "none"),
        "scales": _stored(made.scales, scale),
    }
    zero: dict[str, object] = {"form": zero_point}
    if zero_point == "implied":
        zero["value"] = 1 << (bits - 1)
    if zero_point == "tensor":
        zero["packing"] = zero_packing
        parts["zeros"] = (
            (("u8", None), [made.zeros.data])
            if zero_packing == "plain"
            else _codes(made.zeros, bits, word, order, signed=False)
        )
    attributes = {
        "axis": where,
        "bits": bits,
        "group_size": group_size,
        "packing": {"order": order, "per_word": WORDS[word] // bits, "word": word},
        "scale_form": _FORMS[scale],
        "zero_point": zero,
    }
    laid = TensorParts(shape=source.shape, layout=QUANT_GROUP, parts=parts, attributes=attributes)
    return made.report(check(laid, "narrower words, or plain zero points, always come out even"))


def quantize_mx(
    values: Any, *, element: ElementType = "f4_e2m1", block_size: int = 32, axis: int = -1
) -> Quantized:
    """Quantise an array of floats to `zt.mx/1`: each `block_size` neighbours share an exponent.

    The exponent is the one of OCP Microscaling: that of the largest magnitude of the block, less
    the largest of the element type; elements round to nearest, ties to even, and saturate. An
    element is off by at most a quarter (f4_e2m1), an eighth (f8) or a 128th (i8) of the largest
    magnitude of its block, but for what is below the smallest scale.

    Raises:
        InvalidInput: when values are not finite or beyond f32, or when blocks do not come out even.
    """
    source = _floats(values)
    where = _axis(source, axis)
    if element not in _ELEMENTS:
        expected = "one of " + " ".join(_ELEMENTS)
        raise InvalidInput("no such element type", code="type", expected=expected, found=element)
    along = source.shape[where]
    if block_size < 2 or along % block_size:
        expected = f"at least 2, and a divisor of {along}"
        detail = "the blocks do not come out even"
        raise InvalidInput(detail, code="block-size", expected=expected, found=block_size)
    maker = _Blocks(element)
    made = _gathered(source, where, block_size, maker.quantize)
    data = made.codes.reshape(source.shape).view(
        np.int8 if element == "i8" else numpy_dtype("u8", element)
    )
    parts = {
        "data": (ids_of(data.dtype), list(encode(data))),
        "scales": (("u8", "f8_e8m0"), [made.scales.data]),
    }
    attributes = {"axis": where, "block_size": block_size, "scale_form": "e8m0_exponent"}
    return made.report(
        check(TensorParts(shape=source.shape, layout=MX, parts=parts, attributes=attributes))
    )


def _floats(values: Any) -> Array:
    array = as_array(values)
    _, type_ = ids_of(array.dtype)
    if type_ is not None or array.dtype.kind in "iu":
        hint = "astype('f4')"
        raise InvalidInput("only floats are quantised", code="dtype", found=array.dtype, hint=hint)
    return np.asarray(array, order="C")


def _axis(array: Array, axis: int) -> int:
    if not -array.ndim <= axis < array.ndim:
        expected = f"a dimension of {array.shape}"
        raise InvalidInput("there is no such axis", code="axis", expected=expected, found=axis)
    return axis % array.ndim


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


@dataclass(slots=True)
class _Made:
    """What quantising gave: codes and entries in row-major order, and the error."""

    codes: npt.NDArray[np.uint8]
    scales: npt.NDArray[Any]
    zeros: npt.NDArray[np.uint8]
    max_error: float
    mean_error: float

    def report(self, laid: TensorParts) -> Quantized:
        """Return the result with its error."""
        return Quantized(laid=laid, max_error=self.max_error, mean_error=self.mean_error)


def _gathered(source: Array, axis: int, size: int, quantize: Any) -> _Made:
    """Quantise `source` chunk by chunk: groups of `size` along `axis`, as [blocks, size, inner]."""
    inner = prod(source.shape[axis + 1 :])
    blocks = source.reshape(-1, size, inner) if source.size else np.empty((0, size, inner))
    step = max(1, _CHUNK // max(1, size * inner))
    pieces = []
    largest = total = 0.0
    for start in range(0, len(blocks), step):
        chunk = blocks[start : start + step].astype(np.float64)
        if not np.isfinite(chunk).all():
            raise InvalidInput("only finite values are quantised", code="not-finite")
        codes, scales, zeros, back = quantize(chunk)
        error = np.abs(back.astype(np.float32).astype(np.float64) - chunk)
        largest, total = max(largest, float(error.max(initial=0))), total + float(error.sum())
        pieces.append((codes.reshape(-1), scales.reshape(-1), zeros.reshape(-1)))
    if not pieces:
        pieces = [(np.empty(0, np.uint8), quantize(np.empty((0, 1, 1)))[1].reshape(-1), _NO_ZEROS)]
    codes, scales, zeros = (np.concatenate(each) for each in zip(*pieces, strict=True))
    return _Made(codes, scales, zeros, largest, total / max(1, source.size))


_NO_ZEROS: Final = np.empty(0, np.uint8)
_Quantised = tuple[npt.NDArray[np.uint8], npt.NDArray[Any], npt.NDArray[np.uint8], Double]


@dataclass(frozen=True, slots=True)
class _Groups:
    """Affine quantisation of groups: with zero points of their own, or around one for all."""

    bits: int
    has_zeros: bool
    signed: bool
    scale: str

    def quantize(self, chunk: Double) -> _Quantised:
        """Return codes, stored scales, zero points, and the values that they stand for."""
        top = (1 << self.bits) - 1
        if self.has_zeros:
            least = np.minimum(chunk.min(1, initial=0, keepdims=True), 0)
            most = np.maximum(chunk.max(1, initial=0, keepdims=True), 0)
            scales, steps = _rounded_up((most - least) / top, self.scale)
            zeros = np.rint(-least / steps)
        else:
            middle = 0 if self.signed else 1 << (self.bits - 1)
            reach = np.abs(chunk).max(1, initial=0, keepdims=True)
            scales, steps = _rounded_up(reach / ((1 << (self.bits - 1)) - 1), self.scale)
            zeros = np.full_like(steps, middle)
        low, high = (-(top // 2), top // 2) if self.signed else (0, top)
        codes = np.clip(np.rint(chunk / steps) + zeros, low, high)
        stored = codes.astype(np.int8).view(np.uint8) if self.signed else codes.astype(np.uint8)
        return stored, scales, zeros.astype(np.uint8), (codes - zeros) * steps


def _rounded_up(steps: Double, scale: str) -> tuple[npt.NDArray[Any], Double]:
    """Return scales as they are stored and as they are used: at least `steps`, 1 for 0."""
    wanted = np.where(steps > 0, steps, 1.0)
    stored: npt.NDArray[Any]
    if scale == "f8_e8m0":
        fraction, exponent = np.frexp(wanted)
        power = np.where(fraction == 0.5, exponent - 1, exponent).clip(min=-127)
        _fits(power <= 127, scale)
        return (power + 127).astype(np.uint8), np.ldexp(1.0, power)
    with np.errstate(over="ignore"):
        if scale == "bf16":
            single = _above(wanted, np.dtype(np.float32)).view(np.uint32)
            halves = ((single.astype(np.uint64) + 0xFFFF) >> 16).astype(np.uint16)
            used = (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            stored = halves
        else:
            stored = _above(wanted, numpy_dtype(scale))
            used = stored.astype(np.float64)
    _fits(np.isfinite(used), scale)
    return stored, used


def _above(wanted: Double, element: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the smallest floats of `element` that are not below `wanted`."""
    nearest = wanted.astype(element)
    above = np.nextafter(nearest, element.type(np.inf))
    return np.where(nearest.astype(np.float64) < wanted, above, nearest)


def _fits(fitting: npt.NDArray[np.bool_], scale: str) -> None:
    if not fitting.all():
        detail = "the values are too large for scales of this type"
        raise InvalidInput(detail, code="scale", found=scale, hint="take wider scales")


@dataclass(frozen=True, slots=True)
class _Element:
    """A small float, or 8-bit fixed point: bits behind the point, exponents, largest value."""

    fraction: int
    least: int
    most: int
    largest: float


_ELEMENTS: Final = {
    "f4_e2m1": _Element(1, 0, 2, 6.0),
    "f8_e4m3fn": _Element(3, -6, 8, 448.0),
    "f8_e5m2": _Element(2, -14, 15, 57344.0),
    "i8": _Element(6, 0, 0, 127 / 64),
}


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Microscaling: elements of one small type under a power of two."""

    element: str

    def quantize(self, chunk: Double) -> _Quantised:
        """Return codes, exponents, no zero points, and the values that they stand for."""
        kind = _ELEMENTS[self.element]
        reach = np.abs(chunk).max(1, initial=0, keepdims=True)
        if reach.size and float(reach.max()) > float(np.finfo(np.float32).max):
            raise InvalidInput("the values are beyond f32", code="scale")
        exponent = np.where(reach > 0, np.frexp(reach)[1] - 1 - kind.most, -127).clip(-127, 127)
        scaled = np.ldexp(chunk, -exponent)
        place = np.maximum(np.frexp(scaled)[1] - 1, kind.least) if self.element != "i8" else 0
        unit = np.ldexp(1.0, place - kind.fraction)
        rounded = np.clip(np.rint(scaled / unit) * unit, -kind.largest, kind.largest)
        scales = (exponent + 127).astype(np.uint8)
        return self._codes(rounded), scales, _NO_ZEROS, np.ldexp(rounded, exponent)

    def _codes(self, rounded: Double) -> npt.NDArray[np.uint8]:
        if self.element == "i8":
            return (rounded * 64).astype(np.int8).view(np.uint8)
        return rounded.astype(numpy_dtype("u8", self.element)).view(np.uint8)


_Part = tuple[tuple[str, str | None], list[memoryview]]


def _codes(
    codes: npt.NDArray[np.uint8], bits: int, word: str, order: str, *, signed: bool
) -> _Part:
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


def _stored(scales: npt.NDArray[Any], scale: str) -> _Part:
    ids = ("u8", "f8_e8m0") if scale == "f8_e8m0" else (scale, None)
    return ids, [scales.reshape(-1).view(np.uint8).data]
