"""What sources share: the check of a range against a real size, and bytes that lie in memory.

Must never allocate or read before the range has been checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tensorark.core.model import Span
from tensorark.errors import InvalidInput, ReadFailed

if TYPE_CHECKING:
    from typing_extensions import Buffer


class HeldBytes:
    """Bytes in memory for a file under a label, as `OpenFile` is one on the disk."""

    __slots__ = ("_view", "path", "size")

    is_mapped = True
    """Whether reads are views."""

    def __init__(self, label: str, data: Buffer) -> None:
        self.path = label
        self._view = octets(data).toreadonly()
        self.size = len(self._view)

    def recheck(self) -> None:
        """Check nothing: nobody changes these."""

    def view(self, span: Span) -> memoryview:
        """Return the bytes of `span`."""
        within(span, self.size)
        return self._view[span.offset : span.end]

    def passing(self, span: Span) -> Iterator[memoryview]:
        """Yield the bytes of `span`, if there are any."""
        if span.length:
            yield self.view(span)

    def scatter(self, offset: int, buffers: Sequence[memoryview]) -> None:
        """Fill `buffers`, one after the other, with the bytes from `offset` on."""
        for buffer in buffers:
            buffer[:] = self.view(Span(offset, buffer.nbytes))
            offset += buffer.nbytes

    def lend(self, span: Span) -> memoryview | None:
        """Return None: there is no file to map."""
        within(span, self.size)
        return None

    def evict(self, span: Span) -> None:
        """Keep them: they cannot be read again."""


def within(span: Span, size: int, path: str | None = None) -> None:
    """Check that `span` lies inside a file of `size` bytes.

    Raises:
        InvalidInput: for a negative offset or length, which no file can ask for.
        ReadFailed: when the file ends before the span does (code ``short-read``).
    """
    if span.offset < 0 or span.length < 0:
        raise InvalidInput(
            "a span has a negative offset or length",
            code="span",
            path=path,
            found=f"{span.offset} + {span.length}",
        )
    if span.offset + span.length > size:
        raise short_read(span.offset, span.length, max(0, size - span.offset), path)


def short_read(offset: int, wanted: int, found: int, path: str | None) -> ReadFailed:
    """Describe a file that ends before the bytes that were asked for."""
    return ReadFailed(
        "the file ends before the bytes that were asked for",
        code="short-read",
        path=path,
        offset=offset,
        expected=f"{wanted} bytes",
        found=found,
    )


def missing_shard(label: str, path: str | None = None) -> ReadFailed:
    """Describe a shard that is not where the catalog says it should be."""
    return ReadFailed(
        "a shard of this file is missing",
        code="missing-shard",
        path=path,
        where=("shards", label),
        hint="keep the shards in the folder of the file that names them",
    )


def octets(buffer: Buffer) -> memoryview:
    """Return the bytes of `buffer` as a flat view.

    Raises:
        InvalidInput: when it is no buffer, not contiguous, or of a type that is not native.
    """
    try:
        view = memoryview(buffer)
        if view.ndim == 1 and view.format == "B" and view.contiguous:
            return view
        return view.cast("B") if view.nbytes else memoryview(b"")
    except (TypeError, ValueError, BufferError) as error:
        raise InvalidInput(f"not a plain buffer: {error}", code="buffer") from error
