"""The container of `.zt` (L0, §2): magic, footer, alignment floor, and the rules of the frame.

Owns the 48 bytes that never change. Knows nothing of manifests beyond where one lies.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tensorark.core.rules import Fault, rule

MAGIC: Final = b"\x89ZT2\r\n\x1a\n"
FOOTER: Final = struct.Struct("<QQQII8s")
FOOTER_SIZE: Final = FOOTER.size
MIN_SIZE: Final = len(MAGIC) + FOOTER_SIZE
ALIGN: Final = 4096
CANONICAL_ALIGN: Final = 65536
VERSION: Final = 2
MAX_MANIFEST: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFrame:
    """Magic and footer as they stand in a file of `size` bytes; may be nonsense."""

    size: int
    header_magic: bytes
    manifest_offset: int
    manifest_length: int
    manifest_hash: int
    version: int
    reserved: int
    footer_magic: bytes

    @property
    def data_end(self) -> int:
        """End of the data region: where the footer begins."""
        return self.size - FOOTER_SIZE

    @property
    def is_data_shard(self) -> bool:
        """Whether the file carries no manifest (§7.2)."""
        return self.manifest_length == 0


def parse_frame(head: bytes | memoryview, tail: bytes | memoryview, size: int) -> RawFrame:
    """Read the first 8 and the last 40 bytes of a file."""
    offset, length, digest, version, reserved, magic = FOOTER.unpack(tail)
    return RawFrame(
        size=size,
        header_magic=bytes(head),
        manifest_offset=offset,
        manifest_length=length,
        manifest_hash=digest,
        version=version,
        reserved=reserved,
        footer_magic=magic,
    )


def encode_footer(manifest_offset: int, manifest_length: int, manifest_hash: int) -> bytes:
    """Write a footer (§2.3); three zeros make that of a data shard."""
    return FOOTER.pack(manifest_offset, manifest_length, manifest_hash, VERSION, 0, MAGIC)


@rule("zt.file-size", section="2.1", stage="frame")
def file_size(size: int) -> Iterator[Fault]:
    """A file has at least 48 bytes."""
    if size < MIN_SIZE:
        detail = "the file is too small" if size else "the file is empty"
        yield Fault((), detail, f"at least {MIN_SIZE} bytes", size, 0)


@rule("zt.header-magic", section="2.2", stage="frame")
def header_magic(frame: RawFrame) -> Iterator[Fault]:
    """The first eight bytes are the magic."""
    if frame.header_magic != MAGIC:
        found = frame.header_magic.hex(" ")
        yield Fault((), "the file does not begin with the magic", MAGIC.hex(" "), found, 0)


@rule("zt.footer-magic", section="2.2", stage="frame")
def footer_magic(frame: RawFrame) -> Iterator[Fault]:
    """The last eight bytes are the magic."""
    if frame.footer_magic != MAGIC:
        yield Fault(
            (),
            "the file does not end with the magic: it was cut short, or an append did not finish",
            MAGIC.hex(" "),
            frame.footer_magic.hex(" "),
            frame.size - len(MAGIC),
        )


@rule("zt.version", section="2.3", stage="frame")
def version(frame: RawFrame) -> Iterator[Fault]:
    """The footer's version is 2, in a data shard too."""
    if frame.version != VERSION:
        yield Fault((), "unsupported version", VERSION, frame.version, frame.data_end + 24)


@rule("zt.data-shard", section="7.2", stage="frame")
def data_shard(frame: RawFrame) -> Iterator[Fault]:
    """A footer without a manifest has offset and hash zero as well."""
    if frame.is_data_shard and (frame.manifest_offset or frame.manifest_hash):
        yield Fault(
            (),
            "the manifest length is 0, but its offset or hash is not",
            "offset 0, hash 0",
            f"offset {frame.manifest_offset}, hash {frame.manifest_hash:#x}",
            frame.data_end,
        )


@rule("zt.manifest-size", section="3.1", stage="frame")
def manifest_size(frame: RawFrame) -> Iterator[Fault]:
    """A manifest has at most 1 GiB."""
    if frame.manifest_length > MAX_MANIFEST:
        yield Fault(
            (),
            "the manifest is too large",
            f"at most {MAX_MANIFEST} bytes",
            frame.manifest_length,
            frame.data_end + 8,
        )


@rule("zt.manifest-align", section="2.4", stage="frame")
def manifest_align(frame: RawFrame) -> Iterator[Fault]:
    """The manifest starts at a multiple of 4096, never before byte 4096."""
    if not frame.is_data_shard and not is_aligned(frame.manifest_offset):
        yield Fault(
            (),
            "the manifest's offset is not a multiple of 4096 from 4096 on",
            "a multiple of 4096",
            frame.manifest_offset,
            frame.data_end,
        )


@rule("zt.manifest-bounds", section="3.6", stage="frame")
def manifest_bounds(frame: RawFrame) -> Iterator[Fault]:
    """The manifest lies inside the file and off the footer."""
    end = frame.manifest_offset + frame.manifest_length
    if end > frame.data_end and 0 < frame.manifest_length <= MAX_MANIFEST:
        yield Fault(
            (),
            "the manifest runs past the data region",
            f"an end of at most {frame.data_end}",
            end,
            frame.data_end,
        )


MAGIC_RULES: Final = (header_magic, footer_magic)
"""Judged before the others: where the magic is not, no footer is, and its fields mean nothing."""

FRAME_RULES: Final = (
    *MAGIC_RULES,
    version,
    data_shard,
    manifest_size,
    manifest_align,
    manifest_bounds,
)


def shard_fault(head: bytes, tail: bytes) -> str | None:
    """Say why a file with these first and last bytes cannot be a shard; None when it can (§7.3).

    A shard is a heap of blobs to the file that names it: what its manifest says is not looked at.
    """
    if not head.startswith(MAGIC):
        return "it does not begin with the magic"
    if not tail.endswith(MAGIC):
        return "it does not end with the magic"
    _, _, _, found, _, _ = FOOTER.unpack(tail[-FOOTER_SIZE:])
    return None if found == VERSION else f"it is of version {found}, not {VERSION}"


def is_aligned(offset: int) -> bool:
    """Tell whether a blob may start at `offset` (§2.4)."""
    return offset >= ALIGN and offset % ALIGN == 0
