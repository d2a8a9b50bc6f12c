"""A `.zt` of any tensors as no writer of ours would write it: whatever their payload says."""

from __future__ import annotations

from conformance.zt.build import image as build
from tensorark.encodings import compression


def image(tensors, *, encoding=None, attributes=None):
    """Return a file with `tensors`, by name as `TensorParts`, each part a blob of its own."""
    objects, blobs, at = {}, {}, 4096
    for name, laid in tensors.items():
        parts = {}
        for role, ((dtype, type_), pieces) in laid.parts.items():
            data = b"".join(map(bytes, pieces))
            stored = encoded(data) if encoding and data else data
            parts[role] = {"dtype": dtype, "blob": [at, len(stored)]}
            if type_ is not None:
                parts[role]["type"] = type_
            if encoding and data:
                parts[role] |= {"encoding": "zt.zstd-seekable/1", "decoded_length": len(data)}
            blobs[at] = stored
            at += max(4096, -(-len(stored) // 4096) * 4096)
        objects[name] = {"shape": list(laid.shape), "layout": laid.layout, "parts": parts}
        if laid.attributes is not None:
            objects[name]["attributes"] = dict(laid.attributes)
    return build.image({"objects": objects} | (attributes or {}), blobs)


def encoded(data):
    """Return `data` as a part under zt.zstd-seekable/1."""
    encoder = compression("zstd").encoder()
    return b"".join([*encoder.write(memoryview(data)), *encoder.finish()])
