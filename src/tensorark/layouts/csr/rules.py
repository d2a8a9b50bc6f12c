"""The layout profile `zt.sparse_csr/1`: what its metadata must say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensorark.core.rules import Fault, rule
from tensorark.layouts.layout import (
    Description,
    Layout,
    parts_fault,
    size_fault,
    values_size,
    whole,
    width,
)

ID: Final = "zt.sparse_csr/1"
_PARTS: Final = {"values", "indices", "indptr"}
_INDICES: Final = (("u32", None), ("u64", None))


@rule("zt.csr-rank", section=ID, stage="open")
def csr_rank(objects: Sequence[Description]) -> Iterator[Fault]:
    """A CSR object has two dimensions."""
    for each in objects:
        if len(each.shape) != 2:
            detail = "a CSR object is not a matrix"
            yield Fault(each.place("shape"), detail, "rank 2", len(each.shape))


@rule("zt.csr-parts", section=ID, stage="open")
def csr_parts(objects: Sequence[Description]) -> Iterator[Fault]:
    """A CSR object has exactly the parts `values`, `indices` and `indptr`."""
    for each in objects:
        if each.parts.keys() != _PARTS:
            yield parts_fault(each, "values, indices, indptr")


@rule("zt.csr-index-dtype", section=ID, stage="open")
def csr_index_dtype(objects: Sequence[Description]) -> Iterator[Fault]:
    """`indices` and `indptr` are both u32 or both u64, without a logical type."""
    for each in whole(objects, _PARTS):
        found = [each.parts[role][:2] for role in ("indices", "indptr")]
        if found[0] not in _INDICES or found[0] != found[1]:
            shown = ", ".join(type_ or dtype for dtype, type_ in found)
            expected = "u32 twice or u64 twice"
            yield Fault(each.place("parts"), "wrong index types", expected, shown)


@rule("zt.csr-indices-size", section=ID, stage="open")
def csr_indices_size(objects: Sequence[Description]) -> Iterator[Fault]:
    """The size of `indices` is a multiple of the index width."""
    for each in whole(objects, _PARTS):
        step = width(each.parts["indices"])
        size = each.parts["indices"][2]
        if size % step:
            where = each.place("parts", "indices")
            detail = "`indices` does not hold a whole number of indices"
            yield Fault(where, detail, f"a multiple of {step} bytes", size)


@rule("zt.csr-indptr-count", section=ID, stage="open")
def csr_indptr_count(objects: Sequence[Description]) -> Iterator[Fault]:
    """`indptr` has one entry more than there are rows."""
    for each in whole(objects, _PARTS):
        stored = each.parts["indptr"]
        if len(each.shape) == 2 and stored[2] != (each.shape[0] + 1) * width(stored):
            expected = (each.shape[0] + 1) * width(stored)
            yield size_fault(each, "indptr", expected, "rows + 1 entries")


@rule("zt.csr-values-size", section=ID, stage="open")
def csr_values_size(objects: Sequence[Description]) -> Iterator[Fault]:
    """`values` holds one element for each index."""
    for each in whole(objects, _PARTS):
        indices = each.parts["indices"]
        entries = indices[2] // width(indices)
        expected = values_size(each.parts["values"], entries)
        if expected is not None and each.parts["values"][2] != expected:
            yield size_fault(each, "values", expected, f"{entries} elements")


LAYOUT: Final[Layout[Description]] = Layout(
    ID,
    lambda each: each,
    (csr_rank, csr_parts, csr_index_dtype, csr_indices_size, csr_indptr_count, csr_values_size),
    judges_payload=True,
)
