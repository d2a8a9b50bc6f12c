"""Manifests as plain values, and the usual one that most builders change in a single place.

Owns the starting points `root`, `tensor`, `part`, `shard` and `csr`. It never decides what is
valid.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import xxhash

from .image import FLOOR, image
from .rules import CSR

ABSENT = object()
"""A field given this value is left out."""

DATA = bytes(range(1, 9))
"""The eight bytes of the usual tensor."""

Map = dict[object, object]

_INDEX_FORM = {"u32": "I", "u64": "Q", "i64": "q", "u8": "B", "u16": "H"}


def changed(usual: Map, fields: Mapping[str, object]) -> Map:
    """Return a map with some fields replaced, added or, where the value is `ABSENT`, left out."""
    result: Map = {**usual}
    result.update(fields)
    return {key: value for key, value in result.items() if value is not ABSENT}


def part(**fields: object) -> Map:
    """Return a part over the usual blob, changed in the fields given."""
    return changed({"dtype": "u8", "blob": [FLOOR, len(DATA)]}, fields)


def tensor(**fields: object) -> Map:
    """Return a dense object of eight u8, changed in the fields given."""
    usual: Map = {"shape": [len(DATA)], "layout": "dense", "parts": {"data": part()}}
    return changed(usual, fields)


def root(**fields: object) -> Map:
    """Return a manifest with the usual tensor, changed in the fields given."""
    return changed({"objects": {"t": tensor()}}, fields)


def shard(**fields: object) -> Map:
    """Return a shard entry of 8192 bytes, changed in the fields given."""
    return changed({"size": 8192, "digest": "xxh3:0123456789abcdef"}, fields)


def usual(manifest: object) -> bytes:
    """Return the file of a manifest over the usual blob."""
    return image(manifest, {FLOOR: DATA})


def bare(manifest: object) -> bytes:
    """Return the file of a manifest without any blob."""
    return image(manifest, {})


def xxh3(data: bytes) -> str:
    """Return the digest string of `data`."""
    return f"xxh3:{xxhash.xxh3_64_hexdigest(data)}"


def floats(*values: float) -> bytes:
    """Return little-endian f32 elements."""
    return struct.pack(f"<{len(values)}f", *values)


def integers(dtype: str, *values: int) -> bytes:
    """Return little-endian elements of an integer dtype."""
    return struct.pack(f"<{len(values)}{_INDEX_FORM[dtype]}", *values)


def csr(
    *,
    shape: object = None,
    values: bytes | None = None,
    indices: tuple[int, ...] | bytes = (0, 2, 1),
    indptr: tuple[int, ...] = (0, 2, 3),
    index: str = "u64",
    values_fields: Mapping[str, object] | None = None,
    indices_fields: Mapping[str, object] | None = None,
    indptr_fields: Mapping[str, object] | None = None,
    without: str | None = None,
) -> bytes:
    """Return a file with one CSR object, [[1, 0, 2], [0, 3, 0]] in f32, changed as told."""
    stored = floats(1, 2, 3) if values is None else values
    columns = indices if isinstance(indices, bytes) else integers(index, *indices)
    heap = {"values": stored, "indices": columns, "indptr": integers(index, *indptr)}
    dtypes = {"values": "f32", "indices": index, "indptr": index}
    changes = {"values": values_fields, "indices": indices_fields, "indptr": indptr_fields}
    blobs = {FLOOR * n: data for n, data in enumerate(heap.values(), 1)}
    parts = {
        name: part(**{"dtype": dtypes[name], "blob": [at, len(data)], **(changes[name] or {})})
        for (name, data), at in zip(heap.items(), blobs, strict=True)
        if name != without
    }
    matrix = tensor(layout=CSR, shape=[2, 3] if shape is None else shape, parts=parts)
    return image(root(objects={"m": matrix}), blobs)
