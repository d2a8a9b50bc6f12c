"""Files of `reject/` with a missing or ill-typed field (§3.1 to §3.5, §4, §7.1).

Types are strict: null is not absence, 8.0 is not 8, and true is not 1.
"""

from __future__ import annotations

from .image import Image
from .manifest import ABSENT, Map, bare, part, root, shard, tensor, usual


def _root(**fields: object) -> Image:
    return usual(root(**fields))


def _object(**fields: object) -> Image:
    return usual(root(objects={"t": tensor(**fields)}))


def _part(**fields: object) -> Image:
    return _object(parts={"data": part(**fields)})


def _foreign(**fields: object) -> Image:
    """Return a file whose part lies in the unknown layout, where only core rules apply."""
    return _object(layout="conformance.unknown/1", parts={"data": part(**fields)})


def _shards(table: Map) -> Image:
    return _root(shards=table)


def _shard(**fields: object) -> Image:
    return _shards({"00001": shard(**fields)})


# --- the root ------------------------------------------------------------------------------------


def root_map() -> Image:
    """The manifest is an array."""
    return bare([])


def root_map__integer() -> Image:
    """The manifest is the integer 0."""
    return bare(0)


def root_map__null() -> Image:
    """The manifest is null."""
    return bare(None)


def root_map__bytes() -> Image:
    """The manifest is a byte string that holds a whole manifest."""
    return bare(b"\x41\xa0")


def objects() -> Image:
    """The root has no `objects`."""
    return bare({})


def objects__array() -> Image:
    """`objects` is an array."""
    return bare({"objects": []})


def objects__null() -> Image:
    """`objects` is null."""
    return bare({"objects": None})


def objects__bytes_key() -> Image:
    """The root's key is the byte string `objects`."""
    return bare({b"objects": {}})


def shards() -> Image:
    """`shards` is an array."""
    return _root(shards=[])


def shards__null() -> Image:
    """`shards` is null."""
    return _root(shards=None)


def attributes() -> Image:
    """The root's `attributes` is an integer."""
    return _root(attributes=7)


def attributes__null() -> Image:
    """The root's `attributes` is null."""
    return _root(attributes=None)


def attributes__object() -> Image:
    """A tensor's `attributes` is an array."""
    return _object(attributes=[])


def attributes__object_null() -> Image:
    """A tensor's `attributes` is null."""
    return _object(attributes=None)


# --- names ---------------------------------------------------------------------------------------


def name_text() -> Image:
    """The name of a tensor is the integer 1."""
    return _root(objects={1: tensor()})


def name_text__object_bytes() -> Image:
    """The name of a tensor is a byte string."""
    return _root(objects={b"t": tensor()})


def name_text__part() -> Image:
    """The name of a part in an unknown layout is an integer."""
    return _object(layout="conformance.unknown/1", parts={0: part()})


def name_text__attribute() -> Image:
    """A key of the root's attributes is the integer 1."""
    return _root(attributes={1: 0})


def name_text__object_attribute() -> Image:
    """A key of a tensor's attributes is null."""
    return _object(attributes={None: 0})


def name_empty() -> Image:
    """The name of a tensor is empty."""
    return _root(objects={"": tensor()})


def name_empty__part() -> Image:
    """The name of a part in an unknown layout is empty."""
    return _object(layout="conformance.unknown/1", parts={"": part()})


def name_empty__attribute() -> Image:
    """A key of the root's attributes is empty."""
    return _root(attributes={"": 0})


def name_empty__object_attribute() -> Image:
    """A key of a tensor's attributes is empty."""
    return _object(attributes={"": 0})


def name_length() -> Image:
    """The name of a tensor has 1025 bytes."""
    return _root(objects={"n" * 1025: tensor()})


def name_length__characters() -> Image:
    """The name of a tensor has 513 characters and 1026 bytes."""
    return _root(objects={"é" * 513: tensor()})


def name_length__part() -> Image:
    """The name of a part in an unknown layout has 1025 bytes."""
    return _object(layout="conformance.unknown/1", parts={"n" * 1025: part()})


def name_length__attribute() -> Image:
    """A key of the root's attributes has 1025 bytes."""
    return _root(attributes={"n" * 1025: 0})


def name_nul() -> Image:
    """The name of a tensor holds U+0000."""
    return _root(objects={"a\0b": tensor()})


def name_nul__part() -> Image:
    """The name of a part in an unknown layout ends with U+0000."""
    return _object(layout="conformance.unknown/1", parts={"data\0": part()})


def name_nul__attribute() -> Image:
    """A key of the root's attributes is U+0000."""
    return _root(attributes={"\0": 0})


# --- objects -------------------------------------------------------------------------------------


def object_map() -> Image:
    """An object is an array."""
    return _root(objects={"t": []})


def object_map__null() -> Image:
    """An object is null."""
    return _root(objects={"t": None})


def object_shape() -> Image:
    """An object has no `shape`."""
    return _object(shape=ABSENT)


def object_shape__null() -> Image:
    """`shape` is null."""
    return _object(shape=None)


def object_shape__integer() -> Image:
    """`shape` is an integer."""
    return _object(shape=8)


def object_shape__negative() -> Image:
    """A dimension is -8."""
    return _object(shape=[-8])


def object_shape__float() -> Image:
    """A dimension is 8.0."""
    return _object(shape=[8.0])


def object_shape__boolean() -> Image:
    """A dimension is true."""
    return _object(shape=[8, True])


def object_shape__text() -> Image:
    """A dimension is the text `8`."""
    return _object(shape=["8"])


def object_layout() -> Image:
    """An object has no `layout`."""
    return _object(layout=ABSENT)


def object_layout__null() -> Image:
    """`layout` is null."""
    return _object(layout=None)


def object_layout__bytes() -> Image:
    """`layout` is a byte string."""
    return _object(layout=b"dense")


def object_parts() -> Image:
    """An object has no `parts`."""
    return _object(parts=ABSENT)


def object_parts__array() -> Image:
    """`parts` is an array of parts."""
    return _object(parts=[part()])


def object_parts__null() -> Image:
    """`parts` is null."""
    return _object(parts=None)


def parts_empty() -> Image:
    """A dense object has no parts."""
    return _object(shape=[0], parts={})


def parts_empty__unknown_layout() -> Image:
    """An object of an unknown layout has no parts."""
    return _object(layout="conformance.unknown/1", parts={})


# --- parts ---------------------------------------------------------------------------------------


def part_map() -> Image:
    """A part is an array."""
    return _object(parts={"data": []})


def part_map__null() -> Image:
    """A part is null."""
    return _object(parts={"data": None})


def part_dtype() -> Image:
    """`dtype` is `f4`, which is no storage type."""
    return _part(dtype="f4")


def part_dtype__absent() -> Image:
    """A part has no `dtype`."""
    return _part(dtype=ABSENT)


def part_dtype__logical_type() -> Image:
    """`dtype` is `bool`, a logical type."""
    return _part(dtype="bool")


def part_dtype__capitals() -> Image:
    """`dtype` is `U8`."""
    return _part(dtype="U8")


def part_dtype__null() -> Image:
    """`dtype` is null."""
    return _part(dtype=None)


def part_dtype__array() -> Image:
    """`dtype` is an array."""
    return _part(dtype=["u8"])


def part_dtype__unknown_layout() -> Image:
    """`dtype` is no storage type in an unknown layout."""
    return _foreign(dtype="i4")


def part_type() -> Image:
    """`type` is an integer."""
    return _part(type=1)


def part_type__null() -> Image:
    """`type` is null."""
    return _part(type=None)


def part_type__map() -> Image:
    """`type` is a map."""
    return _part(type={})


def part_blob() -> Image:
    """`blob` has one element."""
    return _part(blob=[4096])


def part_blob__three() -> Image:
    """`blob` has three elements, as in Draft 2."""
    return _part(blob=[0, 4096, 8])


def part_blob__none() -> Image:
    """`blob` has no elements."""
    return _part(blob=[])


def part_blob__absent() -> Image:
    """A part has no `blob`."""
    return _part(blob=ABSENT)


def part_blob__map() -> Image:
    """`blob` is a map with the keys 0 and 1."""
    return _part(blob={0: 4096, 1: 8})


def part_blob__null() -> Image:
    """`blob` is null."""
    return _part(blob=None)


def part_blob__negative() -> Image:
    """A blob's offset is -4096."""
    return _part(blob=[-4096, 8])


def part_blob__float() -> Image:
    """A blob's length is 8.0."""
    return _part(blob=[4096, 8.0])


def part_shard() -> Image:
    """`shard` is `a/b`, which cannot name a shard."""
    return _root(shards={"b": shard()}, objects={"t": tensor(parts={"data": part(shard="a/b")})})


def part_shard__integer() -> Image:
    """`shard` is an integer."""
    return _root(shards={"1": shard()}, objects={"t": tensor(parts={"data": part(shard=1)})})


def part_shard__null() -> Image:
    """`shard` is null."""
    return _part(shard=None)


def part_shard__newline() -> Image:
    """`shard` is a declared name followed by a newline."""
    named = tensor(parts={"data": part(shard="00001\n")})
    return _root(shards={"00001": shard()}, objects={"t": named})


def part_encoding() -> Image:
    """`encoding` is an integer."""
    return _part(encoding=1, decoded_length=8)


def part_encoding__null() -> Image:
    """`encoding` is null."""
    return _part(encoding=None, decoded_length=8)


def part_decoded_length() -> Image:
    """A part has `encoding` and no `decoded_length`."""
    return _part(encoding="conformance.unknown/1")


def part_decoded_length__alone() -> Image:
    """A part has `decoded_length` and no `encoding`."""
    return _part(decoded_length=8)


def part_decoded_length__null() -> Image:
    """`decoded_length` is null."""
    return _part(encoding="conformance.unknown/1", decoded_length=None)


def part_decoded_length__negative() -> Image:
    """`decoded_length` is -8."""
    return _part(encoding="conformance.unknown/1", decoded_length=-8)


def part_decoded_length__float() -> Image:
    """`decoded_length` is 8.0."""
    return _part(encoding="conformance.unknown/1", decoded_length=8.0)


def part_digest() -> Image:
    """A digest has uppercase digits."""
    return _part(digest="xxh3:00FF00FF00FF00FF")


def part_digest__null() -> Image:
    """`digest` is null."""
    return _part(digest=None)


def part_digest__bytes() -> Image:
    """`digest` is a byte string."""
    return _part(digest=b"xxh3:00ff00ff00ff00ff")


def part_digest__no_colon() -> Image:
    """A digest is an algorithm alone."""
    return _part(digest="xxh3")


def part_digest__no_algorithm() -> Image:
    """A digest has nothing before its colon."""
    return _part(digest=":00ff00ff00ff00ff")


def part_digest__no_digits() -> Image:
    """A digest has nothing after its colon."""
    return _part(digest="xxh3:")


def part_digest__two_colons() -> Image:
    """A digest has two colons."""
    return _part(digest="xxh3:00ff:00ff")


def part_digest__algorithm_capitals() -> Image:
    """The algorithm of a digest is in capitals."""
    return _part(digest="XXH3:00ff00ff00ff00ff")


def part_digest__algorithm_hyphen() -> Image:
    """The algorithm of a digest holds a hyphen."""
    return _part(digest="sha-256:00ff00ff00ff00ff")


def part_digest__space() -> Image:
    """The digits of a digest hold a space."""
    return _part(digest="xxh3:00ff 00ff")


def part_digest__newline() -> Image:
    """A newline follows a digest."""
    return _part(digest="xxh3:00ff00ff00ff00ff\n")


def part_digest__unicode_digits() -> Image:
    """A digest has Arabic-Indic digits."""
    return _part(digest="xxh3:٠١٢٣٤٥٦٧٨٩٠١٢٣٤٥")


def type_dtype() -> Image:
    """A bool stands over i8."""
    return _part(type="bool", dtype="i8")


def type_dtype__complex() -> Image:
    """A complex64 stands over f64; the sizes agree."""
    return _object(shape=[1], parts={"data": part(type="complex64", dtype="f64")})


def type_dtype__float8() -> Image:
    """An f8_e8m0 stands over i8."""
    return _part(type="f8_e8m0", dtype="i8")


def type_dtype__unknown_layout() -> Image:
    """An f4_e2m1 stands over u32 in an unknown layout."""
    return _foreign(type="f4_e2m1", dtype="u32")


# --- shards --------------------------------------------------------------------------------------


def shard_name() -> Image:
    """A shard name holds a separator."""
    return _shards({"sub/dir": shard()})


def shard_name__empty() -> Image:
    """A shard name is empty."""
    return _shards({"": shard()})


def shard_name__65_bytes() -> Image:
    """A shard name has 65 characters."""
    return _shards({"s" * 65: shard()})


def shard_name__leading_dot() -> Image:
    """A shard name begins with a dot."""
    return _shards({".hidden": shard()})


def shard_name__traversal() -> Image:
    """A shard name is a path out of its directory."""
    return _shards({"../etc/passwd": shard()})


def shard_name__backslash() -> Image:
    """A shard name holds a backslash."""
    return _shards({"a\\b": shard()})


def shard_name__letter() -> Image:
    """A shard name holds a letter outside ASCII."""
    return _shards({"é": shard()})


def shard_name__newline() -> Image:
    """A newline follows a shard name."""
    return _shards({"00001\n": shard()})


def shard_name__nul() -> Image:
    """U+0000 follows a shard name."""
    return _shards({"00001\0": shard()})


def shard_name__integer() -> Image:
    """A shard name is the integer 1."""
    return _shards({1: shard()})


def shard_name__bytes() -> Image:
    """A shard name is a byte string."""
    return _shards({b"00001": shard()})


def shard_entry() -> Image:
    """A shard entry is a digest alone."""
    return _shards({"00001": "xxh3:0123456789abcdef"})


def shard_entry__null() -> Image:
    """A shard entry is null."""
    return _shards({"00001": None})


def shard_size() -> Image:
    """A shard has no `size`."""
    return _shard(size=ABSENT)


def shard_size__47() -> Image:
    """A shard has 47 bytes, fewer than any file."""
    return _shard(size=47)


def shard_size__negative() -> Image:
    """A shard's size is -8192."""
    return _shard(size=-8192)


def shard_size__float() -> Image:
    """A shard's size is 8192.0."""
    return _shard(size=8192.0)


def shard_size__text() -> Image:
    """A shard's size is a text."""
    return _shard(size="8192")


def shard_digest() -> Image:
    """A shard has no `digest`."""
    return _shard(digest=ABSENT)


def shard_digest__null() -> Image:
    """A shard's digest is null."""
    return _shard(digest=None)


def shard_digest__capitals() -> Image:
    """A shard's digest has uppercase digits."""
    return _shard(digest="xxh3:0123456789ABCDEF")


def shard_digest__no_colon() -> Image:
    """A shard's digest has no algorithm."""
    return _shard(digest="0123456789abcdef")
