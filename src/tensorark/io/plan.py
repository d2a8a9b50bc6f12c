"""Where each span of a load goes in memory, and which reads bring it there.

Owns the layout of the destination and the cutting into reads: arithmetic only. Must never touch a
file or allocate a destination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorark.core.model import Span

ALIGNMENT: Final = 64  # a cache line, and the widest vector load
BUFFER: Final = 256 << 20  # a tensor that outlives the others keeps at most this much alive
BLOCK: Final = 4 << 20  # one read: large enough for any device, small enough to stay in cache
LEAST: Final = 1 << 20  # a shorter rest is read together with the block before it
PIECES: Final = 1024  # IOV_MAX of Linux and macOS

# Between neighbors that lie as far apart in memory as in the file, a gap is read along and wasted
# if it is small beside the data; elsewhere a gap is read into a scrap, as long as copying it costs
# less than another system call (about 3 µs).
KEPT_GAP: Final = 1 << 20
SCRAP: Final = 16 << 10

GAP: Final = -1  # the place of a piece that nobody wants


@dataclass(slots=True)
class Read:
    """Consecutive bytes of `file` from `offset` on, going to (place, length) `pieces` in order.

    A place is a position in the destination numbered `buffer`, or `GAP`.
    """

    file: str | None
    offset: int
    buffer: int
    pieces: list[tuple[int, int]] = field(default_factory=list)
    nbytes: int = 0

    def add(self, place: int, length: int) -> None:
        """Append one piece."""
        self.pieces.append((place, length))
        self.nbytes += length


@dataclass(slots=True)
class Plan:
    """Sizes of the destinations, the (buffer, place) of every span, and the reads."""

    buffers: list[int]
    places: list[tuple[int, int]]
    reads: list[Read]


def plan(spans: Sequence[Span]) -> Plan:
    """Lay out `spans`, which must have been checked against their files, in order of the file."""
    places = [(0, 0)] * len(spans)
    buffers: list[int] = [0]
    runs: list[Read] = []
    for file, order in _by_file(spans).items():
        run, end = None, 0
        for index in order:
            offset, length = spans[index].offset, spans[index].length
            cursor = buffers[-1]
            place, gap = -(-cursor // ALIGNMENT) * ALIGNMENT, offset - end
            kept = run is not None and _is_kept(cursor, gap, length)
            if kept:
                place = cursor + gap
            if cursor and place + length > BUFFER:
                buffers.append(0)
                run, place = None, 0
            places[index] = (len(buffers) - 1, place)
            buffers[-1] = place + length
            if run is None or not (kept or 0 <= gap <= SCRAP):
                run = Read(file, offset, len(buffers) - 1)
                runs.append(run)
                run.add(place, length)
            elif kept:
                start, before = run.pieces[-1]
                run.pieces[-1] = (start, before + gap + length)
                run.nbytes += gap + length
            else:
                if gap:
                    run.add(GAP, gap)
                run.add(place, length)
            end = offset + length
    return Plan(buffers, places, [read for run in runs for read in _cut(run)])


def _by_file(spans: Sequence[Span]) -> dict[str | None, list[int]]:
    """Return the indices of all spans that are not empty, by file and in order of the file."""
    files: dict[str | None, list[int]] = {}
    for index, span in enumerate(spans):
        if span.length:
            files.setdefault(span.file, []).append(index)
    for order in files.values():
        order.sort(key=lambda index: spans[index].offset)
    return files


def _is_kept(cursor: int, gap: int, length: int) -> bool:
    """Say whether the next span may lie as far behind `cursor` as it does in the file."""
    aligned = (cursor + gap) % ALIGNMENT == 0
    return aligned and 0 <= gap <= min(KEPT_GAP, max(ALIGNMENT - 1, length // 64))


def _cut(run: Read) -> Iterator[Read]:
    """Cut a run into reads of `BLOCK` bytes or `PIECES` pieces."""
    if run.nbytes <= BLOCK + LEAST and len(run.pieces) <= PIECES:
        yield run
        return
    left = run.nbytes
    read = Read(run.file, run.offset, run.buffer)
    for start, size in run.pieces:
        place, length = start, size
        while length:
            goal = left if left <= BLOCK + LEAST else BLOCK
            taken = min(length, goal - read.nbytes)
            read.add(place, taken)
            length -= taken
            place = GAP if place == GAP else place + taken
            if read.nbytes == goal or len(read.pieces) == PIECES:
                left -= read.nbytes
                yield read
                read = Read(run.file, read.offset + read.nbytes, run.buffer)
