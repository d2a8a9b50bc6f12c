"""A file appears under its name complete or not at all.

Owns temporary names, renaming and what a crash left behind. Must never touch an existing file
before the new one is whole and on the disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tensorark.errors import OVERWRITE, InvalidInput, ReadFailed
from tensorark.io.sink import Sink
from tensorark.io.writer import write_failed

_PARTIAL: Final = re.compile(r"\A\.(?P<name>.+)\.[0-9a-f]{16}\.partial\Z", re.DOTALL)
_ROOM: Final = 255 - len("..partial") - 17  # bytes that a file name leaves for the target's
_STALE: Final = 24 * 60 * 60  # seconds


@contextmanager
def publish(
    path: str | os.PathLike[str], *, overwrite: bool, direct: bool = True
) -> Iterator[Sink]:
    """Give a sink whose bytes become the file `path` when the block ends without an exception.

    They are written to ``.<name>.<random>.partial`` in the same folder, synced, and renamed; then
    the folder is synced. After an exception nothing has appeared and an existing file is as it was.
    An overwritten file passes its permissions on; a link is replaced, not followed. `direct` lets
    large writes go around the page cache where that works. What an earlier crash left of the same
    target is removed first (see `leftovers`).

    Raises:
        InvalidInput: when `path` exists and `overwrite` is false, before and after writing alike
            (code ``exists``), or when it is no regular file (``not-a-file``).
        ReadFailed: when the system refuses (codes ``missing-folder``, ``no-space``,
            ``write-failed``).
    """
    target = Path(path).absolute()  # the process may change its folder meanwhile
    before = _existing(target, overwrite=overwrite)
    for leftover in leftovers(target.parent, name=target.name):
        with suppress(OSError):
            leftover.unlink()
    sink = _create(target, before, direct=direct)
    try:
        yield sink
        sink.sync()
        _reveal(sink.path, target, overwrite=overwrite)
    except BaseException:
        # The name goes first: an interrupt while the thread stops must not leave it behind.
        with suppress(OSError):
            sink.path.unlink()
        raise
    finally:
        sink.close()
    _sync_folder(target)


def leftovers(directory: str | os.PathLike[str], *, name: str | None = None) -> list[Path]:
    """Return the temporary files in `directory` that no writer will finish, sorted.

    Those are older than a day and not locked: a writer holds a lock on its file, which the system
    drops when the process ends, on whichever machine. Where the filesystem has no locks nothing is
    called a leftover. `name` limits them to one target; only those `publish` removes by itself.
    """
    wanted = None if name is None else _shortened(name)
    found = []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            match = _PARTIAL.match(entry.name)
            if match and wanted in {None, match["name"]} and _is_abandoned(entry):
                found.append(Path(directory) / entry.name)
    return sorted(found)


def _existing(target: Path, *, overwrite: bool) -> os.stat_result | None:
    """Return what is known about the file that will be overwritten, if there is one."""
    if target.name in {"", ".."}:
        raise InvalidInput("not the name of a file", code="not-a-file", path=str(target))
    try:
        if not target.parent.is_dir():
            raise ReadFailed("no such folder", code="missing-folder", path=str(target.parent))
        status = target.lstat()
        if not overwrite:
            raise _exists(target)
        if stat.S_ISLNK(status.st_mode):
            status = target.stat()
    except FileNotFoundError:  # nothing there, or a link to nothing
        return None
    except (OSError, ValueError) as error:
        if isinstance(error, (InvalidInput, ReadFailed)):
            raise
        raise ReadFailed(f"cannot write here: {error}", path=str(target)) from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput("not a regular file", code="not-a-file", path=str(target))
    return status


def _create(target: Path, before: os.stat_result | None, *, direct: bool) -> Sink:
    partial = target.with_name(f".{_shortened(target.name)}.{secrets.token_hex(8)}.partial")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(partial, flags, 0o666)  # the umask takes its part
    except OSError as error:
        raise write_failed(error, str(target)) from error
    try:
        with suppress(OSError):  # not every filesystem has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if before is not None:
            _dress(descriptor, before)
        return Sink(partial, target, descriptor, direct=direct)
    except BaseException:
        os.close(descriptor)
        partial.unlink()
        raise


def _dress(descriptor: int, before: os.stat_result) -> None:
    """Give the new file the owner and permissions of the old one, as far as we may."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except OSError:
            mode = mode & 0o707 | (mode & 0o007) << 3  # another group gets what everyone gets
    with suppress(OSError):  # a filesystem without permissions
        os.fchmod(descriptor, mode)


def _reveal(partial: Path, target: Path, *, overwrite: bool) -> None:
    try:
        if overwrite:
            partial.replace(target)
            return
        try:
            os.link(partial, target)
        except FileExistsError:
            raise
        except OSError:
            _claim(partial, target)
        else:
            with suppress(OSError):
                partial.unlink()
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError as error:
        raise write_failed(error, str(target)) from error


def _claim(partial: Path, target: Path) -> None:
    """Take a name that is free on a filesystem without hard links, then rename over it.

    A process killed between these two calls leaves an empty file; nothing portable avoids that.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        partial.replace(target)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _exists(target: Path) -> InvalidInput:
    return InvalidInput("the file exists already", code="exists", path=str(target), hint=OVERWRITE)


def _sync_folder(target: Path) -> None:
    """Make the new name durable; a system that cannot sync folders needs no help."""
    try:
        descriptor = os.open(target.parent, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:  # writable but not readable
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF}:
            message = "the file is complete, but its name may not survive a power cut"
            raise ReadFailed(message, code="write-failed", path=str(target)) from error
    finally:
        os.close(descriptor)


def _shortened(name: str) -> str:
    """Return as much of `name` as fits into a temporary name."""
    while len(os.fsencode(name)) > _ROOM:
        name = name[:-1]
    return name


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or time.time() - status.st_mtime < _STALE:
            return False
        descriptor = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
