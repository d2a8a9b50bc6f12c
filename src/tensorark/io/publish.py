"""A file appears under its name complete or not at all.

Owns temporary names, renaming and what a crash left behind. Must never touch an existing file
before the new one is whole and on the disk.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tensorark.errors import OVERWRITE, Error, InvalidInput, ReadFailed
from tensorark.io import locks
from tensorark.io.filesystem import filesystem, is_remote
from tensorark.io.inputs import refuse_input
from tensorark.io.sink import Sink
from tensorark.io.writer import write_failure

_PARTIAL: Final = re.compile(r"\A\.(?P<name>.+)\.[0-9a-f]{16}\.partial\Z", re.DOTALL)
_ROOM: Final = 255 - len("..partial") - 17  # bytes that a file name leaves for the target's
_STALE: Final = 24 * 60 * 60  # seconds
_OWN: Final = 0o600  # permissions of a file that gets others later: nobody opens it meanwhile


class StagedFile:
    """A file on its way to its name: written through `sink`, then synced, then revealed.

    It has no name before that where the system allows it, so that nothing is left of a process that
    dies; else, and for the moment of replacing a file, that is ``.<name>.<random>.partial``.
    """

    __slots__ = ("_descriptor", "_overwrite", "_partial", "sink", "target")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool,
        direct: bool = True,
        mode: int = 0o666,
    ) -> None:
        """Begin a file that becomes `path`; refuse at once what cannot become of it.

        It has the permissions `mode`, less the umask, or those of the file that it replaces, from
        its first byte on.

        Raises:
            InvalidInput: when `path` is read by the running operation (code ``same-file``), exists
                and `overwrite` is false (``exists``), or is no regular file (``not-a-file``).
            ReadFailed: when the system refuses (``missing-folder``, ``no-space``,
                ``write-failed``).
        """
        self.target = Path(path).absolute()  # the process may change its folder meanwhile
        self._overwrite = overwrite
        refuse_input(self.target)
        before = _existing(self.target, overwrite=overwrite)
        for leftover in leftovers(self.target.parent, name=self.target.name):
            with suppress(OSError):
                leftover.unlink()
        self._partial, self._descriptor = _begun(self.target, mode if before is None else _OWN)
        try:
            locks.take(self._descriptor)
            if before is not None:
                _dress(self._descriptor, before)
            where = self._partial or Path(f"/proc/self/fd/{self._descriptor}")
            self.sink = Sink(where, self.target, self._descriptor, direct=direct)
        except BaseException:
            os.close(self._descriptor)
            self._forget()
            raise

    def reveal(self) -> None:
        """Give the file, which is whole and on the disk, its name. The folder is not synced yet.

        Raises:
            InvalidInput: when a file of that name has appeared and may not be replaced.
            ReadFailed: when the system refuses.
        """
        try:
            if self._overwrite and os.path.lexists(self.target):
                self._name().replace(self.target)
            elif self._partial is not None or not self._link(self.target):
                _link_or_claim(self._name(), self.target)
        except FileExistsError as error:
            if not self._overwrite:
                raise exists(self.target) from error
            try:  # another writer was faster
                self._name().replace(self.target)
            except OSError as later:
                raise write_failure(later, str(self.target)) from later
        except OSError as error:
            raise write_failure(error, str(self.target)) from error
        self._forget()

    def is_revealed(self) -> bool:
        """Tell whether the file has its name, however `reveal` ended."""
        try:
            return os.path.samestat(self.target.lstat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def drop(self) -> None:
        """Let go of the file; what was not revealed is gone. The name goes before the bytes."""
        self._forget()
        self.sink.close()

    def _name(self) -> Path:
        """Return the temporary name, made now if the file has none."""
        if self._partial is None:
            partial = temporary(self.target)
            if not self._link(partial):
                _copy(self._descriptor, partial, self.target)
            self._partial = partial
        return self._partial

    def _link(self, path: Path) -> bool:
        """Give the file a name; False where the filesystem has files without one, but no links."""
        try:
            # An absolute path needs no folder, but only with one does `os.link` follow links.
            os.link(f"/proc/self/fd/{self._descriptor}", path, src_dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return False
            raise
        return True

    def _forget(self) -> None:
        if self._partial is not None:
            with suppress(OSError):
                self._partial.unlink()
            self._partial = None


@contextmanager
def publish(
    path: str | os.PathLike[str], *, overwrite: bool, direct: bool = True
) -> Iterator[Sink]:
    """Give a sink whose bytes become the file `path` when the block ends without an exception.

    They are written to a file without a name, or with one of its own, in the same folder, synced,
    and given the name; then the folder is synced. After an exception nothing has appeared and an
    existing file is as it was. An overwritten file passes its permissions on; a link is replaced,
    not followed. `direct` lets large writes go around the page cache where that works. What an
    earlier crash left of the same target is removed first (see `leftovers`).

    Raises:
        InvalidInput: when `path` is read by the running operation (code ``same-file``), when it
            exists and `overwrite` is false, before and after writing alike (``exists``), or when it
            is no regular file (``not-a-file``).
        ReadFailed: when the system refuses (codes ``missing-folder``, ``no-space``,
            ``write-failed``). With code ``not-durable`` the new file stands, under its name.
    """
    staged = StagedFile(path, overwrite=overwrite, direct=direct)
    try:
        yield staged.sink
        staged.sink.sync()
        staged.reveal()
    finally:
        staged.drop()
    sync_name(staged.target)


def leftovers(directory: str | os.PathLike[str], *, name: str | None = None) -> list[Path]:
    """Return the temporary files in `directory` that no writer will finish, sorted.

    Those are not locked: a writer holds a lock on its file, which the system drops when the process
    ends. On a network filesystem they must be older than a day as well, as not every one of them
    tells the locks of other machines. `name` limits them to one target; only those `publish`
    removes by itself.
    """
    wanted = None if name is None else shorten(name)
    youngest = time.time() - (_STALE if is_remote(filesystem(directory)) else 0)
    found = []
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            match = _PARTIAL.match(entry.name)
            if match and wanted in {None, match["name"]} and _is_abandoned(entry, youngest):
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
            raise exists(target)
        if stat.S_ISLNK(status.st_mode):
            status = target.stat()
    except Error:  # ours are errors of the system too
        raise
    except FileNotFoundError:  # nothing there, or a link to nothing
        return None
    except (OSError, ValueError) as error:
        raise ReadFailed(f"cannot write here: {error}", path=str(target)) from error
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput("not a regular file", code="not-a-file", path=str(target))
    return status


def temporary(target: Path, kind: str = "partial") -> Path:
    """Return a name beside `target` that nobody has, for what leads to it."""
    return target.with_name(f".{shorten(target.name)}.{secrets.token_hex(8)}.{kind}")


def _begun(target: Path, mode: int) -> tuple[Path | None, int]:
    """Open a new file in the folder of `target`: its temporary name, None for none, and itself."""
    unnamed = _open_unnamed(target, mode)
    if unnamed is not None:
        return None, unnamed
    partial = temporary(target)
    return partial, _open_named(partial, target, mode)


def _open_unnamed(target: Path, mode: int) -> int | None:
    """Open a file without a name in the folder of `target`; None where there are none."""
    flags = getattr(os, "O_TMPFILE", 0)
    if not flags or not _HAS_FD_LINKS:
        return None
    try:
        return os.open(target.parent, flags | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), mode)
    except OSError:  # the filesystem has none; whatever else is wrong shows with a name, too
        return None


_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOENT}
)
_BLOCK: Final = 8 << 20


def _copy(descriptor: int, partial: Path, target: Path) -> None:
    """Copy a file that can have no name into one that has, onto the disk."""
    named = _open_named(partial, target, _OWN)
    try:
        locks.take(named)
        at = 0
        while data := os.pread(descriptor, _BLOCK, at):
            at += os.pwrite(named, data, at)
        os.fchmod(named, stat.S_IMODE(os.fstat(descriptor).st_mode))
        os.fsync(named)
        os.dup2(named, descriptor, inheritable=False)  # from now on it is the file
    finally:
        os.close(named)


_HAS_FD_LINKS: Final = Path("/proc/self/fd").is_dir()


def _open_named(partial: Path, target: Path, mode: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        return os.open(partial, flags, mode)  # the umask takes its part
    except OSError as error:
        raise write_failure(error, str(target)) from error


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


def _link_or_claim(partial: Path, target: Path) -> None:
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        _claim(partial, target)


def _claim(partial: Path, target: Path) -> None:
    """Take a name that is free on a filesystem without hard links, then rename over it.

    A process killed between these two calls leaves an empty file; nothing portable avoids that.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWN))
    try:
        partial.replace(target)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def exists(target: Path) -> InvalidInput:
    """Describe a file that is there and may not be replaced."""
    return InvalidInput("the file exists already", code="exists", path=str(target), hint=OVERWRITE)


def sync_folder(folder: Path, target: Path) -> None:
    """Make names in `folder` durable on the way to `target`; nothing stands there yet.

    Raises:
        ReadFailed: when the system fails.
    """
    try:
        _sync_folder(folder)
    except OSError as error:
        raise write_failure(error, str(target)) from error


def sync_name(target: Path) -> None:
    """Make the name of `target`, which it has already, durable.

    Raises:
        ReadFailed: when the system fails (code ``not-durable``): the new content stands all the
            same.
    """
    try:
        _sync_folder(target.parent)
    except OSError as error:
        raise ReadFailed(
            "everything is written and stands under its name, but the folder cannot be synced: "
            f"a power cut may undo it ({error.strerror or error})",
            code="not-durable",
            path=str(target),
            hint="check the disk, then write it again",
        ) from error


def _sync_folder(folder: Path) -> None:
    """Sync a folder; a system that cannot do that needs no help."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:  # writable but not readable, or a system that opens no folders
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF}:
            raise
    finally:
        os.close(descriptor)


def shorten(name: str) -> str:
    """Return as much of `name` as fits into a temporary name."""
    while len(os.fsencode(name)) > _ROOM:
        name = name[:-1]
    return name


def _is_abandoned(entry: os.DirEntry[str], youngest: float) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_mtime > youngest:
            return False
    except OSError:
        return False
    return locks.is_abandoned(entry.path)
