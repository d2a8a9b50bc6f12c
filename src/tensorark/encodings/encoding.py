"""What an encoding is: how stored bytes become decoded ones, and the way back.

Owns the protocols between an encoding and whoever opens or writes files. Loads no numpy: encoded
parts are read, hashed and converted without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tensorark.core.rules import Reading, Rule
from tensorark.errors import InvalidInput, LimitExceeded, Rejected, Where

D = TypeVar("D")

Allocate = Callable[[int], memoryview]
"""Gives zeroed, writable memory of a size, or raises `LimitExceeded`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBytes:
    """The stored bytes of one part.

    `read` gives bytes [start, start + length) of them. The rest is for messages: `where` is the
    part's place in the catalog, `path` the file and `offset` where in it the first stored byte
    lies.
    """

    nbytes: int
    read: Callable[[int, int], memoryview]
    where: Where = ()
    path: str | None = None
    offset: int = 0

    def require(self, reading: Reading, rules: Sequence[Rule[D]], doc: D) -> None:
        """Judge what was read of these bytes by each of `rules`.

        Raises:
            Rejected: for the first fault found.
        """
        try:
            reading.require(rules, doc)
        except Rejected as error:
            if self.path is not None:
                error.located(self.path)
            raise

    def require_range(self, reading: Reading, start: int, length: int, nbytes: int) -> None:
        """Require decoded bytes [start, start + length) to lie in a part of `nbytes` of them.

        Raises:
            InvalidInput: when they do not.
            LimitExceeded: when they are more than `limits.decoded` of the reading.
        """
        if not 0 <= start <= start + length <= nbytes:
            found = f"{start} to {start + length} of {nbytes}"
            raise InvalidInput("the part has no such range", code="range", found=found)
        if length > reading.limits.decoded:
            raise LimitExceeded(
                "the part decodes to more than this process may take",
                code="decoded-size",
                path=self.path,
                where=self.where,
                expected=f"at most {reading.limits.decoded} bytes",
                found=length,
            )


class Decoder(Protocol):
    """An encoded part, opened: gives any range of its decoded bytes."""

    @property
    def is_checked(self) -> bool:
        """Whether everything decoded so far was protected by checksums of the encoding (§6.1)."""
        ...

    def read(self, start: int, length: int) -> memoryview:
        """Return decoded bytes [start, start + length), decoding no more than holds them.

        The memory is the caller's own when all bytes are asked for, else maybe read-only.

        Raises:
            Rejected: when the stored bytes break a rule of the encoding.
            LimitExceeded: when more is asked for than the limits allow, or the system gives.
            ReadFailed: when stored bytes cannot be had.
        """
        ...

    def pieces(self) -> Iterator[memoryview]:
        """Yield all decoded bytes in order, in bounded memory; raises as `read` does."""
        ...


class Encoder(Protocol):
    """A part on its way into an encoding: decoded bytes in, stored bytes out as they are ready."""

    def write(self, data: memoryview) -> Sequence[bytes]:
        """Take the next decoded bytes, which may change afterwards; return stored ones, if any."""
        ...

    def finish(self) -> Sequence[bytes]:
        """Return the rest of the stored bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """An encoding profile (§5.3), by its id in files.

    `open` takes the stored bytes and the decoded size, and checks everything that can be known
    before a decoded byte is allocated; `limits.decoded` of the reading caps what one read gives.
    `encode` takes a level and the decoded bytes of a frame.
    """

    id: str
    open: Callable[[StoredBytes, int, Reading, Allocate], Decoder]
    encode: Callable[[int, int], Encoder]
