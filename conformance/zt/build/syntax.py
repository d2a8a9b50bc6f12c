"""Files of `reject/` whose manifest is not the deterministic CBOR of §3.1.

Unless the sentence says otherwise the fault lies in the value of the root key `x`, which every
reader ignores and every reader must check.
"""

from __future__ import annotations

import struct

from .cbor import ARRAY, BYTES, MAP, NEGATIVE, TEXT, UNSIGNED, Pairs, Raw, encode, head
from .image import Image
from .manifest import bare, root, tensor, usual


def _ignored(item: bytes) -> Image:
    return bare({"x": Raw(item), "objects": {}})


def _attribute(item: bytes) -> Image:
    return bare({"objects": {}, "attributes": {"k": Raw(item)}})


def _raw(item: bytes) -> Image:
    return bare(Raw(item))


_EMPTY = encode({"objects": {}})


def cbor_truncated() -> Image:
    """The manifest lacks its last byte."""
    return _raw(encode(root())[:-1])


def cbor_truncated__in_a_head() -> Image:
    """The manifest ends inside the head of an integer."""
    return _raw(head(MAP, 1) + encode("objects") + b"\x19\x01")


def cbor_truncated__no_value() -> Image:
    """The manifest ends after a key."""
    return _raw(head(MAP, 1) + encode("objects"))


def cbor_truncated__array_length() -> Image:
    """An array claims 2^63 - 1 elements."""
    return _ignored(head(ARRAY, (1 << 63) - 1))


def cbor_truncated__map_length() -> Image:
    """A map claims 2^64 - 1 entries."""
    return _ignored(head(MAP, (1 << 64) - 1))


def cbor_truncated__text_length() -> Image:
    """A text claims 4 GiB."""
    return _ignored(head(TEXT, 1 << 32))


def cbor_truncated__bytes_length() -> Image:
    """A byte string claims 2^64 - 1 bytes."""
    return _ignored(head(BYTES, (1 << 64) - 1))


def cbor_trailing() -> Image:
    """One byte follows the map."""
    return _raw(_EMPTY + b"\x00")


def cbor_trailing__second_map() -> Image:
    """The same map follows the map."""
    return _raw(_EMPTY + _EMPTY)


def cbor_trailing__zero_padding() -> Image:
    """The map is padded with zeros to 16 bytes."""
    return _raw(_EMPTY.ljust(16, b"\x00"))


def cbor_shortest() -> Image:
    """The integer 5 has a one-byte argument."""
    return _ignored(head(UNSIGNED, 5, width=1))


def cbor_shortest__u16() -> Image:
    """The integer 255 has a two-byte argument."""
    return _ignored(head(UNSIGNED, 255, width=2))


def cbor_shortest__u32() -> Image:
    """The integer 65535 has a four-byte argument."""
    return _ignored(head(UNSIGNED, 65535, width=4))


def cbor_shortest__u64() -> Image:
    """The integer 2^32 - 1 has an eight-byte argument."""
    return _ignored(head(UNSIGNED, (1 << 32) - 1, width=8))


def cbor_shortest__negative() -> Image:
    """The integer -24 has a one-byte argument."""
    return _ignored(head(NEGATIVE, 23, width=1))


def cbor_shortest__bytes_length() -> Image:
    """The length of a byte string has a two-byte argument."""
    return _ignored(head(BYTES, 1, width=2) + b"a")


def cbor_shortest__text_length() -> Image:
    """The length of the key `objects` has a one-byte argument."""
    return _raw(head(MAP, 1) + head(TEXT, 7, width=1) + b"objects" + head(MAP, 0))


def cbor_shortest__array_length() -> Image:
    """The length of an array has a one-byte argument."""
    return _ignored(head(ARRAY, 1, width=1) + b"\x00")


def cbor_shortest__map_length() -> Image:
    """The length of the root map has an eight-byte argument."""
    return _raw(head(MAP, 1, width=8) + _EMPTY[1:])


def cbor_shortest__shape() -> Image:
    """The dimension 8 of a tensor has a one-byte argument."""
    return usual(root(objects={"t": tensor(shape=[Raw(head(UNSIGNED, 8, width=1))])}))


def cbor_indefinite() -> Image:
    """An array has no length and ends with a break."""
    return _ignored(b"\x9f\xff")


def cbor_indefinite__map() -> Image:
    """A map has no length and ends with a break."""
    return _ignored(b"\xbf\xff")


def cbor_indefinite__root() -> Image:
    """The root map has no length and ends with a break."""
    return _raw(b"\xbf" + _EMPTY[1:] + b"\xff")


def cbor_indefinite__text() -> Image:
    """A text consists of chunks."""
    return _ignored(b"\x7f\x61a\xff")


def cbor_indefinite__bytes() -> Image:
    """A byte string consists of chunks."""
    return _ignored(b"\x5f\x41a\xff")


def cbor_indefinite__break() -> Image:
    """A break stands where an item belongs."""
    return _ignored(b"\xff")


def cbor_indefinite__integer() -> Image:
    """An unsigned integer has the additional information 31."""
    return _ignored(b"\x1f")


def cbor_reserved() -> Image:
    """An unsigned integer has the additional information 28."""
    return _ignored(b"\x1c")


def cbor_reserved__text() -> Image:
    """A text has the additional information 29."""
    return _ignored(b"\x7d")


def cbor_reserved__float() -> Image:
    """A float has the additional information 30."""
    return _ignored(b"\xfe")


def cbor_tag() -> Image:
    """An attribute is tagged as a date."""
    return _attribute(b"\xc0" + encode("2026-01-01"))


def cbor_tag__ignored() -> Image:
    """A value that readers ignore is tagged."""
    return _ignored(b"\xc1\x00")


def cbor_tag__bignum() -> Image:
    """A dimension of a tensor is the bignum 2^64."""
    bignum = Raw(b"\xc2" + encode((1 << 64).to_bytes(9, "big")))
    return usual(root(objects={"t": tensor(shape=[bignum])}))


def cbor_tag__root() -> Image:
    """The manifest begins with the tag that marks CBOR data."""
    return _raw(b"\xd9\xd9\xf7" + _EMPTY)


def cbor_simple() -> Image:
    """A value is undefined."""
    return _ignored(b"\xf7")


def cbor_simple__unassigned() -> Image:
    """A value is the simple value 16."""
    return _ignored(b"\xf0")


def cbor_simple__two_bytes() -> Image:
    """A value is the simple value 32, which takes two bytes."""
    return _ignored(b"\xf8\x20")


def cbor_simple__long_false() -> Image:
    """False is written in two bytes."""
    return _ignored(b"\xf8\x14")


def cbor_utf8() -> Image:
    """A text holds the byte ff."""
    return _ignored(b"\x61\xff")


def cbor_utf8__surrogate() -> Image:
    """A text holds a lone surrogate."""
    return _ignored(b"\x63\xed\xa0\x80")


def cbor_utf8__overlong() -> Image:
    """A text holds U+0000 in two bytes."""
    return _ignored(b"\x62\xc0\x80")


def cbor_utf8__cut() -> Image:
    """A text ends inside a character."""
    return _ignored(b"\x62\xe2\x82")


def cbor_utf8__beyond_unicode() -> Image:
    """A text holds the code point 110000."""
    return _ignored(b"\x64\xf4\x90\x80\x80")


def cbor_utf8__object_name() -> Image:
    """The name of a tensor holds the byte ff."""
    return usual(root(objects={Raw(b"\x61\xff"): tensor()}))


def cbor_utf8__ignored_key() -> Image:
    """A key that readers ignore holds the byte ff."""
    return bare({Raw(b"\x61\xff"): 0, "objects": {}})


def cbor_key_order() -> Image:
    """An attribute `b` comes before an attribute `a`."""
    return bare({"objects": {}, "attributes": Pairs([("b", 0), ("a", 0)])})


def cbor_key_order__longer_first() -> Image:
    """A key `bb` comes before a key `z`: sorted as text, not as encoded bytes."""
    return bare({"objects": {}, "attributes": Pairs([("bb", 0), ("z", 0)])})


def cbor_key_order__root() -> Image:
    """The root has `objects` before `shards`, which is shorter."""
    return bare(Pairs([("objects", {}), ("shards", {})]))


def cbor_key_order__part() -> Image:
    """A part has `dtype` before `blob`."""
    unsorted = Pairs([("dtype", "u8"), ("blob", [4096, 8])])
    return usual(root(objects={"t": tensor(parts={"data": unsorted})}))


def cbor_key_order__ignored() -> Image:
    """A map in a value that readers ignore has its key 1 before its key 0."""
    return _ignored(encode([Pairs([(1, 0), (0, 0)])]))


def cbor_key_order__key_types() -> Image:
    """A text key comes before an integer key."""
    return _ignored(encode(Pairs([("a", 0), (1, 0)])))


def cbor_key_unique() -> Image:
    """An attribute occurs twice."""
    return bare({"objects": {}, "attributes": Pairs([("a", 0), ("a", 1)])})


def cbor_key_unique__root() -> Image:
    """The root has `objects` twice."""
    return bare(Pairs([("objects", {}), ("objects", {})]))


def cbor_key_unique__object() -> Image:
    """Two tensors have the same name."""
    return usual(root(objects=Pairs([("t", tensor()), ("t", tensor())])))


def cbor_key_unique__ignored() -> Image:
    """A map in a value that readers ignore has the key 1 twice."""
    return _ignored(encode(Pairs([(1, 0), (1, 0)])))


def _single(value: float) -> bytes:
    return b"\xfa" + struct.pack(">f", value)


def _double(value: float) -> bytes:
    return b"\xfb" + struct.pack(">d", value)


def cbor_float_shortest() -> Image:
    """The attribute 1.0 takes four bytes instead of two."""
    return _attribute(_single(1.0))


def cbor_float_shortest__f64() -> Image:
    """The value 1.0 takes eight bytes instead of two."""
    return _ignored(_double(1.0))


def cbor_float_shortest__infinity() -> Image:
    """Infinity takes four bytes instead of two."""
    return _ignored(_single(float("inf")))


def cbor_float_shortest__f64_infinity() -> Image:
    """Minus infinity takes eight bytes instead of two."""
    return _ignored(_double(float("-inf")))


def cbor_float_shortest__minus_zero() -> Image:
    """Minus zero takes four bytes instead of two."""
    return _ignored(_single(-0.0))


def cbor_float_shortest__f16_subnormal() -> Image:
    """The smallest f16 subnormal, 2^-24, takes four bytes instead of two."""
    return _ignored(_single(2.0**-24))


def cbor_float_shortest__f16_largest() -> Image:
    """The largest f16, 65504, takes four bytes instead of two."""
    return _ignored(_single(65504.0))


def cbor_float_shortest__f32_subnormal() -> Image:
    """The smallest f32 subnormal, 2^-149, takes eight bytes instead of four."""
    return _ignored(_double(2.0**-149))


def cbor_float_shortest__f32_largest() -> Image:
    """The largest f32 takes eight bytes instead of four."""
    return _ignored(_double((2 - 2.0**-23) * 2.0**127))


def cbor_nan() -> Image:
    """An attribute is a NaN with a payload."""
    return _attribute(b"\xf9\x7e\x01")


def cbor_nan__sign() -> Image:
    """A NaN has its sign bit set."""
    return _ignored(b"\xf9\xfe\x00")


def cbor_nan__signalling() -> Image:
    """A NaN is a signaling one."""
    return _ignored(b"\xf9\x7c\x01")


def cbor_nan__f32() -> Image:
    """A NaN takes four bytes."""
    return _ignored(b"\xfa\x7f\xc0\x00\x00")


def cbor_nan__f64() -> Image:
    """A NaN takes eight bytes."""
    return _ignored(b"\xfb\x7f\xf8" + bytes(6))


def cbor_nan__second_key() -> Image:
    """A map has two NaN keys that differ in their payload: one key twice, in disguise."""
    return _ignored(encode(Pairs([(Raw(b"\xf9\x7e\x00"), 0), (Raw(b"\xf9\x7e\x01"), 0)])))


def cbor_depth() -> Image:
    """An attribute is an integer inside 40 arrays."""
    return _attribute(head(ARRAY, 1) * 40 + b"\x00")


def cbor_depth__maps() -> Image:
    """An attribute is an integer inside 40 maps."""
    return _attribute((head(MAP, 1) + encode("k")) * 40 + b"\x00")


def cbor_depth__map_keys() -> Image:
    """An ignored value is a map whose key is a map whose key is a map, 40 times."""
    return _ignored(head(MAP, 1) * 40 + b"\x00" * 41)


def cbor_depth__object_attribute() -> Image:
    """An attribute of a tensor is an integer inside 40 arrays."""
    deep = Raw(head(ARRAY, 1) * 40 + b"\x00")
    return usual(root(objects={"t": tensor(attributes={"k": deep})}))


def cbor_depth__ignored() -> Image:
    """A value that readers ignore is an integer inside 40 arrays."""
    return _ignored(head(ARRAY, 1) * 40 + b"\x00")


def cbor_depth__ten_thousand() -> Image:
    """An ignored value is an integer inside 10,000 arrays, more than a call stack holds."""
    return _ignored(head(ARRAY, 1) * 10_000 + b"\x00")
