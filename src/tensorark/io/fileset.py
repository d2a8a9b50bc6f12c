"""Sets of files that appear together: members beside a root that names them, or a whole folder.

A set is what its root says, so its commit is one rename: the members get names that no root in
place knows, everything is on the disk, then the root takes its name. A reader sees the old set or
the new one. Owns the order of these steps, and clearing what a dead writer or an old set left.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final, cast

from tensorark.errors import OVERWRITE, Error, InvalidInput, ReadFailed, quoted
from tensorark.io import locks
from tensorark.io.inputs import aside, refuse_input
from tensorark.io.publish import StagedFile, exists, shorten, sync_folder, sync_name, temporary
from tensorark.io.sink import Sink
from tensorark.io.writer import write_failure

Members = Callable[[Path], Iterable[str]]
"""Gives the names of the files in its folder that a root names; raises where it cannot be read."""

Owns = Callable[[str], object]
"""Tells by its name whether a file is one that a writer of the set may have made."""

_MOST: Final = 16 << 20
"""Bytes of a list of names that is believed to be ours."""


def fresh(root: Path, names: Callable[[int], list[str]], *, overwrite: bool) -> list[str]:
    """Return names for the members of a set: the first of ``names(0)``, ``names(1)``, … all free.

    Only a set that replaces another one needs more than the first: the root in place knows those.

    Raises:
        InvalidInput: when one of the first names is taken and `overwrite` is false.
    """
    for turn in count():
        found = names(turn)
        taken = [each for each in found if os.path.lexists(root.with_name(each))]
        if not taken:
            return found
        if not overwrite:
            raise exists(root.with_name(taken[0]))
    raise AssertionError


def own_numbered(stem: str, suffix: str) -> Owns:
    """Own the names of numbered members, ``<stem>-00001-of-00003<suffix>``, of any turn."""
    own = rf"{re.escape(stem)}(-r[1-9][0-9]*)?-[0-9]{{5,}}-of-[0-9]{{5,}}{re.escape(suffix)}"
    return re.compile(own).fullmatch


@contextmanager
def publish_set(
    root: Path, names: Sequence[str], *, overwrite: bool, members: Members, owns: Owns
) -> Iterator[tuple[Sink, list[Sink]]]:
    """Give a sink for `root` and one for each of `names` beside it; see `fresh` for the names.

    When the block ends without an exception all of them are synced, the members revealed, and the
    root last. Then the members of the set that `root` named before are removed, as far as `owns`
    tells them to be of such sets and no root names them any more: a root is input, and may name
    anything. After an exception everything is as it was.

    Raises:
        InvalidInput: as `publish` does, for each of the files.
        ReadFailed: as `publish` does. With code ``not-durable`` the new set stands, and the files
            of the old one are removed by the next writer.
    """
    root = root.absolute()
    sweep(root, members, owns)
    with ExitStack() as dropping:
        entry = StagedFile(root, overwrite=overwrite)
        dropping.callback(entry.drop)
        staged = []
        for name in names:
            staged.append(StagedFile(root.with_name(name), overwrite=False))
            dropping.callback(staged[-1].drop)
        yield entry.sink, [each.sink for each in staged]
        for each in (*staged, entry):
            each.sink.sync()
        former = [name for name in _member_names(root, members) if owns(name)]
        journal = _Journal(root, [*names, *former]) if names or former else None
        try:
            for each in staged:
                each.reveal()
            sync_folder(root.parent, root)
            entry.reveal()
        except BaseException:  # an exception may come right behind the call that did it
            is_new = entry.is_revealed()
            for each in staged:
                if not is_new and each.is_revealed():
                    with suppress(OSError):
                        each.target.unlink()
            if journal is not None:
                journal.close(keep=is_new or any(each.is_revealed() for each in staged))
            raise
    kept = True
    try:
        sync_name(root)  # the old files stay until the old root cannot come back
        kept = not _remove(root, former, set(names), members)
    finally:
        if journal is not None:
            journal.close(keep=kept)


def require_free(root: Path, *, overwrite: bool) -> None:
    """Require that no other model has the place of the one that is written, but what is read.

    Raises:
        InvalidInput: when there is one and `overwrite` is false (code ``exists``).
    """
    if not overwrite and os.path.lexists(root) and not _is_read(root):
        raise exists(root)


def retire(
    root: Path, members: Members = lambda _root: (), owns: Owns = lambda _name: False
) -> None:
    """Remove the model at `root`, whose place another one has taken, with its members.

    One that is read by this very operation stays.
    """
    root = root.absolute()
    if not root.is_file() or root.is_symlink() or _is_read(root):
        return
    former = [name for name in _member_names(root, members) if owns(name)]
    journal = _Journal(root, former) if former else None
    gone = False
    try:
        root.unlink()
        gone = _remove(root, former, set(), members)
    except OSError as error:
        raise write_failure(error, str(root)) from error
    finally:
        if journal is not None:
            journal.close(keep=not gone and not os.path.lexists(root))
    sync_name(root)


def _is_read(path: Path) -> bool:
    try:
        refuse_input(path)
    except InvalidInput:
        return True
    return False


def _member_names(root: Path, members: Members) -> list[str]:
    """Return the names of the members of the set in place; none where there is no readable one."""
    if not os.path.lexists(root):
        return []
    try:
        with aside():
            return [name for name in members(root) if _is_plain(name) and name != root.name]
    except (Error, OSError):
        return []


def _is_plain(name: str) -> bool:
    return bool(name) and name not in {".", ".."} and "/" not in name and "\0" not in name


def _remove(root: Path, former: Iterable[str], kept: set[str], members: Members) -> bool:
    """Remove files that no root in the folder names any more; tell whether all are gone."""
    doomed = [name for name in former if name not in kept and name != root.name]
    if doomed:
        with suppress(OSError):
            for other in root.parent.iterdir():
                if other != root and other.suffix == root.suffix and other.is_file():
                    kept = kept | set(_member_names(other, members))
    gone = True
    for name in doomed:
        path = root.with_name(name)
        if name in kept or path.is_symlink() or not path.is_file():
            continue
        try:
            refuse_input(path)
            path.unlink()
        except InvalidInput:  # it is read by this very operation
            continue
        except OSError:
            gone = False
    return gone


class _Journal:
    """The names that a writer makes and those it will remove, for whoever clears up after it."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self.path = temporary(root, "set")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            self._descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise write_failure(error, str(root)) from error
        try:
            locks.take(self._descriptor)
            text = memoryview(json.dumps(sorted(set(names))).encode("utf-8", "surrogateescape"))
            while text:
                text = text[os.write(self._descriptor, text) :]
            os.fsync(self._descriptor)
            sync_folder(root.parent, root)
        except BaseException as error:
            self.close(keep=False)
            if isinstance(error, OSError):
                raise write_failure(error, str(root)) from error
            raise

    def close(self, *, keep: bool) -> None:
        """Let go of the journal, and remove it unless something is left to be cleared."""
        if not keep:
            with suppress(OSError):
                self.path.unlink()
        os.close(self._descriptor)


def sweep(root: Path, members: Members, owns: Owns) -> None:
    """Clear what writers of the set at `root` left when they died: files that no root names."""
    prefix = f".{shorten(root.name)}."
    with suppress(OSError):
        for path in root.parent.iterdir():
            middle = path.name[len(prefix) : -len(".set")]
            ours = path.name == f"{prefix}{middle}.set" and len(middle) == 16
            if ours and path.is_file() and locks.is_abandoned(path):
                _clear(root, path, members, owns)


def _clear(root: Path, journal: Path, members: Members, owns: Owns) -> None:
    try:
        if journal.stat().st_size > _MOST:
            return
        text = journal.read_bytes()
        with aside():
            current = set(members(root)) if os.path.lexists(root) else set()
    except (Error, OSError):
        return  # as long as the root cannot be read, nothing tells what is left over
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = []  # its writer died while writing it, before any of the files had a name
    if isinstance(names, list):
        plain = [name for name in names if isinstance(name, str) and owns(name)]
        if _remove(root, plain, current, members):
            with suppress(OSError):
                journal.unlink()


# ----------------------------------------------------------------------------------------- folders


@contextmanager
def publish_folder(path: str | os.PathLike[str], *, overwrite: bool, owns: Owns) -> Iterator[Path]:
    """Give an empty folder that becomes `path` when the block ends without an exception.

    A folder that is there already is replaced as a whole, at once where the system can exchange
    names. `owns` tells by its name what in it is of the kind that is written: a folder that holds
    anything else is refused, since that would be lost.

    Raises:
        InvalidInput: when `path` is no folder, holds something else, is not empty and `overwrite`
            is false (code ``exists``), or holds a file that is read (``same-file``).
        ReadFailed: when the system refuses. With code ``not-durable`` the new folder stands, and
            the old one is removed by the next writer.
    """
    goal = Path(path).absolute()
    _restore(goal)
    if os.path.lexists(goal):
        _require_replaceable(goal, owns, overwrite=overwrite)
    made, descriptor = _make_beside(goal, 0o777)
    is_kept = False
    try:
        locks.take(descriptor)
        yield made
        for base, _, _ in os.walk(made):
            sync_folder(Path(base), goal)
        _exchange(made, goal)
        is_kept = True  # the old folder, as long as it may come back
        sync_name(goal)
        is_kept = False
    except ReadFailed as error:
        if error.code == "not-durable" and not is_kept:  # a file inside: nothing stands at `goal`
            raise write_failure(cast("OSError", error.__cause__), str(goal)) from error
        raise
    finally:
        if not is_kept:
            shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def scratch(goal: Path) -> Iterator[Path]:
    """Give a folder beside `goal` for what leads to it; it goes with the block.

    What a writer of `goal` left that died in such a block is cleared first.

    Raises:
        ReadFailed: when the system refuses.
    """
    goal = goal.absolute()
    _restore(goal)
    made, descriptor = _make_beside(goal, 0o700)
    try:
        locks.take(descriptor)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


def _make_beside(goal: Path, mode: int) -> tuple[Path, int]:
    """Make a folder of a temporary name beside `goal`, and open it."""
    made = temporary(goal)
    try:
        made.mkdir(mode)
        return made, os.open(made, os.O_RDONLY)
    except OSError as error:
        raise write_failure(error, str(goal)) from error


def _require_replaceable(goal: Path, owns: Owns, *, overwrite: bool) -> None:
    if not goal.is_dir() or goal.is_symlink():
        raise InvalidInput("not a folder", code="not-a-folder", path=str(goal))
    refuse_input(goal)
    names = sorted(each.name for each in goal.iterdir())
    if names and not overwrite:
        raise InvalidInput("the folder is not empty", code="exists", path=str(goal), hint=OVERWRITE)
    strays = [name for name in names if not (owns(name) or _is_abandoned(goal / name))]
    if strays:
        raise InvalidInput(
            "the folder holds something else, which would be lost",
            code="exists",
            path=str(goal),
            found=quoted(strays[0]),
        )


_OURS: Final = re.compile(r"\..+\.[0-9a-f]{16}\.(partial|set)", re.DOTALL)


def _is_abandoned(path: Path) -> bool:
    """Tell whether `path` is what a writer that is gone could not remove."""
    return bool(_OURS.fullmatch(path.name)) and path.is_file() and locks.is_abandoned(path)


def _exchange(made: Path, goal: Path) -> None:
    """Let `made` have the name `goal`; what had it gets the name of `made`, to be removed."""
    try:
        if not os.path.lexists(goal) or not any(goal.iterdir()):
            made.rename(goal)
        elif not exchange(made, goal):
            old = made.with_suffix(".replaced")
            goal.rename(old)
            try:
                made.rename(goal)
            except OSError:
                old.rename(goal)
                raise
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise write_failure(error, str(goal)) from error


def exchange(a: Path, b: Path) -> bool:
    """Exchange two names in one step; False where the system cannot."""
    try:
        import ctypes

        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, ImportError, OSError, TypeError):
        return False
    here = ctypes.c_int(_AT_FDCWD)
    done = rename(here, os.fsencode(a), here, os.fsencode(b), ctypes.c_uint(_RENAME_EXCHANGE))
    if done == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(b))


_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_CANNOT: Final = frozenset(
    {22, 38, 95}
)  # EINVAL, ENOSYS, EOPNOTSUPP: not this kernel or filesystem


def _restore(goal: Path) -> None:
    """Clear what a writer of the folder `goal` left when it died, and bring back what it moved."""
    prefix = f".{shorten(goal.name)}."
    with suppress(OSError):
        for path in sorted(goal.parent.iterdir(), reverse=True):  # `.replaced` before `.partial`
            middle, _, kind = path.name[len(prefix) :].partition(".")
            ours = path.name.startswith(prefix) and len(middle) == 16 and path.is_dir()
            if ours and kind in {"replaced", "partial"} and locks.is_abandoned(path):
                if kind == "replaced" and not os.path.lexists(goal):
                    path.rename(goal)
                else:
                    shutil.rmtree(path, ignore_errors=True)
