"""Raw `.ninfer` files: a header, a text, a gap, payload, and the continuations of a set.

Owns where bytes go. It never checks anything: a builder may write every number.
"""

from __future__ import annotations

import copy
import json
import struct

MAGIC = bytes.fromhex("4e 49 4e 46 45 52 00 03")
PART_MAGIC = bytes.fromhex("4e 49 4e 50 52 54 00 03")
ARTIFACT = bytes(range(16))
PAGE = 4096

Json = dict[str, object]


class Set(dict[str, bytes]):
    """The files of a set by name; that of the entry itself is ""."""


class Carried(bytes):
    """A `.zt` whose tensor is an encoded object."""

    __slots__ = ()


WORDS = struct.pack("<4H", 0x3F80, 0x4000, 0x4040, 0x4080)  # 1, 2, 3, 4 in bf16
TEMPLATE = b"hello"


def up(offset: int, step: int) -> int:
    """Return the first multiple of `step` at or after `offset`."""
    return -(-offset // step) * step


def text_of(directory: object) -> bytes:
    """Return a directory as compact JSON."""
    return json.dumps(directory, ensure_ascii=False, separators=(",", ":")).encode()


def tensor(name: str, shape: list[int], format_: str, layout: str, offset: int, size: int) -> Json:
    """Return the record of a tensor object."""
    return {
        "id": name,
        "kind": "tensor",
        "shape": shape,
        "format": format_,
        "layout": layout,
        "offset": offset,
        "bytes": size,
    }


def resource(name: str, offset: int, size: int) -> Json:
    """Return the record of a resource object."""
    return {
        "id": name,
        "kind": "resource",
        "encoding": "raw_bytes_v1",
        "offset": offset,
        "bytes": size,
    }


def directory(objects: list[Json], payload: int, **members: object) -> Json:
    """Return a sound directory of one file around these objects; members replace its own."""
    found: Json = {
        "components": {"text": {"config": {"architectures": ["Example"]}}},
        "objects": objects,
        "bindings": {},
        "uses": [],
        "files": [{"path": None, "payload_bytes": payload}],
    }
    return found | members


def usual(**members: object) -> Json:
    """Return the directory most builders start from: a 2x2 matrix and a template, 13 bytes."""
    objects = [
        tensor("w", [2, 2], "bf16", "contiguous_le_v1", 0, 8),
        resource("template", 8, 5),
    ]
    return copy.deepcopy(
        directory(
            objects,
            13,
            components={
                "text": {
                    "config": {"architectures": ["Example"], "rms_norm_eps": 1e-06},
                    "resources": {"chat_template.jinja": "template"},
                }
            },
            bindings={
                "text/whole": {"object": "w"},
                "text/second": {"parts": [{"object": "w", "range": [2, 4]}]},
            },
            uses=[{"parameter": "text/whole", "input": "text/in", "activation_policy": "A16Only"}],
        )
        | members
    )


USUAL_PAYLOAD = WORDS + TEMPLATE


def changed(path: str, value: object) -> bytes:
    """Return the usual file with one value of its directory replaced; "." separates the steps."""
    found: object = usual()
    steps: list[str | int] = [int(step) if step.isdigit() else step for step in path.split("/")]
    inner: object = found
    for step in steps[:-1]:
        inner = inner[step]  # type: ignore[index]
    inner[steps[-1]] = value  # type: ignore[index]
    return entry(found)


def without(path: str) -> bytes:
    """Return the usual file without one member of its directory."""
    found: object = usual()
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("/"))
    inner: object = found
    for step in steps:
        inner = inner[step]  # type: ignore[index]
    del inner[last]  # type: ignore[attr-defined]
    return entry(found)


def entry(
    found: object,
    payload: bytes = USUAL_PAYLOAD,
    *,
    magic: bytes = MAGIC,
    json_bytes: int | None = None,
    artifact: bytes = ARTIFACT,
    gap: bytes = b"\0",
    padded: bool = False,
) -> bytes:
    """Return an entry; a directory that is `bytes` is taken as it is, `padded` fills it up."""
    text = found if isinstance(found, bytes) else text_of(found)
    start = up(32 + len(text), PAGE)
    if padded:
        text = text.ljust(start - 32)
    length = len(text) if json_bytes is None else json_bytes
    head = magic + struct.pack("<Q", length) + artifact + text
    return head + gap * (start - len(head)) + payload


def part(
    index: int,
    payload: bytes,
    *,
    magic: bytes = PART_MAGIC,
    artifact: bytes = ARTIFACT,
) -> bytes:
    """Return a continuation."""
    return (magic + struct.pack("<Q", index) + artifact).ljust(PAGE, b"\0") + payload
