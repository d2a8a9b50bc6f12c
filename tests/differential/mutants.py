"""Random `.zt` images, valid ones of two writers and what a seed makes of them.

Owns chance: the same seed gives the same image. Writes CBOR with the emitter of the corpus, which
can be told to be wrong, and never with the library's.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import xxhash
import ztensor

import tensorark
from conformance.zt.build import cbor
from tensorark.wire.cbor import Pairs, decode

FOOTER = struct.Struct("<QQQII8s")
WIDTHS = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1,
    "u64": 8, "u32": 4, "u16": 2, "u8": 1,
}  # fmt: skip
TYPES = {
    "bool": "u8",
    "f8_e4m3fn": "u8",
    "f8_e5m2fnuz": "u8",
    "f8_e8m0": "u8",
    "f4_e2m1": "u8",
    "complex64": "f32",
    "complex128": "f64",
}
NAMES = ["a", "z", "bb", "é", "model.0.w", "x" * 30, "\u00e4\u0301", "0"]
CSR = "zt.sparse_csr/1"


@dataclass(frozen=True, slots=True)
class Image:
    """A file in pieces: what lies before the manifest, the manifest, and the rest of the footer."""

    body: bytes
    text: bytes
    version: int = 2
    reserved: int = 0
    slack: int = 0

    @property
    def data(self) -> bytes:
        """The whole file, with a footer that fits it."""
        digest = xxhash.xxh3_64_intdigest(self.text)
        footer = FOOTER.pack(
            len(self.body), len(self.text), digest, self.version, self.reserved, self.body[:8]
        )
        return self.body + self.text + bytes(self.slack) + footer


def parsed(data: bytes) -> Image:
    """Take a valid file apart."""
    offset, length, _, version, reserved, _ = FOOTER.unpack(data[-FOOTER.size :])
    slack = len(data) - FOOTER.size - offset - length
    return Image(data[:offset], data[offset : offset + length], version, reserved, slack)


# Valid files.


def arrays(rng: random.Random) -> np.ndarray:
    shape = [rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "c8", "c16"]
    kinds += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu]
    dtype = np.dtype(rng.choice([*kinds, "?", ml_dtypes.float4_e2m1fn]))
    count = int(np.prod(shape, dtype=int))
    if dtype in (np.dtype("?"), np.dtype(ml_dtypes.float4_e2m1fn)):
        top = 1 if dtype == np.dtype("?") else 15
        codes = [rng.randint(0, top) for _ in range(count)]
        return np.array(codes, np.uint8).view(dtype).reshape(shape)
    return np.frombuffer(rng.randbytes(count * dtype.itemsize), dtype).reshape(shape)


def attributes(rng: random.Random, depth: int = 0) -> dict[str, object]:
    return {rng.choice(NAMES): value(rng, depth) for _ in range(rng.randint(0, 3))}


def value(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(9 if depth < 3 else 6)
    match kind:
        case 0:
            return rng.choice([None, True, False])
        case 1:
            return rng.choice([0, 23, 24, 255, 256, 2**32, 2**64 - 1, -1, -(2**63)])
        case 2:
            return rng.choice([0.0, -0.0, 1.5, 0.1, 65520.0, 1e300, float("inf"), float("nan")])
        case 3 | 4:
            return rng.choice(NAMES)
        case 5:
            return rng.choice(["", "text", "u8"])
        case 6:
            return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
        case _:
            return attributes(rng, depth + 1)


def csr(rng: random.Random) -> tuple[tuple[int, int], dict[str, tuple[str, bytes]]]:
    rows, columns = rng.randint(0, 4), rng.randint(1, 5)
    wide = rng.choice(["<u4", "<u8"])
    indptr, indices = [0], []
    for _ in range(rows):
        row = sorted(rng.sample(range(columns), rng.randint(0, columns)))
        indices += row
        indptr.append(len(indices))
    id_ = "u32" if wide == "<u4" else "u64"
    return (rows, columns), {
        "indices": (id_, np.array(indices, wide).tobytes()),
        "indptr": (id_, np.array(indptr, wide).tobytes()),
        "values": ("f32", rng.randbytes(4 * len(indices))),
    }


def of_ours(rng: random.Random, path: Path) -> bytes:
    """A file of our writer, canonical or not, with encoded parts now and then."""
    options = {} if rng.random() < 0.3 else {"align": rng.choice([4096, 8192, 12288, 65536])}
    held = attributes(rng) if rng.random() < 0.6 else None
    with tensorark.Writer(path, attributes=held, **options) as writer:
        for name in sorted(rng.sample(NAMES[:6], rng.randint(0, 4))):
            own = attributes(rng) if rng.random() < 0.4 else None
            if rng.random() < 0.25:
                shape, parts = csr(rng)
                given = {role: ((id_, None), [data]) for role, (id_, data) in parts.items()}
                writer.add_parts(name, shape, CSR, given, attributes=own)
            elif rng.random() < 0.1:
                given = {"p": (("u8", rng.choice([None, "x.y"])), [rng.randbytes(5)])}
                writer.add_parts(name, (3,), "x.unknown/1", given, attributes=own)
            else:
                encoding = "zstd" if options and rng.random() < 0.2 else None
                writer.add(name, arrays(rng), attributes=own, encoding=encoding)
    return path.read_bytes()


def of_theirs(rng: random.Random, path: Path) -> bytes:
    """A file of the public writer."""
    canonical = rng.random() < 0.5
    options = {} if canonical else {"align": rng.choice([4096, 8192, 65536])}
    with ztensor.Writer(str(path), canonical=canonical, **options) as writer:
        if rng.random() < 0.5:
            writer.set_attributes({"k": [1, 2.5, None, {"b": "x"}]})
        for name in sorted(rng.sample(NAMES[:6], rng.randint(0, 4)), key=str.encode):
            encoding = "zt.zstd-seekable/1" if not canonical and rng.random() < 0.3 else None
            if rng.random() < 0.25:
                shape, parts = csr(rng)
                given = {role: {"data": data, "dtype": id_} for role, (id_, data) in parts.items()}
                writer.add_object(name, shape, given, layout=CSR, attributes={"q": [name]})
                continue
            type_ = rng.choice([None, None, *TYPES])
            dtype = TYPES[type_] if type_ else rng.choice([*WIDTHS])
            shape = [rng.choice([0, 1, 2, 3]) for _ in range(rng.randint(0, 3))]
            count = int(np.prod(shape, dtype=int))
            nbytes = -(-count // 2) if type_ == "f4_e2m1" else count * WIDTHS[dtype]
            nbytes *= 2 if type_ in {"complex64", "complex128"} else 1
            data = bytes(rng.randrange(2) for _ in range(nbytes))
            writer.add(name, data, shape, dtype, logical=type_, encoding=encoding)
    return path.read_bytes()


def with_shard(image: Image) -> Image:
    """Move every part of a file into a shard that is not there."""
    root = decode(image.text)
    assert isinstance(root, dict)
    for each in root["objects"].values():
        for part in each["parts"].values():
            part["shard"] = "s"
    root["shards"] = {"s": {"size": len(image.body) + 48, "digest": "xxh3:00"}}
    return replace(image, text=cbor.encode(emitted(root)))


def emitted(item: object) -> object:
    """Give what `decode` returns to the emitter of the corpus."""
    if isinstance(item, dict):
        return {key: emitted(held) for key, held in item.items()}
    if isinstance(item, Pairs):
        return cbor.Pairs((emitted(key), emitted(held)) for key, held in item.items)
    return [emitted(each) for each in item] if isinstance(item, list) else item


def valid(rng: random.Random, folder: Path, count: int) -> list[Image]:
    """Return valid files of both writers, and a few that keep their blobs in a shard."""
    images = []
    for index in range(count):
        write = of_ours if index % 2 else of_theirs
        images.append(parsed(write(rng, folder / f"{index}.zt")))
    return images + [with_shard(each) for each in images[:: max(1, count // 3)]]


def damaged(image: Image, rng: random.Random) -> bytes:
    """Flip bits of blobs, or of the manifest now and then."""
    if rng.random() < 0.3:
        return mutated(image, rng)
    data = bytearray(image.data)
    for _ in range(rng.randint(0, 2)):
        place = rng.choice(range(4096, len(image.body), 4096) or [8]) + rng.randrange(12)
        if place < len(image.body):
            data[place] ^= 1 << rng.randrange(8)
    return bytes(data)


# What becomes of them.

ODD: list[object] = [
    0, 1, 8, 47, 48, 4095, 4096, 4100, 8192, 65536, 2**31, 2**32, 2**62, 2**63, 2**64 - 1, -1, 8.0,
    float("nan"), "", "u8", "f32", "bool", "f4_e2m1", "complex64", "x/1", "dense", CSR, "data",
    "zt.mx/1", "zt.sparse_coo/1", "zt.quant_group/1", "gguf.q8_0/1", "values", "\0", "n" * 1024,
    "é" * 513, "xxh3:0", "xxh3:00FF", "sha256:" + 64 * "0", "blake3:aa", ":aa", "a/b", ".s", "s",
    "zt.zstd-seekable/1", b"", b"x", None, True, [], [4096, 8], [4096], [8192, 0], [1, 2, 3], {},
    [2**63, 4, 0], [0, 2**63, 4], [2**63], [1] * 65, {"": 1}, {1: 2}, {"data": 1},
]  # fmt: skip
RAW = [
    "1805", "1b0000000000000001", "780161", "9fff", "bfff", "ff", "1c", "fe", "c000", "c24101",
    "f7", "f0", "f820", "61ff", "63eda080", "fa3f800000", "fb3ff0000000000000", "f97e01",
    "fa7fc00000", "f97e00", "fa33000000", "9b7fffffffffffffff", "5bffffffffffffffff",
    "a2616200616100", "a2616100616100", "a201000100", 28 * "81" + "00",
    30 * "81" + "00", 33 * "81" + "00",
]  # fmt: skip
KEYS: list[object] = [
    "shape", "layout", "parts", "attributes", "blob", "dtype", "type", "shard", "digest",
    "encoding", "decoded_length", "data", "objects", "shards", "size", "unknown", "", "\0", 7, -1,
    2.5, b"k", None, True, "n" * 1025,
]  # fmt: skip


class _Entries:
    """A map on its way to be written: entries in order, repeated keys included."""

    def __init__(self, items) -> None:
        self.items = list(items)


def editable(item: object) -> object:
    """Turn what `decode` gives into lists and entries, which can be edited in place."""
    if isinstance(item, dict | Pairs):
        entries = item.items() if isinstance(item, dict) else item.items
        return _Entries([editable(key), editable(held)] for key, held in entries)
    return [editable(each) for each in item] if isinstance(item, list) else item


def written(item: object, *, sort: bool) -> cbor.Raw:
    """Encode what was edited, with the keys of maps in their order or as they stand."""
    if isinstance(item, _Entries):
        encoded = [(written(key, sort=sort), written(held, sort=sort)) for key, held in item.items]
        return cbor.Raw(cbor.encode(cbor.Pairs(sorted(encoded) if sort else encoded)))
    if isinstance(item, list):
        return cbor.Raw(cbor.encode([written(each, sort=sort) for each in item]))
    return cbor.Raw(cbor.encode(item))


def slots(item: object) -> list[tuple[list, int]]:
    """Every place that holds a value: a container and an index into it."""
    found: list[tuple[list, int]] = []
    if isinstance(item, _Entries):
        for entry in item.items:
            found += [(entry, 1), *slots(entry[1])]
    elif isinstance(item, list):
        for index, each in enumerate(item):
            found += [(item, index), *slots(each)]
    return found


def maps(item: object) -> list[_Entries]:
    if isinstance(item, _Entries):
        return [item, *(each for _, held in item.items for each in maps(held))]
    return [each for held in item for each in maps(held)] if isinstance(item, list) else []


def strange(rng: random.Random) -> object:
    return cbor.Raw.fromhex(rng.choice(RAW)) if rng.random() < 0.3 else rng.choice(ODD)


def edit(root: _Entries, rng: random.Random) -> None:
    """Change one thing."""
    if not root.items:
        root.items.append([rng.choice(KEYS), editable(strange(rng))])
    holder, index = rng.choice(slots(root))
    chosen = rng.choice(maps(root))
    match rng.randrange(8):
        case 0 | 1:
            holder[index] = editable(strange(rng))
        case 2:
            known = holder[index]
            if isinstance(known, int):
                holder[index] = min(
                    max(0, known + rng.choice([-4096, -1, 1, 4096, known])), 2**64 - 1
                )
            elif isinstance(known, list):
                known.append(editable(rng.choice(known) if known else 1))
        case 3:
            other, place = rng.choice(slots(root))
            holder[index], other[place] = other[place], holder[index]
        case 4 if chosen.items:
            chosen.items.remove(rng.choice(chosen.items))
        case 5 if chosen.items:
            chosen.items.append(list(rng.choice(chosen.items)))
        case 6 if chosen.items:
            rng.choice(chosen.items)[0] = rng.choice(KEYS)
        case _:
            chosen.items.append([rng.choice(KEYS), editable(strange(rng))])


def mutated(image: Image, rng: random.Random) -> bytes:
    """Change a valid file; the hash of its manifest is that of what it has become, mostly."""
    kind = rng.random()
    if kind < 0.7:
        root = editable(decode(image.text))
        assert isinstance(root, _Entries)
        try:
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                edit(root, rng)
            text = bytes(written(root, sort=rng.random() < 0.95))
        except RecursionError:  # a swap put a container into itself
            return image.data
        return replace(image, text=text).data
    if kind < 0.85 and image.text:
        changed = bytearray(image.text)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(changed))
            changed[place] = rng.choice(
                [rng.randrange(256), changed[place] ^ 1 << rng.randrange(8)]
            )
        if rng.random() < 0.2:
            del changed[rng.randrange(len(changed)) :]
        return replace(image, text=bytes(changed)).data
    data = bytearray(image.data)
    if kind < 0.93:
        place = rng.randrange(len(data))
        data[place] ^= 1 << rng.randrange(8)
    else:
        place = len(data) - FOOTER.size + 8 * rng.randrange(4)
        data[place : place + 8] = struct.pack(
            "<Q", rng.choice([0, 1, 2, 3, 4096, 8192, 2**30, 2**30 + 1, 2**63, 2**64 - 1])
        )
    return bytes(data)
