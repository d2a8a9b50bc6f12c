"""A lazy slice is numpy's slice, and reads little more than it needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorark
from tensorark.core.model import Span
from tests.property.strategies import plain_arrays


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sliced")


@st.composite
def array_and_index(draw):
    array = draw(plain_arrays())
    index = draw(
        st.one_of(
            hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True),
            st.lists(st.integers(-7, 7), min_size=1, max_size=3).map(tuple),  # often out of range
            st.sampled_from([0, -1, True, [0], np.array([0, 0]), "x", 1.5, slice(None, None, 0)]),
        )
    )
    return array, index


def outcome(indexed, index):
    try:
        return indexed[index]
    except Exception as error:  # noqa: BLE001 - whatever numpy raises is the expectation
        return type(error)


@given(array_and_index())
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_a_slice_is_the_slice_of_numpy(folder, io, case):
    array, index = case
    path = folder / f"{io}.zt"
    with tensorark.Writer(path) as writer:
        writer.add("t", array)
    with tensorark.open(path, io=io) as file:
        found = outcome(file["t"], index)
    expected = outcome(array, index)
    if isinstance(expected, type):
        assert found is expected
        return
    assert type(found) is type(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


class Counted:
    """Counts what a source reads."""

    def __init__(self, source) -> None:
        self.source = source
        self.spans: list[Span] = []
        self.is_mapped = source.is_mapped

    def read(self, spans):
        self.spans += spans
        return self.source.read(spans)

    def __getattr__(self, name):
        return getattr(self.source, name)


@pytest.mark.parametrize(
    ("index", "needed", "runs"),
    [
        (np.s_[3], 4000 * 4, 1),
        (np.s_[10:20], 10 * 4000 * 4, 1),
        (np.s_[:, :10], 50 * 10 * 4, 50),
        (np.s_[::2, 5], 25 * 4, 25),
        (np.s_[-1, -1], 4, 1),
        (np.s_[5:5], 0, 0),
    ],
)
def test_a_slice_reads_no_more_than_a_page_beyond_each_run(tmp_path, index, needed, runs):
    array = np.arange(50 * 4000, dtype="f4").reshape(50, 4000)
    with tensorark.Writer(tmp_path / "t.zt") as writer:
        writer.add("t", array)
    with tensorark.open(tmp_path / "t.zt", io="pread") as file:
        counted = Counted(file.source)
        file._source = counted
        assert np.array_equal(file["t"][index], array[index])
        read = sum(span.length for span in counted.spans)
        assert needed <= read <= needed + 4096 * runs
