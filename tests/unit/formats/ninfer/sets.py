"""Small artifacts for tests, laid out here by the text of the specification."""

from __future__ import annotations

import copy
import json
import struct
from pathlib import Path

from tensorark.core.model import Part, Raw

ROOT = Path(__file__).resolve().parents[4]
ARTIFACT = bytes.fromhex("00112233445566778899aabbccddeeff")
PAGE = 4096


def shared():
    """Return the published vectors, if they are there."""
    folder = ROOT.parent / "shared/vectors/ninfer"
    return folder if (folder / "index.json").exists() else None


def up(offset, step):
    return -(-offset // step) * step


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def entry(text, payload, artifact=ARTIFACT):
    """Return an entry of this text and payload."""
    head = b"NINFER\0\x03" + struct.pack("<Q", len(text)) + artifact + text
    return head.ljust(up(len(head), PAGE), b"\0") + payload


def continuation(index, payload, artifact=ARTIFACT):
    head = b"NINPRT\0\x03" + struct.pack("<Q", index) + artifact
    return head.ljust(PAGE, b"\0") + payload


def write_set(folder, directory, payload, cuts=(), name="model.ninfer"):
    """Write a set whose payload is cut at `cuts`, and return the path of its entry."""
    ends = [*cuts, len(payload)]
    sizes = [end - start for start, end in zip([0, *cuts], ends, strict=True)]
    names = [None, *(f"{name}.part-{index:04}" for index in range(1, len(sizes)))]
    lines = [{"path": n, "payload_bytes": s} for n, s in zip(names, sizes, strict=True)]
    text = dumps(directory | {"files": lines})
    (folder / name).write_bytes(entry(text, payload[: ends[0]]))
    for index, part in enumerate(names[1:], 1):
        piece = payload[ends[index - 1] : ends[index]]
        (folder / part).write_bytes(continuation(index, piece))
    return folder / name


def payload_of(file):
    """Return the logical payload of an opened artifact."""
    directory = file.catalog.native
    spans = directory.address.spans(0, directory.payload_bytes)
    return b"".join(file.chunks(Part(Raw(spans), "u8")))


# A q4 row is packed by hand: 130 columns, four groups of 64 of which the last is padding.
def q4_rows(rows, columns, code):
    """Return a q4 object whose element (n, k) is `code(n, k)` in -8..7, all scales 1."""
    groups = up(columns, 128) // 64
    base = bytearray(rows * groups * 32)
    scales = bytearray(rows * groups * 2)
    for n in range(rows):
        for k in range(columns):
            at = (n * groups + k // 64) * 32 + k % 64 // 2
            base[at] |= (code(n, k) & 15) << 4 * (k % 2)
        for group in range(-(-columns // 64)):
            struct.pack_into("<H", scales, (n * groups + group) * 2, 0x3C00)
    return bytes(base).ljust(up(len(base), 256), b"\0") + bytes(scales)


def code(n, k):
    return (5 * n + k) % 15 - 7


_Q4 = q4_rows(3, 130, code)
_BF16 = struct.pack("<16H", *(0x3F80 + 16 * i for i in range(16)))
TOKENS = b'{"tokens": []}'
TEMPLATE = "{{ messages }} é".encode()

PAYLOAD = bytearray()
OBJECTS: list[dict] = []


def _add(record, data, align):
    PAYLOAD.extend(bytes(up(len(PAYLOAD), align) - len(PAYLOAD)))
    OBJECTS.append(record | {"offset": len(PAYLOAD), "bytes": len(data)})
    PAYLOAD.extend(data)


def _tensor(name, shape, format_, layout):
    return {"id": name, "kind": "tensor", "shape": shape, "format": format_, "layout": layout}


_add({"id": "r.tok", "kind": "resource", "encoding": "raw_bytes_v1"}, TOKENS, 1)
_add({"id": "r.tpl", "kind": "resource", "encoding": "raw_bytes_v1"}, TEMPLATE, 1)
_add(_tensor("w.q4", [3, 130], "q4_g64_fp16", "row_split_k128_v1"), _Q4, 256)
_add(_tensor("w.bf16", [8, 2], "bf16", "contiguous_le_v1"), _BF16, 256)
_add(_tensor("a.div", [], "fp32", "contiguous_le_v1"), struct.pack("<f", 0.5), 256)

PAYLOAD = bytes(PAYLOAD)
DIRECTORY = {
    "components": {
        "text": {
            "config": {"architectures": ["Example"], "rms_norm_eps": 1e-06, "limit": 1e3},
            "resources": {"tokenizer.json": "r.tok", "chat_template.jinja": "r.tpl"},
        }
    },
    "objects": OBJECTS,
    "bindings": {
        "text/matrix": {"object": "w.q4"},
        "text/row": {"parts": [{"object": "w.q4", "range": [130, 260]}]},
        "text/across": {"parts": [{"object": "w.q4", "range": [120, 140]}]},
        "text/mixed": {
            "parts": [
                {"object": "w.bf16", "range": [4, 6]},
                {"object": "w.q4", "range": [0, 3]},
            ]
        },
        "text/swapped": {
            "parts": [
                {"object": "w.bf16", "range": [8, 16]},
                {"object": "w.bf16", "range": [0, 8]},
            ]
        },
    },
    "uses": [
        {
            "parameter": "text/matrix",
            "input": "text/in",
            "activation_policy": "AllowA4",
            "auxiliaries": {"activation_input_divisor": {"object": "a.div"}},
        }
    ],
    "metadata": {"name": "Example", "size": 2.50},
}


def model(folder, cuts=(), **members):
    """Write the example model as one file, or cut into several."""
    return write_set(folder, copy.deepcopy(DIRECTORY) | members, PAYLOAD, cuts)
