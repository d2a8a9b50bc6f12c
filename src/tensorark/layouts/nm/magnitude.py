"""Which N of each M weights are the largest: the choice that magnitude pruning makes.

Owns ranking and ties: of equal magnitudes the first is kept. Works on the bits of floats, whose
order without the sign is that of magnitudes; a NaN counts as the largest.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.errors import InvalidInput, quoted
from tensorark.layouts.nm.masks import Bits
from tensorark.layouts.nm.rules import Pattern
from tensorark.layouts.numbers.dtypes import Array

BLOCK: Final = 1 << 18
"""Weights that are ranked at a time."""

_PAIRWISE: Final = 8
"""Groups up to this size are ranked by comparing each pair: that is a few passes over columns."""

Keys = npt.NDArray[np.unsignedinteger[Any]]


def magnitudes(weights: Array) -> Keys:
    """Return integers in the order of the magnitudes of floats."""
    plain = weights.view(f"u{weights.dtype.itemsize}")
    found: Keys = plain & plain.dtype.type((1 << (8 * plain.dtype.itemsize - 1)) - 1)
    return found


def ranks(scores: Array, name: str) -> Keys:
    """Return integers in the order of scores of any real type.

    Raises:
        InvalidInput: when a score is NaN or no real number.
    """
    if scores.dtype.kind == "c":
        detail = f"the scores of {quoted(name)} are no real numbers"
        raise InvalidInput(detail, code="scores", found=scores.dtype)
    wide = scores.dtype.kind in "iu" or scores.dtype.itemsize > 4
    plain: Array = np.add(scores.astype(np.float64 if wide else np.float32), 0.0)  # no -0.0
    if np.isnan(plain).any():
        raise InvalidInput(f"a score of {quoted(name)} is NaN", code="scores")
    bits = plain.view(f"u{plain.dtype.itemsize}")
    top = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    found: Keys = np.where(bits & top, ~bits, bits | top)
    return found


def select(keys: Keys, pattern: Pattern) -> Bits:
    """Return for each key of whole groups whether it is among the N largest of its group."""
    keep = np.empty(keys.size, np.bool_)
    m = pattern.m
    step = max(1, BLOCK // m) * m
    for start in range(0, keys.size, step):
        block = keys[start : start + step].reshape(-1, m)
        chosen = _pairwise(block, pattern.n) if m <= _PAIRWISE else _rank(block, pattern.n)
        keep[start : start + step] = chosen.reshape(-1)
    return keep


def _pairwise(block: Keys, n: int) -> Bits:
    """Choose by counting, for each key, the keys of its group that come before it."""
    m = block.shape[1]
    columns = np.ascontiguousarray(block.T)
    before = np.zeros(columns.shape, np.uint8)
    for left in range(m):
        for right in range(left + 1, m):
            ahead = (columns[left] >= columns[right]).view(np.uint8)
            before[right] += ahead
            before[left] += ahead ^ 1
    return np.ascontiguousarray((before < n).T)


def _rank(block: Keys, n: int) -> Bits:
    """Choose by sorting each group, the first of equal keys first."""
    m = block.shape[1]
    if block.dtype.itemsize < 8 and m <= 1 << 16:
        place = np.arange(m - 1, -1, -1, dtype=np.uint64)
        unique = (block.astype(np.uint64) << np.uint64(16)) | place
        least = np.partition(unique, m - n, axis=1)[:, m - n, None]
        chosen: Bits = unique >= least
        return chosen
    order = np.argsort(~block, axis=1, kind="stable")[:, :n]
    keep = np.zeros(block.shape, np.bool_)
    np.put_along_axis(keep, order, values=True, axis=1)
    return keep


class Threshold:
    """Finds the k-th smallest of many 32-bit keys, in two passes and little memory.

    Feed all keys to `coarse`, then all again to `fine`; `value` is then the key, 0-based.
    """

    def __init__(self, place: int) -> None:
        self._place = place
        self._high = np.zeros(1 << 16, np.int64)
        self._low = np.zeros(1 << 16, np.int64)
        self._bucket: int | None = None

    def coarse(self, keys: npt.NDArray[np.uint32]) -> None:
        """Count keys by their upper half."""
        self._high += np.bincount(keys >> 16, minlength=1 << 16)

    def fine(self, keys: npt.NDArray[np.uint32]) -> None:
        """Count the keys of the bucket in which the wanted one lies by their lower half."""
        if self._bucket is None:
            self._bucket = int(np.searchsorted(np.cumsum(self._high), self._place, side="right"))
            self._place -= int(self._high[: self._bucket].sum())
        held = keys[keys >> 16 == self._bucket]
        self._low += np.bincount(held & 0xFFFF, minlength=1 << 16)

    @property
    def value(self) -> int:
        """The key at the wanted place."""
        low = int(np.searchsorted(np.cumsum(self._low), self._place, side="right"))
        return ((self._bucket or 0) << 16) | low
