"""Arrays of floats quantized to `zt.mx/1`: elements of a small type under a power of two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tensorark.errors import InvalidInput
from tensorark.layouts.mx.rules import ID, SCALE_FORM
from tensorark.layouts.numbers.dtypes import encode, ids_of, numpy_dtype
from tensorark.layouts.numbers.quantization import (
    NO_ZEROS,
    Double,
    Octets,
    Quantization,
    as_floats,
    axis_of,
    quantize_groups,
)
from tensorark.layouts.parts import TensorParts, check

ElementType = Literal["f4_e2m1", "f8_e4m3fn", "f8_e5m2", "i8"]


def make(
    values: Any, *, element: str, block_size: int, axis: int
) -> tuple[TensorParts, Quantization]:
    """Quantize an array of floats, as `tensorark.quantize.quantize_mx` says.

    Raises:
        InvalidInput: when values are not finite or beyond f32, when blocks do not come out even,
            and for an element type that there is not.
    """
    source = as_floats(values)
    where = axis_of(source, axis)
    if element not in _ELEMENTS:
        expected = "one of " + " ".join(_ELEMENTS)
        raise InvalidInput("no such element type", code="type", expected=expected, found=element)
    along = source.shape[where]
    if block_size < 2 or along % block_size:
        expected = f"at least 2, and a divisor of {along}"
        detail = "the blocks do not come out even"
        raise InvalidInput(detail, code="block-size", expected=expected, found=block_size)
    found = quantize_groups(source, where, block_size, partial(_quantize, element))
    data = found.codes.reshape(source.shape).view(
        np.int8 if element == "i8" else numpy_dtype("u8", element)
    )
    parts = {
        "data": (ids_of(data.dtype), list(encode(data))),
        "scales": (("u8", "f8_e8m0"), [found.scales.data]),
    }
    attributes = {"axis": where, "block_size": block_size, "scale_form": SCALE_FORM}
    laid = TensorParts(shape=source.shape, layout=ID, parts=parts, attributes=attributes)
    return check(laid), found


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


def _quantize(element: str, chunk: Double) -> tuple[Octets, npt.NDArray[Any], Octets, Double]:
    """Return codes, exponents, no zero points, and the values that they stand for."""
    kind = _ELEMENTS[element]
    reach = np.abs(chunk).max(1, initial=0, keepdims=True)
    if reach.size and float(reach.max()) > float(np.finfo(np.float32).max):
        raise InvalidInput("the values are beyond f32", code="scale")
    exponent = np.where(reach > 0, np.frexp(reach)[1] - 1 - kind.most, -127).clip(-127, 127)
    scaled = np.ldexp(chunk, -exponent)
    place = np.maximum(np.frexp(scaled)[1] - 1, kind.least) if element != "i8" else 0
    unit = np.ldexp(1.0, place - kind.fraction)
    nearest = np.clip(np.rint(scaled / unit) * unit, -kind.largest, kind.largest)
    if element == "i8":
        codes = (nearest * 64).astype(np.int8)
    else:
        codes = nearest.astype(numpy_dtype("u8", element))
    scales = (exponent + 127).astype(np.uint8)
    return codes.view(np.uint8), scales, NO_ZEROS, np.ldexp(nearest, exponent)
