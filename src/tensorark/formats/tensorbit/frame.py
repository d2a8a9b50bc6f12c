"""The frame of Tensorbit files: the header of a blob, and the tail of a container.

Owns the 49 bytes that mean something, both ways, and the rules about single fields. Where weights
and masks lie is judged in `rules`, against the file that holds them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tensorark.core.rules import Fault, Rule, rule

MAGIC: Final = b"TB01"
VERSION: Final = 1
HEADER_SIZE: Final = 4096
FIELDS: Final = struct.Struct("<4sIIIQQQQB")
"""Magic, version, N, M, weights, mask bytes, offset of weights, offset of masks, precision."""

TAIL_SIZE: Final = 4
MIN_CONTAINER: Final = len("{}") + TAIL_SIZE

PRECISIONS: Final = ("fp32", "fp16", "bf16", "fp64")
"""The names of the precision codes 0 to 3, as an index spells them."""
QUANTIZED_CODES: Final = {"int8": (0, 7), "int4": (0, 8)}
"""Codes that may stand beside the quantized types, which the specification does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a blob, as it stands there; anything at all may stand there."""

    magic: bytes = MAGIC
    version: int = VERSION
    n: int
    m: int
    weights: int
    mask_bytes: int
    weights_offset: int = HEADER_SIZE
    masks_offset: int
    precision: int


def parse_header(data: bytes | memoryview) -> Header:
    """Read a header from its first 49 bytes."""
    magic, version, n, m, weights, mask_bytes, at, masks_at, precision = FIELDS.unpack_from(data)
    return Header(
        magic=magic,
        version=version,
        n=n,
        m=m,
        weights=weights,
        mask_bytes=mask_bytes,
        weights_offset=at,
        masks_offset=masks_at,
        precision=precision,
    )


def encode_header(header: Header, reserved: bytes = b"") -> bytes:
    """Return the 4096 bytes of `header`; `reserved` begins the bytes that nobody reads."""
    fields = FIELDS.pack(
        header.magic,
        header.version,
        header.n,
        header.m,
        header.weights,
        header.mask_bytes,
        header.weights_offset,
        header.masks_offset,
        header.precision,
    )
    return (fields + reserved).ljust(HEADER_SIZE, b"\0")


# ------------------------------------------------------------------------------------------- rules


@rule("tb.blob-size", section="header", stage="frame")
def blob_size(size: int) -> Iterator[Fault]:
    """A `.tb` has at least the 4096 bytes of its header."""
    if size < HEADER_SIZE:
        expected = f"at least {HEADER_SIZE} bytes"
        yield Fault((), "the file ends inside its header", expected, size, size)


@rule("tb.container-size", section="file", stage="frame")
def container_size(size: int) -> Iterator[Fault]:
    """A `.tbm` has at least an index and the four bytes that give its length."""
    if size < MIN_CONTAINER:
        expected = f"at least {MIN_CONTAINER} bytes"
        yield Fault((), "the file is too short to be a container", expected, size, size)


@dataclass(frozen=True, slots=True)
class Tail:
    """The size of a container and the length of its index, as the last four bytes give it."""

    size: int
    length: int

    @property
    def index_offset(self) -> int:
        """First byte of the index, which is where blobs must end."""
        return self.size - TAIL_SIZE - self.length


@rule("tb.index-length", section="loading", stage="frame")
def index_length(tail: Tail) -> Iterator[Fault]:
    """The last four bytes give a length of at least 1 that lies before them."""
    most = tail.size - TAIL_SIZE
    if not 0 < tail.length <= most:
        detail = "the last four bytes give no length of an index: the file may be cut short"
        yield Fault((), detail, f"1 to {most}", tail.length, most)


TAIL_RULES: Final[tuple[Rule[Tail], ...]] = (index_length,)
