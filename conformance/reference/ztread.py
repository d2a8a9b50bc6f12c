"""A minimal reader of zTensor containers, version 2 (Draft 4), as asked for in its §11.

It validates everything of §3.6, decodes the `dense` layout with raw parts, the twelve storage types
and the logical types of Appendix A, and refuses the rest by name. It is written to be read beside
the specification: one section after the other, in the order in which a file is judged. Speed is no
aim. Besides the standard library it needs only `xxhash`.

    python ztread.py OPERATION FILE

OPERATION is `open` (validate the manifest), `decode` (also read every tensor), `verify` (also check
the digests) or `canonical` (validate, and check the canonical form of §6.3). The exit code is 0 if
the file is accepted, 1 if it breaks a rule, 2 if it asks for something this reader does not know,
64 after a wrong command line, and 70 after an error of the reader itself. Standard output holds one
JSON value: the contents, or {"rules": […], "where": […]}, or {"refused": …}.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import sys
import traceback
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

import xxhash

MAGIC = bytes.fromhex("895A54320D0A1A0A")
FLOOR, SLOT, FOOTER = 4096, 65536, 40
MANIFEST_CAP = 1 << 30
U64_MAX = (1 << 64) - 1

Item: TypeAlias = Any  # a decoded CBOR item: int, float, bytes, str, bool, None, list or Map
Finding: TypeAlias = tuple[str, str]  # the id of a rule without its "zt.", and where it is broken


class Rejected(Exception):
    """The file breaks the rules named."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__(self.findings)


class Refused(Exception):
    """The file is valid as far as this reader can tell, and beyond it."""


def require(findings: Iterable[Finding]) -> None:
    """Raise `Rejected` if anything was found."""
    if found := list(findings):
        raise Rejected(found)


# --- §2 the container ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of the file and the numbers of its footer."""

    size: int
    offset: int
    length: int
    hash: int
    reserved: int

    @property
    def data_end(self) -> int:
        """The offset at which the footer begins and blobs have to end."""
        return self.size - FOOTER


def read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    """Return exactly `length` bytes; the caller has checked that they exist."""
    file.seek(offset)
    data = file.read(length)
    if len(data) != length:
        message = f"the file changed: {length} bytes at {offset} are gone"
        raise OSError(message)
    return data


def read_frame(file: BinaryIO) -> Frame:
    """Return the frame (§8 steps 1 and 2)."""
    size = file.seek(0, 2)
    if size < len(MAGIC) + FOOTER:
        raise Rejected([("file-size", f"{size} bytes")])
    head = read_at(file, 0, len(MAGIC))
    tail = read_at(file, size - FOOTER, FOOTER)
    offset, length, hash_, version, reserved = struct.unpack("<QQQII", tail[:32])
    require(
        (rule, "frame")
        for rule, broken in (
            ("header-magic", head != MAGIC),
            ("footer-magic", tail[32:] != MAGIC),
            ("version", version != 2),
            ("data-shard", length == 0 and (offset, hash_) != (0, 0)),
        )
        if broken
    )
    return Frame(size, offset, length, hash_, reserved)


def read_manifest(file: BinaryIO, frame: Frame) -> Map:
    """Return the manifest (§8 steps 3 to 5), parsed and of the right shape."""
    require(
        (rule, "footer")
        for rule, broken in (
            ("manifest-size", frame.length > MANIFEST_CAP),
            ("manifest-align", frame.offset % FLOOR != 0 or frame.offset < FLOOR),
            ("manifest-bounds", frame.offset + frame.length > frame.data_end),
        )
        if broken
    )
    text = read_at(file, frame.offset, frame.length)
    if xxhash.xxh3_64_intdigest(text) != frame.hash:
        raise Rejected([("manifest-hash", "footer")])
    root = Cbor(text).document()
    require(schema(root))
    return root  # type: ignore[no-any-return]


# --- §3.1 deterministic CBOR ---------------------------------------------------------------------

DEEPEST = 32  # the root map is level 0; what a container holds, keys included, is one deeper


@dataclass(slots=True)
class Map:
    """A CBOR map: all entries in order; of those with text keys, values and encoded values."""

    entries: list[tuple[Item, Item]]
    text: dict[str, Item]
    raw: dict[str, memoryview]

    def odd(self) -> list[Item]:
        """Return the keys that are not text."""
        return [key for key, _ in self.entries if not isinstance(key, str)]


class Cbor:
    """One pass over a manifest; every method consumes bytes and rejects the first fault."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.at = 0

    def fail(self, rule: str) -> NoReturn:
        """Reject what lies at the current position."""
        raise Rejected([(f"cbor-{rule}", f"manifest byte {self.at}")])

    def take(self, length: int) -> memoryview:
        """Return the next `length` bytes."""
        if length > len(self.data) - self.at:
            self.fail("truncated")
        self.at += length
        return self.data[self.at - length : self.at]

    def document(self) -> Item:
        """Return the one item of the manifest."""
        item = self.item(0)
        if self.at != len(self.data):
            self.fail("trailing")
        return item

    def item(self, level: int) -> Item:
        """Return the item that begins here."""
        if level > DEEPEST:
            self.fail("depth")
        major, info = divmod(self.take(1)[0], 32)
        if info == 31:
            self.fail("indefinite")
        if info > 27:
            self.fail("reserved")
        match major:
            case 0:
                return self.argument(info)
            case 1:
                return -1 - self.argument(info)
            case 2:
                return bytes(self.take(self.argument(info)))
            case 3:
                return self.utf8(self.argument(info))
            case 4:
                return self.array(self.argument(info), level)
            case 5:
                return self.map(self.argument(info), level)
            case 6:
                self.fail("tag")
        return self.simple(info)

    def argument(self, info: int) -> int:
        """Return the argument of a head, in its shortest form."""
        if info < 24:
            return info
        width = 1 << (info - 24)
        value = int.from_bytes(self.take(width), "big")
        if value < (24 if width == 1 else 1 << 4 * width):
            self.fail("shortest")
        return value

    def utf8(self, length: int) -> str:
        """Return a text."""
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            self.fail("utf8")

    def array(self, count: int, level: int) -> list[Item]:
        """Return an array of `count` items, each of at least one byte."""
        if count > len(self.data) - self.at:
            self.fail("truncated")
        return [self.item(level + 1) for _ in range(count)]

    def map(self, count: int, level: int) -> Map:
        """Return a map of `count` entries, whose encoded keys ascend."""
        if 2 * count > len(self.data) - self.at:
            self.fail("truncated")
        result = Map([], {}, {})
        previous = b""
        for _ in range(count):
            start = self.at
            key = self.item(level + 1)
            encoded = bytes(self.data[start : self.at])
            if encoded == previous:
                self.fail("key-unique")
            if encoded < previous:
                self.fail("key-order")
            previous, start = encoded, self.at
            value = self.item(level + 1)
            result.entries.append((key, value))
            if isinstance(key, str):
                result.text[key] = value
                result.raw[key] = self.data[start : self.at]
        return result

    def simple(self, info: int) -> Item:
        """Return false, true, null or a float."""
        if info < 20 or info in (23, 24):
            self.fail("simple")
        if info > 24:
            return self.float(1 << (info - 24))
        return None if info == 22 else info == 21

    def float(self, width: int) -> float:
        """Return a float of 2, 4 or 8 bytes that needs them all."""
        data = self.take(width)
        value: float = struct.unpack({2: ">e", 4: ">f", 8: ">d"}[width], data)[0]
        if math.isnan(value) and bytes(data) != b"\x7e\x00":
            self.fail("nan")
        for narrower in (">e", ">f")[: width.bit_length() - 2]:
            try:
                same = struct.unpack(narrower, struct.pack(narrower, value))[0] == value
            except OverflowError:
                continue
            if same:
                self.fail("float-shortest")
        return value


def text_item(value: str) -> bytes:
    """Return a text of at most 1024 bytes in CBOR."""
    return head(3, len(value.encode())) + value.encode()


def head(major: int, count: int) -> bytes:
    """Return a head in its shortest form."""
    if count < 24:
        return bytes([major << 5 | count])
    width = next(width for width in (1, 2, 4, 8) if count < 1 << 8 * width)
    return bytes([major << 5 | 23 + width.bit_length()]) + count.to_bytes(width, "big")


# --- §3.2 to §3.5, §4, §7.1 the fields of a manifest ---------------------------------------------

WIDTHS = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4,
    "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1,
}  # fmt: skip

# Appendix A: the dtype a logical type stands over, and the bits one element takes.
TYPES = {
    "bool": ("u8", 8), "f8_e4m3fn": ("u8", 8), "f8_e5m2": ("u8", 8), "f8_e4m3fnuz": ("u8", 8),
    "f8_e5m2fnuz": ("u8", 8), "f8_e8m0": ("u8", 8), "f4_e2m1": ("u8", 4),
    "complex64": ("f32", 64), "complex128": ("f64", 128),
}  # fmt: skip

SHARD_NAME = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,64}")
DIGEST = re.compile(r"[a-z0-9]+:[0-9a-f]+")


def unsigned(item: Item) -> bool:
    """Whether an item is an unsigned integer; CBOR has none above 2^64 - 1 without tags."""
    return isinstance(item, int) and not isinstance(item, bool) and item >= 0


def matches(item: Item, pattern: re.Pattern[str]) -> bool:
    """Whether an item is a text of the given form, to its last character."""
    return isinstance(item, str) and pattern.fullmatch(item) is not None


def schema(root: Item) -> Iterator[Finding]:
    """Yield what is wrong with the fields of a manifest."""
    if not isinstance(root, Map):
        yield "root-map", "root"
        return
    yield from attributes(root, "root")
    objects = root.text.get("objects")
    if isinstance(objects, Map):
        yield from names(objects, "objects")
        for name, record in objects.text.items():
            yield from object_fields(record, name)
    else:
        yield "objects", "root"
    shards = root.text.get("shards", Map([], {}, {}))
    if isinstance(shards, Map):
        yield from (("shard-name", repr(key)) for key in shards.odd())
        for name, record in shards.text.items():
            yield from shard_fields(record, name)
    else:
        yield "shards", "root"


def names(names_of: Map, where: str) -> Iterator[Finding]:
    """Yield the keys that are no names (§3.5)."""
    yield from (("name-text", f"{where}: {key!r}") for key in names_of.odd())
    for name in names_of.text:
        if not name:
            yield "name-empty", where
        if len(name.encode()) > 1024:
            yield "name-length", where
        if "\0" in name:
            yield "name-nul", where


def attributes(record: Map, where: str) -> Iterator[Finding]:
    """Yield what is wrong with the attributes of the root or an object."""
    found = record.text.get("attributes", Map([], {}, {}))
    if isinstance(found, Map):
        yield from names(found, f"attributes of {where}")
    else:
        yield "attributes", where


def shard_fields(record: Item, name: str) -> Iterator[Finding]:
    """Yield what is wrong with a shard table entry (§7.1)."""
    if not matches(name, SHARD_NAME):
        yield "shard-name", repr(name)
    if not isinstance(record, Map):
        yield "shard-entry", name
        return
    size: Item = record.text.get("size")
    if not unsigned(size) or size < len(MAGIC) + FOOTER:
        yield "shard-size", name
    if not matches(record.text.get("digest"), DIGEST):
        yield "shard-digest", name


def object_fields(record: Item, name: str) -> Iterator[Finding]:
    """Yield what is wrong with an object (§3.3)."""
    if not isinstance(record, Map):
        yield "object-map", name
        return
    yield from attributes(record, name)
    shape = record.text.get("shape")
    if not isinstance(shape, list) or not all(map(unsigned, shape)):
        yield "object-shape", name
    if not isinstance(record.text.get("layout"), str):
        yield "object-layout", name
    parts = record.text.get("parts")
    if not isinstance(parts, Map):
        yield "object-parts", name
        return
    if not parts.entries:
        yield "parts-empty", name
    yield from names(parts, f"parts of {name}")
    for role, fields in parts.text.items():
        yield from part_fields(fields, f"{name}/{role}")


def part_fields(part: Item, where: str) -> Iterator[Finding]:
    """Yield what is wrong with a part (§3.4)."""
    if not isinstance(part, Map):
        yield "part-map", where
        return
    fields = part.text
    dtype, kind, blob = fields.get("dtype"), fields.get("type"), fields.get("blob")
    if not isinstance(dtype, str) or dtype not in WIDTHS:
        yield "part-dtype", where
    elif isinstance(kind, str) and kind in TYPES and TYPES[kind][0] != dtype:
        yield "type-dtype", where
    if not (isinstance(blob, list) and len(blob) == 2 and all(map(unsigned, blob))):
        yield "part-blob", where
    for name in ("type", "encoding"):
        if name in fields and not isinstance(fields[name], str):
            yield f"part-{name}", where
    if "shard" in fields and not matches(fields["shard"], SHARD_NAME):
        yield "part-shard", where
    if "digest" in fields and not matches(fields["digest"], DIGEST):
        yield "part-digest", where
    decoded = "decoded_length" in fields
    if decoded != ("encoding" in fields) or (decoded and not unsigned(fields["decoded_length"])):
        yield "part-decoded-length", where


# --- §3.6 what a good manifest claims ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A part with fields of the right types."""

    where: str
    dtype: str
    type: str | None
    offset: int
    length: int
    shard: str | None
    encoding: str | None
    nbytes: int  # decoded
    digest: str | None


@dataclass(frozen=True, slots=True)
class Tensor:
    """An object with fields of the right types."""

    name: str
    shape: list[int]
    layout: str
    parts: dict[str, Part]
    record: Map


def tensors(root: Map) -> list[Tensor]:
    """Return the objects of a manifest that passed `schema`."""
    result = []
    for name, record in root.text["objects"].text.items():
        parts = {}
        for role, part in record.text["parts"].text.items():
            fields = part.text
            offset, length = fields["blob"]
            parts[role] = Part(
                where=f"{name}/{role}",
                dtype=fields["dtype"],
                type=fields.get("type"),
                offset=offset,
                length=length,
                shard=fields.get("shard"),
                encoding=fields.get("encoding"),
                nbytes=fields.get("decoded_length", length),
                digest=fields.get("digest"),
            )
        result.append(Tensor(name, record.text["shape"], record.text["layout"], parts, record))
    return result


def claims(root: Map, objects: list[Tensor], frame: Frame) -> Iterator[Finding]:
    """Yield what cannot be true of shapes, blobs and dense objects."""
    shards = root.text["shards"].text if "shards" in root.text else {}
    ends = {name: entry.text["size"] - FOOTER for name, entry in shards.items()}
    files: dict[str | None, list[tuple[int, int]]] = {None: [(frame.offset, frame.length)]}
    for tensor in objects:
        yield from shape_claims(tensor)
        for part in tensor.parts.values():
            if part.offset % FLOOR or part.offset < FLOOR:
                yield "blob-align", part.where
            if part.shard is not None and part.shard not in ends:
                yield "shard-undeclared", part.where
                continue
            end = frame.data_end if part.shard is None else ends[part.shard]
            if part.offset + part.length > end:
                yield "blob-bounds", part.where
            files.setdefault(part.shard, []).append((part.offset, part.length))
        if tensor.layout == "dense":
            yield from dense_claims(tensor)
    for shard, blobs in files.items():
        yield from overlaps(blobs, shard or "this file")


def shape_claims(tensor: Tensor) -> Iterator[Finding]:
    """Yield what is wrong with a shape (§3.3)."""
    if len(tensor.shape) > 64:
        yield "shape-rank", tensor.name
    product = 1
    for dimension in tensor.shape:
        product *= dimension
        if product > U64_MAX:
            yield "shape-product", tensor.name
            return


def overlaps(blobs: list[tuple[int, int]], where: str) -> Iterator[Finding]:
    """Yield the blobs of one file that overlap without being identical (§2.4)."""
    distinct = sorted({(offset, length) for offset, length in blobs if length})
    furthest = 0
    for offset, length in distinct:
        if offset < furthest:
            yield "blob-overlap", f"byte {offset} of {where}"
        furthest = max(furthest, offset + length)


def nbytes(part: Part, count: int) -> int | None:
    """Return the size of `count` elements (§4.2), however large; None if the type is unknown."""
    if part.type is None:
        return count * WIDTHS[part.dtype]
    return -(-count * TYPES[part.type][1] // 8) if part.type in TYPES else None


def dense_claims(tensor: Tensor) -> Iterator[Finding]:
    """Yield what is wrong with a dense object (§5.1)."""
    if list(tensor.parts) != ["data"]:
        yield "dense-parts", tensor.name
        return
    part = tensor.parts["data"]
    if nbytes(part, math.prod(tensor.shape)) not in (None, part.nbytes):
        yield "dense-size", part.where


# --- Appendix A, §3.4 payloads -------------------------------------------------------------------


def payload(file: BinaryIO, part: Part) -> bytes:
    """Return the decoded bytes of a part, or refuse."""
    if part.encoding is not None:
        message = f"{part.where}: encoding {part.encoding!r}"
        raise Refused(message)
    if part.shard is not None:
        message = f"{part.where}: shard {part.shard!r}"
        raise Refused(message)
    return read_at(file, part.offset, part.length)


def content(tensor: Tensor, part: Part, data: bytes) -> Iterator[Finding]:
    """Yield the bytes that the type of a dense part forbids (Appendix A)."""
    if part.type == "bool" and data.translate(None, b"\x00\x01"):
        yield "bool-byte", part.where
    if part.type == "f4_e2m1" and math.prod(tensor.shape) % 2 and data[-1] > 15:
        yield "f4-padding", part.where


def decode(file: BinaryIO, objects: list[Tensor]) -> dict[Part, bytes]:
    """Return the bytes of every part, once it is certain what they mean."""
    decoded = {}
    for tensor in objects:
        if tensor.layout != "dense":
            message = f"{tensor.name}: layout {tensor.layout!r}"
            raise Refused(message)
        part = tensor.parts["data"]
        if part.type is not None and part.type not in TYPES:
            message = f"{part.where}: type {part.type!r}"
            raise Refused(message)
        data = payload(file, part)
        require(content(tensor, part, data))
        decoded[part] = data
    return decoded


def verify(file: BinaryIO, objects: list[Tensor]) -> dict[Part, bytes]:
    """Return the bytes of every part that can be decoded, with all digests checked."""
    decoded: dict[Part, bytes] = {}
    refusals: list[Refused] = []
    for tensor in objects:
        for part in tensor.parts.values():
            try:
                data = payload(file, part)
                if tensor.layout == "dense":
                    require(content(tensor, part, data))
                if part.digest is not None and not digest_matches(part.digest, data):
                    raise Rejected([("digest", part.where)])
            except Refused as refusal:  # a later part may still break a rule
                refusals.append(refusal)
                continue
            decoded[part] = data
    if refusals:
        raise refusals[0]
    return decoded


def digest_matches(digest: str, data: bytes) -> bool:
    """Whether a digest is the one of `data`."""
    algorithm, _, expected = digest.partition(":")
    match algorithm:
        case "xxh3":
            return xxhash.xxh3_64_hexdigest(data) == expected
        case "sha256":
            return hashlib.sha256(data).hexdigest() == expected
    message = f"digest algorithm {algorithm!r}"
    raise Refused(message)


# --- §6.3 canonical form -------------------------------------------------------------------------

FIELDS = {"shape", "layout", "attributes", "parts"}
PART_FIELDS = {"dtype", "type", "blob", "shard", "encoding", "decoded_length", "digest"}


def canonical(file: BinaryIO, frame: Frame, root: Map, objects: list[Tensor]) -> Iterator[Finding]:
    """Yield what keeps a valid file from being canonical."""
    if "shards" in root.text:
        yield "canonical-shards", "root"
    yield from unknown_fields(root, {"objects", "shards", "attributes"}, "root")
    yield from normalized([root.text.get("attributes")], "attributes")
    for tensor in objects:
        yield from unknown_fields(tensor.record, FIELDS, tensor.name)
        yield from normalized([tensor.record.text.get("attributes")], tensor.name)
        if not unicodedata.is_normalized("NFC", tensor.name):
            yield "canonical-names", tensor.name
        for role, part in tensor.parts.items():
            yield from unknown_fields(
                tensor.record.text["parts"].text[role], PART_FIELDS, part.where
            )
            if not unicodedata.is_normalized("NFC", role):
                yield "canonical-names", part.where
            if part.encoding is not None:
                yield "canonical-raw", part.where
            if not has_canonical_digest(file, part):
                yield "canonical-digest", part.where
    parts = [
        tensor.parts[role]
        for tensor in sorted(objects, key=lambda tensor: tensor.name.encode())
        for role in sorted(tensor.parts, key=str.encode)
    ]
    local = [part for part in parts if part.shard is None]
    yield from ordered(local)
    yield from shared(file, [part for part in local if part.encoding is None])
    extents = sorted(
        {(part.offset, part.length) for part in local} | {(frame.offset, frame.length)}
    )
    yield from placed(extents, frame)
    yield from empty_placed(local)
    yield from padded(file, extents, frame)


def has_canonical_digest(file: BinaryIO, part: Part) -> bool:
    """Whether a part carries an xxh3 digest; of a raw one, whether it is that of its bytes."""
    if part.digest is None or not re.fullmatch("xxh3:[0-9a-f]{16}", part.digest):
        return False
    is_here = part.shard is None and part.encoding is None
    return not is_here or digest_matches(part.digest, payload(file, part))


def unknown_fields(record: Map, known: set[str], where: str) -> Iterator[Finding]:
    """Yield a map with entries that the specification does not define, or empty attributes."""
    attributes = record.text.get("attributes")
    is_empty = isinstance(attributes, Map) and not attributes.entries
    if record.odd() or not record.text.keys() <= known or is_empty:
        yield "canonical-manifest", where


def normalized(items: Iterable[Item], where: str) -> Iterator[Finding]:
    """Yield the keys of maps, at every level below `items`, that are not in NFC."""
    for item in items:
        if isinstance(item, list):
            yield from normalized(item, where)
        if isinstance(item, Map):
            for key in item.text:
                if not unicodedata.is_normalized("NFC", key):
                    yield "canonical-names", where
            for entry in item.entries:
                yield from normalized(entry, where)


def ordered(parts: list[Part]) -> Iterator[Finding]:
    """Yield a blob that lies before one whose first reference has a smaller name."""
    last = 0
    seen = set()
    for part in parts:
        if (part.offset, part.length) not in seen and part.offset < last:
            yield "canonical-order", part.where
            return
        seen.add((part.offset, part.length))
        last = max(last, part.offset)


def shared(file: BinaryIO, parts: list[Part]) -> Iterator[Finding]:
    """Yield a part whose bytes another blob holds too."""
    blobs: dict[bytes, tuple[int, int]] = {}
    for part in parts:
        key = hashlib.sha256(payload(file, part)).digest()
        if blobs.setdefault(key, (part.offset, part.length)) != (part.offset, part.length):
            yield "canonical-sharing", part.where


def next_slot(offset: int) -> int:
    """Return the first 64 KiB boundary at or after `offset`."""
    return -(-offset // SLOT) * SLOT


def placed(extents: list[tuple[int, int]], frame: Frame) -> Iterator[Finding]:
    """Yield the first blob or manifest out of its slot, or a footer that does not follow."""
    free = SLOT
    for offset, length in extents:
        if offset % SLOT or offset < free:
            yield "canonical-placement", f"byte {offset}"
            return
        if offset > free:
            yield "canonical-blobs", f"bytes {free} to {offset}"
            return
        free = next_slot(offset + length)
    if frame.offset + frame.length != frame.data_end:
        yield "canonical-placement", "footer"


def empty_placed(parts: list[Part]) -> Iterator[Finding]:
    """Yield the first part without bytes where it does not stand at the next free slot."""
    end = len(MAGIC)
    for part in parts:
        if not part.length:
            if part.offset % SLOT == 0 and part.offset != next_slot(end):
                yield "canonical-placement", part.where
            return
        end = max(end, part.offset + part.length)


def padded(file: BinaryIO, extents: list[tuple[int, int]], frame: Frame) -> Iterator[Finding]:
    """Yield what is not zero between the end of a blob and the next slot or blob."""
    if frame.reserved:
        yield "canonical-padding", "footer"
    end = len(MAGIC)
    for offset, length in [*extents, (frame.data_end, 0)]:
        stop = min(offset, next_slot(end))
        if stop > end and any(read_at(file, end, stop - end)):
            yield "canonical-padding", f"bytes {end} to {stop}"
        end = max(end, offset + length)


# --- §6.4 the content digest, and the report -----------------------------------------------------


def content_digest(objects: list[Tensor]) -> dict[str, str] | None:
    """Return the digest that names a model, or None where a part has no digest.

    The manifest has the pieces in their deterministic encoding and order; they are copied.
    """
    if not all(part.digest for tensor in objects for part in tensor.parts.values()):
        return None
    text = [head(4, 2), text_item("zt.content/1"), head(5, len(objects))]
    for tensor in objects:
        text.append(text_item(tensor.name))
        reduced = {name: raw for name, raw in tensor.record.raw.items() if name in FIELDS}
        text.append(head(5, len(reduced)))
        for name, raw in reduced.items():
            text.append(text_item(name))
            if name != "parts":
                text.append(bytes(raw))
                continue
            text.append(head(5, len(tensor.parts)))
            for role, part in tensor.record.text["parts"].text.items():
                kept = [key for key in part.raw if key in ("dtype", "type", "digest")]
                text += [text_item(role), head(5, len(kept))]
                text += [text_item(key) + bytes(part.raw[key]) for key in kept]
    joined = b"".join(text)
    return {
        "xxh3": f"xxh3:{xxhash.xxh3_64_hexdigest(joined)}",
        "sha256": f"sha256:{hashlib.sha256(joined).hexdigest()}",
    }


def jsonable(item: Item) -> Item:
    """Return an attribute value in JSON: bytes, odd floats and odd maps as the README says."""
    match item:
        case float() if math.isnan(item):
            return "NaN"
        case float() if math.isinf(item):
            return "Infinity" if item > 0 else "-Infinity"
        case bytes():
            return {"hex": item.hex()}
        case list():
            return [jsonable(element) for element in item]
        case Map() if item.odd():
            return {"pairs": [[jsonable(key), jsonable(value)] for key, value in item.entries]}
        case Map():
            return {key: jsonable(value) for key, value in item.text.items()}
    return item


def describe(root: Map, objects: list[Tensor], decoded: dict[Part, bytes]) -> dict[str, Item]:
    """Return the contents of a file as JSON, with the hash of every part that was decoded."""
    return {
        "attributes": jsonable(root.text.get("attributes")),
        "tensors": {
            tensor.name: {
                "shape": tensor.shape,
                "layout": tensor.layout,
                "attributes": jsonable(tensor.record.text.get("attributes")),
                "parts": {
                    role: {
                        "dtype": part.dtype,
                        "type": part.type,
                        "digest": part.digest,
                        "nbytes": part.nbytes,
                    }
                    | (
                        {"sha256": hashlib.sha256(decoded[part]).hexdigest()}
                        if part in decoded
                        else {}
                    )
                    for role, part in tensor.parts.items()
                },
            }
            for tensor in objects
        },
        "content_digest": content_digest(objects),
    }


def read(operation: str, file: BinaryIO) -> dict[str, Item]:
    """Return the contents of a file, or raise `Rejected` or `Refused`."""
    frame = read_frame(file)
    if frame.length == 0:
        if operation == "canonical":
            raise Rejected([("canonical-blobs", "no manifest")])
        return {"attributes": None, "tensors": None, "content_digest": None}
    root = read_manifest(file, frame)
    objects = tensors(root)
    require(claims(root, objects, frame))
    decoded: dict[Part, bytes] = {}
    if operation == "decode":
        decoded = decode(file, objects)
    if operation == "verify":
        decoded = verify(file, objects)
    contents = describe(root, objects, decoded)
    if operation == "canonical":
        require(canonical(file, frame, root, objects))
        contents["canonical"] = True
    return contents


def judge(operation: str, path: Path) -> tuple[int, dict[str, Item]]:
    """Return the exit code and the report."""
    try:
        with path.open("rb") as file:
            return 0, read(operation, file)
    except Rejected as verdict:
        rules = [f"zt.{rule}" for rule, _ in verdict.findings]
        return 1, {"rules": rules, "where": [where for _, where in verdict.findings]}
    except Refused as verdict:
        return 2, {"refused": str(verdict)}


def main(arguments: list[str]) -> int:
    """Judge the file named on the command line."""
    if len(arguments) != 2 or arguments[0] not in {"open", "decode", "verify", "canonical"}:
        sys.stderr.write("usage: ztread.py open|decode|verify|canonical FILE\n")
        return 64
    try:
        code, report = judge(arguments[0], Path(arguments[1]))
    except Exception:  # noqa: BLE001 - Python's own exit code for a crash, 1, would say "rejected"
        traceback.print_exc()
        return 70
    sys.stdout.write(json.dumps(report) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
