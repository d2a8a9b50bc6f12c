"""`zt.zstd-seekable/1` in motion: decompressing any range of a part, and compressing one.

Owns threads and memory of both ways. Must never let an error of zstandard leave.

Bounds come before bytes (§8.1). The table is judged against the stored bytes and `decoded_length`,
then the headers of every frame that is wanted, and only then is memory taken, exactly as much as
was asked for. So what a hostile part can claim is bounded by what it stores: `decoded_length` by
the sum of the table, and every entry of the table by the blocks that lie there. A frame is
decompressed in one pass into a place of exactly its size; one that does not state its size is given
that of the table first, so that zstd needs no window of its own, whatever the header asks for.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import accumulate
from queue import Empty, SimpleQueue
from typing import Final

import xxhash
import zstandard

from tensorark.core.rules import Reading
from tensorark.encodings.encoding import Allocate, Encoding, StoredBytes
from tensorark.encodings.zstd.rules import (
    CONTENT_RULES,
    FOOTER,
    FOOTER_MAGIC,
    FOOTER_RULES,
    HEAD,
    HEAD_RULES,
    ID,
    MOST_FAULTS,
    SKIPPABLE_MAGIC,
    STRUCTURE_RULES,
    TABLE_RULES,
    Frame,
    Header,
    Table,
    parse_footer,
    parse_table,
    survey,
)
from tensorark.errors import InvalidInput, LimitExceeded, Rejected

_FIRST_READ: Final = 4096
"""Stored bytes that are read to find the table: most tables fit, so one read is enough."""

_RUN: Final = 1 << 20
"""Decoded bytes that are worth a thread's while: small frames are taken together."""

_SMALL: Final = 1024
"""Decoded bytes of a frame, below which handling it costs more than decoding it."""

_MOST_THREADS: Final = 8
"""Threads of one part; several parts may be at work."""

_MOST_ENTRIES: Final = ((1 << 32) - 1 - FOOTER.size) // 8
"""Entries that a table can have: its length is a 32-bit number."""


def open_part(stored: StoredBytes, nbytes: int, reading: Reading, allocate: Allocate) -> Part:
    """Read and judge the seek table of a part that decodes to `nbytes`.

    Raises:
        Rejected: when it breaks a rule.
        LimitExceeded: when it is cut into too many small frames.
    """
    first = min(stored.nbytes, _FIRST_READ)
    tail = stored.read(stored.nbytes - first, first)
    footer = parse_footer(
        tail, where=stored.where, offset=stored.offset, stored=stored.nbytes, nbytes=nbytes
    )
    stored.require(reading, FOOTER_RULES, footer)
    if footer.size > first:
        tail = stored.read(footer.start, footer.size)
    table = parse_table(footer, tail[len(tail) - footer.size :])
    stored.require(reading, HEAD_RULES, table)
    stored.require(reading, TABLE_RULES, table)
    most = reading.limits.small_frames
    if table.count > most and nbytes < table.count * _SMALL:
        raise LimitExceeded(
            f"the part is cut into frames of less than {_SMALL} bytes",
            path=stored.path,
            where=stored.where,
            expected=f"at most {most} of them",
            found=table.count,
        )
    return Part(stored, table, reading, allocate)


class Part:
    """An encoded part whose table was judged: a `tensorark.encodings.encoding.Decoder`.

    Keeps the last frame of which only a piece was wanted, for the piece that is wanted next.
    """

    __slots__ = ("_allocate", "_kept", "_reading", "_starts", "_stored", "_table", "is_checked")

    def __init__(
        self, stored: StoredBytes, table: Table, reading: Reading, allocate: Allocate
    ) -> None:
        self._stored = stored
        self._table = table
        self._reading = reading
        self._allocate = allocate
        self._starts = array("Q", accumulate(table.compressed, initial=0))
        self._kept: tuple[int, memoryview] = (-1, memoryview(b""))
        self.is_checked = True

    def read(self, start: int, length: int) -> memoryview:
        """Return decoded bytes [start, start + length); all of them as writable memory."""
        # Before the headers are read: a bomb has many.
        self._stored.require_range(self._reading, start, length, self._table.nbytes)
        end = start + length
        first, last = self._holding(start, end)
        if last == first + 1 and length < self._table.decompressed[first]:
            at = start - self._start_of(first)
            return self._keep(first)[at : at + length].toreadonly()
        return self._gather(first, last, start, end)

    def pieces(self) -> Iterator[memoryview]:
        """Yield the content of frame after frame; a few are decompressed ahead.

        When faults are gathered the frames behind a broken one are judged as well, and not given.
        """
        found = self._reading.gathered
        before = 0 if found is None else len(found)
        first: Rejected | None = None
        for content in self._contents():
            if isinstance(content, Rejected):
                first = first or content
                if found is None or len(found) - before >= MOST_FAULTS:
                    break
            elif first is None:
                yield content
        if first is not None:
            if found is not None:  # several threads have found them
                found[before:] = sorted(found[before:], key=lambda each: each.offset or 0)
            raise first

    def _contents(self) -> Iterator[memoryview | Rejected]:
        """Yield the content of runs of frames, or what is wrong with one."""
        step = max(1, _RUN // max(1, self._table.decompressed[0])) if self._table.count else 1
        runs = [(at, min(at + step, self._table.count)) for at in range(0, self._table.count, step)]
        threads = min(_threads(), len(runs))
        if threads < 2:
            yield from (self._try(*run) for run in runs)
            return
        with ThreadPoolExecutor(threads) as pool:
            ahead: deque[Future[memoryview | Rejected]] = deque()
            try:
                for run in runs:
                    ahead.append(pool.submit(self._try, *run))
                    if len(ahead) > threads:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:
                for each in ahead:
                    each.cancel()

    def _try(self, first: int, last: int) -> memoryview | Rejected:
        try:
            return self._run(first, last)
        except Rejected as error:
            return error

    def _run(self, first: int, last: int) -> memoryview:
        """Decompress the frames [first, last) into memory of their own, one after the other."""
        stored, start = self._survey(first, last), self._start_of(first)
        content = memoryview(bytearray(self._end_of(last - 1) - start))

        def place(index: int) -> memoryview:
            return content[self._start_of(index) - start : self._end_of(index) - start]

        self._fill(range(first, last), stored, self._starts[first], place, threads=1)
        return content

    def _keep(self, index: int) -> memoryview:
        """Return the content of a frame, decompressing it unless it was the last one kept."""
        kept, content = self._kept
        if kept != index:
            content = self._run(index, index + 1)
            self._kept = (index, content)
        return content

    def _gather(self, first: int, last: int, start: int, end: int) -> memoryview:
        """Decompress the frames [first, last), which hold [start, end), into one piece."""
        inner_first = first + (first < last and self._start_of(first) < start)
        inner_last = last - (inner_first < last and self._end_of(last - 1) > end)
        stored = self._survey(inner_first, inner_last)
        target = self._allocate(end - start)

        def place(index: int) -> memoryview:
            return target[self._start_of(index) - start : self._end_of(index) - start]

        self._fill(range(inner_first, inner_last), stored, self._starts[inner_first], place)
        for index in (*range(first, inner_first), *range(inner_last, last)):  # a piece of these
            base, content = self._start_of(index), self._keep(index)
            low, high = max(start, base), min(end, self._end_of(index))
            target[low - start : high - start] = content[low - base : high - base]
        return target

    def _start_of(self, index: int) -> int:
        """Return where the content of a frame begins: all before it are equally large."""
        return index * self._table.decompressed[0]

    def _end_of(self, index: int) -> int:
        return self._start_of(index) + self._table.decompressed[index]

    def _holding(self, start: int, end: int) -> tuple[int, int]:
        """Return the frames [first, last) that hold [start, end); for everything, all of them."""
        count = self._table.count
        if (start, end) == (0, self._table.nbytes):
            return 0, count
        if start == end:
            return 0, 0
        size = self._table.decompressed[0]
        if not size:
            return count - 1, count
        return min(start // size, count - 1), min(-(-end // size), count)

    def _survey(self, first: int, last: int) -> memoryview:
        """Return the stored bytes of the frames [first, last), whose headers were judged."""
        base = self._starts[first]
        stored = self._stored.read(base, self._starts[last] - base)
        for index in range(first, last):
            frame, _ = self._parse(index, stored, base)
            self._stored.require(self._reading, STRUCTURE_RULES, frame)
            if not frame.structure.is_checked:
                self.is_checked = False
        return stored

    def _parse(self, index: int, stored: memoryview, base: int) -> tuple[Frame, memoryview]:
        """Return a frame and its bytes, found in `stored` bytes that begin at `base`."""
        table, start, end = self._table, self._starts[index], self._starts[index + 1]
        data = stored[start - base : end - base]
        frame = Frame(
            where=table.where,
            index=index,
            start=table.offset + start,
            end=table.offset + end,
            size=table.decompressed[index],
            column=None if table.checksums is None else table.checksums[index],
            structure=survey(data),
            lenient=self._reading.lenient,
        )
        return frame, data

    def _fill(
        self,
        frames: range,
        stored: memoryview,
        base: int,
        place: Callable[[int], memoryview],
        threads: int | None = None,
    ) -> None:
        """Decompress `frames` to their places, in parallel, and judge what came out.

        They are parsed once more: to keep what the survey parsed would cost more than they store.
        """
        found: list[Frame] = []
        most = 1 if self._reading.gathered is None else MOST_FAULTS
        indexes = iter(frames)  # `next` of it is one step for the interpreter

        def work() -> None:
            engine = zstandard.ZstdDecompressor()
            for index in indexes:
                frame, data = self._parse(index, stored, base)
                failed = _decompress(engine, frame, data, place(index))
                if failed is not None:
                    found.append(failed)
                if len(found) >= most:
                    return

        threads = min(threads or _threads(), len(frames))
        if threads < 2:
            work()
        else:
            with ThreadPoolExecutor(threads) as pool:
                for each in [pool.submit(work) for _ in range(threads)]:
                    each.result()
        self._judge(sorted(found, key=lambda frame: frame.index))

    def _judge(self, found: Sequence[Frame]) -> None:
        """Raise for the first of the frames that failed, once all of them were gathered."""
        first: Rejected | None = None
        for frame in found:
            try:
                self._stored.require(self._reading, CONTENT_RULES, frame)
            except Rejected as error:
                first = first or error
        if first is not None:
            raise first


def _decompress(
    engine: zstandard.ZstdDecompressor, frame: Frame, data: memoryview, target: memoryview
) -> Frame | None:
    """Fill `target`, exactly as large as the content; return what was found where that fails."""
    structure = frame.structure
    try:
        if structure.header is None or structure.frames != 1 or structure.skippable:
            done = _read_all(engine, data, target)
        else:
            done = _read_one(engine, _state_size(data, structure.header, frame.size), target)
    except zstandard.ZstdError as error:
        return _diagnose(frame, data, str(error))
    if not done:
        return _diagnose(frame, data, "its content ends elsewhere than the table says")
    if frame.column is not None and frame.column != structure.checksum and not frame.lenient:
        return frame
    return None


def _read_one(
    engine: zstandard.ZstdDecompressor, data: bytes | memoryview, target: memoryview
) -> bool:
    """Decompress the one frame `data`, which states the size of `target`, in one pass."""
    if not target:
        nothing = engine.decompressobj()
        return not nothing.decompress(data) and nothing.eof
    with engine.stream_reader(data, closefd=False) as reader:
        return reader.readinto(target) == len(target)


def _read_all(engine: zstandard.ZstdDecompressor, data: memoryview, target: memoryview) -> bool:
    """Decompress frames that together have the size of `target`, skipping skippable ones."""
    with engine.stream_reader(data, read_across_frames=True, closefd=False) as reader:
        done = reader.readinto(target) if target else 0
        return done == len(target) and not reader.read(1)


def _state_size(data: memoryview, header: Header, size: int) -> bytes | memoryview:
    """Return a frame that states its size in the eight-byte field, if it stated none."""
    if header.content is not None:
        return data
    flags = bytes((data[4] | 0xC0,))
    middle, rest = data[5 : header.length], data[header.length :]
    return b"".join((data[:4], flags, middle, size.to_bytes(8, "little"), rest))


def _diagnose(frame: Frame, data: memoryview, reason: str) -> Frame:
    """Find out why a frame failed: decompress it again, counting and without its checksum."""
    structure = frame.structure
    if structure.checksum is None or structure.frames != 1 or structure.skippable:
        return replace(frame, error=reason)
    bare = b"".join((data[:4], bytes((data[4] & ~4,)), data[5:-4]))
    content = memoryview(bytearray(frame.size + 1))  # at most 16 MiB, as the table was judged
    try:
        with zstandard.ZstdDecompressor().stream_reader(bare, closefd=False) as reader:
            produced = reader.readinto(content)
    except zstandard.ZstdError as error:
        return replace(frame, error=str(error))
    if produced != frame.size:
        return replace(frame, produced=produced)
    computed = xxhash.xxh64_intdigest(content[:produced]) & 0xFFFFFFFF
    if computed == structure.checksum:
        return replace(frame, error=reason)
    return replace(frame, computed=computed)


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    return min(_MOST_THREADS, os.cpu_count() or 1)


class Compressor:
    """Compresses a part frame by frame, several at once: a `tensorark.encodings.encoding.Encoder`.

    Every frame but the last holds `size` bytes, states its size and carries its checksum; entries
    carry none. Few frames are in flight, so memory stays near twice `size` for each thread.
    """

    __slots__ = ("_ahead", "_entries", "_idle", "_level", "_piece", "_pool", "_size", "_threads")

    def __init__(self, level: int, size: int) -> None:
        self._level = level
        self._size = size
        self._piece = bytearray()
        self._threads = _threads()
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: deque[tuple[int, Future[bytes]]] = deque()
        self._idle: SimpleQueue[zstandard.ZstdCompressor] = SimpleQueue()
        self._entries = array("I")

    def write(self, data: memoryview) -> list[bytes]:
        """Take the next decoded bytes; return the frames that became ready, in order."""
        ready = []
        while data:
            if len(self._piece) == self._size:  # more follows: let a thread have it
                ready += self._submit()
            room = self._size - len(self._piece)
            self._piece += data[:room]
            data = data[room:]
        return ready

    def finish(self) -> list[bytes]:
        """Return the frames that are left, and the table."""
        last = self._compress(self._piece) if self._piece else None
        ready = [self._pop() for _ in range(len(self._ahead))]
        if last is not None:
            self._enter(last, len(self._piece))
            ready.append(last)
        if self._pool is not None:
            self._pool.shutdown()
        return [*ready, self._table()]

    def _submit(self) -> list[bytes]:
        piece, self._piece = self._piece, bytearray()
        if self._threads < 2:
            frame = self._compress(piece)
            self._enter(frame, len(piece))
            return [frame]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads)
        self._ahead.append((len(piece), self._pool.submit(self._compress, piece)))
        return [self._pop()] if len(self._ahead) > self._threads else []

    def _pop(self) -> bytes:
        size, future = self._ahead.popleft()
        frame = future.result()
        self._enter(frame, size)
        return frame

    def _enter(self, frame: bytes, size: int) -> None:
        self._entries.extend((len(frame), size))
        if len(self._entries) > 2 * _MOST_ENTRIES:
            hint = "larger frames"
            raise InvalidInput("too many frames for one seek table", code="frames", hint=hint)

    def _compress(self, piece: bytearray) -> bytes:
        try:
            engine = self._idle.get_nowait()
        except Empty:
            engine = zstandard.ZstdCompressor(
                level=self._level, write_checksum=True, write_content_size=True
            )
        frame = engine.compress(piece)
        self._idle.put(engine)
        return frame

    def _table(self) -> bytes:
        entries = self._entries
        if sys.byteorder == "big":
            entries.byteswap()
        count, body = len(entries) // 2, entries.tobytes()
        return b"".join(
            (
                HEAD.pack(SKIPPABLE_MAGIC, len(body) + FOOTER.size),
                body,
                FOOTER.pack(count, 0, FOOTER_MAGIC),
            )
        )


ENCODINGS: Final = (Encoding(id=ID, open=open_part, encode=Compressor),)
