"""What lies in a container and in no entry of its index: blobs, and other bytes that are not zero.

No rule forbids either, so these are notes and not faults. Every real writer leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tensorark.core.conversation import Steps
from tensorark.core.model import Span
from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.formats.tensorbit.frame import FIELDS, parse_header
from tensorark.formats.tensorbit.read import Record
from tensorark.formats.tensorbit.walk import FoundBlob, Search, extent
from tensorark.layouts.nm.rules import Pattern

MOST: Final = 100
"""Notes of a kind that are made: a hostile file has room for thousands."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Blobs without an entry, and other bytes that no entry speaks of and that are not zero."""

    orphans: tuple[FoundBlob, ...] = ()
    dirty: tuple[Span, ...] = ()


def gaps(record: Record) -> Iterator[Span]:
    """Yield every stretch of a container that no entry of its index speaks of, in order."""
    if record.kind != "tbm":
        return
    used = [(blob.offset, blob.end) for blob in record.blobs]
    used += [(span.offset, span.end) for span in record.others]
    end = 0
    for start, stop in [*sorted(used), (record.text.offset, record.size)]:
        if end < start:
            yield Span(end, start - end)
        end = max(end, stop)


def survey(record: Record, reading: Reading) -> Steps[None]:
    """Read every byte that no entry speaks of and gather what is worth a note."""
    reading.require(NOTES, (yield from survey_container(record)))


def survey_container(record: Record) -> Steps[Survey]:
    """Return what lies in a container and in no entry of its index."""
    orphans: list[FoundBlob] = []
    dirty: list[Span] = []
    for gap in gaps(record):
        search = Search(gap.end)
        at = yield from search.past_zeros(gap.offset)
        while at < gap.end and len(orphans) < MOST:
            if not (yield from search.is_blob(at)):
                dirty.append(Span(at, gap.end - at))
                break
            (data,) = yield [Span(at, FIELDS.size)]
            header = parse_header(data)
            orphans.append(FoundBlob(at, extent(at, header, gap.end), header))
            at = yield from search.past_zeros(orphans[-1].end)
    return Survey(tuple(orphans), tuple(dirty[:MOST]))


def describe_blob(blob: FoundBlob) -> str:
    """Say of a blob what its header says: weights, pattern, bytes."""
    pattern = str(Pattern(blob.header.n, blob.header.m)) if blob.header.m else "no mask"
    return f"{blob.header.weights} weights, {pattern}, in {blob.end - blob.offset} bytes"


@rule("tb.orphan", section="file", stage="content")
def orphan(doc: Survey) -> Iterator[Fault]:
    """Each blob of a container has an entry in its index."""
    for blob in doc.orphans:
        detail = f"a blob has no entry in the index: {describe_blob(blob)}"
        yield Fault((), detail, "an entry", None, blob.offset)


@rule("tb.gap-bytes", section="file", stage="content")
def gap_bytes(doc: Survey) -> Iterator[Fault]:
    """Bytes of a container that no entry speaks of are zero."""
    for span in doc.dirty:
        detail = f"bytes {span.offset} to {span.end} belong to no entry and are not zero"
        yield Fault((), detail, 0, None, span.offset)


NOTES: Final[tuple[Rule[Survey], ...]] = (orphan, gap_bytes)
