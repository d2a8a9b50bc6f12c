"""Files of less than ten megabytes that try to cost much more: one for each parser and pattern.

Each is made by a function of its own, from the texts of the formats, about `size` bytes long.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import xxhash

from conformance.zt.build.cbor import ARRAY, MAP, encode, head
from conformance.zt.build.image import FLOOR, MAGIC, Footer
from conformance.zt.build.manifest import root
from conformance.zt.build.seekable import encoded, frame, stream

Make = Callable[[Path, int], Path]

# ------------------------------------------------------------------------------------ .zt


def zt(folder: Path, manifest: bytes, heap: bytes = b"", *, footers: int = 1) -> Path:
    """Write a `.zt` of this manifest."""
    start = -(-(FLOOR + len(heap)) // FLOOR) * FLOOR
    footer = Footer(offset=start, length=len(manifest), hash=xxhash.xxh3_64_intdigest(manifest))
    body = (MAGIC.ljust(FLOOR, b"\0") + heap).ljust(start, b"\0") + manifest
    path = folder / "bomb.zt"
    path.write_bytes(body + footer.pack() * footers)
    return path


def _unknown(item: bytes) -> Make:
    """An unknown field that is an array of `item`."""

    def make(folder: Path, size: int) -> Path:
        count = size // len(item)
        field = encode("zz") + head(ARRAY, count) + item * count
        return zt(folder, b"\xa2" + field + encode("objects") + b"\xa0")

    return make


def _unknown_map(folder: Path, size: int) -> Path:
    """An unknown field that is a map of very many small entries."""
    count = size // 6
    entries = b"".join(b"\x64" + b"%04x" % n + b"\0" if n < 65536 else b"" for n in range(65536))
    deep = head(MAP, 65536) + entries
    many = head(ARRAY, count * 6 // len(deep)) + deep * (count * 6 // len(deep))
    return zt(folder, b"\xa2" + encode("zz") + many + encode("objects") + b"\xa0")


def _attributes(folder: Path, size: int) -> Path:
    """Attributes, which are kept, of empty maps."""
    count = size
    field = encode("attributes") + b"\xa1" + encode("a") + head(ARRAY, count) + b"\xa0" * count
    return zt(folder, b"\xa2" + encode("objects") + b"\xa0" + field)


def _attribute_maps(folder: Path, size: int) -> Path:
    """Attributes, which are kept, of maps of one short text."""
    count = size // 12
    field = encode("attributes") + b"\xa1" + encode("a") + head(ARRAY, count)
    items = b"".join(b"\xa1\x65%05x\x64abcd" % n for n in range(count))
    return zt(folder, b"\xa2" + encode("objects") + b"\xa0" + field + items)


PLAIN_OBJECT = encode(
    {"shape": [0], "layout": "dense", "parts": {"data": {"dtype": "u8", "blob": [4096, 0]}}}
)
OTHER_OBJECT = encode(
    {"shape": [0], "layout": "x.y", "parts": {"data": {"dtype": "u8", "blob": [4096, 0]}}}
)


def _objects(item: bytes) -> Make:
    """Objects with short names, each of them `item`."""

    def make(folder: Path, size: int) -> Path:
        count = min(size // (6 + len(item)), 1 << 20)
        entries = b"".join(b"\x65%05x" % n + item for n in range(count))
        return zt(folder, b"\xa1" + encode("objects") + head(MAP, count) + entries)

    return make


def _shards(folder: Path, size: int) -> Path:
    """A root with very many shards, all of which are missing, each named by an object."""
    count = size // 160
    shards = {f"s{n:06}": {"size": 8192, "digest": f"xxh3:{n:016x}"} for n in range(count)}
    data = {"dtype": "u8", "digest": "xxh3:2d06800538d394c2"}
    objects = {
        f"t{n:06}": {
            "shape": [0],
            "layout": "dense",
            "parts": {"data": data | {"blob": [4096, 0], "shard": f"s{n:06}"}},
        }
        for n in range(count)
    }
    return zt(folder, encode({"objects": objects, "shards": shards}))


def _frames(folder: Path, size: int) -> Path:
    """An encoded part of very many frames of one byte."""
    count = size // 22
    one = frame(b"\0")
    stored = stream(*[(one, 1)] * count)
    manifest = encode(root(objects={"t": encoded(stored, bytes(count))}))
    return zt(folder, manifest, stored)


def _footers(folder: Path, size: int) -> Path:
    """Very many footers, each of a manifest that is no model, and a tail that is no footer."""
    attributes = {f"k{n:06}": [1, 2, 3, "x"] for n in range(size // 20)}
    path = zt(folder, encode({"attributes": attributes}), footers=size // 80)
    path.write_bytes(path.read_bytes() + b"tail")
    return path


def _generations(folder: Path, size: int) -> Path:
    """Very many footers of one valid manifest, behind each other."""
    names = {f"t{n:06}": {"shape": [0], "layout": "dense", "parts": {}} for n in range(100)}
    data = {"data": {"dtype": "u8", "blob": [4096, 0]}}
    manifest = encode({"objects": {name: each | {"parts": data} for name, each in names.items()}})
    path = zt(folder, manifest, footers=size // 40)
    path.write_bytes(path.read_bytes() + b"tail")
    return path


# -------------------------------------------------------------------------------------- JSON


def safetensors(folder: Path, text: bytes) -> Path:
    """Write a file with this text as its header."""
    path = folder / "bomb.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    return path


def index(folder: Path, text: bytes) -> Path:
    """Write an index of shards."""
    path = folder / "bomb.safetensors.index.json"
    path.write_bytes(text)
    return path


def ninfer(folder: Path, text: bytes) -> Path:
    """Write an artifact with this directory."""
    path = folder / "bomb.ninfer"
    body = b"NINFER\0\x03" + struct.pack("<Q", len(text)) + bytes(16) + text
    path.write_bytes(body.ljust(-(-len(body) // 4096) * 4096, b"\0") + bytes(4096))
    return path


def tbm(folder: Path, text: bytes) -> Path:
    """Write a container with this index."""
    path = folder / "bomb.tbm"
    path.write_bytes(text + struct.pack("<I", len(text)))
    return path


def manifest(folder: Path, text: bytes) -> Path:
    """Write the manifest of a Tensorbit folder."""
    path = folder / "manifest.json"
    path.write_bytes(text)
    return path


Members = Callable[[int], Iterator[bytes]]
"""Gives the members of a map, after the first ones, as JSON."""


def _open(opening: bytes) -> Members:
    return lambda size: iter([b'"a":', opening * (size // len(opening))])


def _list(item: bytes) -> Members:
    def make(size: int) -> Iterator[bytes]:
        yield b'"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":['
        yield (item + b",") * (size // (len(item) + 1))
        yield b"0]}"

    return make


def _members(value: bytes) -> Members:
    def make(size: int) -> Iterator[bytes]:
        for n in range(size // (9 + len(value))):
            yield b'"%05x":%b,' % (n, value)
        yield b'"_":' + value

    return make


def _escapes(size: int) -> Iterator[bytes]:
    yield b'"' + rb"\u0041" * (size // 6) + b'":0'


def _digits(size: int) -> Iterator[bytes]:
    yield b'"a":' + b"9" * size


TEXTS = {
    "lists-in-lists": _open(b"["),
    "maps-in-maps": _open(b'{"a":'),
    "empty-maps": _list(b"{}"),
    "empty-lists": _list(b"[]"),
    "lists-of-maps": _list(b"[{}]"),
    "numbers": _list(b"300"),
    "reals": _list(b"0.5"),
    "texts": _list(b'"ab"'),
    "small-maps": _list(b'{"bbbbbb":0}'),
    "members": _members(b"0"),
    "members-that-are-maps": _members(b"{}"),
    "escapes": _escapes,
    "digits": _digits,
}
HOMES = {
    "safetensors": (safetensors, b""),
    "index": (index, b'"weight_map":{"a":"m-00001-of-00001.safetensors"},'),
    "ninfer": (ninfer, b'"components":{},'),
    "tbm": (tbm, b'"architecture":"a","config":{},"tensors":[],'),
    "manifest": (manifest, b'"architecture":"a","config":{},"tensors":[],'),
}
"""Where a text lies, and the members by which it is known."""


def _text(home: Callable[[Path, bytes], Path], first: bytes, members: Members) -> Make:
    return lambda folder, size: home(folder, b"{" + first + b"".join(members(size)) + b"}")


def _metadata(folder: Path, size: int) -> Path:
    """A header of very much metadata, which is legal."""
    members = b",".join(b'"%05x":""' % n for n in range(size // 11))
    return safetensors(folder, b'{"__metadata__":{' + members + b"}}")


def _config(folder: Path, size: int) -> Path:
    """An index with a very large configuration, which may hold anything."""
    members = b",".join(b'"%05x":0' % n for n in range(size // 10))
    return tbm(folder, b'{"architecture":"a","tensors":[],"config":{' + members + b"}}")


def _artifact(folder: Path, size: int) -> Path:
    """A directory of very many objects that lack nearly everything."""
    items = b'{"id":"a"},' * (size // 11) + b"{}"
    rest = b'"components":{},"bindings":{},"uses":[],"files":[]'
    return ninfer(folder, b'{"objects":[' + items + b"]," + rest + b"}")


def _bindings(folder: Path, size: int) -> Path:
    """A directory of very many bindings that are none."""
    items = b",".join(b'"%05x":0' % n for n in range(size // 10))
    rest = b'"components":{},"objects":[],"uses":[],"files":[]'
    return ninfer(folder, b'{"bindings":{' + items + b"}," + rest + b"}")


def _entries_of_nothing(folder: Path, size: int) -> Path:
    """An index of very many tensors that have a name only."""
    items = b",".join(b'{"name":"%05x"}' % n for n in range(size // 17))
    return tbm(folder, b'{"architecture":"a","config":{},"tensors":[' + items + b"]}")


def _weights(folder: Path, size: int) -> Path:
    """An index of very many shards, all of which are missing."""
    names = {f"t{n:06}": f"s{n:06}.safetensors" for n in range(size // 34)}
    return index(folder, json.dumps({"weight_map": names}, separators=(",", ":")).encode())


def _tensors(folder: Path, size: int) -> Path:
    """A header of very many tensors without elements, which is legal."""
    entry = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
    names = dict.fromkeys((f"{n:06}" for n in range(size // 64)), entry)
    return safetensors(folder, json.dumps(names, separators=(",", ":")).encode())


# --------------------------------------------------------------------------------------- npz

Member = tuple[bytes, int, bytes, int, int]
"""Name, method, stored bytes, size and CRC of a member."""


def npz(folder: Path, members: list[Member], *, is_ghost: bool = False) -> Path:
    """Write an archive; with `is_ghost` only the first member is there, for all entries."""
    out, entries = bytearray(), bytearray()
    for name, method, data, size, crc in members:
        at = 0 if is_ghost else len(out)
        facts = struct.pack("<3L", crc, len(data), size)
        if not (is_ghost and out):
            out += struct.pack("<4s5H", b"PK\3\4", 20, 0, method, 0, 33) + facts
            out += struct.pack("<2H", len(name), 0) + name + data
        entries += struct.pack("<4s6H", b"PK\1\2", 20, 20, 0, method, 0, 33) + facts
        entries += struct.pack("<5H2L", len(name), 0, 0, 0, 0, 0, at) + name
    count = min(len(members), 65535)
    end = b""
    if len(members) > 65535:
        end = struct.pack("<4sQ2H2L", b"PK\6\6", 44, 45, 45, 0, 0)
        end += struct.pack("<4Q", len(members), len(members), len(entries), len(out))
        end += struct.pack("<4sLQL", b"PK\6\7", 0, len(out) + len(entries), 1)
    end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(entries), len(out), 0)
    path = folder / "bomb.npz"
    path.write_bytes(out + entries + end)
    return path


def header(text: bytes) -> bytes:
    """Return the header of an array."""
    return b"\x93NUMPY\2\0" + struct.pack("<I", len(text)) + text


def _deflated(data: bytes) -> tuple[int, bytes, int, int]:
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = engine.compress(data) + engine.flush()
    return 8, packed, len(data), zlib.crc32(data)


PLAIN = b"{'descr': '|u1', 'fortran_order': False, 'shape': (0,), }"


def _headers(text: bytes) -> Make:
    """Very many deflated headers of a megabyte."""

    def make(folder: Path, size: int) -> Path:
        packed = _deflated(header(text))
        count = size // (len(packed[1]) + 100)
        return npz(folder, [(b"t%d.npy" % n, *packed) for n in range(count)])

    return make


def _entries(name: bytes) -> Make:
    """Very many entries for one member, or for members of nothing."""

    def make(folder: Path, size: int) -> Path:
        members = [(b"%x%b" % (n, name), 0, b"", 0, 0) for n in range(size // (80 + 2 * len(name)))]
        return npz(folder, members)

    return make


def _ghosts(folder: Path, size: int) -> Path:
    data = header(PLAIN)
    one = (0, data, len(data), zlib.crc32(data))
    return npz(folder, [(b"%06d.npy" % n, *one) for n in range(size // 56)], is_ghost=True)


def _arrays(folder: Path, size: int) -> Path:
    """Very many arrays without elements, which is legal."""
    data = header(PLAIN)
    one = (0, data, len(data), zlib.crc32(data))
    return npz(folder, [(b"%06d.npy" % n, *one) for n in range(size // 170)])


def _fill(before: bytes, item: bytes, after: bytes) -> bytes:
    return before + item * (((1 << 20) - 12 - len(before) - len(after)) // len(item)) + after


_SHAPE = b"{'descr': '|u1', 'fortran_order': False, 'shape': ("
_RECORD = b"{'fortran_order': False, 'shape': (0,), 'descr': ["


BOMBS: dict[str, Make] = {
    "zt-empty-maps": _unknown(b"\xa0"),
    "zt-empty-lists": _unknown(b"\x80"),
    "zt-numbers": _unknown(b"\x19\x01\x00"),
    "zt-texts": _unknown(b"\x62ab"),
    "zt-reals": _unknown(b"\xf9\x3c\x01"),
    "zt-maps": _unknown_map,
    "zt-attributes": _attributes,
    "zt-objects-of-nothing": _objects(b"\xa0"),
    "zt-objects-of-lists": _objects(b"\x80"),
    "zt-objects-of-others": _objects(b"\xa3\x60\x00\x61a\x00\x61b\x00"),
    "zt-plain-objects": _objects(PLAIN_OBJECT),
    "zt-other-objects": _objects(OTHER_OBJECT),
    "zt-attribute-maps": _attribute_maps,
    "zt-missing-shards": _shards,
    "zt-frames": _frames,
    "zt-footers": _footers,
    "zt-generations": _generations,
    **{
        f"{kind}-{name}": _text(home, first, text)
        for kind, (home, first) in HOMES.items()
        for name, text in TEXTS.items()
    },
    "index-missing-shards": _weights,
    "safetensors-tensors": _tensors,
    "safetensors-metadata": _metadata,
    "tbm-config": _config,
    "tbm-names": _entries_of_nothing,
    "ninfer-objects": _artifact,
    "ninfer-bindings": _bindings,
    "npz-headers": _headers(PLAIN.ljust((1 << 20) - 12)),
    "npz-shapes": _headers(_fill(_SHAPE, b"0,", b")}")),
    "npz-records": _headers(_fill(_RECORD, b"('a','<f4'),", b"]}")),
    "npz-nested": _headers(_fill(_RECORD, b"(),", b"]}")),
    "npz-others": _entries(b""),
    "npz-empty-arrays": _entries(b".npy"),
    "npz-ghosts": _ghosts,
    "npz-arrays": _arrays,
}
