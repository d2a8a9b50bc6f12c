"""Files of `accept/`: valid, with their contents stated beside them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from itertools import count
from typing import Any

from conformance.build.case import ACCEPT, Case

from . import seekable
from .case import CANONICAL, DATA_SHARD_CONTENTS, NO_MODEL, READABLE, STRUCTURE, contents, readable
from .cbor import Raw, encode
from .image import (
    FLOOR,
    MAGIC,
    SLOT,
    Footer,
    Sparse,
    footer_for,
    image,
    lay,
)
from .image import (
    data_shard as shard_image,
)
from .manifest import DATA, Map, floats, integers, part, root, shard, tensor, xxh3
from .rules import CSR, ZSTD

_HEAP = {FLOOR: DATA}
_SIXTEEN = bytes([1, 0] * 8)
_WIDTHS = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4,
    "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1,
}  # fmt: skip


def _usual(section: str, manifest: Map, heap: dict[int, bytes] | None = None) -> Case:
    blobs = _HEAP if heap is None else heap
    return readable(section, manifest, blobs, image(manifest, blobs))


# --- the container -------------------------------------------------------------------------------


def minimal() -> Case:
    """One vector of eight u8 and nothing optional."""
    return _usual("3.2", root())


def empty_model() -> Case:
    """A model without tensors."""
    return _usual("3.2", root(objects={}), {})


def data_shard() -> Case:
    """A data shard without blobs: 48 bytes."""
    return Case(image=shard_image(), section="7.2", expect=NO_MODEL, contents=DATA_SHARD_CONTENTS)


def data_shard__blob() -> Case:
    """A data shard with a blob and a reserved field that is not zero."""
    return Case(
        image=shard_image(_HEAP, reserved=9),
        section="7.2",
        expect=NO_MODEL,
        contents=DATA_SHARD_CONTENTS,
    )


def reserved_field() -> Case:
    """The footer's reserved field has all bits set, which readers ignore."""
    text = encode(root())
    footer = footer_for(text, 2 * FLOOR)
    filled = Footer(
        offset=footer.offset, length=footer.length, hash=footer.hash, reserved=0xFFFFFFFF
    )
    return readable("2.3", root(), _HEAP, image(text, _HEAP, footer=filled))


def nonzero_padding() -> Case:
    """The padding is full of ab; readers may ignore it, and the public corpus makes them."""
    return readable("2.4", root(), _HEAP, image(root(), _HEAP, padding=b"\xab"))


def second_generation() -> Case:
    """A tensor was appended; the first manifest and footer lie unreferenced in the middle."""
    first = image(root(), _HEAP)
    at = -(-len(first) // FLOOR) * FLOOR
    added = tensor(parts={"data": part(blob=[at, 8])})
    manifest = root(objects={"added": added, "t": tensor()})
    heap = {**_HEAP, at: bytes(8)}
    text = encode(manifest)
    body = lay({0: first, at: heap[at], at + FLOOR: text})
    return readable("2.5", manifest, heap, body + footer_for(text, at + FLOOR).pack())


def manifest_first() -> Case:
    """The manifest lies before the only blob, which ends at the footer."""
    heap = {2 * FLOOR: DATA}
    manifest = root(objects={"t": tensor(parts={"data": part(blob=[2 * FLOOR, 8])})})
    return readable("2.4", manifest, heap, image(manifest, heap, at=FLOOR))


def no_gaps() -> Case:
    """Two blobs of 4096 bytes and the manifest touch each other."""
    heap = {FLOOR: bytes(range(256)) * 16, 2 * FLOOR: b"\x01" * FLOOR}
    objects = {
        name: tensor(shape=[FLOOR], parts={"data": part(blob=[at, FLOOR])})
        for name, at in (("a", FLOOR), ("b", 2 * FLOOR))
    }
    return _usual("2.4", root(objects=objects), heap)


def zero_length_blobs() -> Case:
    """Zero-length blobs lie at a blob, in a blob, at the manifest and at each other."""
    heap = {FLOOR: bytes(range(1, 65)) * 128}
    long = tensor(shape=[2 * FLOOR], parts={"data": part(blob=[FLOOR, 2 * FLOOR])})
    empty = {
        name: tensor(shape=shape, parts={"data": part(dtype="f32", blob=[at, 0])})
        for name, shape, at in (
            ("at the blob", [0], FLOOR),
            ("in the blob", [0, 4], 2 * FLOOR),
            ("at the manifest", [4, 0], 3 * FLOOR),
            ("at the manifest too", [3, 0, 2], 3 * FLOOR),
        )
    }
    return _usual("2.4", root(objects={"long": long, **empty}), heap)


def beyond_4_gib() -> Case:
    """Blob and manifest lie behind 4 GiB; 32-bit offsets would find another tensor's bytes."""
    far = (1 << 32) + FLOOR
    low, high = DATA, bytes(range(21, 29))
    manifest = root(objects={"high": tensor(parts={"data": part(blob=[far, 8])}), "low": tensor()})
    text = encode(manifest)
    at = far + FLOOR
    tail = text + footer_for(text, at).pack()
    spans = {0: MAGIC, FLOOR: low, far: high, at: tail}
    expect = {"open": ACCEPT, "decode": ACCEPT, "verify": ACCEPT}
    return readable("2.4", manifest, spans, Sparse(size=at + len(tail), spans=spans), expect)


# --- the manifest --------------------------------------------------------------------------------


def attributes() -> Case:
    """Attributes of every kind, with the extremes of integers and the shortest forms of floats."""
    values: Map = {
        "false": False, "true": True, "null": None,
        "0": 0, "23": 23, "24": 24, "255": 255, "256": 256, "65535": 65535, "65536": 65536,
        "2^32-1": (1 << 32) - 1, "2^32": 1 << 32, "2^64-1": (1 << 64) - 1,
        "-1": -1, "-24": -24, "-25": -25, "-2^63": -(1 << 63), "-2^64": -(1 << 64),
        "0.0": 0.0, "-0.0": -0.0, "1.0": 1.0, "1.5": 1.5, "2^-24": 2.0**-24, "65504.0": 65504.0,
        "65505.0": 65505.0, "65520.0": 65520.0, "2^-25": 2.0**-25, "2^-149": 2.0**-149, "0.1": 0.1,
        "1e300": 1e300, "infinity": float("inf"), "-infinity": float("-inf"), "nan": float("nan"),
        "bytes": b"\x00\xff", "no bytes": b"", "text": "é\n\U0001f600", "nul": "a\0b",
        "no text": "",
        "array": [1, [2, [3.0, None]], []], "map": {"b": {}, "aa": [{}], "a": {"b": 1}},
    }  # fmt: skip
    return _usual("3.1", root(attributes=values, objects={"t": tensor(attributes=values)}))


def empty_attributes() -> Case:
    """Empty attributes of the root and of a tensor; the latter are part of the content digest."""
    digested = tensor(attributes={}, parts={"data": part(digest=xxh3(DATA))})
    return _usual("6.4", root(attributes={}, objects={"t": digested}))


def unknown_fields() -> Case:
    """Every map of the schema has fields that readers do not know, with keys of every type."""
    extra: Map = {
        0: 0, -1: 1, b"": 2, b"objects": 3, "": 4, "\0": 5, "u" * 2000: 6, "Objects": 7,
        True: None, None: [], 0.5: {1: {b"": -1}}, "value": [1.5, float("nan"), b"\xff", "text"],
        Raw(encode([])): 8, Raw(encode({})): 9,
    }  # fmt: skip
    manifest = root(
        objects={"t": tensor(Shape=1, parts={"data": {**part(), **extra}}) | extra},
        shards={"00001": {**shard(), **extra}},
    )
    manifest = {**manifest, **extra}
    expect = {"open": ACCEPT, "canonical": "reject"}
    return readable("3.1", manifest, _HEAP, image(manifest, _HEAP), expect)


def names() -> Case:
    """Names of 1 and of 1024 bytes, with separators, control characters and foreign letters."""
    odd = (
        "n",
        "n" * 1024,
        "é" * 512,
        "e\u0301",
        "a/b",
        "..",
        " ",
        "\n",
        "\x7f",
        "\ufffe",
        "\U0010ffff",
        "重み",
    )
    manifest = root(
        objects={name: tensor() for name in odd}, attributes={name: name for name in odd}
    )
    return _usual("3.5", manifest)


def key_order() -> Case:
    """Keys that sort differently as text and as encoded bytes: z, bb, é, aaa."""
    keys = ("z", "bb", "é", "aaa")
    manifest = root(objects={name: tensor() for name in keys}, attributes=dict.fromkeys(keys, 0))
    return _usual("3.1", manifest)


def many_objects() -> Case:
    """300 tensors, so that the head of a map takes three bytes."""
    objects: Map = {
        f"t{n}": tensor(shape=[0], parts={"data": part(blob=[FLOOR, 0])}) for n in range(300)
    }
    return _usual("3.2", root(objects=objects), {FLOOR: b""})


# --- dense ---------------------------------------------------------------------------------------


def scalar() -> Case:
    """An empty shape has one element."""
    single = tensor(shape=[], parts={"data": part(dtype="f64", blob=[FLOOR, 8])})
    return _usual("3.3", root(objects={"s": single}), {FLOOR: struct.pack("<d", 0.5)})


def rank_64() -> Case:
    """A shape has 64 dimensions, the most allowed."""
    deep = tensor(shape=[2, 2, 2, *[1] * 61])
    return _usual("3.3", root(objects={"t": deep}))


def storage_types() -> Case:
    """The twelve storage types, all over the same 16 bytes."""
    objects: Map = {
        dtype: tensor(shape=[16 // width], parts={"data": part(dtype=dtype, blob=[FLOOR, 16])})
        for dtype, width in _WIDTHS.items()
    }
    return _usual("4.1", root(objects=objects), {FLOOR: bytes(range(0xF0, 0x100))})


def logical_types() -> Case:
    """The nine registered logical types, all over the same 16 bytes."""
    kinds = {
        "bool": ("u8", 16), "f8_e4m3fn": ("u8", 16), "f8_e5m2": ("u8", 16),
        "f8_e4m3fnuz": ("u8", 16), "f8_e5m2fnuz": ("u8", 16), "f8_e8m0": ("u8", 16),
        "f4_e2m1": ("u8", 31), "complex64": ("f32", 2), "complex128": ("f64", 1),
    }  # fmt: skip
    objects: Map = {
        kind: tensor(shape=[count], parts={"data": part(dtype=dtype, type=kind, blob=[FLOOR, 16])})
        for kind, (dtype, count) in kinds.items()
    }
    return _usual("A", root(objects=objects), {FLOOR: _SIXTEEN})


def packed_rows() -> Case:
    """Three rows of three f4_e2m1 have five bytes: rows are not padded."""
    packed = part(type="f4_e2m1", blob=[FLOOR, 5])
    manifest = root(objects={"t": tensor(shape=[3, 3], parts={"data": packed})})
    return _usual("A", manifest, {FLOOR: b"\x21\x43\x65\x87\x09"})


def shared_blob() -> Case:
    """Two tensors refer to one blob, as tied weights do."""
    square = tensor(shape=[2, 4])
    return _usual("2.4", root(objects={"a": tensor(), "b": square}))


def digests() -> Case:
    """An xxh3 and a sha256 digest, which together define the content digest."""
    sha256 = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
    objects: Map = {
        "sha256": tensor(parts={"data": part(digest=sha256)}),
        "xxh3": tensor(parts={"data": part(digest=xxh3(DATA))}),
    }
    return _usual("3.4", root(objects=objects))


# --- shards --------------------------------------------------------------------------------------


def shards() -> Case:
    """Parts here and in a shard that is not there; its blob ends at its footer."""
    far = tensor(shape=[4056], parts={"data": part(blob=[4096, 4056], shard="00001-of-00002")})
    manifest = root(
        shards={"00001-of-00002": shard(), "unused": shard(size=48)},
        objects={"far": far, "near": tensor()},
    )
    return readable("7.1", manifest, _HEAP, image(manifest, _HEAP), STRUCTURE)


def shards__same_offsets() -> Case:
    """Blobs that would overlap in one file lie in three: here and in two absent shards."""
    objects = {
        name: tensor(shape=[blob[1]], parts={"data": part(blob=blob, **where)})
        for name, blob, where in (
            ("a", [4096, 8], {}),
            ("b", [4096, 4104], {"shard": "1"}),
            ("c", [8192, 8], {"shard": "2"}),
        )
    }
    manifest = root(shards={"1": shard(size=16384), "2": shard(size=16384)}, objects=objects)
    return readable("3.6", manifest, _HEAP, image(manifest, _HEAP), STRUCTURE)


def shards__names() -> Case:
    """Shard names of 1 and of 64 characters, with dots and hyphens at odd places."""
    names = ("0", "s" * 64, "a..b", "a.", "-rf", "_", "Z-9")
    digest = f"sha256:{'0' * 64}"
    manifest = root(shards={name: shard(digest=digest) for name in names}, objects={})
    return readable("7.1", manifest, {}, image(manifest, {}), STRUCTURE)


# --- zt.sparse_csr/1 -----------------------------------------------------------------------------


def _csr(
    heap: dict[int, bytes],
    shape: list[int],
    index: str,
    values: bytes,
    indices: tuple[int, ...],
    indptr: tuple[int, ...],
    **value_fields: object,
) -> Map:
    """Return a CSR object and add its parts to `heap`."""
    parts: Map = {}
    stored: dict[str, tuple[bytes, dict[str, object]]] = {
        "values": (values, value_fields or {"dtype": "f32"}),
        "indices": (integers(index, *indices), {"dtype": index}),
        "indptr": (integers(index, *indptr), {"dtype": index}),
    }
    for role, (data, fields) in stored.items():
        at = next((at for at, held in heap.items() if held == data), FLOOR * (len(heap) + 1))
        heap[at] = data
        parts[role] = part(blob=[at, len(data)], **fields)
    return tensor(layout=CSR, shape=shape, parts=parts)


def csr() -> Case:
    """CSR matrices with u64 and u32 indices, an empty row, bools, and an odd count of f4_e2m1."""
    heap: dict[int, bytes] = {}
    columns, rows = (0, 3, 1, 2), (0, 2, 2, 4)
    objects: Map = {
        "u64": _csr(heap, [3, 4], "u64", floats(1, 2, 3, 4), columns, rows),
        "u32": _csr(heap, [3, 4], "u32", floats(1, 2, 3, 4), columns, rows),
        "bool": _csr(heap, [3, 4], "u32", b"\1\0\1\1", columns, rows, dtype="u8", type="bool"),
        "f4": _csr(
            heap, [2, 3], "u32", b"\x21\x03", (0, 2, 1), (0, 2, 3), dtype="u8", type="f4_e2m1"
        ),
    }
    return _usual(CSR, root(objects=objects), heap)


def csr__empty() -> Case:
    """CSR matrices without elements, without rows and without columns."""
    heap: dict[int, bytes] = {}
    objects: Map = {
        "no elements": _csr(heap, [2, 3], "u64", b"", (), (0, 0, 0)),
        "no rows": _csr(heap, [0, 3], "u64", b"", (), (0,)),
        "no columns": _csr(heap, [2, 0], "u32", b"", (), (0, 0, 0)),
    }
    return _usual(CSR, root(objects=objects), heap)


# --- zt.zstd-seekable/1 --------------------------------------------------------------------------


def _zstd(streams: Mapping[str, tuple[bytes, bytes]]) -> Case:
    """Return the case of streams with their contents, by tensor name."""
    heap: dict[int, bytes] = {}
    decoded: dict[int, bytes] = {}
    objects: Map = {}
    for at, (name, (stored, content)) in zip(count(FLOOR, FLOOR), streams.items(), strict=False):
        heap[at], decoded[at] = stored, content
        objects[name] = seekable.encoded(stored, content, at)
    manifest = root(objects=objects)
    return Case(
        image=image(manifest, heap),
        section=ZSTD,
        expect=READABLE,
        contents=contents(manifest, heap, decoded=decoded),
    )


def zstd_seekable() -> Case:
    """Streams of no, one and three frames, raw, RLE and compressed blocks, a shorter last frame."""
    hello = (seekable.frame(b"hello"), 5)
    zeros = (seekable.frame(bytes(1 << 20), seekable.zeros(1 << 20)), 1 << 20)
    letters = seekable.compressed(seekable.literals(b"hell"), last=False)
    mixed = letters + seekable.rle(ord("o"), 3, last=False) + seekable.raw(b"!")
    return _zstd(
        {
            "empty": (seekable.table(()), b""),
            "hello": (seekable.stream(hello), b"hello"),
            "shorter last": (
                seekable.stream(hello, hello, (seekable.frame(b"!"), 1)),
                b"hellohello!",
            ),
            "zeros": (seekable.stream(zeros, zeros), bytes(2 << 20)),
            "mixed": (seekable.stream((seekable.frame(b"hellooo!", mixed), 8)), b"hellooo!"),
        }
    )


def zstd_seekable__headers() -> Case:
    """Frame headers of every kind: sizes in 1, 2, 4 and 8 bytes, windows of 1 KiB and 8 MiB."""
    long = bytes(range(256)) * 2
    headers: tuple[tuple[bytes, dict[str, Any]], ...] = (
        (b"hello", {"flags": 0x24, "window": b"", "stated": b"\x05"}),
        (long, {"flags": 0x64, "window": b"", "stated": struct.pack("<H", len(long) - 256)}),
        (b"hello", {"flags": 0xA4, "window": b"", "stated": struct.pack("<I", 5)}),
        (b"hello", {"flags": 0xC4, "stated": struct.pack("<Q", 5)}),
        (b"hello", {"window": b"\x00"}),
        (b"hello", {"window": b"\x68"}),
        (b"hello", {"flags": 0x14}),
        (b"hello", {"flags": 5, "dictionary": b"\x00"}),
    )
    streams = {
        f"{n}": (seekable.stream((seekable.frame(content, **fields), len(content))), content)
        for n, (content, fields) in enumerate(headers)
    }
    return _zstd(streams)


def zstd_seekable__tables() -> Case:
    """Checksums in the table, a last frame that is larger, frames without content."""
    hello, nothing = (seekable.frame(b"hello"), 5), (seekable.frame(b""), 0)
    larger = (seekable.frame(b"hello, world"), 12)
    both = [seekable.low_half(b"hello"), seekable.low_half(b"hello, world")]
    checked = seekable.stream(hello, larger, checksums=both, descriptor=0x80)
    return _zstd(
        {
            "checksums": (checked, b"hellohello, world"),
            "no entries": (seekable.table((), descriptor=0x80), b""),
            "larger last": (seekable.stream(hello, hello, larger), b"hellohellohello, world"),
            "nothing last": (seekable.stream(hello, nothing), b"hello"),
            "nothing first": (seekable.stream(nothing, nothing, hello), b"hello"),
            "nothing at all": (seekable.stream(nothing, nothing), b""),
        }
    )


def zstd_seekable__shared() -> Case:
    """Two tensors share an encoded blob; a third has the same bytes, and digest, raw."""
    content = b"hello123"
    stored = seekable.stream((seekable.frame(content), 8))
    blobs = {FLOOR: stored, 2 * FLOOR: content}
    wide = seekable.encoded(stored, content)
    parts: Map = {"data": {**wide["parts"]["data"], "dtype": "u64"}}
    raw = part(blob=[2 * FLOOR, 8], digest=xxh3(content))
    objects: Map = {
        "bytes": wide,
        "word": tensor(shape=[1], parts=parts),
        "raw": tensor(parts={"data": raw}),
    }
    manifest = root(objects=objects)
    return Case(
        image=image(manifest, blobs),
        section=ZSTD,
        expect=READABLE,
        contents=contents(manifest, blobs, decoded={FLOOR: content}),
    )


# --- canonical form ------------------------------------------------------------------------------


def _canonical(manifest: Map, heap: dict[int, bytes]) -> Case:
    ends = [at + len(data) for at, data in heap.items()]
    at = -(-max([SLOT, *ends]) // SLOT) * SLOT
    return readable("6.3", manifest, heap, image(manifest, heap, at=at), CANONICAL)


def _digested(data: bytes, at: int, **fields: object) -> Map:
    return part(blob=[at, len(data)], digest=xxh3(data), **fields)


def canonical_empty() -> Case:
    """An empty model in canonical form, with its manifest at 65536."""
    return _canonical(root(objects={}), {})


def canonical_shared() -> Case:
    """A canonical model with a shared blob, `bb` before `z`, and text that is not in NFC."""
    other = bytes(range(11, 19))
    objects: Map = {
        "bb": tensor(parts={"data": _digested(DATA, SLOT)}),
        "tied": tensor(shape=[1], parts={"data": _digested(DATA, SLOT, dtype="u64")}),
        "z": tensor(parts={"data": _digested(other, 2 * SLOT)}),
    }
    manifest = root(objects=objects, attributes={"note": "e\u0301"})
    return _canonical(manifest, {SLOT: DATA, 2 * SLOT: other})


def canonical_two_slots() -> Case:
    """A canonical tensor of 65,537 bytes takes two slots; its neighbor follows in the third."""
    long = bytes(SLOT) + b"\x01"
    heap = {SLOT: long, 3 * SLOT: DATA}
    objects: Map = {
        "long": tensor(shape=[len(long)], parts={"data": _digested(long, SLOT)}),
        "short": tensor(parts={"data": _digested(DATA, 3 * SLOT)}),
    }
    manifest = root(objects=objects)
    text = encode(manifest)
    tail = text + footer_for(text, 4 * SLOT).pack()
    spans = {0: MAGIC, 2 * SLOT: b"\x01", 3 * SLOT: DATA, 4 * SLOT: tail}
    built = Sparse(size=4 * SLOT + len(tail), spans=spans)
    return readable("6.3", manifest, heap, built, CANONICAL)


# --- not canonical for more than one reason, so that no rule is named ----------------------------


def not_canonical__two_manifests() -> Case:
    """An empty model was appended to an empty model, each manifest in a slot of its own."""
    manifest = root(objects={})
    text = encode(manifest)
    first = image(text, {}, at=SLOT)
    body = lay({0: first, 2 * SLOT: text})
    return readable("6.3.1", manifest, {}, body + footer_for(text, 2 * SLOT).pack())


def not_canonical__manifest_first() -> Case:
    """The manifest lies in the first slot, the only blob in the second."""
    manifest = root(objects={"t": tensor(parts={"data": _digested(DATA, 2 * SLOT)})})
    heap = {2 * SLOT: DATA}
    return readable("6.3.3", manifest, heap, image(manifest, heap, at=SLOT))


def not_canonical__empty_shard_table() -> Case:
    """An otherwise canonical empty model has a shard table that declares nothing."""
    manifest = root(objects={}, shards={})
    return readable("6.3.6", manifest, {}, image(manifest, {}, at=SLOT))
