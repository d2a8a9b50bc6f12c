"""The layouts `ninfer.<layout>` as values, in any file that carries such an object.

Decoding judges nothing but the metadata it relies on: codes and scales that a format forbids are
found by verifying. Element ranges read the rows they need and no others.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorark.core.model import Raw, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import RAW, Error, Rejected, Unsupported
from tensorark.layouts.layout import Bytes
from tensorark.layouts.ninfer.content import CONTENT_RULES, Payload
from tensorark.layouts.ninfer.decoding import ELEMENT, decode
from tensorark.layouts.ninfer.geometry import DIRECT, GGUF, Geometry, geometry_of, slices
from tensorark.layouts.ninfer.remarks import remark
from tensorark.layouts.ninfer.rules import LAYOUT
from tensorark.layouts.numbers.dtypes import Array
from tensorark.layouts.values import Values, reshape

_CHUNK: Final = 1 << 21
"""Elements of the rows that are read at a time for a range."""

_WHOLE: Final = 16 << 20
"""Bytes of an object that are read at once."""


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Return the values: float32, or the words of bf16, fp32 and int32 as they are.

    Raises:
        Rejected: when shape or size do not fit format and layout.
        Unsupported: when the format is unknown, and for blocks of GGUF.
    """
    whole = _geometry(tensor)
    _require_numbers(tensor, whole)
    if _is_piecemeal(tensor, whole):
        return reshape(elements(tensor, read, 0, whole.rows * whole.columns), tensor)
    return reshape(decode(whole, read("data")), tensor)


def _is_piecemeal(tensor: Tensor, whole: Geometry) -> bool:
    """Tell whether an object is decoded some rows at a time, so that it is never whole in memory.

    Plain words are a view of what was read. What is encoded again is not: its planes lie apart, and
    each run of rows would decode frames of all of them.
    """
    raw = isinstance(tensor.parts["data"].blob, Raw)
    return raw and whole.nbytes > _WHOLE and whole.format not in DIRECT


def elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Array:
    """Return the flat elements [start, stop), reading the rows that hold them and no others."""
    whole = _geometry(tensor)
    _require_numbers(tensor, whole)
    first, last = start // whole.columns, -(-stop // whole.columns)
    rows = np.empty((last - first, whole.columns), ELEMENT.get(whole.format, np.float32))
    step = -(-max(1, _CHUNK // whole.columns) // whole.unit) * whole.unit
    for row in range(first // whole.unit * whole.unit, last, step):
        for cut in slices(whole, max(first, row), min(last, row + step)):
            data = bytearray(cut.geometry.nbytes)
            for plane, (offset, length) in zip(cut.geometry.planes, cut.pieces, strict=True):
                data[plane.offset : plane.offset + length] = read("data", offset, offset + length)
            begin, end = max(first, row, cut.first), min(last, cut.first + cut.geometry.rows)
            end = min(end, row + step)
            window = begin - cut.first, end - cut.first
            target = rows[begin - first : end - first]
            if whole.format in DIRECT:
                target[...] = decode(cut.geometry, memoryview(data), *window)
            else:
                decode(cut.geometry, memoryview(data), *window, out=target)
    return rows.reshape(-1)[start - first * whole.columns :][: stop - start]


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check the words of an object, and the zeros between and behind them.

    Raises:
        Rejected: when the payload breaks a rule, unless `reading` gathers.
        Unsupported: when the format is unknown, and for blocks of GGUF.
    """
    whole = _geometry(tensor, reading)
    _require_numbers(tensor, whole)
    where = ("objects", tensor.name, "parts", "data")
    reading.require(CONTENT_RULES, Payload(where, whole, read("data")))


def _geometry(tensor: Tensor, reading: Reading | None = None) -> Geometry:
    LAYOUT.check(tensor, reading or Reading())
    try:
        return geometry_of(tensor)
    except Error as error:
        error.where = ("objects", tensor.name)
        error.hint = RAW
        if isinstance(error, Unsupported):
            raise
        raise Rejected(  # the format belongs to another layout
            error.detail, code="ninfer.layout-shape", section=error.section, where=error.where
        ) from error


def _require_numbers(tensor: Tensor, whole: Geometry) -> None:
    if whole.format in GGUF:
        raise Unsupported(
            "the blocks of this GGUF type are kept as they are; turning them into numbers is not"
            " built",
            code="gguf-blocks",
            section="6.1",
            where=("objects", tensor.name),
            found=whole.format,
            hint=RAW,
        )


def admit(_tensor: Tensor, _read: Bytes) -> None:
    """Pass: the types are formats of NInfer, and are judged where shapes and sizes are."""


VALUES: Final = Values(LAYOUT, assemble, elements, judge, remark, admit)
