"""One regular file, held open for positional reads and, where that is safe, mapped.

Owns the descriptor, the mapping and the memory of what the file looked like when it was opened.
Must never hand out a byte that was not checked against the file's present size: a mapping that
reaches past the end of its file kills the process.
"""

from __future__ import annotations

import logging
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tensorark.core.model import Span
from tensorark.errors import InvalidInput, LimitExceeded, ReadFailed, quoted
from tensorark.io.inputs import note
from tensorark.io.memory import LENT, allocate, lend, map_file
from tensorark.io.private_mapping import PrivateMapping
from tensorark.io.source import octets, short_read, within

_LARGE: Final = 1 << 20  # a read of this size is worth large pages of its own
_MAPPED: Final = 8 << 20  # bytes of a mapping that are passed on, and let go of, at once
_SMALL: Final = 64 << 10  # a read of this size is worth no memory that is used again
_NEAR: Final = 4 << 10  # bytes between two reads that are worth one call
_PAGE: Final = mmap.ALLOCATIONGRANULARITY
_BUFFERS_PER_CALL: Final = 1024  # IOV_MAX of Linux and macOS

_preadv: Callable[[int, Sequence[memoryview], int], int] | None = getattr(os, "preadv", None)
_log = logging.getLogger("tensorark")


class OpenFile:
    """An open file; it closes when the last reference to it goes.

    So a thread that still reads keeps the descriptor, and no other file can take its number.
    """

    __slots__ = (
        "_ahead",
        "_closing",
        "_descriptor",
        "_passed",
        "_private",
        "_stamp",
        "_view",
        "is_mapped",
        "path",
        "size",
    )

    def __init__(self, path: str | os.PathLike[str], *, mapped: bool) -> None:
        """Open `path`.

        Raises:
            ReadFailed: when it is missing (code ``missing-file``), no regular file
                (``not-a-file``), or refused by the system.
        """
        self.path = os.fspath(path)
        self._descriptor = -1
        self._closing = os.close  # kept here: at interpreter exit the module may be gone before us
        self._descriptor, status = _open_regular(self.path)
        note(status, self.path)
        self.size = status.st_size
        self._stamp = (status.st_size, status.st_mtime_ns)
        self._view = self._map() if mapped and self.size else None
        self.is_mapped = self._view is not None
        """Whether reads are views of a mapping."""
        self._private = PrivateMapping(self._descriptor, self.size)
        self._ahead, self._passed = (0, memoryview(b"")), 0

    def __del__(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                self._closing(self._descriptor)

    def cut(self, length: int) -> None:
        """Let the first `length` bytes be the file.

        Raises:
            InvalidInput: when it has fewer.
        """
        if not 0 <= length <= self.size:
            detail = "the file is not that long"
            expected = f"at most {self.size} bytes"
            raise InvalidInput(
                detail, code="length", path=self.path, expected=expected, found=length
            )
        self.size = length

    def by_calls(self) -> OpenFile:
        """Return the same open file without its mapping."""
        if self._view is None:
            return self
        again = object.__new__(OpenFile)
        again._descriptor = -1  # until there is one to close
        again._closing = self._closing
        again._descriptor = os.dup(self._descriptor)
        again.path, again.size, again._stamp = self.path, self.size, self._stamp
        again._view, again.is_mapped = None, False
        again._private = PrivateMapping(again._descriptor, self.size)
        again._ahead, again._passed = (0, memoryview(b"")), 0
        return again

    def standing(self) -> None:
        """Check that the path still leads to this file, and that it is what was opened.

        Raises:
            ReadFailed: when another file took its place, or none (code ``changed``).
        """
        self.recheck()
        try:
            here = os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))  # noqa: PTH116
        except OSError:
            here = False
        if not here:
            raise ReadFailed(
                "another file took the place of the opened one",
                code="changed",
                path=self.path,
                hint="open the file again",
            )

    def recheck(self) -> None:
        """Check, with one system call, that the file is still what was opened.

        A file that was replaced by a rename is another file; this one stays readable.

        Raises:
            ReadFailed: when it was cut, grew or was rewritten in place (code ``changed``).
        """
        try:
            status = os.fstat(self._descriptor)
        except OSError as error:
            raise self._failure(error) from error
        if (status.st_size, status.st_mtime_ns) != self._stamp:
            size = self._stamp[0]
            same = status.st_size == size
            raise ReadFailed(
                "the file was written to, or touched, while it was open: its time is another"
                if same
                else "the file changed while it was open",
                code="changed",
                path=self.path,
                expected=None if same else f"{size} bytes",
                found=None if same else status.st_size,
                hint="write a new file and rename it over the old one",
            )

    def view(self, span: Span) -> memoryview:
        """Return the bytes of `span`: a read-only view of the mapping, else a fresh read."""
        start, stop = span.offset, span.offset + span.length
        if not 0 <= start <= stop <= self.size:
            within(span, self.size, self.path)  # which says what is wrong
        if self._view is not None:
            return self._view[start:stop]
        if span.length >= _LARGE:
            target = allocate(span.length)
            self.scatter(span.offset, [target])
            return target.toreadonly()
        try:
            data = os.pread(self._descriptor, span.length, span.offset)
        except OSError as error:
            raise self._failure(error) from error
        if len(data) != span.length:
            raise self._cut(span.offset, span.length, len(data))
        return memoryview(data)

    def passing(self, span: Span) -> Iterator[memoryview]:
        """Yield the bytes of `span` in pieces, for who is done with them soon; see `recheck`.

        What is mapped does not stay in our memory. What is read goes into memory that is used again
        when its views are gone, or, where small spans follow each other, is read ahead.
        """
        within(span, self.size, self.path)
        if self._view is None and span.length < _SMALL:
            if span.length:
                yield self._passing_small(span)
            return
        step = LENT if self._view is None else _MAPPED
        for start in range(span.offset, span.end, step):
            piece = Span(start, min(step, span.end - start))
            self.recheck()
            if self._view is not None:
                yield self._view[piece.offset : piece.end]
                self.evict(piece)
                continue
            target = lend(piece.length)
            self.scatter(start, [target])
            self.recheck()
            yield target.toreadonly()

    def _passing_small(self, span: Span) -> memoryview:
        begin, ahead = self._ahead
        if not begin <= span.offset <= span.offset + span.length <= begin + len(ahead):
            begin = span.offset
            is_next = 0 <= begin - self._passed <= _NEAR
            length = min(_SMALL, self.size - begin) if is_next else span.length
            ahead = self.view(Span(begin, length))
            self.recheck()  # so these are the bytes of what was opened, whatever happens later
            self._ahead = begin, ahead
        self._passed = span.offset + span.length
        return ahead[span.offset - begin : self._passed - begin]

    def scatter(self, offset: int, buffers: Sequence[memoryview]) -> None:
        """Fill `buffers`, one after the other, with the bytes from `offset` on."""
        for first in range(0, len(buffers), _BUFFERS_PER_CALL):
            group = buffers[first : first + _BUFFERS_PER_CALL]
            wanted = sum([buffer.nbytes for buffer in group])
            done = self._read_into(offset, group)
            while done < wanted:  # a signal, or more than one call can carry
                more = self._read_into(offset + done, _after(group, done))
                if not more:
                    raise self._cut(offset, wanted, done)
                done += more
            offset += wanted

    def lend(self, span: Span) -> memoryview | None:
        """Return a private, writable view of `span`, or None when the file is not mapped."""
        within(span, self.size, self.path)
        if self._view is None:
            return None
        return self._private.view(span.offset, span.length)

    def evict(self, span: Span) -> None:
        """Let go of the resident pages that lie wholly inside `span`; they can be read again."""
        within(span, self.size, self.path)
        start = -(-span.offset // _PAGE) * _PAGE
        length = span.end // _PAGE * _PAGE - start
        if length <= 0 or self._view is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        mapping = self._view.obj
        if isinstance(mapping, mmap.mmap):
            with suppress(OSError):
                mapping.madvise(mmap.MADV_DONTNEED, start, length)

    def _map(self) -> memoryview | None:
        try:
            return map_file(self._descriptor, self.size)
        except (OSError, ValueError, OverflowError, MemoryError) as error:
            name = quoted(self.path, 1000)
            _log.warning("reading %s with calls, as it cannot be mapped: %s", name, error)
            return None

    def _read_into(self, offset: int, buffers: Sequence[memoryview]) -> int:
        try:
            if _preadv is not None:
                return _preadv(self._descriptor, buffers, offset)
            first = octets(buffers[0])
            data = os.pread(self._descriptor, min(first.nbytes, 1 << 30), offset)
            first[: len(data)] = data
            return len(data)
        except OSError as error:
            raise self._failure(error) from error

    def _cut(self, offset: int, wanted: int, found: int) -> ReadFailed:
        """Describe a short read: by the change that caused it, if there was one."""
        self.recheck()
        return short_read(offset, wanted, found, self.path)

    def _failure(self, error: OSError) -> ReadFailed:
        return ReadFailed(f"cannot read: {error.strerror or error}", path=self.path)


def _after(buffers: Sequence[memoryview], done: int) -> list[memoryview]:
    """Return what is left of `buffers` once their first `done` bytes are filled."""
    left = []
    for buffer in buffers:
        if done < buffer.nbytes:
            left.append(octets(buffer)[done:])
            done = 0
        else:
            done -= buffer.nbytes
    return left


def _open_regular(path: str) -> tuple[int, os.stat_result]:
    """Open a regular file without ever waiting: opening a pipe would block, a device may act."""
    try:
        status = Path(path).stat()
        if stat.S_ISREG(status.st_mode):
            flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
            descriptor = os.open(path, flags)
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                return descriptor, status
            os.close(descriptor)  # exchanged between the two calls
    except FileNotFoundError as error:
        raise ReadFailed("no such file", code="missing-file", path=path) from error
    except PermissionError as error:
        raise ReadFailed("we may not read this file", code="forbidden", path=path) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ReadFailed(f"cannot open: {reason}", path=path) from error
    raise ReadFailed(
        f"not a regular file but {_kind(status.st_mode)}", code="not-a-file", path=path
    )


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")


LARGEST: Final = 256 << 20
"""Bytes of a document that is read whole; the statement about a million tensors has some 150 MB."""


def read_bytes(path: str | os.PathLike[str], most: int = LARGEST) -> bytes:
    """Return a small file whole.

    Raises:
        LimitExceeded: when it has more than `most` bytes.
        ReadFailed: when it cannot be read.
    """
    opened = OpenFile(path, mapped=False)
    if opened.size > most:
        raise LimitExceeded(
            "the file is larger than such a file can be",
            code="limit",
            path=opened.path,
            expected=f"at most {most} bytes",
            found=opened.size,
        )
    return bytes(opened.view(Span(0, opened.size)))
