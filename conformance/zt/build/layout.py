"""Files of `reject/` whose manifest has every field and cannot be true (§2.4, §3.3, §5.1, CSR).

All of it shows before any payload is read.
"""

from __future__ import annotations

from .image import FLOOR, Image, image
from .manifest import DATA, bare, csr, integers, part, root, shard, tensor, usual

_UNKNOWN = "conformance.unknown/1"


def _one(*, blob: list[int], at: int | None = None, blobs: dict[int, bytes] | None = None) -> bytes:
    """Return a file with one u8 vector that claims `blob`."""
    vector = tensor(shape=[blob[1]], parts={"data": part(blob=blob)})
    return image(root(objects={"t": vector}), {} if blobs is None else blobs, at=at)


def _two(first: list[int], second: list[int], at: int) -> bytes:
    """Return a file with two u8 vectors `a` and `b`, its manifest at offset `at`."""
    vectors = {
        name: tensor(shape=[blob[1]], parts={"data": part(blob=blob)})
        for name, blob in (("a", first), ("b", second))
    }
    return image(root(objects=vectors), {}, at=at)


def _in_shard(*blobs: list[int], size: int = 16384) -> bytes:
    """Return a root whose u8 vectors lie in the shard 00001."""
    vectors = {
        f"t{n}": tensor(shape=[blob[1]], parts={"data": part(blob=blob, shard="00001")})
        for n, blob in enumerate(blobs)
    }
    return bare(root(shards={"00001": shard(size=size)}, objects=vectors))


# --- shapes --------------------------------------------------------------------------------------


def shape_rank() -> Image:
    """A shape has 65 dimensions of 1."""
    one = part(blob=[FLOOR, 1])
    return usual(root(objects={"t": tensor(shape=[1] * 65, parts={"data": one})}))


def shape_rank__unknown_layout() -> Image:
    """The shape of an unknown layout has 65 dimensions of 1."""
    return usual(root(objects={"t": tensor(shape=[1] * 65, layout=_UNKNOWN)}))


def shape_product() -> Image:
    """The dimensions 2^64 - 1 and 2 have a product of more than 64 bits, in an unknown layout."""
    return usual(root(objects={"t": tensor(shape=[(1 << 64) - 1, 2], layout=_UNKNOWN)}))


def shape_product__wraps_to_zero() -> Image:
    """Two dimensions of 2^32 have a product that is 0 in 64 bits, as is the blob's length."""
    nothing = {"data": part(blob=[FLOOR, 0])}
    return usual(
        root(objects={"t": tensor(shape=[1 << 32, 1 << 32], layout=_UNKNOWN, parts=nothing)})
    )


def shape_product__packed() -> Image:
    """2^64 elements of four bits have 2^63 bytes: the size fits where the product does not."""
    packed = part(type="f4_e2m1", encoding=_UNKNOWN, decoded_length=1 << 63)
    return usual(root(objects={"t": tensor(shape=[1 << 63, 2], parts={"data": packed})}))


# --- blobs ---------------------------------------------------------------------------------------


def shard_undeclared() -> Image:
    """A part names a shard and there is no shard table."""
    return usual(root(objects={"t": tensor(parts={"data": part(shard="00001")})}))


def shard_undeclared__empty_table() -> Image:
    """A part names a shard and the shard table is empty."""
    return usual(root(shards={}, objects={"t": tensor(parts={"data": part(shard="00001")})}))


def shard_undeclared__other_name() -> Image:
    """A part names the shard `a` and the table has `A`."""
    lost = tensor(parts={"data": part(shard="a")})
    return usual(root(shards={"A": shard()}, objects={"t": lost}))


def blob_align() -> Image:
    """A blob lies at offset 4100."""
    return _one(blob=[4100, 8], blobs={4100: DATA})


def blob_align__offset_zero() -> Image:
    """A blob lies at offset 0, over the magic."""
    return _one(blob=[0, 8])


def blob_align__below_floor() -> Image:
    """A blob lies at offset 2048."""
    return _one(blob=[2048, 8], blobs={2048: DATA})


def blob_align__empty_at_zero() -> Image:
    """A zero-length blob lies at offset 0."""
    return _one(blob=[0, 0])


def blob_align__empty() -> Image:
    """A zero-length blob lies at offset 4100."""
    return _one(blob=[4100, 0], at=8192)


def blob_align__shard() -> Image:
    """A blob lies at offset 4100 of a shard."""
    return _in_shard([4100, 8])


def blob_bounds() -> Image:
    """A blob lies behind the end of the file."""
    return _one(blob=[1 << 20, 8])


def blob_bounds__into_footer() -> Image:
    """A blob runs one byte into the footer."""
    return _one(blob=[8192, 9], blobs={8192: DATA}, at=FLOOR)


def blob_bounds__in_footer() -> Image:
    """A blob is the footer."""
    return _one(blob=[8192, 40], blobs={8191: b"\0"}, at=FLOOR)


def blob_bounds__wraps() -> Image:
    """A blob's offset and length add up to 0 in 64-bit arithmetic."""
    return _one(blob=[8192, (1 << 64) - 8192], blobs={8192: DATA}, at=FLOOR)


def blob_bounds__empty() -> Image:
    """A zero-length blob lies behind the end of the file."""
    return _one(blob=[8192, 0])


def blob_bounds__empty_far() -> Image:
    """A zero-length blob lies at offset 2^63."""
    return _one(blob=[1 << 63, 0])


def blob_bounds__shard() -> Image:
    """A blob runs one byte into the footer of its shard."""
    return _in_shard([4096, 4057], size=8192)


def blob_bounds__shard_of_48_bytes() -> Image:
    """A zero-length blob lies behind a shard of 48 bytes."""
    return _in_shard([4096, 0], size=48)


def blob_bounds__unknown_layout() -> Image:
    """A blob of an unknown layout lies behind the end of the file."""
    lost = tensor(layout=_UNKNOWN, parts={"data": part(blob=[1 << 20, 8])})
    return bare(root(objects={"t": lost}))


def blob_overlap() -> Image:
    """A blob begins inside another one."""
    return _two([4096, 4104], [8192, 8], at=12288)


def blob_overlap__same_offset() -> Image:
    """Two blobs begin at one offset and have different lengths."""
    return _two([4096, 8], [4096, 4], at=8192)


def blob_overlap__contained() -> Image:
    """A blob lies in the middle of another one."""
    return _two([4096, 12288], [8192, 8], at=16384)


def blob_overlap__around_a_zero_length_blob() -> Image:
    """Two blobs overlap, and a zero-length blob sorts between them."""
    vectors = {
        name: tensor(shape=[blob[1]], parts={"data": part(blob=blob)})
        for name, blob in (("a", [4096, 4104]), ("b", [8192, 0]), ("c", [8192, 8]))
    }
    return image(root(objects=vectors), {}, at=12288)


def blob_overlap__one_object() -> Image:
    """Two parts of one object of an unknown layout overlap."""
    parts = {"data": part(blob=[4096, 8]), "scales": part(blob=[4096, 4])}
    return usual(root(objects={"t": tensor(layout=_UNKNOWN, parts=parts)}))


def blob_overlap__manifest_start() -> Image:
    """A blob begins where the manifest does and is shorter."""
    return _one(blob=[4096, 8])


def blob_overlap__into_manifest() -> Image:
    """A blob ends one byte behind the beginning of the manifest."""
    return _one(blob=[4096, 4097], at=8192)


def blob_overlap__inside_manifest() -> Image:
    """A blob lies inside a manifest of more than 4096 bytes."""
    vector = tensor(parts={"data": part(blob=[8192, 8])})
    return bare(root(objects={"t": vector}, attributes={"long": "-" * 4200}))


def blob_overlap__shard() -> Image:
    """Two blobs of one shard overlap."""
    return _in_shard([4096, 4104], [8192, 8])


def blob_overlap__encoded() -> Image:
    """An encoded blob overlaps a raw one by its stored length, not by its decoded one."""
    coded = part(blob=[4096, 4104], encoding=_UNKNOWN, decoded_length=8)
    vectors = {
        "a": tensor(parts={"data": coded}),
        "b": tensor(parts={"data": part(blob=[8192, 8])}),
    }
    return image(root(objects=vectors), {}, at=12288)


# --- dense ---------------------------------------------------------------------------------------


def dense_parts() -> Image:
    """A dense object has a second part."""
    extra = part(blob=[FLOOR, len(DATA)])
    return usual(root(objects={"t": tensor(parts={"data": part(), "extra": extra})}))


def dense_parts__other_name() -> Image:
    """The one part of a dense object is named `values`."""
    return usual(root(objects={"t": tensor(parts={"values": part()})}))


def dense_parts__capital() -> Image:
    """The one part of a dense object is named `Data`."""
    return usual(root(objects={"t": tensor(parts={"Data": part()})}))


def _dense(shape: list[int], length: int, **fields: object) -> Image:
    vector = tensor(shape=shape, parts={"data": part(blob=[FLOOR, length], **fields)})
    return usual(root(objects={"t": vector}))


def dense_size() -> Image:
    """Three f32 have eight bytes."""
    return _dense([3], 8, dtype="f32")


def dense_size__too_long() -> Image:
    """One f32 has eight bytes."""
    return _dense([1], 8, dtype="f32")


def dense_size__scalar() -> Image:
    """A scalar has no bytes."""
    return _dense([], 0)


def dense_size__zero_dimension() -> Image:
    """A tensor without elements has eight bytes."""
    return _dense([8, 0], 8)


def dense_size__complex() -> Image:
    """Two complex64 have eight bytes."""
    return _dense([2], 8, dtype="f32", type="complex64")


def dense_size__packed() -> Image:
    """Five f4_e2m1 have two bytes."""
    return _dense([5], 2, type="f4_e2m1")


def dense_size__packed_rows() -> Image:
    """Three rows of three f4_e2m1 have six bytes, as if every row were padded."""
    return _dense([3, 3], 6, type="f4_e2m1")


def dense_size__wraps() -> Image:
    """2^61 + 1 f64 have eight bytes in 64-bit arithmetic."""
    return _dense([(1 << 61) + 1], 8, dtype="f64")


def dense_size__wraps_to_zero() -> Image:
    """2^62 complex64 have no bytes in 64-bit arithmetic."""
    return _dense([1 << 62], 0, dtype="f32", type="complex64")


def dense_size__unchecked_overflow() -> Image:
    """2^63 f32 have eight bytes; the product fits 64 bits, the size does not."""
    return _dense([1 << 63], 8, dtype="f32")


def dense_size__decoded_length() -> Image:
    """An encoded part has the stored length its shape requires and another decoded one."""
    return _dense([8], 8, encoding=_UNKNOWN, decoded_length=16)


# --- zt.sparse_csr/1 -----------------------------------------------------------------------------


def csr_rank() -> Image:
    """A CSR object has three dimensions."""
    return csr(shape=[2, 3, 1])


def csr_rank__one() -> Image:
    """A CSR object has one dimension."""
    return csr(shape=[2])


def csr_parts() -> Image:
    """A CSR object has no indptr."""
    return csr(without="indptr")


def csr_parts__no_values() -> Image:
    """A CSR object has no values."""
    return csr(without="values")


def csr_parts__extra() -> Image:
    """A CSR object has a fourth part."""
    parts = {name: part(dtype="u64", blob=[FLOOR, 0]) for name in ("indices", "indptr", "extra")}
    parts["indptr"] = part(dtype="u64", blob=[FLOOR, 8])
    parts["values"] = part(dtype="f32", blob=[FLOOR, 0])
    matrix = tensor(layout="zt.sparse_csr/1", shape=[0, 3], parts=parts)
    return image(root(objects={"m": matrix}), {FLOOR: bytes(8)})


def csr_index_dtype() -> Image:
    """indices and indptr are i64."""
    return csr(index="i64")


def csr_index_dtype__u16() -> Image:
    """indices and indptr are u16."""
    return csr(index="u16")


def csr_index_dtype__different() -> Image:
    """indices are u32 and indptr is u64."""
    return csr(indices=integers("u32", 0, 2, 1), indices_fields={"dtype": "u32"})


def csr_index_dtype__logical_type() -> Image:
    """indices are u64 with an unregistered logical type."""
    return csr(indices_fields={"type": "conformance.unknown"})


def csr_indices_size() -> Image:
    """indices have 20 bytes, two and a half u64."""
    values = bytes(8)
    return csr(values=values, indices=bytes(20), indptr=(0, 1, 2))


def csr_indptr_count() -> Image:
    """indptr has two entries for two rows."""
    return csr(indptr=(0, 3))


def csr_indptr_count__no_rows() -> Image:
    """indptr has no entries for no rows."""
    return csr(shape=[0, 3], values=b"", indices=(), indptr=())


def csr_indptr_count__wraps() -> Image:
    """2^64 - 1 rows would have no entries in 64-bit arithmetic."""
    return csr(shape=[(1 << 64) - 1, 1], values=b"", indices=(), indptr=())


def csr_values_size() -> Image:
    """values has two f32 for three indices."""
    return csr(values=bytes(8))


def csr_values_size__packed() -> Image:
    """values has one byte for three indices of f4_e2m1."""
    return csr(values=b"\x11", values_fields={"dtype": "u8", "type": "f4_e2m1"})


def csr_values_size__from_shape() -> Image:
    """values has one f32 for every cell of the matrix."""
    return csr(values=bytes(24))
