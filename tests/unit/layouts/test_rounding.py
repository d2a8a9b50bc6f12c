"""Casts of floats against exact rational arithmetic: for every pair of types, rounded once."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.layouts.ninfer.make import cast_direct
from tensorark.layouts.numbers.dtypes import numpy_dtype
from tensorark.layouts.numbers.rounding import round_to

# Bits of the exponent and of the fraction, bias, and largest finite value, from the definitions.
TYPES = {
    "f64": (11, 52, 1023, (2 - Fraction(1, 2**52)) * 2**1023),
    "f32": (8, 23, 127, (2 - Fraction(1, 2**23)) * 2**127),
    "f16": (5, 10, 15, Fraction(65504)),
    "bf16": (8, 7, 127, (2 - Fraction(1, 2**7)) * 2**127),
    "f8_e5m2": (5, 2, 15, Fraction(57344)),
    "f8_e4m3fn": (4, 3, 7, Fraction(448)),
    "f8_e5m2fnuz": (5, 2, 16, Fraction(57344)),
    "f8_e4m3fnuz": (4, 3, 8, Fraction(240)),
    "f4_e2m1": (2, 1, 1, Fraction(6)),
}
INFINITE = {"f64", "f32", "f16", "bf16", "f8_e5m2"}
UNSIGNED_ZERO = {"f8_e5m2fnuz", "f8_e4m3fnuz"}
PAIRS = list(product(TYPES, TYPES))


def element(name):
    return numpy_dtype("u8", name) if name.startswith(("f8", "f4")) else numpy_dtype(name)


def nearest(value, name):
    """The nearest value of a type, ties to even; None beyond the largest."""
    _, fraction, bias, largest = TYPES[name]
    magnitude = abs(value)
    if not magnitude:
        return Fraction(0)
    power = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    power -= magnitude < Fraction(2) ** power
    unit = Fraction(2) ** (max(power, 1 - bias) - fraction)
    found = round(magnitude / unit) * unit  # Python rounds fractions to even
    if found > largest:
        return None
    return found if value > 0 else -found


def cases(source, target, rng):
    """Values of `source` where roundings to `target` go wrong: ties, and what lies beside them."""
    kind = element(source)
    size = kind.itemsize
    words = rng.integers(0, 1 << min(8 * size, 63), 60, dtype=np.uint64)
    drawn = words.astype(f"u{size}").view(kind) if source != "f4_e2m1" else FOURS
    _, fraction, bias, largest = TYPES[target]
    least = Fraction(2) ** (1 - bias - fraction)
    known = [largest, largest + least, least, least / 2, least / 4, least * 3 / 2]
    top = Fraction(2) ** (largest.numerator.bit_length() - 1)
    known += [largest + top / 2 ** (fraction + 1), largest + top / 2**fraction]
    for power in range(-bias - fraction, 4, max(1, bias // 3)):
        for step in range(1, 6):  # halves of the last place are ties
            known.append((1 + Fraction(step, 2 ** (fraction + 1))) * Fraction(2) ** power)
    exact = []
    for value in known:
        for beside in (0, Fraction(1, 2**30), Fraction(1, 2**50)):
            exact += [value * (1 + sign * beside) for sign in (1, -1)]
    doubles = [float(each) for each in exact if each < Fraction(2) ** 1023]
    with np.errstate(all="ignore"):  # whatever these become, they are values of the source
        grid = np.array([*doubles, 0.0, np.inf, np.nan]).astype(kind)
        grid = np.concatenate([grid, -grid])
    return np.concatenate([drawn, grid])


FOURS = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)


def exact(value):
    return Fraction(float(value))


def judge(before, after, target):
    """Hold each value after a cast against the fraction that it was."""
    with np.errstate(invalid="ignore"):  # NaN that signal
        wide, found = before.astype(np.float64), after.astype(np.float64)
    for old, new in zip(wide.tolist(), found.tolist(), strict=True):
        overflows = np.isinf(old) or (not np.isnan(old) and nearest(exact(old), target) is None)
        if target == "f4_e2m1" and (np.isnan(old) or overflows):
            continue  # it has neither: what becomes of these is nobody's promise
        if np.isnan(old) or (overflows and target not in INFINITE):
            assert np.isnan(new), (old, new)
        elif overflows:
            assert new == np.copysign(np.inf, old), (old, new)
        else:
            assert exact(new) == nearest(exact(old), target), (old, new)
            if target not in UNSIGNED_ZERO:
                assert np.signbit(new) == np.signbit(old), (old, new)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_each_value_is_rounded_once(source, target):
    rng = np.random.default_rng(PAIRS.index((source, target)))
    before = cases(source, target, rng)
    after = round_to(before, element(target))
    assert after.dtype == element(target)
    judge(before, after, target)


@given(
    values=st.lists(st.floats(width=64), max_size=40),
    target=st.sampled_from(list(TYPES)),
    shape=st.sampled_from(["flat", "strided", "big-endian"]),
)
def test_doubles_of_any_kind_are_rounded_once(values, target, shape):
    before = np.array(values, np.float64)
    if shape == "strided":
        before = np.repeat(before, 3)[::3]
    elif shape == "big-endian":
        before = before.astype(">f8")
    kept = before.copy()
    judge(before, round_to(before, element(target)), target)
    assert kept.tobytes() == before.tobytes()


def test_doubles_go_directly_to_the_words_of_an_artifact():
    before = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, -(1 + 2.0**-8 + 2.0**-30)])
    after = cast_direct(before, "bf16")
    assert after.astype(np.float64).tolist() == [1.0078125, 1.0, -1.0078125]
