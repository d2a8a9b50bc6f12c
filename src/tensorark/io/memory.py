"""Fresh memory in large pages: the destination of loads and the staging area of writers.

Owns the allocation, and the question how much memory there is. Must never be asked for a size that
was not checked against a real file first.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections import deque
from contextlib import suppress
from typing import Final

from tensorark.errors import LimitExceeded

_HUGE_PAGE: Final = 2 << 20

LENT: Final = 512 << 10
"""Most bytes that are lent at once: few enough to stay in the caches of a processor."""

_spare: Final[deque[bytearray]] = deque(maxlen=4)  # as many as are kept; others go with their views


def allocate(nbytes: int) -> memoryview:
    """Return `nbytes` of zeroed, writable, page-aligned memory that lives as long as its views.

    First touch of small pages costs more than the copy itself, so large pages are asked for where
    the system has them.

    Raises:
        LimitExceeded: when the system refuses.
    """
    if nbytes == 0:
        return memoryview(bytearray())
    try:
        memory = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANON)
    except (OSError, OverflowError, MemoryError) as error:
        message = "the system refuses this much memory"
        raise LimitExceeded(message, code="memory", found=nbytes) from error
    if nbytes >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without large pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


def lend(nbytes: int) -> memoryview:
    """Return `nbytes` of writable memory, at most `LENT`, for bytes that are soon done with.

    It is used again when the last view of it is gone, which saves the first touch of new memory.
    Safe to use from threads: what is looked at is out of the queue, and looked at by one thread.
    """
    memory = _unused() or bytearray(LENT + 1)
    view = memoryview(memory)[:nbytes]
    _spare.append(memory)
    return view


def _unused() -> bytearray | None:
    """Take memory that nobody looks at out of the queue."""
    for _ in range(len(_spare)):
        try:
            memory = _spare.popleft()
        except IndexError:  # another thread was faster
            return None
        try:
            memory.append(memory.pop())  # refused as long as there are views
        except BufferError:
            _spare.append(memory)
        else:
            return memory
    return None


def mapped(descriptor: int, nbytes: int, **how: int) -> mmap.mmap:
    """Map the first `nbytes` of an open file; the mapping outlives the descriptor.

    From Python 3.13 on it keeps no descriptor of its own; before, each mapping has one.
    """
    if os.name == "posix" and sys.version_info >= (3, 13):
        how["trackfd"] = False
    return mmap.mmap(descriptor, nbytes, **how)


def installed() -> int | None:
    """Return the bytes of memory that this machine has, or None where nothing tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
