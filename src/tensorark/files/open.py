"""Opening files: the only place where format code meets I/O.

`open` finds out what a file is, drives the conversation that reads it and gives a `File`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tensorark.core.conversation import drive
from tensorark.core.limits import DEFAULT, Limits
from tensorark.core.model import Catalog, Span, Undescribed
from tensorark.core.rules import Reading
from tensorark.errors import Error, InvalidInput
from tensorark.files.file import File, PathLike
from tensorark.files.folder import entry_of, members_of
from tensorark.files.identify import HEAD, TAIL, identify
from tensorark.files.shards import Shards
from tensorark.formats.format import Format
from tensorark.io.inputs import note_files
from tensorark.io.local import Access, LocalSource
from tensorark.io.open_file import OpenFile
from tensorark.io.safe_names import below, beside


def open(  # noqa: A001 - the verb users know
    path: PathLike,
    *,
    io: Access = "auto",
    structural: bool = False,
    lenient: bool = False,
    limits: Limits = DEFAULT,
    store: PathLike | None = None,
    length: int | None = None,
) -> File:
    """Open a tensor file, the index of a shard set, or a folder that holds one of either.

    `io` is ``mmap``, ``pread`` or ``auto`` (mapping on local disks). `structural` leaves the rules
    of layout profiles out, for files whose profiles are broken; `lenient` lets pass what the public
    readers of a format let pass: in Tensorbit, which notes it in ``catalog.native.forgiven``, and
    in parts under `zt.zstd-seekable/1`. No payload byte is read.

    The shards of a `.zt` are looked for when they are first used: beside it, by name and by
    content, and in `store`, a folder that may also have files named ``<algorithm>/<hex>`` by their
    digests.

    With `length`, the first `length` bytes are opened as the file that they were: an older
    generation of a `.zt`, as ``diagnose(path).generations`` tells them.

    A file that is open already is given again, as it was opened, and stays the caller's to close.

    Raises:
        Rejected: when the file breaks a rule of its format, or is no tensor file.
        Unsupported: when it is of a format that is not read.
        InvalidInput: when the file is shorter than `length`, or opened already and `length` given.
        ReadFailed: when it, or one of its shards, is missing or cannot be read.
    """
    if isinstance(path, File):
        if length is not None:
            detail = "the file is opened already: open its path"
            raise InvalidInput(detail, code="length", path=path.path, found=length)
        note_files(path.paths)
        return path.lent()
    reading = Reading(limits, structural=structural, lenient=lenient, length=length)
    return _open(path, io, reading, store)


_STORE: Final[ContextVar[PathLike | None]] = ContextVar("store", default=None)


@contextmanager
def stored_in(folder: PathLike) -> Iterator[None]:
    """Let whatever is opened inside of the block look for its shards in `folder` too."""
    token = _STORE.set(folder)
    try:
        yield
    finally:
        _STORE.reset(token)


def open_with(path: PathLike, reading: Reading) -> File:
    """Open a path, or the file of an opened one anew, and judge it by `reading`.

    Raises:
        Error: as `open`.
    """
    if isinstance(path, File):
        return path.reopened(reading)
    return _open(path, "pread", reading)


def _open(path: PathLike, io: Access, reading: Reading, store: PathLike | None = None) -> File:
    store = _STORE.get() if store is None else store
    name = opened = os.fspath(path)
    if os.path.isdir(name):  # noqa: PTH112 - unlike that of `Path`, it never raises
        members = members_of(name)
        reading = replace(reading, members=members)
        opened = str(Path(name, members[0])) if members else entry_of(name)
    reading = replace(reading, name=Path(opened).name)
    source = LocalSource(opened, io=io, resolve=_Siblings(opened), length=reading.length)
    try:
        size = source.size()
        ends = (Span(0, min(size, HEAD)), Span(max(0, size - TAIL), min(size, TAIL)))
        head, tail = source.read(ends)
        format_ = identify(bytes(head), bytes(tail), size, opened)
        if reading.members and format_.folder is not None:
            format_ = format_.folder
        catalog = drive(format_.read(source.size, reading), source)
        if isinstance(catalog.tensors, Undescribed):
            catalog.tensors.path = opened
        source = _resolving(source, format_, catalog, store)
    except BaseException as error:
        source.close()
        if isinstance(error, Error):
            error.located(opened)
        raise
    file = File(
        name if reading.members else opened,
        source,
        format_,
        catalog,
        io=io,
        reading=reading,
        store=store,
        reopen=_open,
    )
    note_files(file.paths)
    return file


def _resolving(
    source: LocalSource, format_: Format, catalog: Catalog, store: PathLike | None
) -> LocalSource:
    """Return a source that finds the shards which a catalog declares, and judges them."""
    if not catalog.files:
        return source
    root = source.path.absolute()
    if format_.continuation is not None:
        return source.resolving(_CheckedSibling(root.parent, format_.continuation(catalog)))
    if format_.judge_shard is None:
        return source
    return source.resolving(
        Shards(
            root=root,
            expected=catalog.shards,
            judge=format_.judge_shard,
            store=None if store is None else Path(store).absolute(),
        )
    )


@dataclass(frozen=True, slots=True)
class _CheckedSibling:
    """Finds the file `label` in `folder`, a neighbor that is judged first; picklable if `judge` is.

    `judge(label, head, size)` is given its first 64 bytes, or fewer, and raises when it is another
    file than the one that was meant.
    """

    folder: Path
    judge: Callable[[str, bytes, int], None]

    def __call__(self, label: str) -> Path:
        """Return the path of the file `label`, which was judged.

        Raises:
            ReadFailed: when it is missing (code ``missing-file``) or cannot be read.
            Rejected: when it is another file, or the label is no file name.
        """
        path = beside(self.folder, label)
        opened = OpenFile(path, mapped=False)
        head = opened.view(Span(0, min(64, opened.size)))
        try:
            self.judge(label, bytes(head), opened.size)
        except Error as error:
            error.located(str(path))
            raise
        return path


class _Siblings:
    """Finds the files that one file names in its own folder; picklable."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()

    def __call__(self, label: str) -> Path:
        """Return the path of the file that is called `label`."""
        if "/" in label:  # only a Tensorbit manifest may name files in folders below its own
            return below(self._path.parent, label)
        return beside(self._path.parent, label)
