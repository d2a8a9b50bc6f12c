"""Writing staged bytes to their places in a file, in the background and around the page cache.

Owns the staging buffers, the writer thread and the second descriptor that bypasses the page cache.
Must never let an error of the system leave as anything but `ReadFailed`, nor get lost in a thread.
"""

from __future__ import annotations

import errno
import mmap
import os
import queue
import threading
from collections.abc import Sequence
from typing import Final

from tensorark.errors import ReadFailed
from tensorark.io.memory import allocate

PAGE: Final = max(4096, mmap.PAGESIZE)
STAGE: Final = 8 << 20
STAGES: Final = 3  # one is filled, one is written, one evens out the two speeds: 24 MiB in all

_DIRECT_LEAST: Final = 1 << 20  # below this the page cache is faster
_CACHED_MOST: Final = 1 << 20  # one call through the page cache; 8 MiB run at a third of the speed
_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)

Piece = tuple[int, memoryview]  # where in the file, and what


class Writer:
    """Writes pieces to `descriptor`; `path` is where it can be opened again, `target` its name.

    Pieces start at multiples of `PAGE`, in the file and in memory. What is large goes around the
    page cache if `direct` and the filesystem allow; writing and syncing then takes one pass instead
    of two. Everything but the thread's own work happens on the caller's thread.
    """

    def __init__(self, path: str, target: str, descriptor: int, *, direct: bool) -> None:
        self._path = path
        self._target = target
        self._descriptor = descriptor
        self._wants_direct = direct and bool(_O_DIRECT)
        self._direct = -1
        self._jobs: queue.Queue[tuple[memoryview, list[Piece]] | None] = queue.Queue()
        self._free: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        self._allocated = 0
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def stage(self) -> memoryview:
        """Return a staging buffer that is free, waiting for one when all are in use."""
        if self._free.empty() and self._allocated < STAGES:
            self._allocated += 1
            return allocate(STAGE)
        return self._free.get()

    def submit(self, stage: memoryview, pieces: list[Piece]) -> None:
        """Write `pieces` of `stage` in the background; the stage is lost to the caller."""
        self._raise_failure()
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="tensorark writer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads to be had
                self.write(pieces)
                self._release(stage)
                return
            self._thread = thread
        self._jobs.put((stage, pieces))

    def drain(self) -> None:
        """Wait until everything submitted is in the file."""
        self._jobs.join()
        self._raise_failure()

    def write(self, pieces: Sequence[Piece]) -> None:
        """Write `pieces` now."""
        try:
            for offset, data in pieces:
                self._put(offset, data)
        except OSError as error:
            self._failure = error
            self._raise_failure()

    def close(self) -> None:
        """Stop the thread, dropping what it has not written yet. The descriptor stays open."""
        if self._failure is None:
            self._failure = OSError(errno.EBADF, "the writer is closed")
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None
        if self._direct >= 0:
            os.close(self._direct)
            self._direct = -1

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            stage, pieces = job
            try:
                if self._failure is None:
                    for offset, data in pieces:
                        self._put(offset, data)
            except BaseException as failure:  # noqa: BLE001 — raised on the caller's thread
                self._failure = failure
            finally:
                self._release(stage)
                self._jobs.task_done()

    def _release(self, stage: memoryview) -> None:
        if len(stage) == STAGE:  # the small first one is not worth keeping
            self._free.put(stage)

    def _raise_failure(self) -> None:
        failure = self._failure
        if isinstance(failure, OSError):
            raise write_failure(failure, self._target) from failure
        if failure is not None:
            raise failure

    def _put(self, offset: int, data: memoryview) -> None:
        done = self._put_direct(offset, data) if len(data) >= _DIRECT_LEAST else 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done : done + _CACHED_MOST], offset + done)

    def _put_direct(self, offset: int, data: memoryview) -> int:
        """Write whole pages of `data` around the page cache; return how many bytes that were."""
        whole, done = len(data) // PAGE * PAGE, 0
        try:
            while self._can_direct() and done < whole and done % PAGE == 0:
                done += os.pwrite(self._direct, data[done:whole], offset + done)
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}:
                raise
            self._wants_direct = False
        return done

    def _can_direct(self) -> bool:
        """Open the second descriptor if that was not tried; some systems refuse only later."""
        if self._wants_direct and self._direct < 0:
            try:
                flags = os.O_WRONLY | _O_DIRECT | getattr(os, "O_CLOEXEC", 0)
                self._direct = os.open(self._path, flags)
            except OSError:
                self._wants_direct = False
        return self._wants_direct


def write_failure(error: OSError, path: str) -> ReadFailed:
    """Describe a write that the system refused; a full disk has a code of its own."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return ReadFailed(
            "no space is left for this file",
            code="no-space",
            path=path,
            hint="free some space or write to another disk; nothing was changed",
        )
    reason = error.strerror or str(error)
    return ReadFailed(f"cannot write: {reason}", code="write-failed", path=path)
