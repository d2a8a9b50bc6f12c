"""Minimum, maximum, mean, deviation and odd values of a tensor, in one pass over its blocks.

Memory stays near one block for each thread. Values are taken as they are stored: nothing is scaled
or dequantized. Of complex numbers the magnitude is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tensorark.core.model import Tensor
from tensorark.errors import LimitExceeded
from tensorark.files import File
from tensorark.layouts.numbers.dtypes import Array, decode, numpy_dtype

BLOCK: Final = 1 << 20
"""Bytes of payload that are looked at at a time; a multiple of every element's width."""
WHOLE: Final = 1 << 30
"""Most bytes of an array that is built as a whole, for layouts that cannot be read in blocks."""


@dataclass(slots=True)
class Statistics:
    """What was seen so far; moments and extremes are of finite values alone.

    `minimum` and `maximum` are exact Python numbers, or None before a finite value was seen.
    """

    elements: int = 0
    finite: int = 0
    zeros: int = 0
    nan: int = 0
    infinite: int = 0
    minimum: int | float | None = None
    maximum: int | float | None = None
    mean: float = 0.0
    squares: float = 0.0

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the finite values (over n); None where there are none."""
        return math.sqrt(self.squares / self.finite) if self.finite else None

    def add(self, values: Array) -> None:
        """Take in one block of any shape."""
        self.elements += values.size
        if not values.size:
            return
        numbers = _as_numbers(values)
        self.zeros += int(np.count_nonzero(numbers == 0))
        if numbers.dtype.kind == "f":
            self.nan += int(np.count_nonzero(np.isnan(numbers)))
            self.infinite += int(np.count_nonzero(np.isinf(numbers)))
            numbers = numbers[np.isfinite(numbers)]
        if numbers.size:
            self._extend(numbers)

    def _extend(self, numbers: Array) -> None:
        """Merge finite numbers: extremes, and moments as Chan, Golub and LeVeque combine them."""
        low, high = numbers.min().item(), numbers.max().item()
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)
        wide = numbers.astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(wide.mean())
            squares = float(np.square(wide - mean).sum())
        total = self.finite + wide.size
        gap = mean - self.mean
        self.squares += squares + gap * gap * (self.finite / total) * wide.size
        self.mean += gap * (wide.size / total)
        self.finite = total


def _as_numbers(values: Array) -> Array:
    """Return numbers that numpy can count and compare by itself."""
    flat = values.reshape(-1)
    if flat.dtype.kind == "c":
        return np.abs(flat.astype(np.complex128))
    if flat.dtype.kind == "b":
        return flat.view(np.uint8)
    if flat.dtype.kind in "iu" or flat.dtype in (np.float32, np.float64):
        return flat
    return flat.astype(np.float32)  # exact for every smaller float


def blocks(file: File, tensor: Tensor) -> Iterator[Array]:
    """Yield the values of a tensor in blocks of bounded size, in row-major order.

    Raises:
        LimitExceeded: when its layout cannot be read in blocks and it is too large as a whole.
        Unsupported: when its layout, type or encoding is unknown.
    """
    where = ("objects", tensor.name, "parts", "data")
    part = tensor.parts.get("data")
    if tensor.layout != "dense" or part is None:
        if max(tensor.elements * 16, tensor.nbytes) > WHOLE:
            detail = "the tensor is too large to be taken apart at once"
            found = f"{tensor.elements} elements"
            raise LimitExceeded(detail, code="decoded-size", where=where[:2], found=found)
        yield file[tensor.name].numpy()
        return
    left = tensor.elements
    width = numpy_dtype(part.dtype, part.type).itemsize  # refuses unknown types before any byte
    for chunk in _in_elements(file.chunks(part, where), width):
        for start in range(0, len(chunk), BLOCK):
            piece = chunk[start : start + BLOCK]
            per_byte = 2 if part.type == "f4_e2m1" else 1
            count = min(left, len(piece) * per_byte // width)
            left -= count
            yield decode(piece, (part.dtype, part.type), (count,), where)


def _in_elements(chunks: Iterable[memoryview], width: int) -> Iterator[memoryview]:
    """Yield the same bytes cut between elements: frames and spans may end anywhere."""
    rest = b""
    for chunk in chunks:
        lacking = (width - len(rest)) % width if rest else 0
        rest += bytes(chunk[:lacking])
        if rest and len(rest) == width:
            yield memoryview(rest)
            rest = b""
        if not rest:
            whole = lacking + (len(chunk) - lacking) // width * width
            if whole > lacking:
                yield chunk[lacking:whole]
            rest = bytes(chunk[whole:])


def measure(file: File, tensor: Tensor, progress: Callable[[int], None]) -> Statistics:
    """Return the statistics of one tensor, telling `progress` of its bytes.

    Raises:
        Error: as `blocks` does.
    """
    found = Statistics()
    for block in blocks(file, tensor):
        found.add(block)
    progress(tensor.nbytes)
    return found
