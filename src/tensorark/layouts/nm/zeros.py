"""Zeros among weights: where they are, whether they follow an N:M, how many groups have how many.

Owns the search for a pattern. Reads no mask and changes no weight.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.layouts.nm.masks import BLOCK, Bits, Octets
from tensorark.layouts.nm.rules import Pattern
from tensorark.layouts.numbers.dtypes import Array

_PATTERNS: Final = (2, 4, 8, 16, 32)
"""Group sizes that `detect` looks for."""


def signed_zeros(weights: Array) -> tuple[Bits, int]:
    """Return where weights are not zero, and how many are -0.0."""
    if weights.dtype.kind in "iub":
        return weights != 0, 0
    plain = weights.view(f"u{weights.dtype.itemsize}")
    sign = plain.dtype.type(1 << (8 * plain.dtype.itemsize - 1))
    return (plain & ~sign) != 0, int(np.count_nonzero(plain == sign))


def differences(left: Array, right: Array) -> int:
    """Count the weights that differ as numbers: zeros of either sign are equal."""
    size = left.dtype.itemsize
    a, b = left.view(f"u{size}"), right.view(f"u{size}")
    if left.dtype.kind in "iub":
        return int(np.count_nonzero(a != b))
    value = a.dtype.type((1 << (8 * size - 1)) - 1)
    return int(np.count_nonzero((a != b) & (((a | b) & value) != 0)))


class Search:
    """Looks for the tightest N:M that flags of kept weights obey, given rows of one length.

    Looks for M of 2, 4, 8, 16 and 32 that divide the length; of equal N/M the smaller M is tighter.
    With `stated`, looks for its M alone, in flat groups. Where nothing is kept no pattern is found.
    """

    def __init__(self, length: int, stated: Pattern | None = None) -> None:
        self._stated = stated
        self._sizes = [m for m in _PATTERNS if length and length % m == 0]
        if stated is not None:
            self._sizes = [stated.m]
        self._most = dict.fromkeys(self._sizes, 0)
        self._rest: Bits = np.empty(0, np.bool_)

    @property
    def is_hopeless(self) -> bool:
        """Whether no pattern can be found any more."""
        if self._stated is not None:
            return self._most[self._stated.m] > self._stated.n
        return all(self._most[m] == m for m in self._sizes)

    @property
    def found(self) -> Pattern | None:
        """The tightest pattern of what was added; None where there is none."""
        if self._stated is not None:
            return None if self.is_hopeless or not any(self._most.values()) else self._stated
        found = [Pattern(self._most[m], m) for m in self._sizes if 0 < self._most[m] < m]
        return min(found, key=lambda each: (each.n / each.m, each.m), default=None)

    def add(self, keep: Bits) -> None:
        """Look at more flags, in flat order; those of whole rows at a time."""
        if self._stated is not None:
            self._add_stated(keep, self._stated.m)
            return
        for start in range(0, keep.size, BLOCK):
            counts = keep[start : start + BLOCK].view(np.uint8)
            for m in self._sizes:
                counts = counts[0::2] + counts[1::2]
                self._most[m] = max(self._most[m], int(counts.max(initial=0)))
            if self.is_hopeless:
                return

    def _add_stated(self, keep: Bits, m: int) -> None:
        flat = np.concatenate([self._rest, keep]) if self._rest.size else keep
        whole = flat.size // m * m
        self._rest = flat[whole:].copy()
        counts = per_group(flat[:whole], m)
        self._most[m] = max(self._most[m], int(counts.max(initial=0)))


def detect(weights: Array) -> Pattern | None:
    """Return the tightest N:M that the zeros of a matrix obey; None where there is none.

    Looks along the last axis, as `Search` does.
    """
    search = Search(weights.shape[-1] if weights.ndim else 0)
    flat = np.ascontiguousarray(weights).reshape(-1)
    for start in range(0, flat.size, BLOCK):
        search.add(nonzero(flat[start : start + BLOCK]))
        if search.is_hopeless:
            return None
    return search.found


def nonzero(weights: Array) -> Bits:
    """Return where weights are not zero, of either sign."""
    return signed_zeros(weights)[0]


def per_group(keep: Bits, m: int) -> Octets | npt.NDArray[np.unsignedinteger[Any]]:
    """Return how many flags of each whole group of `m` are set."""
    flags = np.ascontiguousarray(keep).view(np.uint8)
    found: npt.NDArray[Any]
    if m in {2, 4, 8}:  # flags of a group side by side: one product adds them up
        wide = flags.view(f"<u{m}")
        ones = wide.dtype.type(int.from_bytes(b"\1" * m, "little"))
        found = (wide * ones) >> wide.dtype.type(8 * m - 8)
    elif m % 8 == 0:
        found = per_group(keep, 8).reshape(-1, m // 8).sum(axis=1)
    else:
        found = flags.reshape(-1, m).sum(axis=1, dtype=np.uint64)
    return found


def fill(keep: Bits, pattern: Pattern) -> Bits:
    """Return flags of whole groups with the first clear ones set until each group keeps N."""
    missing = pattern.n - per_group(keep, pattern.m).astype(np.int64)
    short = np.flatnonzero(missing > 0)
    if not short.size:
        return keep
    found = keep.reshape(-1, pattern.m).copy()
    clear = ~found[short]
    found[short] |= clear & (np.cumsum(clear, axis=1) <= missing[short, None])
    return found.reshape(-1)
