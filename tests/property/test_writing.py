"""Whatever array is given comes back as numpy sees it, from every format and by every road."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorark
import tensorark.numpy as ark
from tests.property.strategies import arrays, attributes, names


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    numbers = itertools.count()
    base = tmp_path_factory.mktemp("written")
    return lambda: base / str(next(numbers))


def little(array: np.ndarray) -> bytes:
    """The value's bytes by numpy's own conversion, independent of our writer."""
    return array.astype(array.dtype.newbyteorder("<")).tobytes(order="C")


def assert_same(found: np.ndarray, array: np.ndarray) -> None:
    assert found.shape == array.shape
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.tobytes() == little(array)


@given(tensors=st.dictionaries(names, arrays(), max_size=4))
@pytest.mark.parametrize("suffix", [".zt", ".safetensors"])
def test_arrays_of_any_layout_come_back_by_value(folder, suffix, tensors):
    path = folder().with_suffix(suffix)
    try:
        ark.save_file(tensors, path)
    except tensorark.Unsupported:  # safetensors has no complex128, and no odd count of f4
        assert suffix == ".safetensors"
        assert any(
            array.dtype.str[1:] == "c16" or array.dtype.name == "float4_e2m1fn"
            for array in tensors.values()
        )
        return
    assert tensorark.validate(path, canonical=suffix == ".zt") == []
    loaded = ark.load_file(path)
    assert set(loaded) == set(tensors)
    for io in ("mmap", "pread"):
        with tensorark.open(path, io=io) as file:
            for name, array in tensors.items():
                assert_same(file[name].numpy(), array)
                assert_same(loaded[name], array)
                assert loaded[name].flags.writeable


@given(tensors=st.dictionaries(names, arrays(), max_size=4), file_attributes=attributes)
def test_the_same_tensors_are_the_same_model_however_they_are_laid_out(
    folder, tensors, file_attributes
):
    """The content digest does not depend on alignment, order of writing, or file attributes."""
    canonical, loose = folder().with_suffix(".zt"), folder().with_suffix(".zt")
    with tensorark.Writer(canonical) as writer:
        for name in sorted(tensors):
            writer.add(name, tensors[name])
    with tensorark.Writer(loose, align=4096, attributes=file_attributes) as writer:
        for name in sorted(tensors, reverse=True):
            writer.add(name, tensors[name])
    again = folder().with_suffix(".zt")
    tensorark.convert(loose, again)
    with (
        tensorark.open(canonical) as a,
        tensorark.open(loose) as b,
        tensorark.open(again) as c,
    ):
        assert tensorark.content_digest(a) == tensorark.content_digest(b)
        assert tensorark.content_digest(a) == tensorark.content_digest(c)
        assert tensorark.diff(a, b).is_equal
    if file_attributes is None:
        assert again.read_bytes() == canonical.read_bytes()
    tensorark.convert(again, again.with_suffix(".2.zt"))
    assert again.with_suffix(".2.zt").read_bytes() == again.read_bytes()


@given(file_attributes=attributes, tensor_attributes=attributes)
def test_attributes_keep_their_types_through_formats_that_hold_text(
    folder, file_attributes, tensor_attributes
):
    first, second, third = (folder() for _ in range(3))
    first, second, third = (
        first.with_suffix(".zt"),
        second.with_suffix(".safetensors"),
        third.with_suffix(".zt"),
    )
    with tensorark.Writer(first, attributes=file_attributes) as writer:
        writer.add("t", np.arange(3, dtype="f4"), attributes=tensor_attributes)
    tensorark.convert(first, second)
    tensorark.convert(second, third)
    assert first.read_bytes() == third.read_bytes()


@given(array=arrays(), cuts=st.lists(st.integers(0, 600), max_size=5))
def test_a_tensor_fed_in_pieces_is_the_one_given_whole(folder, array, cuts):
    whole, fed = folder().with_suffix(".zt"), folder().with_suffix(".zt")
    with tensorark.Writer(whole) as writer:
        writer.add("t", array)
    with tensorark.open(whole) as file:
        view = file["t"]
        data = bytes(view.raw())
        edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        with (
            tensorark.Writer(fed) as writer,
            writer.stream("t", view.shape, view.dtype) as part,
        ):
            for start, end in itertools.pairwise(edges):
                part.write(data[start:end])
    assert fed.read_bytes() == whole.read_bytes()
