"""Reading the weights and the mask of a tensor range by range.

Beside what is asked for no more than a few MiB are used. What bits and bytes of masks mean is known
by `masks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.core.model import Tensor
from tensorark.layouts.layout import Bytes
from tensorark.layouts.nm.masks import Octets, apply, octets_of
from tensorark.layouts.nm.rules import DENSE, ID, LAYOUT, Sparse
from tensorark.layouts.numbers.dtypes import Array, numpy_dtype, unpack_nibbles

CHUNK: Final = 1 << 21
"""Weights that are read at a time."""


@dataclass(frozen=True, slots=True)
class Window:
    """Reads a tensor range by range; `masked` says whether the mask is applied."""

    tensor: Tensor
    read: Bytes
    sparse: Sparse
    masked: bool

    @property
    def is_scaled(self) -> bool:
        """Whether the weights are codes with scales."""
        return self.sparse.is_quantized and "scales" in self.tensor.parts

    @property
    def element(self) -> np.dtype[Any]:
        """The numpy type of the values."""
        if not self.sparse.is_quantized:
            return numpy_dtype(self.sparse.dtype)
        return np.dtype(np.float32 if self.is_scaled else np.int8)

    def cuts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut [start, stop) into ranges of about `CHUNK` weights, at the ends of groups."""
        m = max(self.sparse.pattern.m, 2)  # an even step, so that packed codes are cut at bytes
        step = max(1, CHUNK // m) * m * (1 + m % 2)
        for at in range(start, stop, step):
            yield at, min(at + step, stop)

    def values(self, start: int, stop: int) -> Array:
        """Return the values [start, stop); `start` is the first of a group."""
        full = np.empty(max(stop - start, 0), self.element)
        for at, end in self.cuts(start, stop):
            found = full[at - start : end - start]
            if self.masked:
                weights = found if self.is_scaled else self.raw(at, end)
                if self.is_scaled:
                    self._scale(at, end, found)
                apply(weights, self.octets(at, end), self.part(at, end), out=found)
            elif self.is_scaled:
                self._scale(at, end, found)
            else:
                found[:] = self.raw(at, end)
        return full

    def octets(self, start: int, stop: int) -> Octets:
        """Return the mask bytes of the groups that begin in [start, stop), where they have any."""
        width = 1 if self.sparse.packing == "truncated" else self.sparse.pattern.mask_width
        first, last = start // self.sparse.pattern.m, -(-stop // self.sparse.pattern.m)
        held = self.tensor.parts["mask"].nbytes
        return octets_of(self.read("mask", min(first * width, held), min(last * width, held)))

    def part(self, start: int, stop: int) -> Sparse:
        """Return how [start, stop) is to be read by itself."""
        return self.sparse._replace(elements=stop - start)

    def raw(self, start: int, stop: int) -> Array:
        """Return the weights [start, stop) as they are stored; int4 unpacked, nothing scaled."""
        if self.sparse.dtype == "int4":
            data = self.read("weights", start // 2, -(-stop // 2))
            return codes_of(data, start % 2, stop - start)
        element = np.dtype(np.int8) if self.sparse.is_quantized else numpy_dtype(self.sparse.dtype)
        size = element.itemsize
        return np.frombuffer(self.read("weights", start * size, stop * size), element)

    def _scale(self, start: int, stop: int, out: Array) -> None:
        """Write the weights [start, stop), each times the scale of its group, to `out`."""
        weights = self.raw(start, stop)
        count = self.tensor.parts["scales"].nbytes // 4
        group = self.sparse.group_size or max(self.sparse.elements, 1)
        at = np.arange(start, stop, dtype=np.uint64) // np.uint64(group)
        first, last = min(start // group, count), min((stop - 1) // group + 1, count)
        scales = np.frombuffer(self.read("scales", 4 * first, 4 * last), "<f4")
        known = at < count
        out[:] = 1  # a group without a scale has 1
        out[known] = scales[at[known].astype(np.intp) - first]
        with np.errstate(over="ignore", invalid="ignore"):
            out *= weights


def window_of(tensor: Tensor, read: Bytes) -> Window:
    """Return the window on a `tensorbit.nm/1` tensor, or on a dense one as if it had no mask.

    Raises:
        Rejected: when the metadata breaks a rule of the layout.
    """
    if tensor.layout == ID:
        sparse = LAYOUT.check(tensor).sparse
        return Window(tensor, read, sparse, masked=sparse.packing != "none")
    part = tensor.parts["data"]
    renamed = replace(tensor, parts={"weights": part})

    def renaming(role: str, start: int = 0, stop: int | None = None) -> memoryview:
        return read("data" if role == "weights" else role, start, stop)

    whole = Sparse(elements=tensor.elements, pattern=DENSE, packing="none", dtype=part.dtype)
    return Window(renamed, renaming, whole, masked=False)


def codes_of(data: memoryview, skip: int, count: int) -> npt.NDArray[np.int8]:
    """Return `count` int4 codes of packed bytes after the first `skip`; the low nibble is first."""
    nibbles = unpack_nibbles(data)[skip : skip + count]
    return ((nibbles ^ 8) - np.uint8(8)).view(np.int8)
