"""A source over bytes in memory, for tests of conversations: it counts, and is strict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorark.core.model import Span
from tensorark.errors import ReadFailed


class Memory:
    """Serves ``{None: opened file, label: shard}`` and records what was asked for.

    `round_trips` counts calls of `read`, `spans` lists every span in order, `sized` every label
    whose size was asked for.
    """

    def __init__(self, files: Mapping[str | None, bytes] | bytes) -> None:
        self.files = {None: files} if isinstance(files, bytes) else dict(files)
        self.round_trips = 0
        self.spans: list[Span] = []
        self.sized: list[str | None] = []

    def size(self, file: str | None = None) -> int:
        self.sized.append(file)
        return len(self._file(file))

    def read(self, spans: Sequence[Span]) -> Sequence[memoryview]:
        self.round_trips += 1
        self.spans += spans
        return [self._slice(span) for span in spans]

    @property
    def bytes_read(self) -> int:
        return sum(span.length for span in self.spans)

    def _file(self, label: str | None) -> bytes:
        if label not in self.files:
            raise ReadFailed("no such file", code="missing-shard" if label else "missing-file")
        return self.files[label]

    def _slice(self, span: Span) -> memoryview:
        data = self._file(span.file)
        if span.offset < 0 or span.length < 0 or span.end > len(data):
            raise ReadFailed(
                "short read",
                code="short-read",
                offset=span.offset,
                expected=span.end,
                found=len(data),
                path=span.file,
            )
        return memoryview(data)[span.offset : span.end]
