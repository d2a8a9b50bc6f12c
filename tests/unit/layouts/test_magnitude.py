"""The choice of the largest weights, against sorting each group."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tensorark.layouts.nm import magnitude
from tensorark.layouts.nm.rules import Pattern

PATTERNS = [(1, 2), (2, 4), (1, 4), (3, 5), (4, 8), (7, 8), (5, 9), (8, 16), (16, 32), (1, 100)]


@pytest.mark.parametrize("pattern", [Pattern(*each) for each in PATTERNS], ids=str)
@pytest.mark.parametrize("element", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_keeps_the_n_largest_and_of_equal_ones_the_first(pattern, element, monkeypatch):
    monkeypatch.setattr(magnitude, "BLOCK", 256)
    rng = np.random.default_rng(pattern.m)
    # few different values, so that ties are everywhere
    weights = rng.integers(-3, 4, 40 * pattern.m).astype(element)
    keep = magnitude.select(magnitude.magnitudes(weights), pattern).reshape(-1, pattern.m)
    sizes = np.abs(weights.astype(np.float64)).reshape(-1, pattern.m)
    for group, chosen in zip(sizes, keep, strict=True):
        order = sorted(range(pattern.m), key=lambda place: (-group[place], place))
        assert np.flatnonzero(chosen).tolist() == sorted(order[: pattern.n])


def test_infinities_and_what_is_no_number_are_the_largest():
    weights = np.array([1, np.nan, 2, -np.inf], np.float32)
    keep = magnitude.select(magnitude.magnitudes(weights), Pattern(2, 4))
    assert keep.tolist() == [False, True, False, True]


@pytest.mark.parametrize("place", [0, 1, 499, 500, 998, 999])
def test_the_threshold_is_the_key_at_its_place(place):
    rng = np.random.default_rng(place)
    keys = rng.integers(0, 1 << 32, 1000, dtype=np.uint32)
    keys[::3] = keys[0]
    keys[1::3] = (keys[1::3] & 0xFFFF) | 0x12340000
    search = magnitude.Threshold(place)
    for feed in (search.coarse, search.fine):
        for start in range(0, 1000, 77):
            feed(keys[start : start + 77])
    assert search.value == np.sort(keys)[place]
