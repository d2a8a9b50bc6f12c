"""Files of `reject/`: each breaks the rule that its name begins with, and no other."""

from __future__ import annotations

from .image import (
    INDEX,
    ONE,
    PLACES,
    TWO,
    Image,
    Set,
    entry,
    file,
    index,
    one,
    usual,
    vectors,
)

_A = entry("F32", [1], 0, 4)
_BIG = 1 << 64

# --- frame ---------------------------------------------------------------------------------------


def file_size() -> Image:
    """The file has seven bytes."""
    return b"\2\0\0\0\0\0\0"


def file_size__empty() -> Image:
    """The file is empty."""
    return b""


def file_size__shard() -> Image:
    """A shard of a set has two bytes."""
    return usual(two=b"{}")


def header_begin() -> Image:
    """A space stands before the brace."""
    return file(b" {}")


def header_begin__bom() -> Image:
    """A byte order mark stands before the brace."""
    return file(b"\xef\xbb\xbf{}")


def header_begin__empty() -> Image:
    """The header has no bytes."""
    return file(b"")


def header_begin__list() -> Image:
    """The header is a list."""
    return file(b"[]")


def header_begin__zeros() -> Image:
    """The file is 40 zeros."""
    return bytes(40)


def header_bounds() -> Image:
    """The header is one byte longer than the file."""
    return file(b"{}", length=3)


def header_bounds__far() -> Image:
    """The header would have 2^64 - 1 bytes."""
    return file(b"{}", length=_BIG - 1)


def header_bounds__length_alone() -> Image:
    """The file ends where the header should begin."""
    return file(b"", length=2)


# --- syntax --------------------------------------------------------------------------------------


def json_bom() -> Image:
    """A byte order mark stands before an index, as an editor leaves it."""
    return usual(index=b"\xef\xbb\xbf" + index(PLACES))


def json_utf8() -> Image:
    """A name holds the byte 0xFF."""
    return file(b'{"\xff":1}')


def json_surrogate() -> Image:
    """A name holds the first half of a surrogate pair."""
    return file(b'{"\\ud800":1}')


def json_depth() -> Image:
    """128 maps and lists are nested."""
    return file(b'{"a":' + b"[" * 127 + b"]" * 127 + b"}")


def json_syntax() -> Image:
    """The closing brace is missing."""
    return file(b'{"a":1')


def json_syntax__comma() -> Image:
    """A comma stands before the closing brace."""
    return file(b'{"__metadata__":{},}')


def json_syntax__control() -> Image:
    """A name holds a raw U+0001."""
    return file(b'{"\x01":1}')


def json_syntax__index() -> Image:
    """An index ends in its middle."""
    return usual(index=index(PLACES)[:-4])


def json_trailing() -> Image:
    """A second map follows the first."""
    return file(b"{}{}")


def json_trailing__nul() -> Image:
    """A zero byte follows the map."""
    return file(b"{}\0")


def json_constant() -> Image:
    """A number is NaN."""
    return file(b'{"a":NaN}')


def json_number() -> Image:
    """A number is no finite double."""
    return file(b'{"a":1e999}')


def json_number__digits() -> Image:
    """An integer has 5000 digits."""
    return file(b'{"a":' + b"9" * 5000 + b"}")


def json_duplicate() -> Image:
    """A key of the metadata stands there twice."""
    return file(b'{"__metadata__":{"k":"1","k":"1"}}')


def json_duplicate__entry() -> Image:
    """An entry has two shapes."""
    return file(b'{"a":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}}')


def json_duplicate__metadata() -> Image:
    """There are two __metadata__."""
    return file(b'{"__metadata__":{},"__metadata__":{}}')


def json_duplicate__index() -> Image:
    """An index places a tensor twice."""
    text = b'{"weight_map":{"a":"%s","a":"%s"}}' % (ONE.encode(), TWO.encode())
    return usual(index=text)


_NAMED = '{%s:{"dtype":"U8","shape":[1],"data_offsets":[0,1]},%s:{"dtype":"U8","shape":[1],'
_NAMED += '"data_offsets":[1,2]}}'


def duplicate_name() -> Image:
    """Two tensors are named a."""
    return file((_NAMED % ('"a"', '"a"')).encode(), b"12")


def duplicate_name__escaped() -> Image:
    """Two tensors are named a, one of them by an escape."""
    return file((_NAMED % ('"a"', '"\\u0061"')).encode(), b"12")


# --- schema --------------------------------------------------------------------------------------


def metadata_map() -> Image:
    """The metadata are a list."""
    return file({"__metadata__": []})


def metadata_text() -> Image:
    """A value of the metadata is a number."""
    return file({"__metadata__": {"a": "1", "k": 1}})


def metadata_text__null() -> Image:
    """A value of the metadata is null."""
    return file({"__metadata__": {"k": None}})


def metadata_text__map() -> Image:
    """A value of the metadata is a map."""
    return file({"__metadata__": {"k": {}}})


def tensor_map() -> Image:
    """An entry is a list."""
    return file({"a": ["F32", [1], [0, 4]]}, b"1234")


def tensor_map__null() -> Image:
    """An entry is null."""
    return file({"a": None})


def dtype() -> Image:
    """An entry has no dtype."""
    return one(dtype=...)


def dtype__number() -> Image:
    """A dtype is a number."""
    return one(dtype=1)


def dtype__map() -> Image:
    """A dtype is a map."""
    return one(dtype={"F32": None})


def shape() -> Image:
    """An entry has no shape."""
    return one(shape=...)


def shape__number() -> Image:
    """A shape is a number."""
    return one(shape=1)


def shape__float() -> Image:
    """A dimension is written 1.0."""
    return one(shape=[1.0])


def shape__true() -> Image:
    """A dimension is true."""
    return one(shape=[True])


def shape__negative() -> Image:
    """Two dimensions are negative, and their product is right."""
    return one(shape=[-1, -1])


def shape__negative_zero() -> Image:
    """A dimension is written -0."""
    return file(b'{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}')


def shape__large() -> Image:
    """A dimension is 2^64."""
    return one(shape=[_BIG])


def shape__nested() -> Image:
    """A dimension is a list."""
    return one(shape=[[1]])


def data_offsets() -> Image:
    """An entry has no data_offsets."""
    return one(data_offsets=...)


def data_offsets__one() -> Image:
    """data_offsets has one number."""
    return one(data_offsets=[4])


def data_offsets__three() -> Image:
    """data_offsets has three numbers."""
    return one(data_offsets=[0, 4, 4])


def data_offsets__float() -> Image:
    """An offset is written 4.0."""
    return one(data_offsets=[0, 4.0])


def data_offsets__false() -> Image:
    """An offset is false."""
    return one(data_offsets=[False, 4])


def data_offsets__large() -> Image:
    """An offset is 2^64."""
    return one(data_offsets=[0, _BIG])


def index_map() -> Image:
    """An index is a list that holds the map."""
    return usual(index=b"[" + index(PLACES) + b"]")


def index_metadata() -> Image:
    """The metadata of an index are null."""
    return usual(index=index(PLACES, metadata=None))


def index_weight_map() -> Image:
    """A weight_map is a list."""
    return usual(index=index([ONE, TWO]))


def index_weight_map__missing() -> Image:
    """An index calls its weight_map otherwise."""
    return usual(index=index(PLACES).replace(b"weight_map", b"weights"))


def index_weight_map__number() -> Image:
    """The file of a tensor is a number."""
    return usual(index=index({**PLACES, "c": 2}))


def index_name() -> Image:
    """A file name leads out of the folder."""
    return usual(index=index({**PLACES, "c": "../secret.safetensors"}))


def index_name__absolute() -> Image:
    """A file name is an absolute path."""
    return usual(index=index({**PLACES, "c": "/etc/passwd"}))


def index_name__backslash() -> Image:
    """A file name has the separator of another system."""
    return usual(index=index({**PLACES, "c": "..\\secret"}))


def index_name__drive() -> Image:
    """A file name begins with a drive."""
    return usual(index=index({**PLACES, "c": "C:x"}))


def index_name__empty() -> Image:
    """A file name is empty."""
    return usual(index=index({**PLACES, "c": ""}))


def index_name__folder() -> Image:
    """A file lies in a folder below."""
    return usual(index=index({**PLACES, "c": "x/y"}))


def index_name__nul() -> Image:
    """A file name holds U+0000."""
    return usual(index=index({**PLACES, "c": "x\0y"}))


# --- open ----------------------------------------------------------------------------------------


def offset_order() -> Image:
    """A tensor begins at 4 and ends at 0."""
    return one(data_offsets=[4, 0])


def offset_order__scalar() -> Image:
    """A tensor behind another one ends one byte before it begins."""
    return file({"b": _A, "a": entry("U8", [], 4, 3)}, bytes(4))


def shape_product() -> Image:
    """A shape has 2^65 - 2 elements."""
    return file({"a": entry("U8", [_BIG - 1, 2], 0, 0)})


def shape_product__zero() -> Image:
    """The first two dimensions leave 64 bits, and the third is 0."""
    return file({"a": entry("U8", [_BIG - 1, _BIG - 1, 0], 0, 0)})


def shape_product__wraps() -> Image:
    """The product of a shape is 4 in 64 bits, and 2^64 + 4 in truth."""
    wide = [4, (1 << 62) + 1]
    return file({"a": entry("U8", wide, 0, 4)}, bytes(4))


def bit_align() -> Image:
    """Three F4 have twelve bits."""
    return file({"a": entry("F4", [3], 0, 2)}, b"12")


def bit_align__six_bits() -> Image:
    """Two F6_E2M3 have twelve bits."""
    return file({"a": entry("F6_E2M3", [2], 0, 2)}, b"12")


def byte_length() -> Image:
    """Two f32 have four bytes."""
    return one(shape=[2])


def byte_length__scalar() -> Image:
    """A scalar has no bytes."""
    return file({"a": entry("F32", [], 0, 0)})


def byte_length__empty() -> Image:
    """A tensor without elements has four bytes."""
    return one(shape=[0])


def byte_length__f4() -> Image:
    """Four F4 have a byte each."""
    return file({"a": entry("F4", [4], 0, 4)}, b"1234")


def truncated() -> Image:
    """The last byte is missing."""
    return one(b"123")


def truncated__no_data() -> Image:
    """The file ends where its header does."""
    return one(b"")


def truncated__far() -> Image:
    """A tensor of an unknown type ends at 2^64 - 1."""
    return file({"a": entry("XX", [1], 0, _BIG - 1)}, b"123")


def truncated__shard() -> Image:
    """The last byte of a shard is missing."""
    return usual(two=vectors({"c": 2, "b": 1})[:-1])


def overlap() -> Image:
    """Two tensors share four bytes."""
    return file({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, bytes(12))


def overlap__same() -> Image:
    """Two tensors have the same bytes."""
    return file({"a": _A, "b": _A}, b"1234")


def overlap__inside() -> Image:
    """A tensor lies inside another one."""
    return file({"a": entry("U8", [8], 0, 8), "b": entry("U8", [2], 2, 4)}, bytes(8))


def overlap__empty() -> Image:
    """A tensor without bytes lies inside another one."""
    return file({"z": entry("U8", [0], 2, 2), "a": _A}, bytes(4))


def leading_hole() -> Image:
    """Four bytes lie before the first tensor."""
    return file({"a": entry("F32", [1], 4, 8)}, b"12345678")


def hole() -> Image:
    """Four bytes lie between two tensors."""
    return file({"b": entry("F32", [1], 8, 12), "a": _A}, bytes(12))


def hole__by_an_empty_tensor() -> Image:
    """A byte lies between a tensor and two others, the first of them without bytes."""
    header = {"a": _A, "z": entry("U8", [0], 5, 5), "b": entry("U8", [3], 5, 8)}
    return file(header, bytes(8))


def trailing_bytes() -> Image:
    """Four bytes follow the last tensor."""
    return one(b"1234junk")


def trailing_bytes__no_tensors() -> Image:
    """A byte follows a header without tensors."""
    return file({}, b"1")


def shard_lacks() -> Image:
    """An index places a tensor in a shard that does not hold it."""
    return usual(index=index({**PLACES, "d": ONE}))


def shard_unlisted() -> Image:
    """A shard holds a tensor that the index does not list."""
    return usual(two=vectors({"c": 2, "b": 1, "d": 1}))


def shard_unlisted__twice() -> Image:
    """Two shards hold a tensor that the index places in one."""
    return usual(one=vectors({"a": 3, "b": 1}))


def _stamped(first: str, second: str | None) -> Set:
    """Return a set whose index has the first identity, and whose second shard the other."""
    mine = {"format": "pt", "tensorark.set": first}
    other = {"format": "pt"} if second is None else {"format": "pt", "tensorark.set": second}
    return usual(
        index=index(PLACES, metadata={"total_size": 6, "tensorark.set": first}),
        one=vectors({"a": 3}, mine),
        two=vectors({"c": 2, "b": 1}, other),
    )


def set_mixed() -> Image:
    """A shard has the identity of another set."""
    return _stamped("xxh3:0123456789abcdef", "xxh3:fedcba9876543210")


def set_mixed__without_one() -> Image:
    """A shard has no identity, and the index has one."""
    return _stamped("xxh3:0123456789abcdef", None)


def set_mixed__index() -> Image:
    """The only shard has one identity, and the index another."""
    text = index({"a": ONE}, metadata={"tensorark.set": "xxh3:fedcba9876543210"})
    shard = vectors({"a": 3}, {"format": "pt", "tensorark.set": "xxh3:0123456789abcdef"})
    return Set({INDEX: text, ONE: shard})
