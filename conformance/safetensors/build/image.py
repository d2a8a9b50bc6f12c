"""Raw safetensors images: a length, a JSON text, bytes; and sets of them under an index.

Owns where bytes go. It never checks anything: a builder may place every number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

INDEX = "model.safetensors.index.json"
ONE = "model-00001-of-00002.safetensors"
TWO = "model-00002-of-00002.safetensors"


class Set(dict[str, bytes]):
    """Files by name, the one named `INDEX` among them."""


Image = bytes | Set


def file(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    """Return a file: the header is JSON, or the bytes that stand for it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: object, shape: object, begin: int, end: int, **more: object) -> dict[str, object]:
    """Return the entry of a tensor."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end], **more}


def one(data: bytes = b"1234", **members: object) -> bytes:
    """Return a file of one f32 named a, with members of its entry replaced or, by ..., left out."""
    made = {**entry("F32", [1], 0, 4), **members}
    return file({"a": {key: value for key, value in made.items() if value is not ...}}, data)


def vectors(lengths: Mapping[str, int], metadata: object = None) -> bytes:
    """Return a file of U8 vectors, by name and length."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    begin = 0
    for name, length in lengths.items():
        header[name] = entry("U8", [length], begin, begin + length)
        begin += length
    return file(header, bytes(range(begin)))


def index(weight_map: object, **more: object) -> bytes:
    """Return the text of an index."""
    members = {"metadata": {"total_size": 6}, "weight_map": weight_map, **more}
    return json.dumps(members, indent=2).encode()


PLACES = {"b": TWO, "a": ONE, "c": TWO}


def usual(**files: bytes) -> Set:
    """Return a set of two shards; `index`, `one` and `two` replace its files."""
    return Set(
        {
            INDEX: files.get("index", index(PLACES)),
            ONE: files.get("one", vectors({"a": 3}, {"format": "pt"})),
            TWO: files.get("two", vectors({"c": 2, "b": 1}, {"format": "pt"})),
        }
    )
