"""Telling a caller about loaded bytes, in order for each span although they arrive in any order.

Owns the bookkeeping between reads and spans. Must never hold its lock while the caller's function
runs.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence

from tensorark.io.plan import GAP, Read

OnBlock = Callable[[int, int, memoryview], object]


class Delivery:
    """Calls `on_block(index, start, view)` for the parts of `views` that reads have filled."""

    __slots__ = ("_busy", "_here", "_lock", "_next", "_on_block", "_spans", "_views")

    def __init__(
        self, on_block: OnBlock, views: Sequence[memoryview], places: Sequence[tuple[int, int]]
    ) -> None:
        self._on_block = on_block
        self._views = views
        self._lock = threading.Lock()
        self._next: dict[int, int] = {}  # by span: the first byte that was not delivered
        self._here: dict[tuple[int, int], int] = {}  # arrived early: (span, start) to length
        self._busy: set[int] = set()  # spans that some thread is delivering
        # The spans by place: what a read filled is found by its place in the destination.
        self._spans = sorted((*places[index], index) for index in range(len(views)) if views[index])

    def deliver(self, read: Read) -> None:
        """Deliver what `read` completed, and whatever had waited for it."""
        for place, length in read.pieces:
            if place != GAP:
                self._fill(read.buffer, place, place + length)

    def _fill(self, buffer: int, start: int, end: int) -> None:
        at = max(0, bisect_right(self._spans, (buffer, start, len(self._views))) - 1)
        while at < len(self._spans) and self._spans[at][:2] < (buffer, end):
            number, place, index = self._spans[at]
            first, last = max(start, place), min(end, place + len(self._views[index]))
            if number == buffer and first < last:
                self._deliver(index, first - place, last - first)
            at += 1

    def _deliver(self, index: int, start: int, length: int) -> None:
        view = self._views[index]
        if length == len(view):
            self._on_block(index, 0, view)
            return
        with self._lock:
            self._here[index, start] = length
            if index in self._busy:
                return  # the thread that delivers this span will find it
            self._busy.add(index)
        while True:
            with self._lock:
                at = self._next.get(index, 0)
                ready = self._here.pop((index, at), 0)
                if not ready:
                    self._busy.discard(index)
                    return
                self._next[index] = at + ready
            self._on_block(index, at, view[at : at + ready])
