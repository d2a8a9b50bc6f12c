"""Files on disk as a source: the file that was opened and the shards it names.

Owns the choice between mapping and reading. Must never turn a label into a path by itself: the
caller's `resolve` does, with `tensorark.io.safe_names`.
"""

from __future__ import annotations

import mmap
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, runtime_checkable

from tensorark.core.model import Span
from tensorark.errors import InvalidInput, ReadFailed
from tensorark.io.filesystem import filesystem, is_remote
from tensorark.io.inputs import may_map
from tensorark.io.open_file import OpenFile
from tensorark.io.source import HeldBytes, missing_shard, octets, within

if TYPE_CHECKING:
    from typing_extensions import Buffer

Access = Literal["auto", "mmap", "pread"]
Resolve = Callable[[str], Path]


@runtime_checkable
class ShardResolver(Protocol):
    """A `Resolve` for shards that are known by size and digest, and not by name alone."""

    def __call__(self, label: str) -> Path:
        """Return the path of the shard `label`."""
        ...

    def absent(self, labels: Iterable[str]) -> set[str]:
        """Return those of `labels` of which nothing is there, by one look at the folder."""
        ...

    def prove(self, label: str, opened: OpenFile) -> None:
        """Require an opened file to be the shard `label`, by its digest."""
        ...


class LocalSource:
    """The file at `path` and its shards, a `core.conversation.Source`; safe to use from threads.

    `io` is ``mmap`` (views of a mapping; falls back to ``pread`` where mapping is refused),
    ``pread`` (every read is a call into fresh memory) or ``auto``: ``pread`` on network and FUSE
    filesystems, else ``mmap``. The bytes are the same. `resolve` finds the path of a shard by its
    label; shards are opened when first asked for. With `length`, so many first bytes are the file.

    Pickles as its arguments and reopens by path. Views stay readable after `close`.
    """

    __slots__ = ("_absolute", "_files", "_io", "_length", "_proven", "_proving", "_resolve", "path")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        io: Access = "auto",
        resolve: Resolve | None = None,
        length: int | None = None,
    ) -> None:
        if io not in ("auto", "mmap", "pread"):
            expected = "auto, mmap or pread"
            raise InvalidInput("no such way to read", code="io", expected=expected, found=io)
        _refuse_url(os.fspath(path))
        self.path = Path(path)
        self._io: Access = io
        self._resolve = resolve
        self._absolute = self.path.absolute()  # still right when the process changes its folder
        entry = self._open(self.path)
        entry.path = os.fspath(self._absolute)
        if length is not None:
            entry.cut(length)
        self._length = length
        self._proven: set[OpenFile] = set()
        self._proving = threading.Lock()  # held by who passes bytes on, never by a plain read
        # Only ever grows, and only by `setdefault`: no lock that a fork could leave behind.
        self._files: dict[str | None, OpenFile | HeldBytes] | None = {None: entry}

    def __reduce__(self) -> tuple[object, ...]:
        self._open_files()
        reopen = partial(LocalSource, io=self._io, resolve=self._resolve, length=self._length)
        return (reopen, (self._absolute,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files; a mapping goes with its last view. Closing twice is allowed."""
        self._files = None

    def resolving(self, resolve: Resolve) -> LocalSource:
        """Return a source of the same open files that finds shards by `resolve`."""
        return self._again(dict(self._open_files()), resolve)

    def lent(self) -> LocalSource:
        """Return a source of the same open files; closing it leaves this one open.

        Its reads are calls where nothing may be mapped, whether or not this one is.
        """
        files = self._open_files()
        if not may_map():
            files = {
                label: each.by_calls() if isinstance(each, OpenFile) else each
                for label, each in list(files.items())
            }
        return self._again(files, self._resolve)

    def standing(self) -> None:
        """Check that the opened file still lies where it was opened.

        Raises:
            ReadFailed: when another file took its place, or none (code ``changed``).
        """
        entry = self._file(None)
        if isinstance(entry, OpenFile):
            entry.standing()

    def holding(self, images: Mapping[str, Buffer]) -> LocalSource:
        """Return a source of the same open files that has `images` as well, by label, in memory."""
        files = dict(self._open_files())
        files.update({label: HeldBytes(label, data) for label, data in images.items()})
        return self._again(files, self._resolve)

    def _again(
        self, files: dict[str | None, OpenFile | HeldBytes], resolve: Resolve | None
    ) -> LocalSource:
        again = object.__new__(LocalSource)
        again.path, again._absolute = self.path, self._absolute
        again._io, again._resolve, again._files = self._io, resolve, files
        again._length = self._length
        again._proven, again._proving = self._proven, self._proving
        return again

    def path_of(self, file: str | None = None) -> Path:
        """Return where the file, or the shard labeled `file`, lies.

        Raises:
            ReadFailed: when the shard is missing (code ``missing-shard``).
        """
        return Path(self._file(file).path)

    def size(self, file: str | None = None) -> int:
        """Return the size in bytes that the file, or the shard labeled `file`, had when opened.

        Raises:
            ReadFailed: when the shard is missing (code ``missing-shard``).
        """
        return self._file(file).size

    def absent(self, labels: Iterable[str]) -> set[str]:
        """Return those of `labels` whose shards are certainly missing, without a search for each.

        A file may name very many.
        """
        if not isinstance(self._resolve, ShardResolver):
            return set()
        return self._resolve.absent(labels) - self._open_files().keys()

    def read(self, spans: Sequence[Span]) -> list[memoryview]:
        """Return the bytes of each span, read-only: views of the mapping or fresh reads.

        Raises:
            ReadFailed: when a file ends too early (code ``short-read``), was changed since it was
                opened (``changed``), or a shard is missing (``missing-shard``).
        """
        known = self._files or self._open_files()
        if len(spans) == 1:  # as a rule: a part of a tensor
            span = spans[0]
            entry = known.get(span.file) or self._file(span.file)
            entry.recheck()
            view = entry.view(span)
            if not entry.is_mapped:
                entry.recheck()
            return [view]
        opened = [self._file(span.file) for span in spans]
        files = list(dict.fromkeys(opened))
        for each in files:
            each.recheck()
        views = [each.view(span) for each, span in zip(opened, spans, strict=True)]
        for each in files:
            if not each.is_mapped:
                each.recheck()
        return views

    def passing(self, span: Span) -> Iterator[memoryview]:
        """Yield the bytes of `span` in pieces, read-only, for who is done with each of them soon.

        They stay valid, but whoever keeps them keeps more memory than their bytes take.

        Raises:
            ReadFailed: as `read` does.
        """
        return self._file(span.file).passing(span)

    @property
    def is_mapped(self) -> bool:
        """Whether reads of the opened file are views of a mapping."""
        return self._file(None).is_mapped

    def readinto(self, span: Span, buffer: Buffer) -> None:
        """Fill `buffer`, which must be exactly as long as `span`."""
        target = octets(buffer)
        if target.readonly or target.nbytes != span.length:
            raise InvalidInput(
                "a buffer to read into must be writable and as long as the span",
                code="buffer",
                expected=span.length,
                found=target.nbytes,
            )
        opened = self._file(span.file)
        within(span, opened.size, opened.path)
        opened.scatter(span.offset, [target])
        opened.recheck()

    def scatter(self, file: str | None, offset: int, buffers: Sequence[memoryview]) -> None:
        """Fill `buffers` in order with the bytes of `file` from `offset` on.

        Whoever calls this calls `recheck` in the end; a short read is noticed at once.
        """
        self._file(file).scatter(offset, buffers)

    def recheck(self) -> None:
        """Check that no open file was changed since it was opened.

        Raises:
            ReadFailed: when one was (code ``changed``).
        """
        for opened in list(self._open_files().values()):
            opened.recheck()

    def copy_on_write(self, span: Span) -> memoryview | None:
        """Return a writable view of `span` whose changes never reach the file, without copying.

        None when the file is not mapped; the caller then copies. Two views never share a byte, so
        a change in one is not seen in the other.
        """
        opened = self._file(span.file)
        opened.recheck()
        return opened.lend(span)

    def prove(self, label: str) -> None:
        """Require the file labeled `label` to be the one that is meant, by all of its bytes.

        Does so once, and only where the opened file gives a digest of it.

        Raises:
            ReadFailed: when it is another file (code ``wrong-shard``), or cannot be read.
            Unsupported: when the digest is of an algorithm that is not known.
        """
        opened = self._file(label)
        if isinstance(self._resolve, ShardResolver) and isinstance(opened, OpenFile):
            with self._proving:  # every thread that reads this shard waits for one to hash it
                if opened not in self._proven:
                    self._resolve.prove(label, opened)
                    self._proven.add(opened)

    def evict(self, spans: Sequence[Span]) -> None:
        """Take the mapped pages of `spans` out of this process's memory; views stay valid."""
        for span in spans:
            if span.length >= mmap.PAGESIZE:  # only whole pages go
                self._file(span.file).evict(span)

    def _open_files(self) -> dict[str | None, OpenFile | HeldBytes]:
        files = self._files
        if files is None:
            raise InvalidInput("the file is closed", code="closed", path=str(self.path))
        return files

    def _file(self, label: str | None) -> OpenFile | HeldBytes:
        files = self._open_files()
        opened = files.get(label)
        if opened is None:
            # Two threads may both open the shard; one of the two is kept, the other closes itself.
            opened = files.setdefault(label, self._open_shard(label or ""))
        return opened

    def _open_shard(self, label: str) -> OpenFile:
        if self._resolve is None:
            raise missing_shard(label, str(self.path))
        try:
            return self._open(self._resolve(label))
        except LookupError as error:
            raise missing_shard(label, str(self.path)) from error
        except ReadFailed as error:
            if error.code == "missing-file":
                raise missing_shard(label, error.path) from error
            error.where = error.where or ("shards", label)
            raise

    def _open(self, path: Path) -> OpenFile:
        # Whoever writes does not map: were the source cut meanwhile, its pages would be gone.
        mappable = self._io == "auto" and may_map() and not is_remote(filesystem(path))
        return OpenFile(path, mapped=self._io == "mmap" or mappable)


_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def _refuse_url(path: str) -> None:
    """Refuse what is meant as an address: as a path it would lose a slash, and be missing."""
    if _URL.match(path) and not os.path.exists(path):  # noqa: PTH110 - unlike that of `Path`, total
        raise ReadFailed(
            "this is a URL, and only files are read",
            code="url",
            path=path,
            hint="download it first, and open the file",
        )
