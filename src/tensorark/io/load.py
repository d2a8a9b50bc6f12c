"""Whole files, or any number of spans, into memory of the process, as fast as the system allows.

Owns the destinations and the reading threads. Must never allocate before every span was checked
against the real size of its file.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from tensorark.core.model import Span
from tensorark.errors import InvalidInput, LimitExceeded
from tensorark.io.delivery import Delivery, OnBlock
from tensorark.io.local import LocalSource
from tensorark.io.memory import allocate, memory_size
from tensorark.io.plan import BLOCK, GAP, SCRAP, Plan, Read, plan
from tensorark.io.source import within

_MOST_THREADS: Final = 4  # more only help where a device needs many requests in flight


def load(
    source: LocalSource,
    spans: Sequence[Span],
    *,
    threads: int | None = None,
    on_block: OnBlock | None = None,
) -> list[memoryview]:
    """Return the bytes of each span in writable memory of the process, 64-byte aligned.

    The views share few large buffers (about 256 MiB each), and a buffer lives as long as one of its
    views. No two views share a byte, even when two spans do. `threads` is 1 to 4 by the number of
    processors unless given.

    `on_block(index, start, view)` is called from the reading threads, and for each span in
    ascending order and one call at a time, so that a digest can be updated as the bytes arrive.
    Spans without bytes are never reported.

    Raises:
        ReadFailed: when any byte cannot be had.
        LimitExceeded: when the spans do not fit into memory (code ``memory``).
    """
    _check(source, spans)
    layout = plan(spans)
    buffers = [allocate(size) for size in layout.buffers]
    views = [
        buffers[buffer][place : place + span.length]
        for span, (buffer, place) in zip(spans, layout.places, strict=True)
    ]
    delivery = Delivery(on_block, views, layout.places) if on_block is not None else None
    jobs = _jobs(source, layout, buffers, delivery)
    _share(jobs, _count(threads, sum(layout.buffers)))
    source.recheck()
    return views


def _check(source: LocalSource, spans: Sequence[Span]) -> None:
    """Check every span, and that spans which overlap do not ask for more than the memory holds.

    Disjoint spans cannot ask for more than their files have; a thousand names for one large blob
    can.
    """
    sizes = {file: source.size(file) for file in {span.file for span in spans}}
    total = 0
    for span in spans:
        within(span, sizes[span.file])
        total += span.length
    memory = memory_size()
    if total > sum(sizes.values()) and memory is not None and total > memory:
        raise LimitExceeded(
            "many tensors share the same bytes and do not fit into memory as separate copies",
            code="memory",
            expected=memory,
            found=total,
        )


def _count(threads: int | None, total: int) -> int:
    """Return how many threads to read with; little data is not worth starting any."""
    if threads is None:
        processors = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else (os.cpu_count() or 1)
        )
        threads = min(_MOST_THREADS, processors)
    elif threads < 1:
        raise InvalidInput("at least one thread must read", code="threads", found=threads)
    return min(threads, -(-total // BLOCK) or 1)


def _jobs(
    source: LocalSource, layout: Plan, buffers: list[memoryview], delivery: Delivery | None
) -> Callable[[int], bool]:
    """Return the function that performs read number n and says whether there was one."""
    scrap = memoryview(bytearray(SCRAP))  # written by all threads, read by none

    def views(read: Read) -> Iterator[memoryview]:
        buffer = buffers[read.buffer]
        for place, length in read.pieces:
            yield scrap[:length] if place == GAP else buffer[place : place + length]

    def job(number: int) -> bool:
        if number >= len(layout.reads):
            return False
        read = layout.reads[number]
        source.scatter(read.file, read.offset, list(views(read)))
        if delivery is not None:
            delivery.deliver(read)
        return True

    return job


def _share(job: Callable[[int], bool], threads: int) -> None:
    """Perform jobs 0, 1, 2, … on this thread and others; the first failure ends all."""
    numbers = itertools.count()  # `next` of it is one step for the interpreter
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not failures and job(next(numbers)):
                pass
        except BaseException as failure:  # noqa: BLE001 — raised again by the caller's thread
            failures.append(failure)

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(threads - 1)]
    started = []
    try:
        for helper in helpers:
            with suppress(RuntimeError):  # no more threads to be had: fewer will do
                helper.start()
                started.append(helper)
        work()
    except BaseException as failure:  # an interrupt between two lines: let no thread outlive it
        failures.append(failure)
        raise
    finally:
        for helper in started:
            helper.join()
    if failures:
        raise failures[0]
