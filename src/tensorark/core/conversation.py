"""A reader is a conversation: it yields the spans it wants and is sent their bytes.

Owns the type of that conversation and the driver that answers it from a source. Each `yield` is one
round trip; the spans of one list are fetched together. Format code never sees a file.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol, TypeVar

from tensorark.core.model import Span

T = TypeVar("T")

Steps = Generator[Sequence[Span], Sequence[memoryview], T]


class Source(Protocol):
    """The whole contract of reading: sizes and exact byte ranges."""

    def size(self, file: str | None = None) -> int:
        """Return the size in bytes of the opened file, or of the shard labeled `file`."""
        ...

    def read(self, spans: Sequence[Span]) -> Sequence[memoryview]:
        """Return the bytes of each span, each exactly as long as asked.

        Raises:
            ReadFailed: when any byte cannot be had.
        """
        ...


def drive(steps: Steps[T], source: Source) -> T:
    """Answer the conversation `steps` from `source` and return what it concludes."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(source.read(wanted))
    except StopIteration as end:
        result: T = end.value
        return result
