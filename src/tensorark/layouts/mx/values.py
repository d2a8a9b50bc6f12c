"""The layout `zt.mx/1` as values: element · 2^(scale − 127), in f32.

A product is rounded once, which only leaves the range of f32 can make visible. A block whose scale
is NaN is NaN.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from tensorark.core.model import Part, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import RAW, Unsupported
from tensorark.layouts.layout import Bytes
from tensorark.layouts.mx.rules import ELEMENTS, ID, LAYOUT
from tensorark.layouts.numbers.bits import code_table, look_up
from tensorark.layouts.numbers.content import CONTENT_RULES, Content
from tensorark.layouts.numbers.dtypes import numpy_dtype
from tensorark.layouts.numbers.factors import exponents
from tensorark.layouts.numbers.groups import Float32, Grid, boxes, gather, multiply
from tensorark.layouts.values import Values, all_of


def elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Float32:
    """Return the flat elements [start, stop), reading what they need and no more."""
    scheme = LAYOUT.check(tensor)
    part = _known_elements(tensor)
    judge(tensor, read, Reading())
    columns = prod(tensor.shape[(scheme.axis or 0) + 1 :])
    grid = Grid(scheme.block_size or 1, columns)
    table = values_of(part.dtype, part.type)
    per_octet = table.shape[1]

    def fill(start: int, stop: int, out: Float32) -> None:
        first, last = start // per_octet, -(-stop // per_octet)
        octets = np.frombuffer(read("data", first, last), np.uint8)
        skip = start - first * per_octet
        values = look_up(table, octets)[skip : skip + stop - start]
        for box in boxes(grid, start, stop):
            inside = slice(box.start - start, box.stop - start)
            scales = exponents()[np.frombuffer(read("scales", box.first, box.last), np.uint8)]
            multiply(values[inside].reshape(box.shape), scales, box, out[inside])

    return gather(fill, start, stop)


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check the nibble behind an odd number of f4_e2m1 elements."""
    LAYOUT.check(tensor, reading)
    part, count = tensor.parts["data"], tensor.elements
    if part.type == "f4_e2m1" and count % 2:
        where = ("objects", tensor.name, "parts", "data")
        last = read("data", part.nbytes - 1, part.nbytes)
        content = Content(where=where, data=last, type=part.type, elements=count)
        reading.require(CONTENT_RULES, content)


def _known_elements(tensor: Tensor) -> Part:
    """Return the elements, if the profile says what they are.

    Raises:
        Unsupported: when it does not.
    """
    part = tensor.parts["data"]
    if (part.dtype, part.type) not in ELEMENTS:
        raise Unsupported(
            "the profile has no such element type, so the tensor is not interpreted",
            code="unknown-type",
            section=ID,
            where=("objects", tensor.name, "parts", "data"),
            expected="one of " + " ".join(type_ or dtype for dtype, type_ in ELEMENTS),
            found=part.type,
            hint=RAW,
        )
    return part


@cache
def values_of(dtype: str, type_: str | None) -> npt.NDArray[np.float32]:
    """Return the elements that each byte holds: 256 rows of one value, or of two for f4_e2m1."""
    if type_ == "f4_e2m1":
        codes = code_table(4)
        magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
        return np.concatenate([magnitudes, -magnitudes])[codes]
    octets = np.arange(256, dtype=np.uint8)
    if type_ is None:
        return octets.view(np.int8).astype(np.float32)[:, None] / np.float32(64)
    values = octets.view(numpy_dtype(dtype, type_)).astype(np.float32)
    values[np.isnan(values)] = np.nan  # one NaN, whatever its sign was
    return values[:, None]


VALUES: Final = Values(LAYOUT, all_of(elements), elements, judge)
