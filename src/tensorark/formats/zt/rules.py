"""The rules of the manifest of `.zt` (§§2.4, 3, 4, 7.1): syntax, schema, and what needs no payload.

One function per requirement, judging columns. The frame's rules stand in `frame`, those of layouts
in `layouts`, those that need payload in `content`.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.core.types import DTYPES, TYPES
from tensorark.formats.zt.frame import FOOTER_SIZE, MIN_SIZE, is_aligned
from tensorark.formats.zt.manifest import (
    MISSING,
    Manifest,
    RawManifest,
    entries_of,
    is_map,
    key_text,
    members_of,
)
from tensorark.wire.cbor import CborFault

MAX_NAME: Final = 1024
MAX_RANK: Final = 64
_U64_MAX: Final = (1 << 64) - 1
_SHARD_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)
_DIGEST: Final = re.compile(r"[a-z0-9]+:[0-9a-f]+", re.ASCII)


# Frame, once the manifest's bytes are there


@rule("zt.manifest-hash", section="2.3", stage="frame")
def manifest_hash(hashes: tuple[int, int, int]) -> Iterator[Fault]:
    """The XXH3-64 of the manifest's bytes equals the hash in the footer."""
    stored, computed, footer = hashes
    if stored != computed:
        detail = "the manifest does not match its hash: it was damaged or cut"
        yield Fault((), detail, f"{stored:#018x}", f"{computed:#018x}", footer + 16)


# Syntax: each reason of `wire.cbor` is a rule here; the decoder meets the first fault and stops


def _syntax(slug: str, requirement: str) -> Rule[CborFault]:
    def check(fault: CborFault) -> Iterator[Fault]:
        if fault.slug == slug:
            yield Fault((), "the manifest is not deterministic CBOR: " + fault.detail)

    check.__doc__ = requirement
    check.__name__ = slug.replace("-", "_")
    return Rule("zt." + slug, "3.1", "syntax", check)


CBOR_RULES: Final = (
    _syntax("cbor-truncated", "Every item ends inside the manifest."),
    _syntax("cbor-trailing", "The manifest is one item; no bytes follow it."),
    _syntax("cbor-shortest", "Every head is in its shortest form."),
    _syntax("cbor-indefinite", "No length is indefinite."),
    _syntax("cbor-reserved", "Additional information 28 to 30 is not used."),
    _syntax("cbor-tag", "There are no tags."),
    _syntax("cbor-simple", "The only simple values are false, true and null."),
    _syntax("cbor-utf8", "Text strings are valid UTF-8."),
    _syntax("cbor-key-order", "Map keys ascend by their encoded bytes."),
    _syntax("cbor-key-unique", "No map holds a key twice."),
    _syntax("cbor-float-shortest", "A float is no wider than its value requires."),
    _syntax("cbor-nan", "The only NaN is f9 7e00."),
    _syntax("cbor-depth", "No item lies deeper than 32 levels below the root."),
)


# The schema of the root.


@rule("zt.root-map", section="3.1", stage="schema")
def root_map(doc: RawManifest) -> Iterator[Fault]:
    """The manifest is a map."""
    if not is_map(doc.root):
        yield Fault((), "the manifest is not a map", "a map", kind(doc.root))


@rule("zt.objects", section="3.2", stage="schema")
def objects(doc: RawManifest) -> Iterator[Fault]:
    """`objects` is present and a map."""
    if is_map(doc.root) and not is_map(doc.objects):
        yield Fault(("objects",), "`objects` is not a map", "a map", kind(doc.objects))


@rule("zt.shards", section="3.2", stage="schema")
def shards(doc: RawManifest) -> Iterator[Fault]:
    """`shards`, if present, is a map."""
    if doc.shards is not MISSING and not is_map(doc.shards):
        yield Fault(("shards",), "`shards` is not a map", "a map", kind(doc.shards))


@rule("zt.attributes", section="3.1", stage="schema")
def attributes(doc: RawManifest) -> Iterator[Fault]:
    """`attributes` of the file or of an object, if present, is a map."""
    for where, value in _attributes(doc):
        if not is_map(value):
            yield Fault(where, "`attributes` is not a map", "a map", kind(value))


def _attributes(doc: RawManifest) -> Iterator[tuple[tuple[str | int, ...], object]]:
    if doc.attributes is not MISSING:
        yield ("attributes",), doc.attributes
    for index, value in enumerate(doc.object_attributes):
        if value is not MISSING:
            yield doc.object_place(index, "attributes"), value


# The schema of names.


def _names(doc: RawManifest) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Yield the place and the value of every name that §3.5 speaks of."""
    for name, _ in entries_of(doc.objects):
        yield ("objects", key_text(name)), name
    for index, parts in enumerate(doc.parts):
        for role, _ in entries_of(parts):
            yield doc.object_place(index, "parts", key_text(role)), role
    for where, value in _attributes(doc):
        for key, _ in entries_of(value):
            yield (*where, key_text(key)), key


# Each rule of names asks about the set of all names first: places are only made for faults.


@rule("zt.name-text", section="3.5", stage="schema")
def name_text(doc: RawManifest) -> Iterator[Fault]:
    """Object names, part names and attribute keys are text."""
    if not doc.has_odd_keys:
        return
    for where, name in _names(doc):
        if type(name) is not str:
            yield Fault(where, "a name is not text", "text", kind(name))


@rule("zt.name-empty", section="3.5", stage="schema")
def name_empty(doc: RawManifest) -> Iterator[Fault]:
    """Object names, part names and attribute keys are not empty."""
    if "" not in doc.text_names:
        return
    for where, name in _names(doc):
        if name == "":
            yield Fault(where, "a name is empty", "at least one byte", 0)


@rule("zt.name-length", section="3.5", stage="schema")
def name_length(doc: RawManifest) -> Iterator[Fault]:
    """Object names, part names and attribute keys have at most 1024 bytes."""
    if max(map(len, doc.text_names), default=0) <= MAX_NAME // 4:
        return
    for where, name in _names(doc):
        if type(name) is str and len(name.encode()) > MAX_NAME:
            found = len(name.encode())
            yield Fault(where, "a name is too long", f"at most {MAX_NAME} bytes", found)


@rule("zt.name-nul", section="3.5", stage="schema")
def name_nul(doc: RawManifest) -> Iterator[Fault]:
    """Object names, part names and attribute keys hold no U+0000."""
    if not any("\0" in name for name in doc.text_names):
        return
    for where, name in _names(doc):
        if type(name) is str and "\0" in name:
            yield Fault(where, "a name holds U+0000")


# The schema of objects.


@rule("zt.object-map", section="3.3", stage="schema")
def object_map(doc: RawManifest) -> Iterator[Fault]:
    """An object is a map."""
    for name, value in entries_of(doc.objects):
        if not is_map(value):
            yield Fault(("objects", key_text(name)), "an object is not a map", "a map", kind(value))


@rule("zt.object-shape", section="3.3", stage="schema")
def object_shape(doc: RawManifest) -> Iterator[Fault]:
    """`shape` is present: an array of unsigned integers."""
    for index, shape in enumerate(doc.shapes):
        if type(shape) is not list or not all(type(d) is int and d >= 0 for d in shape):
            yield Fault(
                doc.object_place(index, "shape"),
                "`shape` is not an array of unsigned integers",
                "an array of unsigned integers",
                kind(shape) if type(shape) is not list else show(shape),
            )


@rule("zt.object-layout", section="3.3", stage="schema")
def object_layout(doc: RawManifest) -> Iterator[Fault]:
    """`layout` is present and text."""
    for index, layout in enumerate(doc.layouts):
        if type(layout) is not str:
            where = doc.object_place(index, "layout")
            yield Fault(where, "`layout` is not text", "text", kind(layout))


@rule("zt.object-parts", section="3.3", stage="schema")
def object_parts(doc: RawManifest) -> Iterator[Fault]:
    """`parts` is present and a map."""
    for index, parts in enumerate(doc.parts):
        if not is_map(parts):
            where = doc.object_place(index, "parts")
            yield Fault(where, "`parts` is not a map", "a map", kind(parts))


@rule("zt.parts-empty", section="3.3", stage="schema")
def parts_empty(doc: RawManifest) -> Iterator[Fault]:
    """`parts` has at least one entry."""
    for index, parts in enumerate(doc.parts):
        if parts == {}:
            where = doc.object_place(index, "parts")
            yield Fault(where, "an object has no parts", "at least one part", 0)


# The schema of parts.


@rule("zt.part-map", section="3.4", stage="schema")
def part_map(doc: RawManifest) -> Iterator[Fault]:
    """A part is a map."""
    for index, parts in enumerate(doc.parts):
        for role, value in entries_of(parts):
            if not is_map(value):
                where = doc.object_place(index, "parts", key_text(role))
                yield Fault(where, "a part is not a map", "a map", kind(value))


@rule("zt.part-dtype", section="4.1", stage="schema")
def part_dtype(doc: RawManifest) -> Iterator[Fault]:
    """`dtype` is present and one of the twelve storage types."""
    for index, dtype in enumerate(doc.dtypes):
        if type(dtype) is not str or dtype not in DTYPES:
            where = doc.part_place(index, "dtype")
            expected = "one of " + " ".join(DTYPES)
            yield Fault(where, "`dtype` is not a storage type", expected, show(dtype))


@rule("zt.part-type", section="3.4", stage="schema")
def part_type(doc: RawManifest) -> Iterator[Fault]:
    """`type`, if present, is text."""
    yield from _optional_text(doc, "type", doc.types)


@rule("zt.part-encoding", section="3.4", stage="schema")
def part_encoding(doc: RawManifest) -> Iterator[Fault]:
    """`encoding`, if present, is text."""
    yield from _optional_text(doc, "encoding", doc.encodings)


def _optional_text(doc: RawManifest, name: str, column: list[object]) -> Iterator[Fault]:
    for index, value in enumerate(column):
        if value is not MISSING and type(value) is not str:
            yield Fault(doc.part_place(index, name), f"`{name}` is not text", "text", kind(value))


@rule("zt.part-blob", section="3.4", stage="schema")
def part_blob(doc: RawManifest) -> Iterator[Fault]:
    """`blob` is present: an array of exactly two unsigned integers, offset and length."""
    for index, blob in enumerate(doc.blobs):
        if not (
            type(blob) is list
            and len(blob) == 2
            and type(blob[0]) is int
            and type(blob[1]) is int
            and blob[0] >= 0
            and blob[1] >= 0
        ):
            yield Fault(
                doc.part_place(index, "blob"),
                "`blob` is not an array of two unsigned integers",
                "[offset, length]",
                show(blob),
            )


@rule("zt.part-shard", section="3.4", stage="schema")
def part_shard(doc: RawManifest) -> Iterator[Fault]:
    """`shard`, if present, is a shard name."""
    for index, name in enumerate(doc.part_shards):
        if name is not MISSING and not is_shard_name(name):
            where = doc.part_place(index, "shard")
            yield Fault(where, "`shard` is not a shard name", _SHARD_FORM, show(name))


@rule("zt.part-decoded-length", section="3.4", stage="schema")
def part_decoded_length(doc: RawManifest) -> Iterator[Fault]:
    """`decoded_length` is present exactly when `encoding` is, and an unsigned integer."""
    for index, (length, encoding) in enumerate(
        zip(doc.decoded_lengths, doc.encodings, strict=True)
    ):
        if length is MISSING and encoding is MISSING:
            continue
        where = doc.part_place(index, "decoded_length")
        if encoding is MISSING:
            yield Fault(where, "`decoded_length` stands without `encoding`", "no such field")
        elif length is MISSING:
            yield Fault(where, "`encoding` stands without `decoded_length`", "a length", "nothing")
        elif not _is_unsigned(length):
            detail = "`decoded_length` is not an unsigned integer"
            yield Fault(where, detail, "an unsigned integer", show(length))


@rule("zt.part-digest", section="3.4", stage="schema")
def part_digest(doc: RawManifest) -> Iterator[Fault]:
    """`digest`, if present, is an algorithm, a colon and lowercase hexadecimal digits."""
    matches = _DIGEST.fullmatch
    for index, digest in enumerate(doc.digests):
        if digest is not MISSING and (type(digest) is not str or not matches(digest)):
            where = doc.part_place(index, "digest")
            yield Fault(where, "`digest` is malformed", _DIGEST_FORM, show(digest))


@rule("zt.type-dtype", section="4.2", stage="schema")
def type_dtype(doc: RawManifest) -> Iterator[Fault]:
    """A registered logical type stands over the storage type that it requires."""
    for index, (type_, dtype) in enumerate(zip(doc.types, doc.dtypes, strict=True)):
        if type_ is MISSING:
            continue
        known = TYPES.get(type_) if isinstance(type_, str) else None
        if (
            known is not None
            and isinstance(dtype, str)
            and dtype in DTYPES
            and dtype != known.dtype
        ):
            where = doc.part_place(index, "dtype")
            yield Fault(where, f"{known.id} stands over the wrong storage type", known.dtype, dtype)


# The schema of the shard table.


@rule("zt.shard-name", section="7.1", stage="schema")
def shard_name(doc: RawManifest) -> Iterator[Fault]:
    """A shard name is 1 to 64 of A–Z a–z 0–9 . _ - and does not begin with a dot."""
    for name, _ in entries_of(doc.shards):
        if not is_shard_name(name):
            where = ("shards", key_text(name))
            yield Fault(where, "a key of the shard table is no shard name", _SHARD_FORM, show(name))


@rule("zt.shard-entry", section="7.1", stage="schema")
def shard_entry(doc: RawManifest) -> Iterator[Fault]:
    """A shard entry is a map."""
    for name, entry in entries_of(doc.shards):
        if not is_map(entry):
            where = ("shards", key_text(name))
            yield Fault(where, "a shard entry is not a map", "a map", kind(entry))


@rule("zt.shard-size", section="7.1", stage="schema")
def shard_size(doc: RawManifest) -> Iterator[Fault]:
    """A shard's `size` is present, an unsigned integer, and no less than the smallest file."""
    for name, entry in _shard_entries(doc):
        size = entry.get("size", MISSING)
        if not (isinstance(size, int) and _is_unsigned(size) and size >= MIN_SIZE):
            where = ("shards", name, "size")
            expected = f"an integer of at least {MIN_SIZE}"
            yield Fault(where, "a shard's `size` is not a file size", expected, show(size))


@rule("zt.shard-digest", section="7.1", stage="schema")
def shard_digest(doc: RawManifest) -> Iterator[Fault]:
    """A shard's `digest` is present and has the form of a digest."""
    for name, entry in _shard_entries(doc):
        digest = entry.get("digest", MISSING)
        if type(digest) is not str or not _DIGEST.fullmatch(digest):
            where = ("shards", name, "digest")
            yield Fault(where, "a shard's `digest` is malformed", _DIGEST_FORM, show(digest))


def _shard_entries(doc: RawManifest) -> Iterator[tuple[str, dict[str, object]]]:
    for name, entry in entries_of(doc.shards):
        if is_map(entry):
            yield key_text(name), members_of(entry)


SCHEMA_RULES: Final[tuple[Rule[RawManifest], ...]] = (
    root_map,
    objects,
    shards,
    attributes,
    name_text,
    name_empty,
    name_length,
    name_nul,
    object_map,
    object_shape,
    object_layout,
    object_parts,
    parts_empty,
    part_map,
    part_dtype,
    part_type,
    part_blob,
    part_shard,
    part_encoding,
    part_decoded_length,
    part_digest,
    type_dtype,
    shard_name,
    shard_entry,
    shard_size,
    shard_digest,
)


# Open: what the manifest says about shapes and places


@rule("zt.shape-rank", section="3.3", stage="open")
def shape_rank(doc: Manifest) -> Iterator[Fault]:
    """A shape has at most 64 dimensions."""
    for index, shape in enumerate(doc.shapes):
        if len(shape) > MAX_RANK:
            where = doc.object_place(index, "shape")
            yield Fault(where, "too many dimensions", f"at most {MAX_RANK}", len(shape))


@rule("zt.shape-product", section="3.3", stage="open")
def shape_product(doc: Manifest) -> Iterator[Fault]:
    """No product of leading dimensions exceeds 2^64 − 1."""
    for index, shape in enumerate(doc.shapes):
        count = 1
        for dimension in shape:
            count *= dimension
            if count > _U64_MAX:
                where = doc.object_place(index, "shape")
                yield Fault(where, "the element count overflows", "at most 2^64 - 1", show(shape))
                break


@rule("zt.shard-undeclared", section="3.4", stage="open")
def shard_undeclared(doc: Manifest) -> Iterator[Fault]:
    """The shard that a part names is a key of the shard table."""
    for index, name in enumerate(doc.part_shards):
        if name is not None and name not in doc.shards:
            where = doc.part_place(index, "shard")
            yield Fault(where, "a part names a shard that the table does not declare", None, name)


@rule("zt.blob-align", section="2.4", stage="open")
def blob_align(doc: Manifest) -> Iterator[Fault]:
    """A blob starts at a multiple of 4096, never before byte 4096."""
    for index, offset in enumerate(doc.offsets):
        if not is_aligned(offset):
            where = doc.part_place(index, "blob", 0)
            detail = "a blob's offset is not a multiple of 4096 from 4096 on"
            yield Fault(where, detail, "a multiple of 4096", offset)


@rule("zt.blob-bounds", section="2.4", stage="open")
def blob_bounds(doc: Manifest) -> Iterator[Fault]:
    """A blob ends before the footer of the file that holds it."""
    limits: dict[str | None, int] = {None: doc.frame.data_end}
    limits.update((name, entry.size - FOOTER_SIZE) for name, entry in doc.shards.items())
    for index, (offset, length, file) in enumerate(
        zip(doc.offsets, doc.lengths, doc.part_shards, strict=True)
    ):
        if offset + length > limits.get(file, _U64_MAX * 2):
            yield Fault(
                doc.part_place(index, "blob"),
                "a blob runs past the data region" + (f" of shard {file}" if file else ""),
                f"an end of at most {limits[file]}",
                offset + length,
            )


REFERENCE_RULES: Final[tuple[Rule[Manifest], ...]] = (
    shape_rank,
    shape_product,
    shard_undeclared,
    blob_align,
    blob_bounds,
)


@rule("zt.blob-overlap", section="2.4", stage="open")
def blob_overlap(doc: Manifest) -> Iterator[Fault]:
    """Two references into one file are identical or disjoint; the manifest counts as one."""
    groups: dict[str | None, list[tuple[int, int]]] = {
        None: [(doc.frame.manifest_offset, doc.frame.manifest_length)]
    }
    if doc.shards:
        groups.update((name, []) for name in doc.shards)
        for file, *blob in zip(doc.part_shards, doc.offsets, doc.lengths, strict=True):
            groups[file].append((blob[0], blob[1]))
    else:
        groups[None] += zip(doc.offsets, doc.lengths, strict=True)
    users: dict[tuple[str | None, int, int], int] = {}
    for file, blobs in groups.items():
        reached = 0
        for offset, length in sorted(set(blobs)):
            if offset < reached and length:
                users = users or _users(doc)
                user = users.get((file, offset, length))
                yield Fault(
                    () if user is None else doc.part_place(user, "blob"),
                    "two blobs overlap in part",
                    f"an offset of at least {reached}",
                    offset,
                )
            if length:
                reached = max(reached, offset + length)


def _users(doc: Manifest) -> dict[tuple[str | None, int, int], int]:
    """Return the first part that refers to each blob."""
    columns = zip(doc.part_shards, doc.offsets, doc.lengths, strict=True)
    users: dict[tuple[str | None, int, int], int] = {}
    for index, blob in enumerate(columns):
        users.setdefault(blob, index)
    return users


PLACEMENT_RULES: Final[tuple[Rule[Manifest], ...]] = (blob_overlap,)

BY_ID: Final = MappingProxyType({each.id: each for each in CBOR_RULES})

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80

_SHARD_FORM: Final = "1 to 64 of A-Z a-z 0-9 . _ - with no leading dot"
_DIGEST_FORM: Final = "<algorithm>:<lowercase hex>"


def is_shard_name(name: object) -> bool:
    """Tell whether `name` is a shard name (§7.1): such a name can never be a path."""
    return isinstance(name, str) and _SHARD_NAME.fullmatch(name) is not None


def _is_unsigned(value: Any) -> bool:
    return type(value) is int and value >= 0


def kind(value: object) -> str:
    """Name the CBOR kind of a decoded value, for a message."""
    if value is MISSING:
        return "nothing"
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "text", bytes: "bytes"}
    return names.get(type(value), "an array" if isinstance(value, list) else "a map")


def show(value: object) -> str:
    """Show a decoded value in a message, shortened."""
    if value is MISSING:
        return "nothing"
    return _SHORT.repr(value)
