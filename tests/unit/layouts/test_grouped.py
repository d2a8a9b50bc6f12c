"""Quantized layouts as values, against a slow reading of the profiles and against known files."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import struct
import tracemalloc
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorark
from tensorark.layouts.numbers.groups import CHUNK
from tensorark.layouts.parts import TensorParts
from tensorark.quantize import dequantize
from tests.test_public_vectors import MADE, index

CORPUS = Path(__file__).resolve().parents[3] / "conformance"
PUBLISHED = [
    (name, tensor)
    for name, entry in index(MADE).items()
    for tensor, known in entry.get("tensors", {}).items()
    if "maker_reference" in known
]


@pytest.mark.parametrize(("name", "tensor"), PUBLISHED)
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_values_computed_by_others_are_met_bit_by_bit(name, tensor, io):
    expected = index(MADE)[name]["tensors"][tensor]["maker_reference"]
    with tensorark.open(MADE / name, io=io) as file:
        values = file[tensor].numpy().copy()
    values.view(np.uint32)[np.isnan(values)] = 0x7FC00000
    assert hashlib.sha256(values.astype("<f4").tobytes()).hexdigest() == expected["f32_sha256"]
    assert [float(each) for each in values.reshape(-1)[:4]] == expected["first4"]


WITH_VALUES = ["sparse-coo", "sparse-coo--empty", "quant-group", "quant-group--bits",
               "quant-group--empty", "mx"]  # fmt: skip


@pytest.mark.parametrize("name", WITH_VALUES)
def test_the_corpus_holds_the_values_that_its_builders_wrote_down(name):
    expected = json.loads((CORPUS / f"zt/accept/{name}.json").read_bytes())
    with tensorark.open(CORPUS / f"zt/accept/{name}.zt") as file:
        assert set(expected["values"]) == set(file)
        for tensor, values in expected["values"].items():
            found = file[tensor].numpy()
            wanted = np.array([float(each) for each in values], np.float32)
            assert list(found.shape) == expected["tensors"][tensor]["shape"]
            assert found.astype(np.float32).reshape(-1).tobytes() == wanted.tobytes()
            assert tensorark.verify(file).ok


# The profile once more, element by element, in fractions


def rounded(value: Fraction) -> float:
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def entry(place, shape, axis, size):
    """The index of an element's scale: row-major in the shape with `axis` divided by `size`."""
    coords = list(np.unravel_index(place, shape))
    coords[axis] //= size
    groups = [extent // size if d == axis else extent for d, extent in enumerate(shape)]
    return int(np.ravel_multi_index(coords, groups))


@st.composite
def schemes(draw):
    """A quantized object with all that the profile admits, and its values."""
    bits = draw(st.sampled_from([2, 4, 8]))
    word = draw(st.sampled_from(["u8", "u16", "u32", "u64"]))
    word_bits = int(word[1:])
    per_word = word_bits // bits
    rank = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 4)) for _ in range(rank)]
    shape[draw(st.integers(0, rank - 1))] *= per_word
    axis = draw(st.integers(0, rank - 1))
    size = draw(st.sampled_from([d for d in range(1, shape[axis] + 1) if shape[axis] % d == 0]))
    count, groups = math.prod(shape), math.prod(shape) // size
    msb, signed = draw(st.booleans()), draw(st.booleans())
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    raw = [int(each) for each in rng.integers(0, 2**bits, count)]
    codes = [each - 256 if signed and per_word == 1 and each > 127 else each for each in raw]
    form = draw(st.sampled_from(["f32", "f16", "bf16", "f64", "f8_e8m0"]))
    numpy_type = {
        "bf16": ml_dtypes.bfloat16,
        "f8_e8m0": ml_dtypes.float8_e8m0fnu,
        "f64": np.float64,
        "f32": np.float32,
        "f16": np.float16,
    }[form]
    if form == "f8_e8m0":
        scales = rng.integers(60, 190, groups, dtype=np.uint8).view(numpy_type)
    else:
        scales = rng.standard_normal(groups).astype(numpy_type)
    exact = [Fraction(float(each)) for each in scales.astype(np.float64)]
    zero = draw(st.sampled_from(["none", "implied", "packed", "u8", "f16", "i64"]))
    packed_fits = groups % per_word == 0
    if zero == "packed" and not packed_fits:
        zero = "u8"
    parts = {
        "data": ((word.replace("u", "i") if signed else word, None),
                 [words(raw, bits, word_bits, msb=msb)]),
        "scales": (("u8", "f8_e8m0") if form == "f8_e8m0" else (form, None), [scales.tobytes()]),
    }  # fmt: skip
    attribute: dict[str, object] = {"form": "tensor", "packing": "plain"}
    zeros = [Fraction(0)] * groups
    if zero == "none":
        attribute = {"form": "none"}
    elif zero == "implied":
        value = draw(st.integers(-(2**30), 2**30))
        attribute, zeros = {"form": "implied", "value": value}, [Fraction(value)] * groups
    elif zero == "packed":
        stored = [int(each) for each in rng.integers(0, 2**bits, groups)]
        attribute = {"form": "tensor", "packing": "same_as_data"}
        parts["zeros"] = ((word, None), [words(stored, bits, word_bits, msb=msb)])
        zeros = [Fraction(each) for each in stored]
    else:
        array = (
            (rng.standard_normal(groups) * 8)
            .clip(0)
            .astype({"u8": "u1", "f16": "f2", "i64": "i8"}[zero])
        )
        parts["zeros"] = ((zero, None), [array.tobytes()])
        zeros = [Fraction(float(each)) for each in array]
    attributes = {
        "axis": axis,
        "bits": bits,
        "group_size": size,
        "packing": {
            "order": "msb_first" if msb else "lsb_first", "per_word": per_word, "word": word
        },
        "scale_form": {"f32": "f32_factors", "f64": "f32_factors", "f8_e8m0": "e8m0_exponent"}.get(
            form, "f16_factors"
        ),
        "zero_point": attribute,
    }  # fmt: skip
    values = []
    for place in range(count):
        at = entry(place, shape, axis, size)
        # One rounding to f64 of the difference and one of the product, then one to f32.
        difference = Fraction(float(Fraction(codes[place]) - zeros[at]))
        values.append(rounded(Fraction(float(difference * exact[at]))))
    laid = TensorParts(
        shape=tuple(shape), layout="zt.quant_group/1", parts=parts, attributes=attributes
    )
    return laid, np.array(values, np.float32).reshape(shape)


def words(codes, bits, word_bits, *, msb):
    per_word = word_bits // bits
    octets = b""
    for start in range(0, len(codes), per_word):
        word = 0
        for lane, code in enumerate(codes[start : start + per_word]):
            word |= code << (word_bits - bits * (lane + 1) if msb else bits * lane)
        octets += word.to_bytes(word_bits // 8, "little")
    return octets


@given(schemes())
def test_any_scheme_decodes_as_the_formula_says(case):
    laid, values = case
    found = dequantize(laid)
    assert found.dtype == np.float32
    assert np.array_equal(found, values)


@given(schemes(), st.data())
def test_a_slice_is_that_of_the_whole(tmp_path_factory, case, data):
    laid, values = case
    path = tmp_path_factory.mktemp("slices") / "q.zt"
    with tensorark.Writer(path, align=4096) as writer:
        writer.add_laid("q", laid)
    steps = st.slices(values.shape[0]) | st.integers(-values.shape[0], values.shape[0] - 1)
    picked = data.draw(steps)
    with tensorark.open(path, io="pread") as file:
        for index_ in (picked, (Ellipsis, slice(None, None, -2)), (picked, None), ()):
            found = file["q"][index_]
            assert found.shape == values[index_].shape
            assert np.array_equal(found, values[index_])


def test_a_tensor_of_many_chunks_reads_each_scale_where_it_belongs():
    """Groups that a chunk cuts, along each axis of a tensor of three."""
    shape = (6, 3 * 1024, 40)
    count = math.prod(shape)
    assert count > 2 * CHUNK
    codes = (np.arange(count) % 251).astype(np.uint8)
    for axis, size in itertools.product(range(3), (1, 2, None)):
        along = size or shape[axis]
        groups = [extent // along if d == axis else extent for d, extent in enumerate(shape)]
        scales = np.arange(1, math.prod(groups) + 1, dtype=np.float32).reshape(groups)
        attributes = {
            "axis": axis,
            "bits": 8,
            "group_size": along,
            "packing": {"order": "lsb_first", "per_word": 1, "word": "u8"},
            "scale_form": "f32_factors",
            "zero_point": {"form": "none"},
        }
        parts = {
            "data": (("u8", None), [codes.data]),
            "scales": (("f32", None), [scales.tobytes()]),
        }
        laid = TensorParts(
            shape=shape, layout="zt.quant_group/1", parts=parts, attributes=attributes
        )
        spread = np.repeat(scales, along, axis)
        assert np.array_equal(dequantize(laid), codes.reshape(shape) * spread)


def per_channel(shape, axis, scales, zeros=None):
    zero = {"form": "none"} if zeros is None else {"form": "tensor", "packing": "plain"}
    attributes = {
        "axis": axis,
        "bits": 8,
        "group_size": 0,
        "packing": {"order": "lsb_first", "per_word": 1, "word": "u8"},
        "scale_form": "f32_factors",
        "zero_point": zero,
    }
    parts = {
        "data": (("i8", None), [np.arange(math.prod(shape), dtype=np.int8).tobytes()]),
        "scales": (("f32", None), [np.array(scales, np.float32).tobytes()]),
    }
    if zeros is not None:
        parts["zeros"] = (("i8", None), [np.array(zeros, np.int8).tobytes()])
    return TensorParts(shape=shape, layout="zt.quant_group/1", parts=parts, attributes=attributes)


def test_group_size_0_is_per_channel_where_there_is_a_scale_for_each_index():
    found = dequantize(per_channel((2, 3), 0, [1, 10]))
    assert found.tolist() == [[0, 1, 2], [30, 40, 50]]
    found = dequantize(per_channel((2, 3), 1, [1, 10, 100], [0, 1, 2]))
    assert found.tolist() == [[0, 0, 0], [3, 30, 300]]


def test_group_size_0_is_per_element_where_there_is_a_scale_for_each():
    found = dequantize(per_channel((2, 3), 0, [1, 2, 3, 4, 5, 6]))
    assert found.tolist() == [[0, 2, 6], [12, 20, 30]]


def test_zero_points_follow_the_reading_of_the_scales():
    with pytest.raises(tensorark.Rejected, match="2 zero points") as caught:
        dequantize(per_channel((2, 3), 0, [1, 10], [0] * 6))
    assert caught.value.code == "zt.quant-zeros-size"


# MX, element by element, against ml_dtypes


@given(
    element=st.sampled_from(["f4_e2m1", "f8_e4m3fn", "f8_e5m2", None]),
    axis=st.integers(0, 2),
    seed=st.integers(0, 2**32),
)
def test_mx_blocks_are_elements_times_powers_of_two(element, axis, seed):
    rng = np.random.default_rng(seed)
    shape = (2, 4, 6)
    count = math.prod(shape)
    groups = [extent // 2 if d == axis else extent for d, extent in enumerate(shape)]
    scales = rng.integers(0, 256, math.prod(groups), dtype=np.uint8)
    codes = rng.integers(0, 16 if element == "f4_e2m1" else 256, count, dtype=np.uint8)
    if element is None:
        data, values = codes.tobytes(), codes.view(np.int8).astype(np.float64) / 64
    else:
        name = {"f4_e2m1": "float4_e2m1fn"}.get(element, "float8_" + element[3:])
        values = codes.view(getattr(ml_dtypes, name)).astype(np.float64)
        data = codes.tobytes()
        if element == "f4_e2m1":
            data = bytes(low | high << 4 for low, high in codes.reshape(-1, 2).tolist())
    factors = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64).reshape(groups)
    with np.errstate(all="ignore"):
        spread = np.repeat(factors, 2, axis)
        wanted = (values.reshape(shape) * spread).astype(np.float32)
    parts = {
        "data": (("u8", element) if element else ("i8", None), [data]),
        "scales": (("u8", "f8_e8m0"), [scales.tobytes()]),
    }
    attributes = {"axis": axis, "block_size": 2, "scale_form": "e8m0_exponent"}
    laid = TensorParts(shape=shape, layout="zt.mx/1", parts=parts, attributes=attributes)
    assert np.array_equal(dequantize(laid), wanted, equal_nan=True)


def test_an_element_type_that_mx_does_not_have_is_refused():
    parts = {
        "data": (("u8", "f8_e4m3fnuz"), [bytes(4)]),
        "scales": (("u8", "f8_e8m0"), [bytes(2)]),
    }
    attributes = {"block_size": 2, "scale_form": "e8m0_exponent"}
    laid = TensorParts(shape=(4,), layout="zt.mx/1", parts=parts, attributes=attributes)
    with pytest.raises(tensorark.Unsupported, match="no such element type"):
        dequantize(laid)


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_decoding_takes_little_more_memory_than_its_result(tmp_path, io):
    rows, columns = 2048, 4096
    attributes = {
        "axis": 1,
        "bits": 4,
        "group_size": 32,
        "packing": {"order": "msb_first", "per_word": 8, "word": "u32"},
        "scale_form": "f32_factors",
        "zero_point": {"form": "tensor", "packing": "plain"},
    }
    groups = rows * columns // 32
    parts = {
        "data": (("u32", None), [bytes(rows * columns // 2)]),
        "scales": (("f64", None), [bytes(8 * groups)]),
        "zeros": (("f16", None), [bytes(2 * groups)]),
    }
    with tensorark.Writer(tmp_path / "q.zt", align=4096) as writer:
        writer.add_parts("q", (rows, columns), "zt.quant_group/1", parts, attributes=attributes)
    with tensorark.open(tmp_path / "q.zt", io=io) as file:
        file["q"][0]  # loads modules
        tracemalloc.start()
        try:
            values = file["q"].numpy()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert values.nbytes == 32 << 20
    assert peak < values.nbytes + (16 << 20)


def test_a_sparse_tensor_too_large_to_be_full_is_a_limit():
    parts = {"values": (("f32", None), [b""]), "coords": (("u64", None), [b""])}
    laid = TensorParts(shape=(1 << 40, 1 << 23), layout="zt.sparse_coo/1", parts=parts)
    with pytest.raises(tensorark.LimitExceeded):
        dequantize(laid)
