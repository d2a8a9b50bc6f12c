"""Files of `reject/` that do not open: each breaks the rule in its name and no other."""

from __future__ import annotations

from dataclasses import replace

from .image import (
    ABSENT,
    CONFIG,
    HEADER,
    Container,
    Folder,
    Image,
    Single,
    alone,
    container,
    dense,
    dense_entry,
    entry,
    floats,
    folder,
    index,
    sparse,
    text_of,
    usual,
)

_AFTER = len(sparse().data)

# ------------------------------------------------------------------------------------------- frame


def blob_size() -> Image:
    """A .tb ends one byte before its header does."""
    return Single(dense().data[: HEADER - 1])


def blob_size__magic_only() -> Image:
    """A .tb is its magic alone."""
    return Single(b"TB01")


def container_size() -> Image:
    """A .tbm has the length of an index and no index."""
    return Container(b"\2\0\0\0")


def index_length() -> Image:
    """The length is 0."""
    return container([sparse().data], index([entry()]), length=0)


def index_length__beyond() -> Image:
    """The length is larger than the file."""
    return container([sparse().data], index([entry()]), length=(1 << 32) - 1)


def index_length__trailing_byte() -> Image:
    """A line feed follows the length, which shifts the last four bytes."""
    return container([sparse().data], index([entry()]), tail=b"\n")


# ------------------------------------------------------------------------------------------ syntax


def _text(text: bytes) -> Container:
    return container([sparse().data], text)


def json_bom() -> Image:
    """A byte order mark stands before the index."""
    return _text(b"\xef\xbb\xbf" + text_of(index([entry()])))


def json_utf8() -> Image:
    """The name of the architecture is Latin-1."""
    return _text(text_of(index([entry()])).replace(b"llama", b"lam\xe9"))


def json_surrogate() -> Image:
    """A name holds half of a surrogate pair."""
    return _text(text_of(index([entry()])).replace(b"a.weight", b"\\ud800"))


def json_depth() -> Image:
    """A member nobody defined holds 65 lists in each other."""
    return _text(text_of(index([entry()]))[:-1] + b',"deep":' + b"[" * 65 + b"]" * 65 + b"}")


def json_syntax() -> Image:
    """The index is cut by thirty bytes; its length is that of what is left."""
    return _text(text_of(index([entry()]))[:-30])


def json_syntax__trailing_comma() -> Image:
    """A comma follows the last tensor."""
    return _text(text_of(index([entry()])).replace(b"}]", b"},]"))


def json_trailing() -> Image:
    """A second object follows the index."""
    return _text(text_of(index([entry()])) + b"{}")


def json_constant() -> Image:
    """norm_eps is NaN."""
    return _text(text_of(index([entry()])).replace(b"1e-06", b"NaN"))


def json_constant__infinity() -> Image:
    """rope_theta is -Infinity."""
    return _text(text_of(index([entry()])).replace(b"10000.0", b"-Infinity"))


def json_number() -> Image:
    """rope_theta is no finite double."""
    return _text(text_of(index([entry()])).replace(b"10000.0", b"1e400"))


def json_duplicate() -> Image:
    """The index has two architectures."""
    return _text(text_of(index([entry()]))[:-1] + b',"architecture":"opt"}')


def json_duplicate__entry() -> Image:
    """A tensor has two offsets."""
    return _text(text_of(index([entry()])).replace(b'"offset":0', b'"offset":0,"offset":0'))


# ------------------------------------------------------------------------------------------ schema


def index_object() -> Image:
    """The index is the list that the picture in the specification calls it."""
    return container([sparse().data], [entry()])


def architecture() -> Image:
    """The architecture is a number."""
    return usual(architecture=7)


def architecture__null() -> Image:
    """The architecture is null."""
    return usual(architecture=None)


def config() -> Image:
    """The configuration is a list."""
    return usual(config=[CONFIG])


def tensors() -> Image:
    """There is no list of tensors."""
    return container([sparse().data], index(ABSENT))


def tensors__object() -> Image:
    """The tensors are an object of entries by name."""
    return container([sparse().data], index({"a.weight": entry()}))


def tensors__entry() -> Image:
    """A tensor is a name."""
    return container([sparse().data], index([entry(), "b.weight"]))


def entry_name() -> Image:
    """A tensor has no name."""
    return usual(entries=[entry(name=ABSENT), dense_entry(_AFTER)])


def entry_name__empty() -> Image:
    """The name of a tensor is empty."""
    return usual(entries=[entry(name=""), dense_entry(_AFTER)])


def entry_name__number() -> Image:
    """The name of a tensor is a number."""
    return usual(entries=[entry(name=1), dense_entry(_AFTER)])


def name_unique() -> Image:
    """Two tensors have one name."""
    return usual(entries=[entry(), dense_entry(_AFTER, name="a.weight")])


def entry_offset() -> Image:
    """A tensor has no offset."""
    return usual(entries=[entry(offset=ABSENT), dense_entry(_AFTER)])


def entry_offset__negative() -> Image:
    """An offset is negative, which crashes the public loader."""
    return usual(entries=[entry(), dense_entry(-4096)])


def entry_offset__fraction() -> Image:
    """An offset is written 0.0."""
    return usual(entries=[entry(offset=0.0), dense_entry(_AFTER)])


def entry_offset__true() -> Image:
    """An offset is true."""
    return usual(entries=[entry(offset=True), dense_entry(_AFTER)])


def entry_offset__beyond_64_bits() -> Image:
    """An offset is 2^64."""
    return usual(entries=[entry(), dense_entry(1 << 64)])


def _manifest(file: object) -> Folder:
    held = entry(offset=ABSENT, num_weights=ABSENT, num_mask_bytes=ABSENT, file=file)
    return folder([held], {"a.tb": sparse().data})


def entry_file() -> Image:
    """A manifest names no file."""
    return _manifest(ABSENT)


def entry_file__absolute() -> Image:
    """A manifest names a file by an absolute path."""
    return _manifest("/etc/passwd")


def entry_file__parent() -> Image:
    """A manifest names a file outside its directory."""
    return _manifest("../a.tb")


def entry_file__inner_parent() -> Image:
    """A path leads into a folder and out of it again."""
    return _manifest("x/../a.tb")


def entry_file__backslash() -> Image:
    """A path has the separator of another system."""
    return _manifest("..\\a.tb")


def entry_file__drive() -> Image:
    """A path begins with a drive."""
    return _manifest("C:a.tb")


def entry_file__nul() -> Image:
    """A path holds U+0000."""
    return _manifest("a.tb\0")


def entry_file__empty() -> Image:
    """A path is empty."""
    return _manifest("")


def entry_shape() -> Image:
    """A tensor has no shape."""
    return usual(entries=[entry(shape=ABSENT), dense_entry(_AFTER)])


def entry_shape__negative() -> Image:
    """A dimension is negative, and so is another: their product is right."""
    return usual(entries=[entry(shape=[-4, -8]), dense_entry(_AFTER)])


def entry_shape__number() -> Image:
    """A shape is a number."""
    return usual(entries=[entry(shape=32), dense_entry(_AFTER)])


def entry_count() -> Image:
    """num_weights is written 32.0."""
    return usual(entries=[entry(num_weights=32.0), dense_entry(_AFTER)])


def entry_count__pattern() -> Image:
    """nm_n is text."""
    return usual(entries=[entry(nm_n="2"), dense_entry(_AFTER)])


def entry_count__group_size() -> Image:
    """group_size is negative."""
    return usual(entries=[entry(group_size=-1), dense_entry(_AFTER)])


def entry_dtype() -> Image:
    """A dtype is float32, which the public loader takes for fp32 without a word."""
    return usual(entries=[entry(dtype="float32"), dense_entry(_AFTER)])


def entry_dtype__capitals() -> Image:
    """A dtype is BF16, which the public loader takes for fp32 without a word."""
    return usual(entries=[entry(dtype="BF16"), dense_entry(_AFTER)])


def entry_dtype__list() -> Image:
    """A dtype is a list."""
    return usual(entries=[entry(dtype=["fp32"]), dense_entry(_AFTER)])


# -------------------------------------------------------------------------------------------- open


def blob_bounds() -> Image:
    """A blob begins far behind the end of the file."""
    return usual(entries=[entry(), dense_entry(10_000_000)])


def blob_bounds__into_index() -> Image:
    """The header of a blob runs one byte into the index."""
    size = _AFTER + len(dense().data)
    return usual(entries=[entry(), dense_entry(size - HEADER + 1)])


def blob_bounds__file() -> Image:
    """A file that a manifest names is shorter than a header."""
    held = entry(offset=ABSENT, num_weights=ABSENT, num_mask_bytes=ABSENT, file="a.tb")
    return folder([held], {"a.tb": b"TB01" + bytes(100)})


def magic() -> Image:
    """The first blob begins with TB10."""
    return usual(sparse(magic=b"TB10"))


def magic__without_the_header() -> Image:
    """An offset leaves out the header of the blob before it, as the specification's example does.

    What lies there are the last weights of that blob.
    """
    first = dense(weights=bytes(3 * HEADER), count=3 * HEADER // 4)
    entries = [
        dense_entry(0, name="a.weight", shape=[3072, 1], num_weights=3072),
        dense_entry(len(first.data) - HEADER),
    ]
    return container([first.data, dense().data], index(entries))


def magic__four_bytes_a_weight() -> Image:
    """An offset was computed with four bytes for each weight of fp16, as the merge tool does."""
    half = sparse(weights=floats(*[1.0, 0.0, 2.0, 0.0] * 8, code=1), mask=b"\5" * 8, precision=1)
    entries = [entry(dtype="fp16"), dense_entry(HEADER + 4 * 32 + 8)]
    return container([half.data, dense().data], index(entries))


def magic__single() -> Image:
    """A .tb begins with the magic of another version."""
    return Single(sparse(magic=b"TB02").data)


def version() -> Image:
    """The version is 2."""
    return usual(sparse(version=2))


def version__zero() -> Image:
    """The version of a .tb is 0."""
    return Single(sparse(version=0).data)


def pattern() -> Image:
    """Five of each four weights are kept."""
    return alone(sparse(n=5), {"nm_n": 5})


def pattern__without_m() -> Image:
    """Two of each zero weights are kept."""
    return alone(sparse(m=0, mask=b""), {"nm_m": 0, "num_mask_bytes": 0})


def precision() -> Image:
    """The precision is 4."""
    return alone(sparse(precision=4), {"dtype": ABSENT})


def precision__int8_without_the_index() -> Image:
    """A .tb has the precision 7, which only an index that says int8 could explain."""
    return Single(dense(weights=bytes(16), precision=7).data)


def precision__beside_int4() -> Image:
    """The index says int4 and the header 7, which is int8's."""
    blob = dense(weights=bytes(8), precision=7)
    return container([blob.data], index([dense_entry(0, dtype="int4")]))


def weights_offset() -> Image:
    """The weights begin one byte before the header ends."""
    return alone(sparse(weights_offset=HEADER - 1))


def weights_bounds() -> Image:
    """The header counts more weights than the file holds."""
    claim = {"num_weights": 1_000_000, "shape": [1000, 1000]}
    return alone(sparse(count=1_000_000), claim)


def weights_bounds__far() -> Image:
    """The weights begin at 2^40."""
    return alone(sparse(weights_offset=1 << 40))


def weights_bounds__wraps() -> Image:
    """The bytes of 2^62 weights are 2^64, which is 0 in 64 bits."""
    return alone(sparse(count=1 << 62, mask=b""), {"num_weights": 1 << 62, "num_mask_bytes": 0})


def weights_bounds__into_index() -> Image:
    """The weights run one element into the index."""
    blob = dense(weights=floats(*range(15)))
    return container([blob.data], index([dense_entry(0)]))


def weights_bounds__scales() -> Image:
    """The index counts more scales than there are."""
    blob = dense(weights=bytes(16), scales=floats(1.0))
    claim = dense_entry(0, dtype="int8", scale_count=2, group_size=8)
    return container([blob.data], index([claim]))


def weights_bounds__single() -> Image:
    """A .tb is cut by one byte."""
    return Single(dense().data[:-1])


def mask_size() -> Image:
    """A mask of 2:4 has one byte too few."""
    return alone(sparse(mask=b"\5" * 7), {"num_mask_bytes": 7})


def mask_size__too_long() -> Image:
    """A mask of 2:4 has two bytes a group."""
    return alone(sparse(mask=b"\5" * 16), {"num_mask_bytes": 16})


def mask_size__dense() -> Image:
    """A dense tensor has a mask."""
    return alone(sparse(n=0, m=0), {"nm_n": 0, "nm_m": 0})


def mask_size__one_byte_of_twelve() -> Image:
    """A mask of 6:12 has one byte for each of two groups and one for the rest."""
    blob = sparse(n=6, m=12, mask=b"\5" * 3)
    return alone(blob, {"nm_n": 6, "nm_m": 12, "num_mask_bytes": 3})


def mask_order() -> Image:
    """The mask begins one byte before the weights end."""
    return alone(sparse(masks_offset=HEADER + 127))


def mask_order__zero() -> Image:
    """The mask begins at 0, in the header."""
    return alone(sparse(masks_offset=0))


def mask_order__scales() -> Image:
    """The mask begins where the weights end, and there are scales."""
    blob = sparse(weights=bytes(32), scales=floats(1.0), masks_offset=HEADER + 32)
    claim = {"dtype": "int8", "scale_count": 1, "group_size": 0}
    return alone(blob, claim)


def size_differs() -> Image:
    """The index says int8, the header fp32, and the mask begins behind 32 fp32 weights."""
    return alone(sparse(), {"dtype": "int8"})


def size_differs__scales() -> Image:
    """The index counts one scale of the two that lie before the mask."""
    blob = sparse(weights=bytes(32), scales=floats(1.0, 2.0), masks_offset=HEADER + 40)
    claim = {"dtype": "int8", "scale_count": 1, "group_size": 0}
    return alone(blob, claim)


def size_differs__dense() -> Image:
    """The index says int8, the header fp32, and there is no mask behind 16 fp32 weights."""
    return container([dense().data], index([dense_entry(0, dtype="int8")]))


def mask_bounds() -> Image:
    """The mask runs one byte into the index."""
    return alone(sparse(masks_offset=HEADER + 129))


def mask_bounds__far() -> Image:
    """The mask begins at 2^63."""
    return alone(sparse(masks_offset=1 << 63))


def pattern_differs() -> Image:
    """The index says 1:8, the header 2:4."""
    return usual(entries=[entry(nm_n=1, nm_m=8), dense_entry(_AFTER)])


def count_differs() -> Image:
    """The index says 64 weights, the header 32."""
    return usual(entries=[entry(num_weights=64), dense_entry(_AFTER)])


def count_differs__mask() -> Image:
    """The index says 16 mask bytes, the header 8."""
    return usual(entries=[entry(num_mask_bytes=16), dense_entry(_AFTER)])


def dtype_differs() -> Image:
    """The index says fp16, the header fp32."""
    return usual(entries=[entry(dtype="fp16"), dense_entry(_AFTER)])


def dtype_differs__same_size() -> Image:
    """The index says fp16, the header bf16: both have two bytes."""
    half = sparse(weights=floats(*[1.0, 0.0, 2.0, 0.0] * 8, code=2), mask=b"\5" * 8, precision=2)
    return alone(half, {"dtype": "fp16"})


def shape() -> Image:
    """A shape has 10000 elements, the header counts 32."""
    return usual(entries=[entry(shape=[100, 100]), dense_entry(_AFTER)])


def shape__empty() -> Image:
    """A shape without dimensions stands for 32 weights."""
    return usual(entries=[entry(shape=[]), dense_entry(_AFTER)])


def shape__two_of_four() -> Image:
    """Of four dimensions the first two are left, as the pruning tool does."""
    return usual(entries=[entry(shape=[4, 2]), dense_entry(_AFTER)])


def shape__wraps() -> Image:
    """The product of a shape is 32 in 64 bits, and 2^64 + 32 in truth."""
    return usual(entries=[entry(shape=[(1 << 59) + 1, 32]), dense_entry(_AFTER)])


def shape__dimensions() -> Image:
    """A shape has 65 dimensions."""
    return usual(entries=[entry(shape=[4, 8, *[1] * 63]), dense_entry(_AFTER)])


def overlap() -> Image:
    """A blob begins inside the weights of another, which hold what looks like one."""
    inner = dense().data
    outer = dense(weights=inner, count=len(inner) // 4)
    entries = [
        dense_entry(0, name="a.weight", shape=[len(inner) // 4, 1], num_weights=len(inner) // 4),
        dense_entry(HEADER),
    ]
    return container([outer.data], index(entries))


def overlap__by_a_mask() -> Image:
    """The mask of a blob lies inside the next one."""
    first = replace(sparse(), masks_offset=len(sparse().data) + 100)
    entries = [entry(), dense_entry(len(first.data))]
    return container([first.data, dense().data], index(entries))


def blob_end() -> Image:
    """A byte follows the mask of a .tb."""
    return Single(sparse().data + b"\0")


def blob_end__file() -> Image:
    """A byte follows the blob in a file that a manifest names."""
    held = entry(offset=ABSENT, num_weights=ABSENT, num_mask_bytes=ABSENT, file="a.tb")
    return folder([held], {"a.tb": sparse().data + b"\0"})
