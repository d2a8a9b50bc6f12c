"""The expected JSON of a `.zt`, and the answers that go with it.

It is computed from the values a builder put in, never by reading a file.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import xxhash

from conformance.build.case import ACCEPT, REJECT, Case, Expect

from .cbor import encode
from .image import Image
from .manifest import Map

READABLE: Expect = {"open": ACCEPT, "decode": ACCEPT, "verify": ACCEPT, "canonical": REJECT}
CANONICAL: Expect = {**READABLE, "canonical": ACCEPT}
STRUCTURE: Expect = {"open": ACCEPT, "canonical": REJECT}
"""For a file whose parts lie in shards that are not there."""
NO_MODEL: Expect = {"open": ACCEPT}
"""For a data shard, which nobody decodes alone."""


def contents(
    manifest: Map,
    heap: Mapping[int, bytes],
    *,
    canonical: bool = False,
    decoded: Mapping[int, bytes] | None = None,
) -> dict[str, object]:
    """Return the expected JSON of a manifest whose blobs were put at the offsets of `heap`.

    `decoded` gives what the encoded ones decode to, by offset.
    """
    objects = _map(manifest["objects"])
    return {
        "attributes": jsonable(manifest.get("attributes")),
        "tensors": {
            str(name): _tensor(_map(objects[name]), heap, decoded or {}) for name in objects
        },
        "content_digest": _content_digest(objects),
        "canonical": canonical,
    }


DATA_SHARD_CONTENTS = {
    "attributes": None,
    "tensors": None,
    "content_digest": None,
    "canonical": False,
}


def readable(
    section: str, manifest: Map, heap: Mapping[int, bytes], image: Image, expect: Expect = READABLE
) -> Case:
    """Return the case of an image with the given manifest and blobs."""
    expected = contents(manifest, heap, canonical=expect.get("canonical") == ACCEPT)
    return Case(image=image, section=section, expect=expect, contents=expected)


def _map(value: object) -> Map:
    if not isinstance(value, dict):
        message = f"a map was expected, not {type(value).__name__}"
        raise TypeError(message)
    return value


def _tensor(
    record: Map, heap: Mapping[int, bytes], decoded: Mapping[int, bytes]
) -> dict[str, object]:
    parts = _map(record["parts"])
    return {
        "shape": record["shape"],
        "layout": record["layout"],
        "attributes": jsonable(record.get("attributes")),
        "parts": {str(role): _part(_map(parts[role]), heap, decoded) for role in parts},
    }


def _part(
    record: Map, heap: Mapping[int, bytes], decoded: Mapping[int, bytes]
) -> dict[str, object]:
    blob = record["blob"]
    assert isinstance(blob, list)
    offset, length = blob
    data = decoded.get(offset) if "encoding" in record else None
    if "encoding" not in record and "shard" not in record:
        data = heap.get(offset, b"")[:length]
        if len(data) != length:
            message = f"no {length} bytes were put at {offset}"
            raise ValueError(message)
    return {
        "dtype": record["dtype"],
        "type": record.get("type"),
        "digest": record.get("digest"),
        "nbytes": record.get("decoded_length", length),
        "sha256": None if data is None else hashlib.sha256(data).hexdigest(),
    }


def jsonable(value: object) -> object:
    """Return an attribute value in JSON, as the README says for what JSON lacks."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case bytes():
            return {"hex": value.hex()}
        case list():
            return [jsonable(item) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: jsonable(item) for key, item in value.items()}
        case dict():
            pairs = sorted(value.items(), key=lambda pair: encode(pair[0]))
            return {"pairs": [[jsonable(key), jsonable(item)] for key, item in pairs]}
    return value


def _content_digest(objects: Map) -> dict[str, str] | None:
    """Return the content digest of §6.4 in both algorithms, or None where a part has no digest."""
    reduced: Map = {}
    for name, record in objects.items():
        fields = _map(record)
        parts: Map = {}
        for role, stored in _map(fields["parts"]).items():
            kept = {
                key: _map(stored)[key] for key in ("dtype", "type", "digest") if key in _map(stored)
            }
            if "digest" not in kept:
                return None
            parts[role] = kept
        kept_fields = {
            key: fields[key] for key in ("shape", "layout", "attributes") if key in fields
        }
        reduced[name] = kept_fields | {"parts": parts}
    text = encode(["zt.content/1", reduced])
    return {
        "xxh3": f"xxh3:{xxhash.xxh3_64_hexdigest(text)}",
        "sha256": f"sha256:{hashlib.sha256(text).hexdigest()}",
    }
