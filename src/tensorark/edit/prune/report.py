"""The account of what pruning removed from a tensor, or from several together."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tensorark.layouts.numbers.dtypes import Array

_NOTED: Final = 1 << 16
"""Weights that the report looks at at a time: their wide values stay in the cache."""
_TINY: Final = 1e-20
"""Sums of squares of floats below this have lost digits."""


@dataclass(slots=True)
class Norm:
    """A Euclidean norm in the making: squares relative to a scale, so that none overflows."""

    scale: float = 0.0
    squares: float = 0.0

    def add(self, values: Array) -> None:
        """Take in some values; in doubles only where floats do not do: that is much slower."""
        import numpy as np

        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            total = float(np.dot(values, values))
            if isfinite(total) and total > _TINY:
                self.join(Norm(1.0, total))
                return
            largest = float(np.abs(values).max(initial=0.0))
            if not isfinite(largest):
                self.join(Norm(1.0, largest))
            elif largest:
                wide = values.astype(np.float64) / largest
                self.join(Norm(largest, float(np.dot(wide, wide))))

    def join(self, other: Norm) -> None:
        """Take in the values of another norm."""
        if other.scale > self.scale:
            self.squares = self.squares * (self.scale / other.scale) ** 2 + other.squares
            self.scale = other.scale
        elif other.scale:
            self.squares += other.squares * (other.scale / self.scale) ** 2

    def over(self, other: Norm) -> float:
        """Return this norm relative to another, 0.0 where that is 0; NaN where values are."""
        if not other.scale or not other.squares:
            return 0.0
        ratio = self.squares / other.squares if isfinite(other.squares) else float("nan")
        return sqrt(ratio) * (self.scale / other.scale)


@dataclass(slots=True)
class Pruned:
    """What was done to one tensor, complete once the target is written.

    `masked` tells whether the target has the mask, not the zeros alone. `zeros_before` and `zeros`
    count weights that are 0. `error` is the norm of what was removed relative to that of the tensor
    (Frobenius), `largest` the largest magnitude removed, `nan` how many of the removed are NaN.
    """

    name: str
    pattern: str
    elements: int
    masked: bool = False
    zeros_before: int = 0
    zeros: int = 0
    largest: float = 0.0
    nan: int = 0
    _removed: Norm = field(default_factory=Norm, repr=False)
    _total: Norm = field(default_factory=Norm, repr=False)

    @property
    def error(self) -> float:
        """Norm of what was removed, relative to that of the tensor; 0.0 for zeros."""
        return self._removed.over(self._total)

    @property
    def sparsity(self) -> float:
        """Share of weights that are 0."""
        return self.zeros / self.elements if self.elements else 0.0

    def note(self, before: Array, after: Array) -> None:
        """Take account of some weights, before and after."""
        import numpy as np

        wide = np.float32 if before.dtype.itemsize <= 2 else np.float64
        for start in range(0, before.size, _NOTED):
            was = before[start : start + _NOTED].astype(wide)
            # A weight stays as it is or becomes +0, whose bits are zeros.
            words = after[start : start + _NOTED].view(f"u{after.dtype.itemsize}")
            gone = np.where(words == 0, was, wide(0))
            zeros = was.size - int(np.count_nonzero(was))
            self.zeros_before += zeros
            self.zeros += zeros + int(np.count_nonzero(gone))
            self._total.add(was)
            self._removed.add(gone)
            largest = float(np.abs(gone, out=gone).max(initial=0.0))
            if largest != largest:  # noqa: PLR0124 - a NaN was removed
                self.nan += int(np.count_nonzero(np.isnan(gone)))
                largest = float(np.fmax.reduce(gone, initial=0.0))
            self.largest = max(self.largest, largest)

    def join(self, other: Pruned) -> None:
        """Take in what was done to another tensor."""
        self.elements += other.elements
        self.zeros_before += other.zeros_before
        self.zeros += other.zeros
        self.largest = max(self.largest, other.largest)
        self.nan += other.nan
        self._total.join(other._total)
        self._removed.join(other._removed)
