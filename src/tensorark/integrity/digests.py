"""Digests of parts and of whole files, in pieces and on all cores.

Owns which bytes a digest is over: decoded bytes for a part, every byte for a file, and for the
*rest* of a file those that lie in no raw blob. Memory stays near a few pieces for each thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import xxhash

from tensorark.core.model import Encoded, Part, Raw, Span, cut
from tensorark.core.progress import Progress
from tensorark.files import File
from tensorark.files.hashes import HASHES, hash_pieces
from tensorark.formats.zt.digest import Algorithm

BLOCK: Final = 16 << 20
"""Decoded bytes of a large part that share a digest of their own."""

_SEGMENT: Final = 4  # blocks that one thread takes at a time
_LARGEST: Final = 8 << 20
"""Bytes of a part that are taken in one piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDigests:
    """The digests of one part in hexadecimal: whole, by algorithm, and of its blocks (xxh3).

    A part that fits one block has none.
    """

    whole: dict[str, str]
    blocks: tuple[str, ...] = ()


def part_digests(
    file: File,
    part: Part,
    where: tuple[str | int, ...],
    algorithms: Sequence[str],
    block: int | None = None,
) -> PartDigests:
    """Digest the decoded bytes of a part by each of `algorithms`, and its blocks if asked for.

    Raises:
        ReadFailed: when the bytes cannot be had.
        Rejected: when they break a rule of their encoding.
        Unsupported: when the part is stored under an unknown encoding.
    """
    states = {each: HASHES[each]() for each in algorithms}
    blocks: list[str] = []
    state, room = xxhash.xxh3_64(), block or 0
    for chunk in file.pieces(part, where):  # whoever asks compares
        for each in states.values():
            each.update(chunk)
        if block is None or part.nbytes <= block:
            continue
        data = chunk
        while len(data):
            state.update(data[:room])
            taken = min(room, len(data))
            data, room = data[taken:], room - taken
            if not room:
                blocks.append(state.hexdigest())
                state, room = xxhash.xxh3_64(), block
    if block and part.nbytes > block and room < block:
        blocks.append(state.hexdigest())
    return PartDigests(
        whole={name: each.hexdigest() for name, each in states.items()}, blocks=tuple(blocks)
    )


def is_large(file: File, part: Part) -> bool:
    """Tell whether a part is taken piece by piece: it would take memory of its own, and much."""
    if part.nbytes <= _LARGEST:
        return False
    return not (file.is_mapped and isinstance(part.blob, Raw) and len(part.blob.spans) == 1)


def block_digests(
    file: File, part: Part, where: tuple[str | int, ...], blocks: range, block: int
) -> list[str]:
    """Digest some blocks of a part that can be read at any place (see `segments`)."""
    read = file.ranges(part, where)
    found = []
    for at in blocks:
        start, length = at * block, min(block, part.nbytes - at * block)
        found.append(xxhash.xxh3_64_hexdigest(read(start, length)))
        if isinstance(part.blob, Raw):
            file.source.evict(cut(part.blob.spans, start, length))
    return found


def segments(part: Part, block: int) -> list[range]:
    """Return the blocks of a raw part in groups that threads may take apart from each other."""
    if isinstance(part.blob, Encoded) or part.nbytes <= block:
        return []
    count = -(-part.nbytes // block)
    return [range(at, min(at + _SEGMENT, count)) for at in range(0, count, _SEGMENT)]


def span_digest(
    file: File,
    spans: Iterable[Span],
    algorithm: Algorithm,
    progress: Progress = lambda _done: None,
) -> str:
    """Digest the bytes of `spans`, one after the other, in hexadecimal.

    Raises:
        ReadFailed: when they cannot be had.
    """
    pieces = (piece for span in spans for piece in file.source.passing(span))
    return hash_pieces(pieces, algorithm, progress)


def label_digest(
    file: File,
    label: str | None,
    algorithm: Algorithm,
    progress: Progress = lambda _done: None,
) -> str:
    """Digest all of one file of a model, the opened one where `label` is None."""
    whole = Span(0, file.source.size(label), label)
    return span_digest(file, (whole,), algorithm, progress)


def rest_spans(file: File, labels: Sequence[str | None]) -> dict[str | None, list[Span]]:
    """Return for each file of a model the bytes that lie in no raw blob, in order."""
    held: dict[str | None, list[tuple[int, int]]] = {label: [] for label in labels}
    for tensor in file.catalog.tensors.values():
        for part in tensor.parts.values():
            if isinstance(part.blob, Raw):
                for span in part.blob.spans:
                    if span.file in held:
                        held[span.file].append((span.offset, span.end))
    return {
        label: list(_between(sorted(spans), file.source.size(label), label))
        for label, spans in held.items()
    }


def _between(spans: Iterable[tuple[int, int]], size: int, label: str | None) -> Iterator[Span]:
    reached = 0
    for start, end in (*spans, (size, size)):
        if start > reached:
            yield Span(reached, start - reached, label)
        reached = max(reached, end)


@contextmanager
def workers(threads: int | None) -> Iterator[ThreadPoolExecutor]:
    """Give a pool of threads; when the block fails, what has not begun is never begun."""
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown(wait=True)
