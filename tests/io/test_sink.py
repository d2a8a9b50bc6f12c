"""The sink against a model: one byte array, whatever is staged, in flight, on disk or a hole."""

import errno
import os
import random
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tensorark.errors import InvalidInput, ReadFailed
from tensorark.io import sink as sink_module
from tensorark.io import writer as writer_module
from tensorark.io.publish import publish
from tensorark.io.writer import PAGE

MIB = 1 << 20
DIRECT = getattr(os, "O_DIRECT", 0)
NOISE = random.Random(4).randbytes(MIB)


def refuse_at_open(stack):
    """No O_DIRECT when it is asked for."""
    real = os.open

    def patched(path, flags, *args, **kwargs):
        if flags & DIRECT:
            raise OSError(errno.EINVAL, "refused")
        return real(path, flags, *args, **kwargs)

    stack.enter_context(mock.patch.object(os, "open", patched))


def refuse_at_first_write(stack):
    """O_DIRECT opens, but the first write says that it cannot."""
    opened, real_open, real_write = set(), os.open, os.pwrite

    def patched_open(path, flags, *args, **kwargs):
        descriptor = real_open(path, flags, *args, **kwargs)
        (opened.add if flags & DIRECT else opened.discard)(descriptor)
        return descriptor

    def patched_write(descriptor, data, offset):
        if descriptor in opened:
            raise OSError(errno.EINVAL, "refused")
        return real_write(descriptor, data, offset)

    stack.enter_context(mock.patch.object(os, "open", patched_open))
    stack.enter_context(mock.patch.object(os, "pwrite", patched_write))


def write_little(stack):
    """Every write is cut short, now and then off the page."""
    real, rng = os.pwrite, random.Random(3)

    def patched(descriptor, data, offset):
        most = rng.choice([PAGE, 3 * PAGE, 5, 5000])
        try:
            return real(descriptor, data[:most], offset)
        except OSError:  # a length that O_DIRECT refuses
            return real(descriptor, data[:PAGE], offset)

    stack.enter_context(mock.patch.object(os, "pwrite", patched))


WAYS = {
    "direct": ExitStack.__enter__,
    "refused at open": refuse_at_open,
    "refused at write": refuse_at_first_write,
    "short writes": write_little,
}

lengths = st.one_of(
    st.integers(0, 300),
    st.integers(0, 9).map(lambda pages: pages * PAGE),
    st.integers(0, 12 * PAGE),
    st.integers(10 * PAGE, 40 * PAGE),
)
operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write", "skip"]), lengths),
        st.tuples(st.sampled_from(["rewind", "read", "same"]), st.floats(0, 1)),
        st.tuples(st.just("flush"), st.just(0)),
    ),
    max_size=25,
)


def perform(sink, model, steps, noise):
    """Do the same to a sink and to a byte array, comparing whatever can be asked."""
    for number, (verb, amount) in enumerate(steps):
        if verb == "write":
            data = noise[number * 777 : number * 777 + amount]
            sink.write(data)
            model += data
        elif verb == "skip":
            sink.skip(amount)
            model += bytes(amount)
        elif verb == "flush":
            sink.flush()
            assert sink.path.read_bytes() == model
        else:
            offset = int(amount * len(model))
            if verb == "rewind":
                sink.rewind(offset)
                del model[offset:]
            elif verb == "read":
                length = (len(model) - offset) // (1 + number % 3)
                assert sink.read(offset, length) == model[offset : offset + length]
            else:
                length = min(offset, len(model) - offset)
                same = model[:length] == model[offset : offset + length]
                assert sink.same(0, offset, length) is same
        assert sink.tell() == len(model)


@pytest.mark.parametrize("way", WAYS)
@given(steps=operations)
# What was flushed, or written long ago, must not shine through a hole that takes its place.
@example(steps=[("write", 1), ("flush", 0), ("rewind", 0.0), ("skip", 20 * PAGE)])
@example(steps=[("write", 60 * PAGE), ("rewind", 0.5), ("skip", 40 * PAGE)])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_gives_the_bytes_of_the_model(tmp_path, way, steps):
    target = tmp_path / "out"
    model = bytearray()
    small = {"STAGE": 16 * PAGE, "_DIRECT_LEAST": 4 * PAGE}
    with ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(writer_module, **small))
        stack.enter_context(mock.patch.multiple(sink_module, _FIRST=4 * PAGE, _CHUNK=3 * PAGE))
        WAYS[way](stack)
        with publish(target, overwrite=True) as sink:
            perform(sink, model, steps, NOISE)
    assert target.read_bytes() == model
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(2))
def test_real_sizes_give_the_bytes_of_the_model(tmp_path, noise, way, seed):
    rng = random.Random(seed)
    sizes = [0, 1, 100, PAGE, 5 * PAGE + 1, MIB - 1, MIB, 3 * MIB + 5, 8 * MIB, 9 * MIB]
    steps = []
    for _ in range(40):
        verb = rng.choice(["write", "write", "write", "skip", "rewind", "read", "same", "flush"])
        steps.append((verb, rng.choice(sizes) if verb in {"write", "skip"} else rng.random()))
    model = bytearray()
    with ExitStack() as stack:
        WAYS[way](stack)
        with publish(tmp_path / "out", overwrite=False) as sink:
            perform(sink, model, steps, noise)
    assert (tmp_path / "out").read_bytes() == model


def test_a_buffer_may_change_once_it_is_written(tmp_path):
    buffer = bytearray(b"a" * 100)
    with publish(tmp_path / "out", overwrite=False) as sink:
        sink.write(buffer)
        buffer[:] = b"b" * 100
    assert (tmp_path / "out").read_bytes() == b"a" * 100


def test_tiny_tensors_with_long_padding_leave_holes(tmp_path):
    with publish(tmp_path / "out", overwrite=False) as sink:
        for number in range(500):
            sink.write(bytes([number % 255 + 1]) * 256)
            sink.skip(-sink.tell() % 65536)
    status = (tmp_path / "out").stat()
    assert status.st_size == 500 * 65536
    assert status.st_blocks * 512 < status.st_size / 8
    with (tmp_path / "out").open("rb") as file:
        for number in range(500):
            assert file.read(65536) == bytes([number % 255 + 1]) * 256 + bytes(65536 - 256)


def test_padding_after_large_tensors_stays_dense(tmp_path, noise):
    with publish(tmp_path / "out", overwrite=False) as sink:
        for _ in range(3):
            sink.write(noise[: 2 * MIB + 5000])
            sink.skip(-sink.tell() % 65536)
        assert len(sink._cuts) == 1
    assert (tmp_path / "out").stat().st_blocks * 512 >= (tmp_path / "out").stat().st_size


@pytest.fixture
def writes(monkeypatch):
    """Record the system calls that write, as (through the page cache, size)."""
    found, direct, real_open, real_write = [], set(), os.open, os.pwrite

    def patched_open(path, flags, *args, **kwargs):
        descriptor = real_open(path, flags, *args, **kwargs)
        (direct.add if flags & DIRECT else direct.discard)(descriptor)
        return descriptor

    def patched_write(descriptor, data, offset):
        found.append((descriptor not in direct, len(data)))
        return real_write(descriptor, data, offset)

    monkeypatch.setattr(os, "open", patched_open)
    monkeypatch.setattr(os, "pwrite", patched_write)
    return found


def test_many_dense_writes_share_system_calls(tmp_path, writes):
    with publish(tmp_path / "out", overwrite=False) as sink:
        for _ in range(20_000):
            sink.write(b"x" * 256)
            sink.skip(-sink.tell() % 4096)
    assert sum(size for _, size in writes) == 20_000 * 4096
    assert len(writes) <= 90  # 10 to 80 by the way taken, for 20 000 tensors


def test_a_small_file_costs_one_write_and_no_thread(tmp_path, writes, monkeypatch):
    monkeypatch.setattr(writer_module.threading, "Thread", None)
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with publish(tmp_path / "out", overwrite=False) as sink:
        for _ in range(8):
            sink.write(b"x" * 256)
    assert writes == [(True, 2048)]
    assert len(synced) == 2  # the file and its folder


def test_large_writes_go_around_the_page_cache_and_the_tail_does_not(tmp_path, writes, noise):
    with publish(tmp_path / "out", overwrite=False) as sink:
        sink.write(noise)
        sink.write(b"tail")
        assert sink._writer._wants_direct or pytest.skip("this filesystem refuses O_DIRECT")
    assert sum(size for cached, size in writes if not cached) == len(noise)
    assert (tmp_path / "out").read_bytes() == noise + b"tail"


def test_direct_may_be_declined(tmp_path, writes, noise):
    with publish(tmp_path / "out", overwrite=False, direct=False) as sink:
        sink.write(noise)
    assert all(cached for cached, _ in writes)


def test_threads_that_cannot_start_are_done_without(tmp_path, noise, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(writer_module.threading.Thread, "start", refuse)
    with publish(tmp_path / "out", overwrite=False) as sink:
        sink.write(noise)
        sink.write(noise)
    assert (tmp_path / "out").read_bytes() == noise + noise


def test_impossible_positions_are_refused(tmp_path):
    with publish(tmp_path / "out", overwrite=False) as sink:
        sink.write(b"x" * 10)
        for ask in (
            lambda: sink.rewind(11),
            lambda: sink.rewind(-1),
            lambda: sink.read(5, 6),
            lambda: sink.read(-1, 2),
            lambda: sink.read(0, -1),
            lambda: sink.skip(-1),
            lambda: sink.same(0, 5, 6),
        ):
            with pytest.raises(InvalidInput):
                ask()
        assert sink.tell() == 10


def test_a_closed_sink_knows_its_size_and_nothing_else(tmp_path):
    with publish(tmp_path / "out", overwrite=False) as sink:
        sink.write(b"x" * 10)
    assert sink.tell() == 10
    for ask in (
        lambda: sink.write(b"y"),
        lambda: sink.write(b""),
        lambda: sink.skip(1),
        lambda: sink.rewind(0),
        lambda: sink.read(0, 1),
        lambda: sink.reserve(1),
        sink.flush,
    ):
        with pytest.raises(InvalidInput) as caught:
            ask()
        assert caught.value.code == "closed"


def test_an_error_of_the_background_reaches_the_caller(tmp_path, noise, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with ExitStack() as stack:
        stack.enter_context(pytest.raises(ReadFailed))  # the flush at the end says it again
        sink = stack.enter_context(publish(tmp_path / "out", overwrite=False))
        sink.write(noise[: 2 * MIB])  # the first stage is on its way
        sink.flush()
        monkeypatch.setattr(os, "pwrite", refuse)
        with pytest.raises(ReadFailed) as caught:
            sink.write(noise * 6)  # more than the stages hold
    assert caught.value.code == "write-failed"
    assert not list(tmp_path.iterdir())


MEMORY = """
import resource, sys
from tensorark.io.publish import publish
data = bytes(range(256)) * 4096
with publish(sys.argv[1] + ".warm", overwrite=True) as sink:
    sink.write(b"x")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with publish(sys.argv[1], overwrite=True) as sink:
    for _ in range(200):
        sink.write(data)
    sink.same(0, 100 << 20, 100 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_writing_takes_less_than_32_mib(child, tmp_path):
    done = child(MEMORY, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 32 << 10
    assert Path(tmp_path / "out").stat().st_size == 200 * MIB
