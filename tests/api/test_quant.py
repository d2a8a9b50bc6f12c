"""Quantizing on purpose: the stated bound, the reported error, what is stored."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorark
from tensorark.quantize import dequantize, quantize, quantize_mx

finite = st.floats(width=32, min_value=-(2.0**80), max_value=2.0**80)


@st.composite
def sources(draw, multiple):
    """An array whose last or first axis is a multiple of `multiple`, and that axis."""
    axis = draw(st.sampled_from([0, -1]))
    shape = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    shape[axis] *= multiple
    return draw(hnp.arrays(np.float32, tuple(shape), elements=finite)), axis


def grouped(array, axis, size):
    """The groups of an array, one to a row."""
    return np.moveaxis(array, axis, -1).reshape(-1, size)


@given(
    source=sources(16),
    bits=st.sampled_from([2, 4, 8]),
    zero_point=st.sampled_from(["tensor", "implied", "none"]),
    scale=st.sampled_from(["f64", "f32", "bf16", "f8_e8m0"]),
    size=st.sampled_from([2, 8, 16]),
)
def test_no_element_is_off_by_more_than_half_a_scale(source, bits, zero_point, scale, size):
    array, axis = source
    if zero_point == "none":
        bits = 8
    made = quantize(
        array, bits=bits, group_size=size, axis=axis, zero_point=zero_point, scale=scale
    )
    back = dequantize(made.laid).astype(np.float64)
    (ids, (data,)) = made.laid.parts["scales"]
    element = {"bf16": ml_dtypes.bfloat16, "f8_e8m0": ml_dtypes.float8_e8m0fnu}.get(scale)
    scales = np.frombuffer(data, element or {"f64": "f8", "f32": "f4"}[scale]).astype(np.float64)
    error = np.abs(back - array)
    shape = [extent // size if d == axis % 2 else extent for d, extent in enumerate(array.shape)]
    steps = np.repeat(scales.reshape(shape), size, axis % 2)
    rounding = np.maximum(np.abs(array), steps) * 2.0**-22 + 2.0**-149
    assert (error <= steps / 2 + rounding).all()
    assert made.max_error == error.max()
    assert made.mean_error == pytest.approx(error.mean())
    assert ids == (("u8", "f8_e8m0") if scale == "f8_e8m0" else (scale, None))


@given(
    source=sources(8),
    element=st.sampled_from([("f4_e2m1", 4), ("f8_e4m3fn", 8), ("f8_e5m2", 8), ("i8", 128)]),
    size=st.sampled_from([2, 8]),
)
def test_no_element_of_a_block_is_off_by_more_than_its_share(source, element, size):
    array, axis = source
    name, share = element
    made = quantize_mx(array, element=name, block_size=size, axis=axis)
    back = dequantize(made.laid).astype(np.float64)
    error = np.abs(back - array)
    blocks, errors = grouped(array, axis, size), grouped(error, axis, size)
    most = np.abs(blocks).max(1, keepdims=True)
    assert (errors <= most / share * (1 + 2.0**-22) + 2.0**-126).all()
    assert made.max_error == error.max()


@given(st.data())
def test_what_the_codes_can_say_is_kept_exactly(data):
    """Quantizing what came out of dequantizing changes nothing, given the same range."""
    steps = data.draw(st.lists(st.integers(-7, 7), min_size=16, max_size=16))
    steps[0], steps[8] = 7, -7
    array = np.array(steps, np.float32).reshape(2, 8) * 0.375
    made = quantize(array, group_size=8, zero_point="implied", scale="f32")
    assert made.max_error == 0
    assert np.array_equal(dequantize(made.laid), array)


def test_mx_rounds_to_nearest_with_ties_to_even_and_saturates():
    array = np.array([7.9, 5, 2.5, 1.25, 0.75, 0.25, 0.2, -0.25], np.float32)
    made = quantize_mx(array, block_size=8)
    assert dequantize(made.laid).tolist() == [6, 4, 2, 1, 1, 0, 0, 0]
    assert made.laid.parts["scales"][1][0].tobytes() == bytes([127])


@given(hnp.arrays(np.float32, (4, 32), elements=st.floats(-6, 6, width=32)))
def test_mx_elements_are_those_of_ml_dtypes(array):
    """With a scale of one, rounding is that of an independent conversion."""
    array[:, 0] = 4  # so that the largest magnitude has the exponent of the type's largest
    made = quantize_mx(array)
    wanted = array.astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
    assert np.array_equal(dequantize(made.laid), wanted)


CHOICES = [*itertools.product(["u8", "u16", "u32", "u64"], ["lsb_first", "msb_first"])]


@pytest.mark.parametrize(("word", "order"), CHOICES)
@pytest.mark.parametrize("zero_packing", ["plain", "same_as_data"])
def test_packing_changes_the_bytes_and_no_value(tmp_path, word, order, zero_packing):
    array = np.sin(np.arange(64 * 64, dtype=np.float64)).reshape(64, 64)
    plain = quantize(array)
    made = quantize(array, word=word, order=order, zero_packing=zero_packing)
    with tensorark.Writer(tmp_path / "q.zt") as writer:
        writer.add_laid("plain", plain.laid)
        writer.add_laid("made", made.laid, attributes={"note": "kept"})
    with tensorark.open(tmp_path / "q.zt") as file:
        assert file["made"].attributes["note"] == "kept"
        assert np.array_equal(file["made"].numpy(), file["plain"].numpy())
        assert np.abs(file["made"].numpy() - array).max() == made.max_error
        assert file["made"].dtype == "f32"
        assert tensorark.verify(file).complete
    assert tensorark.validate(tmp_path / "q.zt", canonical=True) == []


def test_a_vector_may_have_a_scale_for_each_element():
    made = quantize(np.array([1, -2, 0], np.float32), bits=8, group_size=0, zero_point="none")
    assert made.laid.attributes["group_size"] == 0
    assert np.abs(dequantize(made.laid) - [1, -2, 0]).max() <= made.max_error < 0.008


def test_nothing_at_all_is_quantized():
    for made in (quantize(np.empty((0, 32))), quantize(np.empty((4, 0)), group_size=1)):
        assert dequantize(made.laid).shape == made.laid.shape
        assert (made.max_error, made.mean_error) == (0, 0)
    assert dequantize(quantize_mx(np.empty((0, 32))).laid).shape == (0, 32)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: quantize(np.array([np.nan] * 32)), "not-finite"),
        (lambda: quantize_mx(np.array([np.inf] * 32)), "not-finite"),
        (lambda: quantize(np.ones(32, np.int32)), "dtype"),
        (lambda: quantize(np.ones(33)), "group-size"),
        (lambda: quantize(np.ones(32), group_size=-1), "group-size"),
        (lambda: quantize(np.ones((2, 2)), group_size=0), "group-size"),
        (lambda: quantize(np.ones(32), axis=1), "axis"),
        (lambda: quantize(np.float64(1)), "axis"),
        (lambda: quantize(np.ones(32), bits=3), "bits"),
        (lambda: quantize(np.ones(32), zero_point="none"), "bits"),
        (lambda: quantize(np.ones(32), scale="u8"), "scale"),
        (lambda: quantize(np.ones(32) * 1e7), "scale"),
        (lambda: quantize(np.ones(34), group_size=2, word="u32"), "word"),
        (lambda: quantize(np.ones(32), word="u32", zero_packing="same_as_data"), "word"),
        (lambda: quantize(np.ones(32), word="i32"), "word"),
        (lambda: quantize(np.ones(32), order="middle"), "order"),
        (lambda: quantize_mx(np.ones(33)), "block-size"),
        (lambda: quantize_mx(np.ones(32), block_size=1), "block-size"),
        (lambda: quantize_mx(np.ones(32), element="f8_e8m0"), "type"),
        (lambda: quantize_mx(np.ones(32) * 1e39), "scale"),
    ],
)
def test_what_cannot_be_quantized_is_refused(make, code):
    with pytest.raises(tensorark.InvalidInput) as caught:
        make()
    assert caught.value.code == code


def test_attributes_of_the_layout_are_not_replaced(tmp_path):
    made = quantize(np.ones(32))
    with (
        pytest.raises(tensorark.InvalidInput, match="attribute of that name"),
        tensorark.Writer(tmp_path / "q.zt") as writer,
    ):
        writer.add_laid("q", made.laid, attributes={"bits": 2})


def test_compressed_parts_decode_to_the_same_values_whole_and_in_slices(tmp_path):
    array = np.cos(np.arange(2048 * 1024, dtype=np.float32)).reshape(2048, 1024)
    made = quantize(array, bits=8, word="u8")
    path = tmp_path / "z.zt"
    with tensorark.Writer(path, encoding="zstd", frame_size=1 << 16) as writer:
        writer.add_laid("packed", made.laid)
        writer.add_laid("raw", made.laid, encoding="raw")
    with tensorark.open(path) as file:
        assert file["packed"].parts["data"].blob != file["raw"].parts["data"].blob
        whole = file["raw"].numpy()
        assert np.array_equal(file["packed"].numpy(), whole)
        for index in (5, slice(1000, 1003), (slice(None, None, 511), slice(3, 5))):
            assert np.array_equal(file["packed"][index], whole[index])
        assert tensorark.verify(file).complete
