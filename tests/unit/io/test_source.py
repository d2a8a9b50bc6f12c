"""The checks that all sources share."""

import numpy as np
import pytest

from tensorark.core.model import Span
from tensorark.errors import InvalidInput, ReadFailed
from tensorark.io.source import octets, within


@pytest.mark.parametrize("span", [Span(8, 3), Span(11, 0), Span(0, 11), Span(1 << 70, 1)])
def test_bytes_behind_the_end_are_a_short_read(span):
    with pytest.raises(ReadFailed) as caught:
        within(span, 10, "file")
    assert caught.value.code == "short-read"
    assert caught.value.offset == span.offset
    assert caught.value.found == max(0, 10 - span.offset)


@pytest.mark.parametrize("span", [Span(-1, 2), Span(2, -1)])
def test_a_negative_range_is_the_callers_mistake(span):
    with pytest.raises(InvalidInput):
        within(span, 10)


def test_any_contiguous_buffer_is_bytes():
    assert bytes(octets(np.array([1, 2], "<u2"))) == b"\1\0\2\0"
    assert bytes(octets(np.array([1.0], "<f2"))) == b"\0\x3c"
    assert octets(np.array(5, "<i8")).nbytes == 8
    assert octets(np.zeros((3, 0, 2))).nbytes == 0


@pytest.mark.parametrize("buffer", [np.zeros((4, 4))[:, ::2], memoryview(b"abcd")[::2]])
def test_scattered_memory_is_refused(buffer):
    with pytest.raises(InvalidInput) as caught:
        octets(buffer)
    assert caught.value.code == "buffer"
