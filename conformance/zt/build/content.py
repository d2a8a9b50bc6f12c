"""Files of `reject/` that open and whose payload is wrong (§3.4, Appendix A, zt.sparse_csr/1)."""

from __future__ import annotations

import hashlib

import xxhash

from .image import FLOOR, Image, image
from .manifest import DATA, csr, integers, part, root, tensor, usual, xxh3


def _digest(digest: str) -> Image:
    return usual(root(objects={"t": tensor(parts={"data": part(digest=digest)})}))


def _typed(kind: str, shape: list[int], data: bytes) -> Image:
    typed = part(type=kind, blob=[FLOOR, len(data)])
    return image(root(objects={"t": tensor(shape=shape, parts={"data": typed})}), {FLOOR: data})


def digest() -> Image:
    """An xxh3 digest has one wrong bit."""
    return _digest(f"xxh3:{xxhash.xxh3_64_intdigest(DATA) ^ 1:016x}")


def digest__sha256() -> Image:
    """A sha256 digest is the one of zero bytes."""
    return _digest(f"sha256:{hashlib.sha256(b'').hexdigest()}")


def digest__byte_order() -> Image:
    """An xxh3 digest is written least significant byte first, as the footer's hash is."""
    return _digest(f"xxh3:{xxhash.xxh3_64_digest(DATA)[::-1].hex()}")


def digest__xxh64() -> Image:
    """An xxh3 digest is an XXH64."""
    return _digest(f"xxh3:{xxhash.xxh64_hexdigest(DATA)}")


def digest__empty() -> Image:
    """The digest of a zero-length part is 0."""
    nothing = part(blob=[FLOOR, 0], digest="xxh3:0000000000000000")
    return usual(root(objects={"t": tensor(shape=[0], parts={"data": nothing})}))


def digest__second_reference() -> Image:
    """Two parts share one blob, and the digest of the second one is wrong."""
    wrong = f"xxh3:{'0' * 16}"
    first = tensor(parts={"data": part(digest=xxh3(DATA))})
    return usual(root(objects={"a": first, "b": tensor(parts={"data": part(digest=wrong)})}))


def digest__unknown_layout() -> Image:
    """A digest is wrong in a layout that readers do not know."""
    parts = {"data": part(digest=f"xxh3:{'0' * 16}")}
    return usual(root(objects={"t": tensor(layout="conformance.unknown/1", parts=parts)}))


def bool_byte() -> Image:
    """A bool is 2."""
    return _typed("bool", [3], b"\x00\x02\x01")


def bool_byte__last() -> Image:
    """The last of 4,097 bools is ff."""
    return _typed("bool", [4097], bytes(4096) + b"\xff")


def bool_byte__csr_values() -> Image:
    """A bool among the values of a CSR object is 2."""
    return csr(values=b"\x01\x02\x01", values_fields={"dtype": "u8", "type": "bool"})


def f4_padding() -> Image:
    """Five f4_e2m1 leave a high nibble, which is 1."""
    return _typed("f4_e2m1", [5], b"\x21\x43\x15")


def f4_padding__rows() -> Image:
    """Three rows of three f4_e2m1 leave one high nibble, which is 8, a minus zero."""
    return _typed("f4_e2m1", [3, 3], b"\x21\x43\x65\x17\x82")


def f4_padding__csr_values() -> Image:
    """Three f4_e2m1 among the values of a CSR object leave a high nibble, which is 4."""
    return csr(values=b"\x21\x43", values_fields={"dtype": "u8", "type": "f4_e2m1"})


def csr_indptr_start() -> Image:
    """indptr begins with 1; the first element belongs to no row."""
    return csr(indptr=(1, 2, 3))


def csr_indptr_start__no_rows() -> Image:
    """indptr is [1] for no rows and one element."""
    return csr(shape=[0, 3], values=bytes(4), indices=(0,), indptr=(1,))


def csr_indptr_order() -> Image:
    """indptr goes 0, 2, 1, 3."""
    return csr(shape=[3, 3], indices=(0, 1, 2), indptr=(0, 2, 1, 3))


def csr_indptr_order__beyond_the_elements() -> Image:
    """indptr goes 0, 2^64 - 1, 3."""
    return csr(indices=(0, 1, 2), indptr=(0, (1 << 64) - 1, 3))


def csr_indptr_end() -> Image:
    """indptr ends with 2 for three elements."""
    return csr(indptr=(0, 2, 2))


def csr_indptr_end__beyond() -> Image:
    """indptr ends with 4 for three elements."""
    return csr(indices=(0, 1, 2), indptr=(0, 0, 4))


def csr_column_order() -> Image:
    """A row has its indices 2 and 0 in this order."""
    return csr(indices=(2, 0, 1))


def csr_column_order__twice() -> Image:
    """A row has the index 1 twice."""
    return csr(indices=(1, 1, 1))


def csr_column_order__u32() -> Image:
    """The second row of a matrix with u32 indices has its indices 1 and 0 in this order."""
    return csr(index="u32", indices=(2, 1, 0), indptr=(0, 1, 3))


def csr_column_bound() -> Image:
    """An index is 3 in a matrix of three columns."""
    return csr(indices=(0, 3, 1))


def csr_column_bound__largest() -> Image:
    """An index is 2^64 - 1, or -1 to a careless reader."""
    return csr(indices=(0, (1 << 64) - 1, 1))


def csr_column_bound__modulo_32_bits() -> Image:
    """An index is 2^32 + 2, which 32 bits take for 2."""
    return csr(indices=integers("u64", 0, (1 << 32) + 2, 1))
