"""The layout of a load: every wanted byte is read to its place, and little else is."""

from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.core.model import Span
from tensorark.io import plan as module
from tensorark.io.plan import ALIGNMENT, GAP, plan

MIB = 1 << 20

spans = st.lists(
    st.builds(
        Span,
        offset=st.one_of(st.integers(0, 5000), st.integers(0, 70).map(lambda n: n * ALIGNMENT)),
        length=st.one_of(st.integers(0, 70), st.integers(0, 3000)),
        file=st.sampled_from([None, "a", ""]),
    ),
    max_size=30,
)


def carried_out(layout, files):
    """Perform the reads of a plan on images of the files."""
    buffers = [bytearray(size) for size in layout.buffers]
    for read in layout.reads:
        at = read.offset
        for place, length in read.pieces:
            if place != GAP:
                piece = files[read.file][at : at + length]
                assert len(piece) == length
                buffers[read.buffer][place : place + length] = piece
            at += length
        assert at - read.offset == read.nbytes
    return buffers


@given(spans)
def test_the_reads_of_a_plan_bring_every_span_to_its_place(wanted):
    files = {
        label: bytes((n * step + n // 251) % 256 for n in range(8000))
        for label, step in ((None, 1), ("a", 3), ("", 7))
    }
    with mock.patch.multiple(module, BUFFER=4096, BLOCK=512, LEAST=128, PIECES=5, SCRAP=100):
        layout = plan(wanted)
    buffers = carried_out(layout, files)
    taken = []
    for span, (buffer, place) in zip(wanted, layout.places, strict=True):
        expected = files[span.file][span.offset : span.end]
        assert buffers[buffer][place : place + span.length] == expected
        assert place % ALIGNMENT == 0
        if span.length:
            taken.append((buffer, place, place + span.length))
    taken.sort()
    for before, after in pairwise(taken):
        assert before[0] < after[0] or before[2] <= after[1]
    for read in layout.reads:
        assert len(read.pieces) <= 5
        assert read.nbytes <= 512 + 128
    sizes = [b - a for _, a, b in taken]
    assert sum(layout.buffers) <= sum(size + ALIGNMENT - 1 + size // 64 for size in sizes)
    assert max(layout.buffers) <= max([4096, *sizes])


def test_tensors_end_to_end_are_one_run_of_large_reads():
    wanted = [Span(8 + n * 5 * MIB, 5 * MIB) for n in range(10)]
    layout = plan(wanted)
    assert sum(read.nbytes for read in layout.reads) == 50 * MIB
    assert all(len(read.pieces) == 1 for read in layout.reads)
    assert all(MIB <= read.nbytes <= 5 * MIB for read in layout.reads)


def test_a_small_gap_beside_large_tensors_is_read_along():
    layout = plan([Span(0, MIB), Span(MIB + 4096, MIB)])
    assert [read.pieces for read in layout.reads] == [[(0, 2 * MIB + 4096)]]


def test_gaps_between_tiny_tensors_cost_no_memory():
    layout = plan([Span(n * 4096, 256) for n in range(1000)])
    assert layout.buffers == [256 * 1000]
    assert len(layout.reads) == 2  # 1999 pieces
    layout = plan([Span(n << 16, 256) for n in range(10)])
    assert [read.nbytes for read in layout.reads] == [256] * 10


def test_a_gap_may_be_cut_by_the_end_of_a_read():
    image = bytes(n % 251 for n in range(20_000))
    wanted = [Span(n * 190, 100) for n in range(100)]
    with mock.patch.multiple(module, BLOCK=512, LEAST=0):
        layout = plan(wanted)
    assert any(read.pieces[0][0] == GAP for read in layout.reads)
    (buffer,) = carried_out(layout, {None: image})
    for span, (_, place) in zip(wanted, layout.places, strict=True):
        assert buffer[place : place + 100] == image[span.offset : span.end]


def test_buffers_stay_near_256_mib_and_a_larger_span_has_its_own():
    layout = plan([Span(0, 100 * MIB), Span(100 * MIB, 300 * MIB), Span(400 * MIB, 100 * MIB)])
    assert layout.buffers == [100 * MIB, 300 * MIB, 100 * MIB]
    layout = plan([Span(n * 100 * MIB, 100 * MIB) for n in range(5)])
    assert layout.buffers == [200 * MIB, 200 * MIB, 100 * MIB]


@pytest.mark.parametrize("wanted", [[], [Span(0, 0)], [Span(5, 0), Span(5, 0)]])
def test_nothing_wanted_means_nothing_read(wanted):
    layout = plan(wanted)
    assert layout.reads == []
    assert layout.buffers == [0]
