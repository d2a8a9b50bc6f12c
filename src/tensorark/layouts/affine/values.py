"""The layout `mlx.affine/1` as values: scale · code + bias, in f32.

Values are as if computed exactly up to one rounding of the product and one of the sum to f64, and
then one to f32.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorark.core.model import Tensor
from tensorark.core.types import DTYPES
from tensorark.layouts.affine.rules import LAYOUT
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.bits import unpack_stream
from tensorark.layouts.numbers.factors import widen
from tensorark.layouts.numbers.groups import Float32, Grid, boxes, gather
from tensorark.layouts.values import Values, all_of

_STEP: Final = 8
"""Codes that begin and end with a byte, whatever their width."""


def elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Float32:
    """Return the flat elements [start, stop), reading what they need and no more."""
    scheme = LAYOUT.check(tensor)
    grid = Grid(scheme.group_size or 1, 1)
    bits = scheme.bits or 8
    factors = tensor.parts["scales"].dtype
    # A product of 11 and 8 bits is exact in f32, so that the sum is rounded once either way.
    element = np.float32 if factors == "f16" else np.float64
    width = DTYPES[factors]

    def fill(start: int, stop: int, out: Float32) -> None:
        first, last = start // _STEP, -(-stop // _STEP)
        end = min(last * bits, tensor.parts["data"].nbytes)
        codes = unpack_stream(read("data", first * bits, end), bits)
        values = codes[start - first * _STEP :][: stop - start].astype(element)
        for box in boxes(grid, start, stop):
            inside = slice(box.start - start, box.stop - start)
            scales, biases = (
                widen(read(role, box.first * width, box.last * width), factors, element)
                for role in ("scales", "biases")
            )
            result = values[inside].reshape(box.shape) * scales.reshape(box.spread)
            result += biases.reshape(box.spread)
            out[inside] = result.reshape(-1)

    return gather(fill, start, stop)


VALUES: Final = Values(LAYOUT, all_of(elements), elements)
