"""Writing behind the end of a file that exists: its old bytes are never touched.

Owns the lock, the place where new bytes begin, and the way back after a failure. Must never write,
cut or move a byte that was there before.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tensorark.errors import Error, InvalidInput, ReadFailed
from tensorark.io.locks import take
from tensorark.io.sink import Sink
from tensorark.io.writer import PAGE, write_failure


@contextmanager
def extend(path: str | os.PathLike[str], *, size: int, direct: bool = True) -> Iterator[Sink]:
    """Give a sink that goes on behind the `size` bytes of the file `path`, at the next page.

    The file is locked against other writers of ours. When the block ends without an exception its
    bytes are synced. After an exception the file is cut back to `size` bytes. A process that is
    killed leaves the file longer: readers refuse it, unless its last bytes were written already.

    Raises:
        InvalidInput: when the file is a link (code ``link``) or no regular file (``not-a-file``).
        ReadFailed: when it is not `size` bytes long any more (``changed``), another writer has it
            (``locked``), or the system refuses (``no-space``, ``write-failed``).
    """
    target = Path(path).absolute()
    kept = _open(target)
    try:
        _check(target, kept, size)
        # A page of old bytes would have to be written again with the new ones: begin with a whole
        # page of our own. Where pages are larger than 4 KiB this may cost some alignment.
        start = -(-size // PAGE) * PAGE
        own = os.dup(kept)
        # Opened once more by its name, the file could be another one by now.
        again = Path(f"/proc/self/fd/{own}")
        sink = Sink(again, target, own, direct=direct and again.exists(), start=start)
        try:
            yield sink
            if sink.tell() > start:
                sink.sync()
                _check_name(target, kept)
            else:  # nothing was written: not even what aligns it
                os.ftruncate(kept, size)
        except BaseException as error:
            sink.close()
            _cut_back(kept, size, error)
            raise
        finally:
            sink.close()
    finally:
        os.close(kept)


def _open(target: Path) -> int:
    if target.is_symlink():
        raise InvalidInput(
            "the file is a link: what it leads to may serve others as well",
            code="link",
            path=str(target),
            hint="write to the file itself, or make a copy",
        )
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(target, flags)
    except OSError as error:
        raise write_failure(error, str(target)) from error


def _check(target: Path, descriptor: int, size: int) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput("not a regular file", code="not-a-file", path=str(target))
    if take(descriptor) is False:
        raise ReadFailed("another process is writing this file", code="locked", path=str(target))
    found = os.fstat(descriptor).st_size
    if found != size:
        raise ReadFailed(
            "the file changed while it was open",
            code="changed",
            path=str(target),
            expected=f"{size} bytes",
            found=found,
        )


def _check_name(target: Path, descriptor: int) -> None:
    """Check that what was written is what the name stands for: it may have been replaced."""
    try:
        same = os.path.samestat(target.stat(), os.fstat(descriptor))
    except OSError:
        same = False
    if not same:
        detail = "the file was replaced while it was written to; the new one was not touched"
        raise ReadFailed(detail, code="changed", path=str(target))


def _cut_back(descriptor: int, size: int, error: BaseException) -> None:
    """Undo a failed append: the one repair there is, done by the writer that failed."""
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        if isinstance(error, Error):
            error.hint = f"the file could not be cut back: its first {size} bytes are as they were"
        return
    with suppress(OSError):
        os.fsync(descriptor)
