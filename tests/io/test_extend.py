"""Writing behind the end of a file: nothing before it moves, and a failure takes it back."""

import fcntl
import os
import random

import pytest

from tensorark.errors import InvalidInput, ReadFailed
from tensorark.io.extend import extend
from tensorark.io.publish import publish
from tensorark.io.writer import PAGE

MIB = 1 << 20
NOISE = random.Random(9).randbytes(12 * MIB)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, 3 * PAGE + 17])
def test_new_bytes_begin_at_the_next_page_and_old_ones_stay(tmp_path, size, direct):
    path = tmp_path / "f"
    path.write_bytes(NOISE[:size])
    with extend(path, size=size, direct=direct) as sink:
        start = sink.tell()
        assert start == -(-size // PAGE) * PAGE
        sink.write(NOISE)
        sink.skip(PAGE * 5)
        sink.write(b"end")
        assert sink.read(start, 100) == NOISE[:100]
        sink.sync()
        sink.write(b"more")
    gap = bytes(start - size)
    assert path.read_bytes() == NOISE[:size] + gap + NOISE + bytes(PAGE * 5) + b"endmore"


def test_rewinding_never_goes_behind_the_beginning(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with extend(path, size=3) as sink:
        start = sink.tell()
        sink.write(NOISE)
        sink.rewind(start)
        sink.write(b"new")
    assert path.read_bytes() == b"old" + bytes(start - 3) + b"new"


@pytest.mark.parametrize("written", [0, 10, 12 * MIB])
def test_an_exception_cuts_the_file_back(tmp_path, written):
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def fail():
        with extend(path, size=3) as sink:
            sink.write(NOISE[:written])
            sink.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"


def test_what_is_no_file_of_that_size_for_us_alone_is_refused(tmp_path):
    path, link = tmp_path / "f", tmp_path / "link"
    path.write_bytes(b"old")
    link.symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for target, size, kind, code in (
        (link, 3, InvalidInput, "link"),
        (path, 4, ReadFailed, "changed"),
        (tmp_path / "gone", 3, ReadFailed, "write-failed"),
        (tmp_path / "pipe", 0, InvalidInput, "not-a-file"),
        (tmp_path, 0, ReadFailed, "write-failed"),
    ):
        with pytest.raises(kind) as caught, extend(target, size=size):
            pass
        assert caught.value.code == code
    with path.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_SH)
        with pytest.raises(ReadFailed) as caught, extend(path, size=3):
            pass
        assert caught.value.code == "locked"
    with extend(path, size=3), pytest.raises(ReadFailed), extend(path, size=3):
        pass
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("direct", [False, True])
def test_a_file_that_is_replaced_meanwhile_is_not_touched(tmp_path, direct):
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def grow():
        with extend(path, size=3, direct=direct) as sink:
            (tmp_path / "new").write_bytes(b"new")
            (tmp_path / "new").rename(path)
            sink.write(NOISE)

    with pytest.raises(ReadFailed) as caught:
        grow()
    assert caught.value.code == "changed"
    assert path.read_bytes() == b"new"


def test_a_settled_sink_is_published_as_it_was_and_takes_nothing_more(tmp_path):
    with publish(tmp_path / "f", overwrite=False) as sink:
        sink.write(NOISE)
        sink.settle()
        assert sink.tell() == len(NOISE)
        for use in (lambda: sink.write(b"x"), lambda: sink.skip(1), lambda: sink.read(0, 1)):
            with pytest.raises(InvalidInput):
                use()
    assert (tmp_path / "f").read_bytes() == NOISE
