"""The optional encoder `grouped_search`: scales that are tried out, for a smaller squared error.

Owns which scales are tried and in which order. It starts from `grouped_absmax`, and what it gives
is never worse; a group of zeros is never touched. Never sees an object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from tensorark.layouts.ninfer.groups import Codes, Coding, Scales, quantize
from tensorark.layouts.ninfer.small_floats import Floats

Doubles = npt.NDArray[np.float64]

_RATIOS: Final = tuple(step / 100 for step in range(70, 120, 2))
_SMALLEST: Final = 2.0**-24
_INFINITY: Final = 0x7C00
_BLOCK: Final = 1 << 16
"""Elements that are searched at a time, so that they stay in the cache."""


def search(coding: Coding, values: Floats) -> tuple[Codes, Scales]:
    """Return codes and scales of groups of float32 values, by `grouped_search`.

    About 70 scales are tried for each group, none of them negative; the first of those with the
    smallest sum of ``(value - scale * code)^2`` is taken, if that is below the one of
    `grouped_absmax`. All elements count alike.

    Raises:
        InvalidInput: as `quantize` does.
    """
    codes, scales = quantize(coding, values)
    flat = values.reshape(-1, coding.group)
    flat_codes, flat_scales = codes.reshape(flat.shape), scales.reshape(-1)
    step = max(1, _BLOCK // coding.group)
    for start in range(0, len(flat), step):
        rows = slice(start, start + step)
        _Search(coding, flat[rows], flat_codes[rows], flat_scales[rows]).run()
    return codes, scales


class _Search:
    """Some groups, [groups, group], and the best codes and scales so far, which are replaced."""

    def __init__(self, coding: Coding, values: Floats, codes: Codes, scales: Scales) -> None:
        self.coding = coding
        self.values = values
        self.wide = values.astype(np.float64)
        self.codes, self.scales = codes, scales
        self.errors = self._errors(codes, scales)
        self.live = scales != 0

    def run(self) -> None:
        """Try all scales in their order."""
        first_codes, first = self.codes.copy(), self.scales.copy()
        for wanted in self._stretch():
            self._try(_round(wanted))
        for factor in (0.25, 0.5, 2.0, 4.0):
            self._try(_round(first.astype(np.float64) * factor))
        for steps in (-2, -1, 1, 2):
            self._try(_step(first, steps))
        fitted = self._fit(first_codes)
        for factor in (1.0, 0.5, 2.0):
            self._try(_round(fitted * factor))
        for steps in (-2, -1, 1, 2):
            self._try(_step(_round(fitted), steps))
        again = _round(self._fit(self.codes))
        for steps in (0, -1, 1):
            self._try(_step(again, steps))

    def _stretch(self) -> Iterator[Doubles]:
        """Yield the scales at which the largest value has the largest code, and around them."""
        at = np.abs(self.values).argmax(axis=-1)[:, np.newaxis]
        extreme = np.take_along_axis(self.wide, at, -1)[:, 0]
        for ratio in _RATIOS:
            yield ratio * (np.abs(extreme) / self.coding.qmax)
        for ratio in _RATIOS:
            yield ratio * (extreme / self.coding.low)

    def _fit(self, codes: Codes) -> Doubles:
        """Return the scales that fit `codes` best; 0 where all of a group are 0."""
        wide = codes.astype(np.float64)
        above: Doubles = (self.wide * wide).sum(axis=-1)
        below: Doubles = (wide * wide).sum(axis=-1)
        fitted = np.zeros_like(above)
        np.divide(above, below, out=fitted, where=below != 0)
        return fitted

    def _try(self, scales: Scales) -> None:
        """Take scales over where they are positive and finite, and the error is smaller."""
        words = scales.view(np.uint16)
        usable = np.flatnonzero(self.live & (words > 0) & (words < _INFINITY))
        if not usable.size:
            return
        tried = scales[usable]
        inverse = np.float32(1) / tried.astype(np.float32)
        products = self.values[usable]
        with np.errstate(over="ignore"):
            products *= inverse[:, np.newaxis]
        np.rint(products, out=products)
        np.clip(products, self.coding.low, self.coding.high, out=products)
        codes = products.astype(np.int8)
        found = self._errors(codes, tried, usable)
        better = found < self.errors[usable]
        taken = usable[better]
        self.codes[taken], self.scales[taken] = codes[better], tried[better]
        self.errors[taken] = found[better]

    def _errors(
        self, codes: Codes, scales: Scales, rows: npt.NDArray[np.intp] | None = None
    ) -> Doubles:
        gaps = scales.astype(np.float64)[:, np.newaxis] * codes
        np.subtract(self.wide if rows is None else self.wide[rows], gaps, out=gaps)
        np.multiply(gaps, gaps, out=gaps)
        found: Doubles = gaps.sum(axis=-1)
        return found


def _round(wanted: Doubles) -> Scales:
    """Round to FP16 by way of float32; what is positive never becomes 0, what is not is 0."""
    with np.errstate(over="ignore", under="ignore"):
        scales = wanted.astype(np.float32).astype(np.float16)
    scales[(wanted > 0) & (scales == 0)] = _SMALLEST
    scales[~(wanted > 0)] = 0
    return scales


def _step(scales: Scales, steps: int) -> Scales:
    """Return the FP16 number some steps away; 0 where there is none that is positive."""
    words = scales.view(np.uint16).astype(np.int32)
    moved = words + steps
    moved[(words == 0) | (moved < 0) | (moved > _INFINITY)] = 0
    return moved.astype(np.uint16).view(np.float16)
