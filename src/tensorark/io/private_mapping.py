"""Writable views of a file's bytes that never reach the file and never meet each other.

Owns the private (copy-on-write) mappings of one open file. Must never lend the same byte twice from
one mapping: what the first borrower wrote would be what the second reads.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right

from tensorark.io.memory import map_file


class PrivateMapping:
    """Lends ranges of the file behind `descriptor`, which it does not own."""

    __slots__ = ("_descriptor", "_ends", "_lock", "_size", "_starts", "_view")

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._lock = threading.Lock()
        self._view: memoryview | None = None
        self._starts: list[int] = []  # the ranges lent from the present mapping: disjoint, sorted
        self._ends: list[int] = []

    def view(self, offset: int, length: int) -> memoryview | None:
        """Return a writable view that shares no byte with an earlier one; None when refused.

        One mapping serves all ranges until one is asked for again; then a fresh one is made, and
        the old one lives on behind the views that were lent from it.
        """
        if length == 0:
            return memoryview(bytearray())
        with self._lock:
            at = bisect_right(self._ends, offset)
            if self._view is None or at < bisect_left(self._starts, offset + length):
                try:
                    self._view = map_file(self._descriptor, self._size, private=True)
                except (OSError, ValueError, OverflowError, MemoryError):
                    return None
                self._starts, self._ends, at = [], [], 0
            self._starts.insert(at, offset)
            self._ends.insert(at, offset + length)
            return self._view[offset : offset + length]
