"""From the logical payload to the files that hold it (§2.2, §11.2): prefix sums and intersections.

Owns the one mapping between logical offsets and spans of files. Pure: reads nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from tensorark.core.model import Span
from tensorark.errors import InvalidInput
from tensorark.formats.ninfer.frame import PAGE


@dataclass(frozen=True, slots=True)
class Address:
    """The files of a set in order: where the logical payload of each begins, and in which file.

    `starts` has one entry more than there are files: the last is the size of the payload. `labels`
    and `offsets` give for each file its label and the offset of its first payload byte.
    """

    starts: tuple[int, ...]
    labels: tuple[str | None, ...]
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, paths: Sequence[str | None], sizes: Sequence[int], entry_start: int) -> Self:
        """Make the address of files with these names and payload bytes, the entry first."""
        offsets = (entry_start, *[PAGE] * (len(paths) - 1))
        return cls((0, *accumulate(sizes)), tuple(paths), offsets)

    @property
    def payload_bytes(self) -> int:
        """Size of the logical payload."""
        return self.starts[-1]

    def spans(self, offset: int, length: int) -> tuple[Span, ...]:
        """Return where the logical bytes [offset, offset + length) lie, in order.

        Raises:
            InvalidInput: when the range leaves the payload; an empty one may lie at its end.
        """
        end = offset + length
        if not 0 <= offset <= end <= self.payload_bytes:
            raise InvalidInput(
                "the range leaves the payload",
                code="ninfer-range",
                section="11.2",
                expected=f"a range inside {self.payload_bytes} bytes",
                found=f"{offset} + {length}",
            )
        found = []
        # The last file that begins here: those before it with the same start have no payload.
        at = bisect_right(self.starts, offset) - 1
        while offset < end:
            stop = min(end, self.starts[at + 1])
            place = self.offsets[at] + offset - self.starts[at]
            found.append(Span(place, stop - offset, self.labels[at]))
            offset, at = stop, at + 1
        return tuple(found)
