"""Blocks are reported in order for each span, whatever order they arrive in."""

import itertools
import threading
import time

import pytest

from tensorark.io.delivery import Delivery
from tensorark.io.plan import GAP, Read


def made(events, sizes, places):
    views = [memoryview(bytearray(bytes([65 + n]) * size)) for n, size in enumerate(sizes)]
    return Delivery(lambda *event: events.append(event), views, places)


def read(buffer, *pieces):
    made = Read(None, 0, buffer)
    for place, length in pieces:
        made.add(place, length)
    return made


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_parts_of_a_span_wait_for_those_before_them(order):
    events = []
    delivery = made(events, [30], [(0, 64)])
    reads = [read(0, (64, 10)), read(0, (74, 10)), read(0, (84, 10))]
    for number in order:
        delivery.deliver(reads[number])
    assert [(index, start, len(view)) for index, start, view in events] == [
        (0, 0, 10),
        (0, 10, 10),
        (0, 20, 10),
    ]


def test_one_read_may_fill_many_spans_and_parts_of_spans():
    events = []
    delivery = made(events, [10, 0, 20, 30, 5], [(0, 0), (0, 64), (0, 64), (0, 128), (1, 0)])
    # One piece over the first, the third and the beginning of the fourth, gaps included.
    delivery.deliver(read(0, (0, 140)))
    delivery.deliver(read(1, (GAP, 7), (0, 5)))
    delivery.deliver(read(0, (140, 18)))
    assert [(index, start, bytes(view)) for index, start, view in events] == [
        (0, 0, b"A" * 10),
        (2, 0, b"C" * 20),
        (3, 0, b"D" * 12),
        (4, 0, b"E" * 5),
        (3, 12, b"D" * 18),
    ]


def test_one_call_at_a_time_for_each_span():
    inside, clashes, total = set(), [], []
    views = [memoryview(bytearray(4000)) for _ in range(3)]

    def on_block(index, start, view):
        if index in inside:
            clashes.append(index)
        inside.add(index)
        time.sleep(0)  # let another thread in
        total.append((index, start, len(view)))
        inside.discard(index)

    delivery = Delivery(on_block, views, [(n, 0) for n in range(3)])
    reads = [read(n, (at, 10)) for at in range(0, 4000, 10) for n in range(3)]

    def work(part):
        for one in reads[part::8]:
            delivery.deliver(one)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
    for n in range(3):
        starts = [start for index, start, _ in total if index == n]
        assert starts == list(range(0, 4000, 10))
