"""Fresh memory in large pages, the destination of loads and the staging area of writers; mappings.

Owns the allocation, and the question how much memory there is. Must never be asked for a size that
was not checked against a real file first.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final

from tensorark.errors import LimitExceeded

_HUGE_PAGE: Final = 2 << 20

LENT: Final = 512 << 10
"""Most bytes that are lent at once: few enough to stay in the caches of a processor."""

_PYTHON_KEEPS_ONE: Final = sys.version_info < (3, 13)  # a descriptor for each mapping
_MAP_FIXED: Final = 0x10  # of Linux and macOS
# Where the system counts private pages against memory before they are written, a file larger than
# the memory could not be mapped. The flag exists on every Linux, its name only in newer Pythons.
_LAZY: Final[int] = getattr(mmap, "MAP_NORESERVE", 0)

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
    memory = _take_unused() or bytearray(LENT + 1)
    view = memoryview(memory)[:nbytes]
    _spare.append(memory)
    return view


def _take_unused() -> bytearray | None:
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


def map_file(descriptor: int, nbytes: int, *, private: bool = False) -> memoryview:
    """Map the first `nbytes` of an open file; the mapping outlives the descriptor, and keeps none.

    Read-only, or with `private` for writing, changes staying in this process.

    Raises:
        OSError: when the system refuses.
        ValueError: when the file is shorter.
    """
    flags = mmap.MAP_PRIVATE | _LAZY if private else mmap.MAP_SHARED
    prot = mmap.PROT_READ | (mmap.PROT_WRITE if private else 0)
    if not _PYTHON_KEEPS_ONE:
        untracked: dict[str, Any] = {"trackfd": False}
        found = mmap.mmap(descriptor, nbytes, flags=flags, prot=prot, **untracked)
    else:
        try:
            found = _map_placed(descriptor, nbytes, flags, prot)
        except OSError:  # each mapping has a descriptor of its own then
            found = mmap.mmap(descriptor, nbytes, flags=flags, prot=prot)
    view = memoryview(found)[:nbytes]
    return view if private else view.toreadonly()


def _map_placed(descriptor: int, nbytes: int, flags: int, prot: int) -> mmap.mmap:
    """Map a file in the place of memory that we have: as Python never saw the file, it keeps none.

    A model may have hundreds of shards, and a process 1,024 descriptors.
    """
    import ctypes

    if os.fstat(descriptor).st_size < nbytes:  # a mapping past the end kills who reads there
        raise ValueError("the file is shorter than what is to be mapped")
    writable = mmap.PROT_READ | mmap.PROT_WRITE  # or there is no asking for its address
    room = -(-nbytes // _HUGE_PAGE) * _HUGE_PAGE  # placed like a file, for pages of any size
    memory = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON | _LAZY, prot=writable)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _system_mmap()(address, nbytes, prot, flags | _MAP_FIXED, descriptor, 0) != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return memory


@cache
def _system_mmap() -> Callable[..., int | None]:
    import ctypes

    found = ctypes.CDLL(None, use_errno=True).mmap
    number = ctypes.c_int
    pointer, size, offset = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long
    found.argtypes = (pointer, size, number, number, number, offset)
    found.restype = pointer
    return found


def memory_size() -> int | None:
    """Return the bytes of memory that this machine has, or None where nothing tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
