"""What the manifest alone must say about layouts that we interpret: `dense` and `zt.sparse_csr/1`.

Metadata rules only (§5): parts, dtypes and sizes, in unbounded integers. Objects of other layouts
pass: they are listed and never interpreted. The rules about payload stand in `codecs.content`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from tensorark.formats.zt.manifest import Manifest
from tensorark.rules import Fault, Rule, rule
from tensorark.vocab import DTYPES, size_of

DENSE: Final = "dense"
CSR: Final = "zt.sparse_csr/1"


def _objects(doc: Manifest, layout: str) -> Iterator[int]:
    return (index for index, found in enumerate(doc.layouts) if found == layout)


@rule("zt.dense-parts", section="5.1", stage="open")
def dense_parts(doc: Manifest) -> Iterator[Fault]:
    """A dense object has exactly one part, named `data`."""
    firsts, roles = doc.firsts, doc.roles
    for index in _objects(doc, DENSE):
        first = firsts[index]
        if firsts[index + 1] != first + 1 or roles[first] != "data":
            found = ", ".join(doc.roles_of(index))
            where = doc.object_place(index, "parts")
            yield Fault(where, "a dense object has other parts than `data`", "data", found)


@rule("zt.dense-size", section="5.1", stage="open")
def dense_size(doc: Manifest) -> Iterator[Fault]:
    """The decoded size of a dense part is its type's size function at the element count."""
    for index in _objects(doc, DENSE):
        part = doc.firsts[index]
        dtype, type_ = doc.dtypes[part], doc.types[part]
        elements = prod(doc.shapes[index])
        expected = DTYPES[dtype] * elements if type_ is None else size_of(dtype, type_, elements)
        if expected is not None and expected != doc.sizes[part] and doc.roles[part] == "data":
            yield Fault(
                doc.part_place(part),
                f"the size does not fit {elements} elements of {type_ or dtype}",
                f"{expected} bytes",
                doc.sizes[part],
            )


@rule("zt.csr-rank", section="zt.sparse_csr/1", stage="open")
def csr_rank(doc: Manifest) -> Iterator[Fault]:
    """A CSR object has two dimensions."""
    for index in _objects(doc, CSR):
        if len(doc.shapes[index]) != 2:
            where = doc.object_place(index, "shape")
            yield Fault(where, "a CSR object is not a matrix", "rank 2", len(doc.shapes[index]))


_CSR_PARTS: Final = {"values", "indices", "indptr"}


@rule("zt.csr-parts", section="zt.sparse_csr/1", stage="open")
def csr_parts(doc: Manifest) -> Iterator[Fault]:
    """A CSR object has exactly the parts `values`, `indices` and `indptr`."""
    for index in _objects(doc, CSR):
        found = doc.roles_of(index)
        if found.keys() != _CSR_PARTS:
            expected = "values, indices, indptr"
            where = doc.object_place(index, "parts")
            yield Fault(where, "a CSR object has other parts", expected, ", ".join(found))


def _whole_csr(doc: Manifest) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the CSR objects whose parts are there, with the indices of those parts."""
    for index in _objects(doc, CSR):
        parts = doc.roles_of(index)
        if parts.keys() == _CSR_PARTS:
            yield index, parts


@rule("zt.csr-index-dtype", section="zt.sparse_csr/1", stage="open")
def csr_index_dtype(doc: Manifest) -> Iterator[Fault]:
    """`indices` and `indptr` are both u32 or both u64, without a logical type."""
    for index, parts in _whole_csr(doc):
        found = [
            (doc.dtypes[parts[role]], doc.types[parts[role]]) for role in ("indices", "indptr")
        ]
        if found not in ([("u32", None)] * 2, [("u64", None)] * 2):
            where = doc.object_place(index, "parts")
            shown = ", ".join(type_ or dtype for dtype, type_ in found)
            yield Fault(where, "wrong index types", "u32 twice or u64 twice", shown)


@rule("zt.csr-indices-size", section="zt.sparse_csr/1", stage="open")
def csr_indices_size(doc: Manifest) -> Iterator[Fault]:
    """The size of `indices` is a multiple of the index width."""
    for _, parts in _whole_csr(doc):
        part = parts["indices"]
        width = DTYPES[doc.dtypes[part]]
        if doc.sizes[part] % width:
            where = doc.part_place(part)
            detail = "`indices` does not hold a whole number of indices"
            yield Fault(where, detail, f"a multiple of {width} bytes", doc.sizes[part])


@rule("zt.csr-indptr-count", section="zt.sparse_csr/1", stage="open")
def csr_indptr_count(doc: Manifest) -> Iterator[Fault]:
    """`indptr` has one entry more than there are rows."""
    for index, parts in _whole_csr(doc):
        part = parts["indptr"]
        if len(doc.shapes[index]) != 2:
            continue
        expected = (doc.shapes[index][0] + 1) * DTYPES[doc.dtypes[part]]
        if doc.sizes[part] != expected:
            where = doc.part_place(part)
            detail = "`indptr` does not have rows + 1 entries"
            yield Fault(where, detail, f"{expected} bytes", doc.sizes[part])


@rule("zt.csr-values-size", section="zt.sparse_csr/1", stage="open")
def csr_values_size(doc: Manifest) -> Iterator[Fault]:
    """`values` holds one element for each index."""
    for _, parts in _whole_csr(doc):
        part, indices = parts["values"], parts["indices"]
        entries = doc.sizes[indices] // DTYPES[doc.dtypes[indices]]
        expected = size_of(doc.dtypes[part], doc.types[part], entries)
        if expected is not None and doc.sizes[part] != expected:
            where = doc.part_place(part)
            detail = f"`values` does not hold {entries} elements"
            yield Fault(where, detail, f"{expected} bytes", doc.sizes[part])


LAYOUT_RULES: Final[tuple[Rule[Manifest], ...]] = (
    dense_parts,
    dense_size,
    csr_rank,
    csr_parts,
    csr_index_dtype,
    csr_indices_size,
    csr_indptr_count,
    csr_values_size,
)
