"""`grouped_search`: never worse than `grouped_absmax`, and as good as the best scale it may try."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tensorark.errors import InvalidInput
from tensorark.layouts.ninfer.geometry import geometry
from tensorark.layouts.ninfer.groups import CODINGS, quantize
from tensorark.layouts.ninfer.make import encode, method_of
from tensorark.layouts.ninfer.scale_search import search

FORMATS = [name for name, coding in CODINGS.items() if coding.qmax]


def half(value):
    """Round to FP16 through float32; positive numbers never become 0. None beyond the range."""
    word = np.float32(value).astype(np.float16)
    if not np.isfinite(word) or value <= 0:
        return None
    return float(word) or 2.0**-24


def neighbor(value, steps):
    """Return the FP16 number `steps` away, None where it is not positive and finite."""
    (word,) = struct.unpack("<H", struct.pack("<e", value))
    moved = word + steps
    return struct.unpack("<e", struct.pack("<H", moved))[0] if 0 < moved < 0x7C00 else None


def coded(coding, values, scale):
    inverse = np.float32(1) / np.float32(scale)
    return [
        min(max(int(np.rint(np.float32(x) * inverse)), coding.low), coding.high) for x in values
    ]


def fault(values, codes, scale):
    return sum((float(x) - scale * q) ** 2 for x, q in zip(values, codes, strict=True))


def fitted(values, codes):
    below = sum(q * q for q in codes)
    return sum(float(x) * q for x, q in zip(values, codes, strict=True)) / below if below else 0


def best(coding, values):
    """Return the smallest fault of a group by the text of the method, one scale at a time."""
    extreme = float(max(values, key=abs))
    if extreme == 0:
        return 0
    first = half(np.float32(abs(extreme)) / np.float32(coding.qmax))
    codes = coded(coding, values, first)
    ratios = [0.70 + 0.02 * step for step in range(25)]
    fit = fitted(values, codes)
    scales = [ratio * abs(extreme) / coding.qmax for ratio in ratios]
    scales += [ratio * extreme / coding.low for ratio in ratios]
    scales += [first * factor for factor in (0.25, 0.5, 2, 4)]
    scales += [neighbor(first, steps) for steps in (-2, -1, 1, 2)]
    scales += [fit, fit / 2, fit * 2]
    if half(fit):
        scales += [neighbor(half(fit), steps) for steps in (-2, -1, 1, 2)]
    found = (fault(values, codes, first), first)
    tried = [half(scale) for scale in scales if scale is not None and scale > 0]
    for scale in filter(None, tried):
        found = min(found, (fault(values, coded(coding, values, scale), scale), scale))
    again = half(fitted(values, coded(coding, values, found[1])))
    for scale in filter(None, [again, *(neighbor(again, steps) for steps in (-1, 1) if again)]):
        found = min(found, (fault(values, coded(coding, values, scale), scale), scale))
    return found[0]


def faults(values, codes, scales):
    gaps = values.astype("f8") - scales.astype("f8")[..., np.newaxis] * codes
    return (gaps**2).sum(axis=-1)


@pytest.mark.parametrize("format_", FORMATS)
def test_gives_what_trying_one_scale_after_the_other_gives(format_):
    coding = CODINGS[format_]
    values = np.random.default_rng(7).standard_normal((6, coding.group)).astype(np.float32)
    values[1] *= 1e-7  # scales that are subnormal
    values[2] = 0
    values[3, 1:] = 0
    values[4] = np.abs(values[4]) * 1000
    found = faults(values, *search(coding, values))
    wanted = [best(coding, group) for group in values]
    assert np.allclose(found, wanted, rtol=1e-9, atol=0)


@pytest.mark.parametrize("format_", FORMATS)
@given(data=st.data())
def test_is_never_worse_and_leaves_zeros_alone(format_, data):
    coding = CODINGS[format_]
    numbers = st.floats(-1000, 1000, width=32)
    values = data.draw(arrays.arrays(np.float32, (2, coding.group), elements=numbers))
    plain, searched = quantize(coding, values), search(coding, values)
    assert (faults(values, *searched) <= faults(values, *plain)).all()
    codes, scales = searched
    assert ((codes >= coding.low) & (codes <= coding.high)).all()
    assert (np.isfinite(scales) & (scales.view(np.uint16) < 0x8000)).all()
    assert (scales[~values.any(axis=-1)] == 0).all()


def test_finds_the_scale_that_made_the_values():
    """Where the largest code is not the largest there is, the canonical encoder cannot."""
    coding = CODINGS["q4_g64_fp16"]
    values = (np.arange(64) % 12 - 6).astype(np.float32).reshape(1, 64) * np.float32(0.5)
    assert faults(values, *quantize(coding, values))[0] > 0
    assert faults(values, *search(coding, values))[0] == 0


def test_is_a_method_of_grouped_formats_and_never_the_default():
    whole = geometry("q4_g64_fp16", "row_split_k128_v1", (3, 130))
    values = np.random.default_rng(1).standard_normal((3, 130)).astype(np.float32)
    default = encode(whole, values)
    assert encode(whole, values, method="grouped_absmax") == default
    assert encode(whole, values, method="grouped_search") != default
    assert method_of("q4_g64_fp16") == "grouped_absmax"
    with pytest.raises(InvalidInput, match="not made by this method"):
        method_of("bf16", "grouped_search")
    with pytest.raises(InvalidInput, match="not finite"):
        encode(whole, np.full((3, 130), np.nan, np.float32), method="grouped_search")
