"""Raw Tensorbit images: blobs, indexes, containers, directories.

Owns where bytes go and what headers say, true or not. It never checks anything: a builder may place
every number.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

HEADER = 4096
ABSENT = object()
"""A member given this value is left out."""

_FORMS = {0: "f", 1: "e", 3: "d"}
_SIZES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp64": 8}
_CODES = {"fp32": 0, "fp16": 1, "bf16": 2, "fp64": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob: header fields, then `filler`, weights, scales and mask, as they are given."""

    weights: bytes
    mask: bytes = b""
    scales: bytes = b""
    n: int = 0
    m: int = 0
    count: int = 0
    precision: int = 0
    magic: bytes = b"TB01"
    version: int = 1
    filler: bytes = b""
    weights_offset: int | None = None
    masks_offset: int | None = None
    mask_bytes: int | None = None
    reserved: bytes = b""

    @property
    def data(self) -> bytes:
        """The bytes of the blob."""
        at = HEADER + len(self.filler) if self.weights_offset is None else self.weights_offset
        behind = HEADER + len(self.filler) + len(self.weights) + len(self.scales)
        fields = struct.pack(
            "<4sIIIQQQQB",
            self.magic,
            self.version,
            self.n,
            self.m,
            self.count,
            len(self.mask) if self.mask_bytes is None else self.mask_bytes,
            at,
            behind if self.masks_offset is None else self.masks_offset,
            self.precision,
        )
        head = (fields + self.reserved).ljust(HEADER, b"\0")
        return head + self.filler + self.weights + self.scales + self.mask


def floats(*values: float, code: int = 0) -> bytes:
    """Return little-endian weights of a precision; bfloat16 is the upper half of binary32."""
    if code == 2:
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}{_FORMS[code]}", *values)


SPARSE_VALUES = [1.0, 0.0, 2.0, 0.0, 0.0, -3.0, 0.0, 4.5] * 4
SPARSE_MASK = bytes([0x05, 0x0A] * 4)
DENSE_VALUES = [0.25 * number for number in range(16)]


def sparse(**fields: object) -> Blob:
    """Return the usual blob of 4 x 8 fp32 weights at 2:4, changed in the fields given."""
    usual = Blob(weights=floats(*SPARSE_VALUES), mask=SPARSE_MASK, n=2, m=4, count=32)
    return replace(usual, **fields)  # type: ignore[arg-type]


def dense(**fields: object) -> Blob:
    """Return the usual blob of 16 fp32 weights without a mask, changed in the fields given."""
    usual = Blob(weights=floats(*DENSE_VALUES), count=16)
    return replace(usual, **fields)  # type: ignore[arg-type]


Entry = dict[str, object]


def entry(**members: object) -> Entry:
    """Return the entry of the usual sparse blob, changed in the members given."""
    usual: Entry = {
        "name": "a.weight",
        "offset": 0,
        "shape": [4, 8],
        "nm_n": 2,
        "nm_m": 4,
        "dtype": "fp32",
        "num_weights": 32,
        "num_mask_bytes": 8,
    }
    usual.update(members)
    return {key: value for key, value in usual.items() if value is not ABSENT}


def dense_entry(offset: object, **members: object) -> Entry:
    """Return the entry of the usual dense blob at `offset`, changed in the members given."""
    usual: Entry = {
        "name": "b.weight",
        "offset": offset,
        "shape": [16, 1],
        "nm_n": 0,
        "nm_m": 0,
        "dtype": "fp32",
        "num_weights": 16,
        "num_mask_bytes": 0,
    }
    usual.update(members)
    return {key: value for key, value in usual.items() if value is not ABSENT}


CONFIG: Entry = {
    "hidden_size": 8,
    "num_heads": 2,
    "num_kv_heads": 1,
    "intermediate_size": 16,
    "vocab_size": 4,
    "num_layers": 1,
    "max_seq_len": 16,
    "norm_eps": 1e-06,
    "rope_theta": 10000.0,
}


def index(entries: object, **members: object) -> Entry:
    """Return an index of `entries`, changed in the members given."""
    usual: Entry = {"config": CONFIG, "architecture": "llama", "tensors": entries}
    usual.update(members)
    return {key: value for key, value in usual.items() if value is not ABSENT}


def text_of(value: object) -> bytes:
    """Return JSON as the public tools write it: no spaces, raw UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Container(bytes):
    """A file of the name `.tbm`."""

    __slots__ = ()


class Single(bytes):
    """A file of the name `.tb`."""

    __slots__ = ()


class Tensor(bytes):
    """A file of the name `.zt`."""

    __slots__ = ()


class Folder(dict[str, bytes]):
    """A directory: files by name, opened at its `manifest.json`."""


Image = Container | Single | Tensor | Folder


def container(
    blobs: Sequence[bytes], document: object, *, length: int | None = None, tail: bytes = b""
) -> Container:
    """Return blobs, an index (JSON, or bytes as they are) and its length, then `tail`."""
    text = document if isinstance(document, bytes) else text_of(document)
    size = len(text) if length is None else length
    return Container(b"".join(blobs) + text + struct.pack("<I", size) + tail)


def usual(
    first: Blob | None = None,
    second: Blob | None = None,
    entries: Sequence[Entry] | None = None,
    **members: object,
) -> Container:
    """Return the usual container of a sparse and a dense blob, changed as told."""
    one, two = first or sparse(), second or dense()
    held = [entry(), dense_entry(len(one.data))] if entries is None else list(entries)
    return container([one.data, two.data], index(held, **members))


def alone(blob: Blob, claim: Mapping[str, object] | None = None) -> Container:
    """Return a container of one blob, whose entry is the usual one with `claim` changed."""
    return container([blob.data], index([entry(**(claim or {}))]))


def folder(entries: Sequence[Entry], files: Mapping[str, bytes], **members: object) -> Folder:
    """Return a directory with a manifest of `entries`."""
    text = json.dumps(index(list(entries), **members), indent=2).encode()
    return Folder({"manifest.json": text, **files})
