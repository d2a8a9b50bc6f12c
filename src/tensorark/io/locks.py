"""Locks on files and folders that are being written, where the system has them.

A lock is dropped by the system when its process ends, however it ends: what carries the name of a
temporary file and no lock is left over from a writer that died. Where there are no locks (Windows,
some network filesystems) nothing is ever called left over.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # no POSIX system
    HAS_LOCKS: Final = False
else:
    HAS_LOCKS: Final = True  # type: ignore[misc]


def take(descriptor: int) -> bool | None:
    """Lock what is open as `descriptor` until it is closed.

    Tells whether that worked, False when another writer has it; None where there are no locks.
    """
    if not HAS_LOCKS:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_abandoned(path: str | os.PathLike[str]) -> bool:
    """Tell whether nobody holds the lock of a file or folder that exists."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(Path(path), flags | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        return take(descriptor) is True
    finally:
        with suppress(OSError):
            os.close(descriptor)
