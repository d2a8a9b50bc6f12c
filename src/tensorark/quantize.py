"""Quantizing arrays on purpose, with the error it makes: `zt.quant_group/1` and `zt.mx/1`.

Nothing else in the library quantizes. What is made here is stored by ``Writer.add_laid``; opened
again, ``numpy()`` gives the values back as f32, and `dequantize` does so before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tensorark.core.brief import brief
from tensorark.layouts.gate import assemble
from tensorark.layouts.mx import make as mx
from tensorark.layouts.mx.make import ElementType
from tensorark.layouts.numbers.dtypes import Array
from tensorark.layouts.numbers.quantization import Quantization
from tensorark.layouts.parts import TensorParts, as_tensor
from tensorark.layouts.quant import make as quant
from tensorark.layouts.quant.make import ScaleType

__all__ = ["Quantized", "dequantize", "quantize", "quantize_mx"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized:
    """A quantized tensor, and the largest and the mean absolute difference from the original."""

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
    """Quantize an array of floats to `zt.quant_group/1`: (code − zero) · scale.

    Each `group_size` neighbors along `axis` share a scale, and with ``zero_point="tensor"`` a zero
    point; ``"implied"`` is 2^(bits − 1) for all, ``"none"`` takes signed codes of 8 bits. A scale
    is the smallest of its type with which the codes cover the group, and 0. An element is off by at
    most half its scale, but for the rounding of f32.

    Raises:
        InvalidInput: when values are not finite or too large for the scale type, or when groups or
            codes do not come out even.
    """
    return _report(
        *quant.make(
            values,
            bits=bits,
            group_size=group_size,
            axis=axis,
            zero_point=zero_point,
            zero_packing=zero_packing,
            scale=scale,
            word=word,
            order=order,
        )
    )


def quantize_mx(
    values: Any, *, element: ElementType = "f4_e2m1", block_size: int = 32, axis: int = -1
) -> Quantized:
    """Quantize an array of floats to `zt.mx/1`: each `block_size` neighbors share an exponent.

    The exponent is the one of OCP Microscaling: that of the largest magnitude of the block, less
    the largest of the element type; elements round to nearest, ties to even, and saturate. An
    element is off by at most a quarter (f4_e2m1), an eighth (f8) or a 128th (i8) of the largest
    magnitude of its block, but for what is below the smallest scale.

    Raises:
        InvalidInput: when values are not finite or beyond f32, or when blocks do not come out even.
    """
    return _report(*mx.make(values, element=element, block_size=block_size, axis=axis))


def _report(laid: TensorParts, made: Quantization) -> Quantized:
    return Quantized(laid=laid, max_error=made.max_error, mean_error=made.mean_error)
