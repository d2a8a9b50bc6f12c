"""Files of `accept/`: valid, with known contents."""

from __future__ import annotations

import json
import struct

from conformance.build.case import Case

from .case import Stored, case
from .image import ONE, TWO, entry, file, index, one, usual, vectors

_PI = struct.pack("<f", 3.140625)


def _single(name: str, stored: Stored) -> Case:
    made = entry(stored.dtype, list(stored.shape), 0, len(stored.data))
    return case(file({name: made}, stored.data), tensors={name: stored})


def minimal() -> Case:
    """One f32."""
    return case(one(_PI), tensors={"a": Stored("F32", (1,), _PI)})


def no_tensors() -> Case:
    """An empty map."""
    return case(file(b"{}"))


def metadata() -> Case:
    """There are metadata, and a text that is not ASCII among them."""
    said = {"format": "pt", "größe": "☃", "empty": ""}
    return case(file({"__metadata__": said}), metadata=said)


def metadata_empty() -> Case:
    """The metadata are an empty map."""
    return case(file({"__metadata__": {}}), metadata={})


def metadata_last() -> Case:
    """The metadata stand behind the tensors."""
    image = file({"a": entry("F32", [1], 0, 4), "__metadata__": {"k": "v"}}, _PI)
    return case(image, metadata={"k": "v"}, tensors={"a": Stored("F32", (1,), _PI)})


_WIDTHS = {
    "BOOL": 8, "U8": 8, "I8": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
    "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F8_E8M0": 8, "F4": 4,
}  # fmt: skip


def types() -> Case:
    """Two elements of every type whose numbers are defined."""
    header: dict[str, object] = {}
    tensors: dict[str, Stored] = {}
    data = b""
    for dtype, bits in _WIDTHS.items():
        stored = bytes((7 * k + bits) % 120 for k in range(bits // 4))
        if dtype == "BOOL":
            stored = b"\1\0"
        header[dtype.lower()] = entry(dtype, [2], len(data), len(data) + len(stored))
        tensors[dtype.lower()] = Stored(dtype, (2,), stored)
        data += stored
    return case(file(header, data), tensors=tensors)


def shapes() -> Case:
    """A scalar, a tensor of no elements, and one of six dimensions."""
    header = {
        "scalar": entry("U8", [], 0, 1),
        "none": entry("F64", [3, 0, 2], 1, 1),
        "six": entry("U8", [1, 2, 1, 2, 1, 1], 1, 5),
    }
    tensors = {
        "scalar": Stored("U8", (), b"1"),
        "none": Stored("F64", (3, 0, 2), b""),
        "six": Stored("U8", (1, 2, 1, 2, 1, 1), b"2345"),
    }
    return case(file(header, b"12345"), tensors=tensors)


def out_of_order() -> Case:
    """The order of the header is not that of the bytes."""
    header = {"a": entry("U8", [2], 2, 4), "b": entry("U8", [2], 0, 2)}
    tensors = {"a": Stored("U8", (2,), b"34"), "b": Stored("U8", (2,), b"12")}
    return case(file(header, b"1234"), tensors=tensors)


def odd_address() -> Case:
    """An f32 lies at an odd address."""
    header = {"a": entry("U8", [3], 0, 3), "b": entry("F32", [1], 3, 7)}
    tensors = {"a": Stored("U8", (3,), b"123"), "b": Stored("F32", (1,), _PI)}
    return case(file(header, b"123" + _PI), tensors=tensors)


def padded() -> Case:
    """Spaces follow the header's map, as the public library writes them."""
    text = json.dumps({"a": entry("F32", [1], 0, 4)}).encode()
    image = file(text + b" " * (-len(text) % 8), _PI)
    return case(image, tensors={"a": Stored("F32", (1,), _PI)})


def names() -> Case:
    """Names are any text: empty, not ASCII, with escapes, like a path, of 300 characters."""
    all_names = ["", "größe", "\u2603\U0001f600", 'quote"\\', "../x", "n" * 300, "__metadata"]
    header = {name: entry("U8", [1], at, at + 1) for at, name in enumerate(all_names)}
    data = bytes(range(len(all_names)))
    tensors = {name: Stored("U8", (1,), bytes([at])) for at, name in enumerate(all_names)}
    return case(file(header, data), tensors=tensors)


def nibbles() -> Case:
    """A shape of F4 counts elements, of which a byte holds two."""
    return _single("a", Stored("F4", (2, 4), b"1234"))


_TENSORS = {
    "b": Stored("U8", (1,), b"\2"),
    "a": Stored("U8", (3,), b"\0\1\2"),
    "c": Stored("U8", (2,), b"\0\1"),
}


def sharded() -> Case:
    """An index and two shards; the order is that of the index."""
    return case(usual(), section="index", tensors=_TENSORS, metadata={"format": "pt"})


def sharded_total_size() -> Case:
    """The total_size of an index is wrong, as in files in circulation, and not relied upon."""
    image = usual(index=index({"b": TWO, "a": ONE, "c": TWO}, metadata={"total_size": 1}))
    return case(image, section="index", tensors=_TENSORS, metadata={"format": "pt"})


def sharded_identity() -> Case:
    """Index and shards name one identity, which is no attribute of the model."""
    identity = {"tensorark.set": "xxh3:0123456789abcdef"}
    image = usual(
        index=index({"b": TWO, "a": ONE, "c": TWO}, metadata={"total_size": 6, **identity}),
        one=vectors({"a": 3}, {"format": "pt", **identity}),
        two=vectors({"c": 2, "b": 1}, {"format": "pt", **identity}),
    )
    return case(image, section="index", tensors=_TENSORS, metadata={"format": "pt"})
