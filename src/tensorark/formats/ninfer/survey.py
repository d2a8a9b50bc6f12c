"""What lies between the objects of an artifact (§5.3): gaps, slack, and bytes nobody refers to.

No rule forbids any of it, so these are notes and not faults; a regular writer leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tensorark.core.conversation import Steps
from tensorark.core.model import Span
from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.formats.ninfer.directory import Directory
from tensorark.formats.ninfer.frame import HEADER_SIZE, PAGE
from tensorark.layouts.ninfer.geometry import ALIGNMENT

_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Survey:
    """A directory, and where unreferenced bytes are not zero: a span and the first such byte."""

    directory: Directory
    dirty: tuple[Span, ...] = ()


def gaps(directory: Directory) -> Iterator[tuple[int, int]]:
    """Yield offset and length of every stretch of payload that no object holds, in order."""
    end = 0
    for offset, size in zip(directory.offsets, directory.sizes, strict=True):
        if offset > end:
            yield end, offset - end
        end = offset + size
    if directory.payload_bytes > end:
        yield end, directory.payload_bytes - end


def survey(directory: Directory, reading: Reading) -> Steps[None]:
    """Read every byte that no object holds and gather what is worth a note."""
    frame = directory.frame
    head = HEADER_SIZE + frame.json_bytes
    spans = [Span(head, frame.payload_start - head)]
    continuations = (each.path for each in directory.files if each.path is not None)
    spans.extend(Span(HEADER_SIZE, PAGE - HEADER_SIZE, path) for path in continuations)
    for offset, length in gaps(directory):
        spans.extend(directory.address.spans(offset, length))
    dirty = []
    for span in spans:
        for start in range(0, span.length, _CHUNK):
            length = min(_CHUNK, span.length - start)
            (data,) = yield (Span(span.offset + start, length, span.file),)
            body = bytes(data)
            if body.strip(b"\0"):
                place = span.offset + start + len(body) - len(body.lstrip(b"\0"))
                dirty.append(Span(place, span.offset + span.length - place, span.file))
                break
    reading.require(NOTES, Survey(directory, tuple(dirty)))


@rule("ninfer.gap-size", section="5.3", stage="content")
def gap_size(doc: Survey) -> Iterator[Fault]:
    """Between two objects lies no more than alignment needs, and nothing behind the last."""
    for offset, length in gaps(doc.directory):
        end = offset + length
        if end == doc.directory.payload_bytes:
            yield Fault((), f"{length} bytes of payload follow the last object", 0, length)
        elif length >= ALIGNMENT or end % ALIGNMENT:
            expected = f"fewer than {ALIGNMENT} bytes"
            yield Fault((), f"a gap lies at byte {offset} of the payload", expected, length)


@rule("ninfer.gap-bytes", section="5.3", stage="content")
def gap_bytes(doc: Survey) -> Iterator[Fault]:
    """Bytes that no object holds are zero, those behind the directory and the headers too."""
    for span in doc.dirty:
        name = f" of {span.file!a}" if span.file else ""
        detail = f"byte {span.offset}{name} belongs to nothing and is not zero"
        yield Fault((), detail, 0, None, None if span.file else span.offset)


NOTES: Final[tuple[Rule[Survey], ...]] = (gap_size, gap_bytes)
