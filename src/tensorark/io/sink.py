"""A file while it is written: one position that only moves on, staged in large aligned buffers.

Owns what is staged and where it belongs in the file. Must never make a system call for a small
write, and never write long padding as real zeros.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tensorark.errors import InvalidInput, ReadFailed
from tensorark.io.memory import allocate
from tensorark.io.source import octets
from tensorark.io.writer import PAGE, Piece, Writer, write_failure

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer

_FIRST: Final = 1 << 20  # a file that fits in here costs neither a thread nor large pages
# Shorter padding is cheaper to write than to leave out; and a hole must hold a whole page.
_HOLE: Final = max(16 << 10, 2 * PAGE)
_CHUNK: Final = 1 << 20
_ZEROS: Final = memoryview(bytes(64 << 10))


class Sink:
    """Where a writer puts its bytes, one after the other; made by `tensorark.io.publish.publish`.

    Writing copies into a staging buffer and returns; a thread writes full buffers. Less than 32 MiB
    are used. An error of the system is raised by a later call. Not for use by several threads.
    """

    __slots__ = (
        "_cuts",
        "_descriptor",
        "_fill",
        "_is_closed",
        "_run",
        "_settled",
        "_stage",
        "_target",
        "_writer",
        "path",
    )

    def __init__(
        self, path: Path, target: Path, descriptor: int, *, direct: bool, start: int = 0
    ) -> None:
        """Write the file `descriptor` from `start` on, a multiple of `PAGE`; never before it."""
        self.path = path
        self._target = str(target)
        self._descriptor = descriptor
        self._writer = Writer(str(path), self._target, descriptor, direct=direct)
        self._stage = allocate(_FIRST)
        self._fill = 0
        # The stage holds stretches of the file with holes between them: (start in the stage, offset
        # in the file), both multiples of `PAGE`; the last one is being written.
        self._cuts = [(0, start)]
        self._run = 0  # bytes written since the last padding
        self._is_closed = False
        self._settled = False

    def tell(self) -> int:
        """Return the position: the size the file would have if it ended here."""
        start, offset = self._cuts[-1]
        return offset + self._fill - start

    def reserve(self, nbytes: int) -> None:
        """Check that the disk has room for `nbytes` more, holes not counted.

        Raises:
            ReadFailed: when it has not (code ``no-space``).
        """
        self._require_open()
        status = os.fstatvfs(self._descriptor)
        available = status.f_bavail * status.f_frsize
        if status.f_blocks and nbytes > available:
            raise ReadFailed(
                "the disk has no room for this file",
                code="no-space",
                path=self._target,
                expected=f"{nbytes} bytes",
                found=available,
            )

    def write(self, buffer: Buffer) -> None:
        """Append the bytes of `buffer`, which may change as soon as this returns."""
        data = octets(buffer)
        self._run += len(data)
        end = self._fill + len(data)
        if end <= len(self._stage):
            self._stage[self._fill : end] = data
            self._fill = end
            return
        self._require_open()
        while data:
            if self._fill == len(self._stage):
                self._turn()
            part = data[: len(self._stage) - self._fill]
            self._stage[self._fill : self._fill + len(part)] = part
            self._fill += len(part)
            data = data[len(part) :]

    def skip(self, length: int) -> None:
        """Append `length` zero bytes, as a hole when that is longer than the data before it.

        So the zeros really written are never more than the data.
        """
        self._require_open()
        _require(length >= 0, "a length is negative", length)
        if length >= _HOLE and length >= self._run:
            position = self.tell() + length
            self._zeros(-self._fill % PAGE)
            self._leap(position // PAGE * PAGE)
            self._zeros(position % PAGE)
        else:
            self._zeros(length)
        self._run = 0

    def rewind(self, offset: int) -> None:
        """Drop everything from `offset` on; costs nothing while that is still staged."""
        self._require_open()
        _require(0 <= offset <= self.tell(), "cannot rewind to there", offset)
        self._run = 0
        while len(self._cuts) > 1 and self._cuts[-1][1] > offset:
            self._fill = self._cuts.pop()[0]
        start, first = self._cuts[-1]
        if offset < first:
            self._restage(offset)
        elif offset < self.tell():
            self._fill = start + offset - first
            if self._fill == 0:  # a flush may have written the page that is now empty
                self._cut_file(offset)
        else:  # in the hole behind the stretch
            self.skip(offset - self.tell())

    def read(self, offset: int, length: int) -> bytearray:
        """Return a copy of `length` bytes that were written at `offset`, wherever they are now."""
        self._require_open()
        within = offset >= 0 and 0 <= length <= self.tell() - offset
        _require(within, "nothing was written there", offset)
        data = bytearray(length)
        view = memoryview(data)
        on_disk = min(length, self._cuts[0][1] - offset)
        if on_disk > 0:
            self._writer.drain()
            self._fetch(offset, view[:on_disk])
        at = max(0, bisect_right(self._cuts, offset, key=lambda cut: cut[1]) - 1)
        while at < len(self._cuts) and self._cuts[at][1] < offset + length:
            base, stretch = self._stretch(at)
            first, last = max(base, offset), min(base + len(stretch), offset + length)
            if first < last:
                view[first - offset : last - offset] = stretch[first - base : last - base]
            at += 1
        return data

    def same(self, a: int, b: int, length: int) -> bool:
        """Say whether the `length` bytes written at `a` equal those at `b`."""
        for done in range(0, length, _CHUNK):
            size = min(_CHUNK, length - done)
            if self.read(a + done, size) != self.read(b + done, size):
                return False
        return True

    def patch(self, pieces: Sequence[tuple[int, bytes]]) -> None:
        """Replace bytes that were written before, each at its offset: what is known afterwards."""
        if not self._settled:
            self.flush()
        for offset, data in pieces:
            within = 0 <= offset <= self.tell() - len(data)
            _require(within, "nothing was written there", offset)
            staged = self.tell() if self._settled else self._cuts[0][1]
            start = max(0, staged - offset)  # what lies behind is written again from the stage
            if start < len(data):
                first = max(offset - staged, 0)
                self._stage[first : first + len(data) - start] = data[start:]
            try:
                os.pwrite(self._descriptor, data, offset)
            except OSError as error:
                raise write_failure(error, self._target) from error

    def flush(self) -> None:
        """Bring everything into the file at `path`, to be read there; writing may go on."""
        self._require_open()
        self._writer.drain()
        self._writer.write(self._pieces())
        position = self.tell()
        tail = position % PAGE  # the page that is not full stays staged and is written again
        self._stage[:tail] = self._stage[self._fill - tail : self._fill]
        self._fill = tail
        self._cuts = [(0, position - tail)]
        self._cut_file(position)

    def settle(self) -> None:
        """Sync, then let go of thread and buffers: no more is written, but for a `patch`.

        So that a set of many files can be kept unpublished at a small price until all are whole.
        """
        self.sync()
        self._let_go()
        self._settled = True

    def sync(self) -> None:
        """Flush, and wait until the bytes are on the disk."""
        if not self._settled:
            self.flush()
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise write_failure(error, self._target) from error

    def close(self) -> None:
        """Stop writing and let go of everything, whether flushed or not."""
        if not self._is_closed:
            self._is_closed = True
            self._let_go()
            os.close(self._descriptor)

    def _let_go(self) -> None:
        self._writer.close()
        self._cuts = [(1, self.tell())]  # `tell` stays true,
        self._stage = memoryview(b"")
        self._fill = 1  # and no write takes the short way any more

    def _require_open(self) -> None:
        if self._is_closed or self._settled:
            raise InvalidInput("the file is closed", code="closed", path=self._target)

    def _stretch(self, at: int) -> Piece:
        """Return the offset and the staged bytes of stretch number `at`."""
        start, offset = self._cuts[at]
        end = self._cuts[at + 1][0] if at + 1 < len(self._cuts) else self._fill
        return offset, self._stage[start:end]

    def _pieces(self) -> list[Piece]:
        stretches = (self._stretch(at) for at in range(len(self._cuts)))
        return [(offset, data) for offset, data in stretches if data]

    def _turn(self) -> None:
        """Hand the full stage to the writer and go on in another one."""
        position = self.tell()
        self._writer.submit(self._stage, self._pieces())
        self._stage = self._writer.stage()
        self._fill = 0
        self._cuts = [(0, position)]

    def _leap(self, offset: int) -> None:
        """Begin a new stretch at `offset`; what lies between is a hole."""
        if self._fill == len(self._stage):
            self._turn()
        if self._cuts[-1][0] == self._fill:
            self._cuts.pop()  # nothing was written there
        self._cuts.append((self._fill, offset))

    def _zeros(self, length: int) -> None:
        while length:
            if self._fill == len(self._stage):
                self._turn()
            part = min(length, len(_ZEROS), len(self._stage) - self._fill)
            self._stage[self._fill : self._fill + part] = _ZEROS[:part]
            self._fill += part
            length -= part

    def _restage(self, offset: int) -> None:
        """Cut the file back to `offset` and stage the page it lies in."""
        self._writer.drain()
        base = offset // PAGE * PAGE
        self._stage[: offset - base] = bytes(offset - base)  # should it lie in a hole
        self._fetch(base, self._stage[: offset - base])
        self._cut_file(base)
        self._fill = offset - base
        self._cuts = [(0, base)]

    def _fetch(self, offset: int, view: memoryview) -> None:
        """Read from the file into `view`; what lies behind its present end is a hole, so zeros."""
        try:
            while view:
                part = os.pread(self._descriptor, min(len(view), _CHUNK), offset)
                if not part:
                    return
                view[: len(part)] = part
                view, offset = view[len(part) :], offset + len(part)
        except OSError as error:
            raise write_failure(error, self._target) from error

    def _cut_file(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise write_failure(error, self._target) from error


def _require(holds: bool, message: str, found: int) -> None:  # noqa: FBT001
    if not holds:
        raise InvalidInput(message, code="position", found=found)
