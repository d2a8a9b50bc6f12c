"""Bytes that pass: the right ones, in memory that is not used again while anybody looks at it."""

from __future__ import annotations

import os
import random

import pytest

from tensorark.core.model import Span
from tensorark.errors import ReadFailed
from tensorark.io.memory import LENT, lend
from tensorark.io.open_file import OpenFile

SIZE = 5 * LENT // 2 + 77


@pytest.fixture
def data():
    return random.Random(5).randbytes(SIZE)


@pytest.fixture
def path(data, tmp_path):
    (tmp_path / "file").write_bytes(data)
    return tmp_path / "file"


@pytest.mark.parametrize("mapped", [True, False])
def test_passing_gives_the_bytes_and_pieces_stay_what_they_are(path, data, mapped):
    rng = random.Random(6)
    spans = [Span(0, SIZE), Span(SIZE, 0), Span(7, LENT), Span(SIZE - 5, 5)]
    spans += [Span(at, 256) for at in range(0, 200_000, 300)]  # close together: read ahead
    spans += [Span(rng.randrange(SIZE - 90_000), rng.randrange(90_000)) for _ in range(50)]
    opened = OpenFile(path, mapped=mapped)
    kept = [list(opened.passing(span)) for span in spans]  # all of them at once
    for span, pieces in zip(spans, kept, strict=True):
        assert all(piece.readonly for piece in pieces)
        assert b"".join(pieces) == data[span.offset : span.end]


def test_lent_memory_is_used_again_only_when_its_last_view_is_gone():
    views = [lend(10) for _ in range(9)]
    for number, view in enumerate(views):
        view[:] = bytes([number]) * 10
    part = views[0][3:5]
    del views[0], view
    again = [lend(10) for _ in range(9)]
    for each in again:
        each[:] = b"x" * 10
    assert part == b"\0\0"
    assert [bytes(each) for each in views] == [bytes([n]) * 10 for n in range(1, 9)]


@pytest.mark.parametrize("length", [256, LENT])
def test_a_file_that_changes_is_noticed_before_its_new_bytes_pass(path, data, length):
    opened = OpenFile(path, mapped=False)
    list(opened.passing(Span(0, 256)))
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b"other")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(ReadFailed) as caught:
        list(opened.passing(Span(100_000, length)))
    assert caught.value.code == "changed"
    assert b"".join(opened.passing(Span(3, 9))) == data[3:12]  # what was read before the change


def test_a_file_that_is_cut_is_an_error(path):
    opened = OpenFile(path, mapped=False)
    os.truncate(path, LENT)
    for length in (100, LENT):
        with pytest.raises(ReadFailed) as caught:
            list(opened.passing(Span(SIZE - length, length)))
        assert caught.value.code == "changed"
