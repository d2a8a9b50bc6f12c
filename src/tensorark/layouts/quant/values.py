"""The layout `zt.quant_group/1` as values: (code − zero) · scale, in f32.

Values are as if computed exactly up to one rounding of the difference and one of the product to
f64, and then one to f32. Where all of that is exact in f32 anyway, f32 is used.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.core.model import Part, Tensor
from tensorark.core.types import DTYPES
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.bits import code_table, look_up, octets_in_order
from tensorark.layouts.numbers.factors import NARROW, widen
from tensorark.layouts.numbers.groups import Float32, Grid, boxes, gather, multiply
from tensorark.layouts.quant.rules import LAYOUT, WORDS, Quant
from tensorark.layouts.values import Values, all_of

_SMALL: Final = 1 << 20
"""Zero points below this leave differences that an f32 holds exactly."""


def elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Float32:
    """Return the flat elements [start, stop), reading what they need and no more."""
    return gather(_Decoder(LAYOUT.check(tensor), tensor, read).fill, start, stop)


class _Decoder:
    """Decodes flat ranges of one tensor."""

    __slots__ = ("_codes", "_element", "_grid", "_read", "_tensor", "_zero_codes")

    def __init__(self, scheme: Quant, tensor: Tensor, read: Bytes) -> None:
        scales, zeros = tensor.parts["scales"], tensor.parts.get("zeros")
        self._tensor, self._read = tensor, read
        self._grid = _grid(scheme, scales)
        packed = zeros is not None and scheme.zero_packing == "same_as_data"
        plain = None if zeros is None or packed else zeros
        narrow = (
            (scales.type or scales.dtype) in NARROW
            and (plain is None or (plain.dtype in NARROW and plain.dtype[0] in "iu"))
            and abs(scheme.zero_value or 0) < _SMALL
        )
        self._element: npt.DTypeLike = np.float32 if narrow else np.float64
        zero = scheme.zero_value or 0 if scheme.zero_form == "implied" else 0
        self._codes = _PackedCodes(scheme, tensor.parts["data"], zero, self._element)
        self._zero_codes = (
            _PackedCodes(scheme, zeros, 0, self._element) if zeros is not None and packed else None
        )

    def fill(self, start: int, stop: int, out: Float32) -> None:
        """Compute the flat elements [start, stop) into `out`."""
        codes = self._codes.unpack(self._read, "data", start, stop)
        for box in boxes(self._grid, start, stop):
            inside = slice(box.start - start, box.stop - start)
            values = codes[inside].reshape(box.shape)
            zeros = self._zeros(box.first, box.last)
            if zeros is not None:
                values -= zeros.reshape(box.spread)
            scales = self._plain("scales", box.first, box.last)
            multiply(values, scales, box, out[inside])

    def _zeros(self, first: int, last: int) -> npt.NDArray[Any] | None:
        if self._zero_codes is not None:
            return self._zero_codes.unpack(self._read, "zeros", first, last)
        return self._plain("zeros", first, last) if "zeros" in self._tensor.parts else None

    def _plain(self, role: str, first: int, last: int) -> npt.NDArray[Any]:
        part = self._tensor.parts[role]
        width = DTYPES[part.dtype]
        data = self._read(role, first * width, last * width)
        return widen(data, part.type or part.dtype, self._element)


class _PackedCodes:
    """Codes in words, minus a zero point that all share, as floats."""

    __slots__ = ("_msb", "_per_word", "_table", "_word")

    def __init__(self, scheme: Quant, part: Part, zero: int, element: npt.DTypeLike) -> None:
        bits = scheme.bits or 8
        self._word = WORDS[scheme.word or "u8"] // 8
        self._per_word = self._word * 8 // bits
        self._msb = scheme.order == "msb_first"
        signed = self._per_word == 1 and part.dtype.startswith("i")
        codes = code_table(bits, msb=self._msb, signed=signed)
        # In Python, where no difference overflows.
        exact = [[float(code - zero) for code in row] for row in codes.tolist()]
        self._table = np.array(exact, element)

    def unpack(self, read: Bytes, role: str, start: int, stop: int) -> npt.NDArray[Any]:
        """Return the codes [start, stop) in a new array."""
        first, last = start // self._per_word, -(-stop // self._per_word)
        data = read(role, first * self._word, last * self._word)
        octets = octets_in_order(data, self._word, msb=self._msb)
        skip = start - first * self._per_word
        return look_up(self._table, octets)[skip : skip + stop - start]


def _grid(scheme: Quant, scales: Part) -> Grid:
    """Return how elements share scales; for group size 0 the number of scales tells."""
    shape, axis = scheme.entry.shape, scheme.axis or 0
    columns = prod(shape[axis + 1 :])
    if scheme.group_size:
        return Grid(scheme.group_size, columns)
    if scales.nbytes == scheme.along * DTYPES[scales.dtype]:
        return Grid(scheme.along, columns, per_channel=True)
    return Grid(1, columns)


VALUES: Final = Values(LAYOUT, all_of(elements), elements)
