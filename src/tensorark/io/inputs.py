"""What the running operation reads: outputs are never inputs.

Owns the files that an operation has opened, by what they are and not by how they are called. Every
reader notes them here, and `publish` asks before it makes anything. Outside of an operation nothing
is noted: who opens a file and writes another one by hand decides that alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tensorark.errors import Error, InvalidInput

_Id = tuple[int, int]


@dataclass(slots=True)
class _Inputs:
    """The files of an operation, what lists more of them, and whether it reads from mappings."""

    files: dict[_Id, str] = field(default_factory=dict)
    listing: list[Callable[[], Iterable[Path]]] = field(default_factory=list)
    maps: bool = True
    amended: set[_Id] = field(default_factory=set)


_CURRENT: Final[ContextVar[_Inputs | None]] = ContextVar("tensorark inputs", default=None)


@contextmanager
def operation(*, maps: bool = False) -> Iterator[None]:
    """Note what is read inside of the block; usable as a decorator.

    An operation inside of another one is part of it. It reads by calls, so that a source that is
    cut meanwhile is an error and not the end of the process; only one that `maps` and writes
    nothing reads from mappings, which saves copying what is hashed or compared.
    """
    outer = _CURRENT.get()
    noted = _Inputs() if outer is None else replace(outer)
    noted.maps = noted.maps and maps
    token = _CURRENT.set(noted)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def amending(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let the file `path` be replaced inside of the block: it is read to be written anew."""
    noted = _CURRENT.get()
    own = set(_ids(Path(path))) if noted is not None else set()
    if noted is not None:
        noted.amended |= own
    try:
        yield
    finally:
        if noted is not None:
            noted.amended -= own


@contextmanager
def aside() -> Iterator[None]:
    """Note nothing inside of the block: what is looked at there is what will be replaced."""
    token = _CURRENT.set(None if may_map() else _Inputs(maps=False))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def may_map() -> bool:
    """Tell whether files may be read from mappings now, rather than by calls."""
    noted = _CURRENT.get()
    return noted is None or noted.maps


def note(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Note a file that was opened to be read."""
    noted = _CURRENT.get()
    if noted is not None:
        noted.files[status.st_dev, status.st_ino] = os.path.abspath(path)  # noqa: PTH100 - no I/O


def note_path(path: str | os.PathLike[str]) -> None:
    """Note a file that is read by its name, such as a configuration."""
    with suppress(OSError, ValueError):
        note(os.stat(path), path)  # noqa: PTH116 - `Path` refuses some names


def note_files(paths: Callable[[], Iterable[Path]]) -> None:
    """Note the files that `paths` lists when something is to be written: shards, opened later."""
    noted = _CURRENT.get()
    if noted is not None:
        noted.listing.append(paths)


def note_listed() -> None:
    """Note what `note_files` was told of, as long as that can still be asked."""
    noted = _CURRENT.get()
    while noted is not None and noted.listing:
        with suppress(Error, OSError):
            for path in noted.listing.pop()():
                note_path(path)  # one that is missing hides none of the others


def refuse_input(target: Path) -> None:
    """Require that `target` is none of the files that are read, nor a folder that holds one.

    Raises:
        InvalidInput: when it is, under whatever name (code ``same-file``).
    """
    noted = _CURRENT.get()
    if noted is None:
        return
    note_listed()
    for own in _ids(target):
        if own in noted.amended:
            continue
        if own in noted.files or (target.is_dir() and _holds(target, noted.files.values())):
            raise InvalidInput(
                "the target is a file that is read; inputs are never written",
                code="same-file",
                path=str(target),
                found=noted.files.get(own),
            )


def _ids(target: Path) -> Iterator[_Id]:
    """Yield what `target` is, as a link and as what it leads to."""
    for look in (target.lstat, target.stat):
        with suppress(OSError, ValueError):
            status = look()
            yield status.st_dev, status.st_ino


def _holds(folder: Path, files: Iterable[str]) -> bool:
    for path in files:
        with suppress(OSError, ValueError):
            if any(parent.samefile(folder) for parent in Path(path).resolve().parents):
                return True
    return False
