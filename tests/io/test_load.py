"""Bulk loading: exact bytes in memory of our own, in few large reads."""

import os
import random
import threading
import time
from itertools import pairwise

import pytest

from tensorark.core.model import Span
from tensorark.errors import InvalidInput, LimitExceeded, ReadFailed
from tensorark.io import load as module
from tensorark.io import open_file as opened
from tensorark.io import plan
from tensorark.io.load import load
from tensorark.io.local import LocalSource
from tensorark.io.memory import allocate

MIB = 1 << 20


@pytest.fixture
def source(tmp_path, noise):
    (tmp_path / "main").write_bytes(noise)
    (tmp_path / "shard").write_bytes(noise[: 3 * MIB][::-1])
    return LocalSource(tmp_path / "main", resolve=lambda label: tmp_path / label)


@pytest.fixture
def calls(monkeypatch):
    """Record how many bytes each system call read."""
    sizes, real = [], os.preadv

    def preadv(descriptor, buffers, offset):
        done = real(descriptor, buffers, offset)
        sizes.append(done)
        return done

    monkeypatch.setattr(opened, "_preadv", preadv)
    return sizes


def chosen():
    """Spans of all kinds: large, tiny, empty, overlapping, repeated, in two files, out of order."""
    rng = random.Random(2)
    spans = [Span(100, 9 * MIB + 1), Span(0, 3 * MIB, "shard"), Span(100, 9 * MIB + 1), Span(5, 0)]
    tiny = [0, 1, 63, 64, 256, 5000]
    spans += [Span(rng.randrange(15 * MIB), rng.choice(tiny)) for _ in range(3000)]
    spans += [Span(at, 1000, "shard") for at in range(0, MIB, 1000)]
    rng.shuffle(spans)
    return spans


@pytest.mark.parametrize("threads", [None, 1, 7])
@pytest.mark.parametrize("kind", ["local", "no preadv"])
def test_every_span_arrives_exactly(source, noise, monkeypatch, kind, threads):
    files = {None: noise, "shard": noise[: 3 * MIB][::-1]}
    if kind == "no preadv":
        monkeypatch.setattr(opened, "_preadv", None)
    spans = chosen()
    views = load(source, spans, threads=threads)
    assert len(views) == len(spans)
    for span, view in zip(spans, views, strict=True):
        assert view == files[span.file][span.offset : span.end]
        assert not view.readonly


def test_no_two_views_share_memory(source):
    first, second = load(source, [Span(10, 5000), Span(10, 5000)])
    before = bytes(second)
    first[:] = bytes(5000)
    assert second == before


def test_short_reads_of_the_system_are_continued(source, noise, monkeypatch):
    real = os.preadv

    def stingy(descriptor, buffers, offset):
        return real(descriptor, [buffers[0][: 1 + len(buffers[0]) // 3]], offset)

    monkeypatch.setattr(opened, "_preadv", stingy)
    for span, view in zip(chosen()[:300], load(source, chosen()[:300]), strict=True):
        if span.file is None:
            assert view == noise[span.offset : span.end]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_whole_file_is_read_in_calls_of_a_mebibyte_or_more(source, calls, threads):
    edges = [0, 8, 4096, 3 * MIB, 3 * MIB + 100, 9 * MIB + 7, 16 * MIB]
    load(source, [Span(a, b - a) for a, b in pairwise(edges)], threads=threads)
    assert sum(calls) == 16 * MIB
    assert min(calls) >= MIB
    assert len(calls) <= 6


def test_a_hundred_thousand_tiny_tensors_need_few_calls(source, noise, calls):
    spans = [Span(n * 160, 150) for n in range(100_000)]
    views = load(source, spans)
    assert all(
        view == noise[span.offset : span.end]
        for span, view in zip(spans[::997], views[::997], strict=True)
    )
    assert len(calls) <= 200


def test_the_hook_sees_every_byte_in_order(source, noise):
    spans = chosen()
    files = {None: noise, "shard": noise[: 3 * MIB][::-1]}
    parts, lock = {}, threading.Lock()

    def on_block(index, start, view):
        with lock:
            parts.setdefault(index, []).append((start, bytes(view)))

    load(source, spans, threads=3, on_block=on_block)
    assert set(parts) == {index for index, span in enumerate(spans) if span.length}
    for index, found in parts.items():
        at = 0
        for start, data in found:
            assert start == at
            at += len(data)
        span = spans[index]
        assert b"".join(data for _, data in found) == files[span.file][span.offset : span.end]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_of_the_hook_reaches_the_caller_and_no_thread_stays(source, threads):
    class Stop(Exception):
        pass

    def on_block(index, start, view):
        raise Stop

    before = threading.active_count()
    with pytest.raises(Stop):
        load(source, [Span(0, 16 * MIB)], threads=threads, on_block=on_block)
    assert threading.active_count() == before


def test_after_a_failure_the_other_threads_stop(source, calls, monkeypatch):
    quick = opened._preadv

    def slow(descriptor, buffers, offset):
        time.sleep(0.001)
        return quick(descriptor, buffers, offset)

    monkeypatch.setattr(opened, "_preadv", slow)
    monkeypatch.setattr(plan, "BLOCK", 32 << 10)
    monkeypatch.setattr(plan, "LEAST", 0)

    def on_block(index, start, view):
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        load(source, [Span(0, 16 * MIB)], threads=2, on_block=on_block)
    assert len(calls) < 256  # of 512


def test_a_span_behind_the_end_is_refused_before_anything_is_allocated(source, monkeypatch):
    monkeypatch.setattr(module, "allocate", None)
    with pytest.raises(ReadFailed) as caught:
        load(source, [Span(0, 10), Span(16 * MIB - 1, 2)])
    assert caught.value.code == "short-read"
    with pytest.raises(InvalidInput):
        load(source, [Span(0, -10)])


def test_a_file_that_changes_meanwhile_is_noticed(source, tmp_path):
    def on_block(index, start, view):
        os.utime(tmp_path / "main", (1, 1))

    with pytest.raises(ReadFailed) as caught:
        load(source, [Span(0, 10)], on_block=on_block)
    assert caught.value.code == "changed"


def test_names_for_the_same_bytes_cannot_ask_for_more_than_the_memory(source):
    with pytest.raises(LimitExceeded) as caught:
        load(source, [Span(0, 16 * MIB)] * 1_000_000)
    assert caught.value.code == "memory"


@pytest.mark.parametrize("nbytes", [1 << 60, 1 << 80])
def test_memory_that_the_system_refuses_is_our_error(nbytes):
    with pytest.raises(LimitExceeded) as caught:
        allocate(nbytes)
    assert caught.value.code == "memory"


def test_no_threads_is_a_mistake(source):
    with pytest.raises(InvalidInput):
        load(source, [Span(0, 10)], threads=0)


def test_threads_that_cannot_start_are_done_without(source, noise, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert load(source, [Span(0, 16 * MIB)], threads=4)[0] == noise


def test_nothing_is_nothing(source):
    assert load(source, []) == []
    assert [bytes(view) for view in load(source, [Span(3, 0)])] == [b""]
