"""Raw `.zt` images: magic, spans of bytes, footer.

Owns where bytes go and what the footer says, true or not. It never checks anything: a builder may
place every number.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import xxhash

from .cbor import encode

MAGIC = bytes.fromhex("89 5A 54 32 0D 0A 1A 0A")
FLOOR = 4096
SLOT = 65536  # the placement of canonical form
FOOTER_SIZE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The trailer of §2.3; the defaults are those of a data shard."""

    offset: int = 0
    length: int = 0
    hash: int = 0
    version: int = 2
    reserved: int = 0
    magic: bytes = MAGIC

    def pack(self) -> bytes:
        """Return the 40 bytes."""
        numbers = (self.offset, self.length, self.hash, self.version, self.reserved)
        return struct.pack("<QQQII", *numbers) + self.magic


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """A file too large to commit: `size` bytes, zero except for the spans."""

    size: int
    spans: Mapping[int, bytes]

    def recipe(self) -> bytes:
        """Return the committed form, JSON."""
        spans = [{"offset": at, "hex": data.hex()} for at, data in sorted(self.spans.items())]
        return (json.dumps({"size": self.size, "spans": spans}, indent=1) + "\n").encode()


Image = bytes | Sparse


def lay(spans: Mapping[int, bytes], size: int = 0, *, padding: bytes = b"\0") -> bytes:
    """Return at least `size` bytes with every span in its place and padding elsewhere."""
    end = max([size, *(at + len(data) for at, data in spans.items())])
    image = bytearray(padding * end)
    for at, data in spans.items():
        image[at : at + len(data)] = data
    return bytes(image)


def footer_for(manifest: bytes, at: int) -> Footer:
    """Return the true footer of a manifest lying at offset `at`."""
    return Footer(offset=at, length=len(manifest), hash=xxhash.xxh3_64_intdigest(manifest))


def after(blobs: Mapping[int, bytes], step: int = FLOOR) -> int:
    """Return the first multiple of `step`, not 0, behind every blob."""
    end = max([step, *(at + len(data) for at, data in blobs.items())])
    return -(-end // step) * step


def image(
    manifest: object,
    blobs: Mapping[int, bytes],
    *,
    at: int | None = None,
    footer: Footer | None = None,
    padding: bytes = b"\0",
) -> bytes:
    """Return a file with the manifest behind its blobs or at `at`, and a true or given footer.

    A manifest that is a `bytes` is taken as it is; anything else is encoded.
    """
    text = manifest if isinstance(manifest, bytes) else encode(manifest)
    at = after(blobs) if at is None else at
    body = lay({0: MAGIC, **blobs, at: text}, padding=padding)
    return body + (footer or footer_for(text, at)).pack()


def data_shard(blobs: Mapping[int, bytes] | None = None, **footer: int) -> bytes:
    """Return a file without a manifest, holding `blobs`."""
    return lay({0: MAGIC, **(blobs or {})}) + Footer(**footer).pack()  # type: ignore[arg-type]
