"""What the extents of the tensors in a safetensors file must fulfill, one function each.

Works on columns that passed the schema rules: shapes against byte lengths, and byte ranges against
each other and the file, which they cover without overlap, hole or rest. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import le
from typing import Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import quoted
from tensorark.formats.safetensors.dtypes import dtype_of
from tensorark.formats.safetensors.header import U64, Columns, overflows
from tensorark.formats.safetensors.rules import describe


@rule("safetensors.offset-order", section="format", stage="open")
def offset_order(doc: Columns) -> Iterator[Fault]:
    """A tensor does not end before it begins."""
    if all(map(le, doc.begins, doc.ends)):
        return
    for name, begin, end in zip(doc.names, doc.begins, doc.ends, strict=True):
        if end < begin:
            detail = f"{quoted(name)} ends before it begins"
            yield Fault((name, "data_offsets"), detail, f"at least {begin}", end)


@rule("safetensors.shape-product", section="format", stage="open")
def shape_product(doc: Columns) -> Iterator[Fault]:
    """No product of leading dimensions leaves 64 bits, even if a later dimension is 0."""
    if max(doc.elements, default=0) < U64 and 0 not in doc.elements:
        return
    for name, dimensions, count in zip(doc.names, doc.shapes, doc.elements, strict=True):
        if (count == 0 or count >= U64) and overflows(dimensions):
            detail = f"{quoted(name)} has too many elements"
            yield Fault((name, "shape"), detail, "fewer than 2^64", describe(list(dimensions)))


@rule("safetensors.bit-align", section="format", stage="open")
def bit_align(doc: Columns) -> Iterator[Fault]:
    """Elements of less than a byte fill whole bytes."""
    if doc.exact:
        return
    for name, dtype_name, count in zip(doc.names, doc.dtypes, doc.elements, strict=True):
        bits = dtype_of(dtype_name).bits
        if bits is not None and count < U64 and bits * count % 8:
            detail = f"{quoted(name)} is not byte aligned"
            yield Fault((name, "shape"), detail, "a multiple of 8 bits", f"{bits * count} bits")


@rule("safetensors.byte-length", section="format", stage="open")
def byte_length(doc: Columns) -> Iterator[Fault]:
    """A tensor covers as many bytes as its shape and element type need."""
    if doc.exact:
        return
    for row, name in enumerate(doc.names):
        bits = dtype_of(doc.dtypes[row]).bits
        needed = (bits or 0) * doc.elements[row]
        length = doc.ends[row] - doc.begins[row]
        if bits and doc.elements[row] < U64 and needed % 8 == 0 and needed != length * 8:
            detail = f"the bytes of {quoted(name)} do not fit its shape and {doc.dtypes[row]}"
            yield Fault((name, "data_offsets"), detail, f"{needed // 8} bytes", length)


@rule("safetensors.truncated", section="format", stage="open")
def truncated(doc: Columns) -> Iterator[Fault]:
    """The file is long enough for every tensor."""
    needed = max(doc.ends, default=0)
    if needed <= doc.data_length:
        return
    name = next(doc.names[row] for row in doc.order if doc.ends[row] > doc.data_length)
    size = doc.data_start + doc.data_length
    percent = size * 100 // (doc.data_start + needed)
    yield Fault(
        (name,),
        f"the file is cut short, {percent} % of it is here; first tensor affected: {quoted(name)}",
        doc.data_start + needed,
        size,
        size,
    )


@rule("safetensors.overlap", section="format", stage="open")
def overlap(doc: Columns) -> Iterator[Fault]:
    """No two tensors share bytes, and an empty tensor does not lie inside another one."""
    for row, last, covered in _steps(doc):
        begin, end = doc.begins[row], doc.ends[row]
        if begin < covered:
            name, other = quoted(doc.names[row]), quoted(doc.names[last])
            if (begin, end) == (doc.begins[last], doc.ends[last]):
                detail = f"{name} has the same bytes as {other}"
            else:
                detail = f"{name} {'overlaps' if begin < end else 'lies inside'} {other}"
            yield Fault((doc.names[row], "data_offsets"), detail, f"at least {covered}", begin)


@rule("safetensors.leading-hole", section="format", stage="open")
def leading_hole(doc: Columns) -> Iterator[Fault]:
    """The first tensor begins at the first byte after the header."""
    if not doc.tiled and doc.order and doc.begins[doc.order[0]] > 0:
        name = doc.names[doc.order[0]]
        begin = doc.begins[doc.order[0]]
        detail = f"{begin} bytes lie before {quoted(name)}, the first tensor"
        yield Fault((name, "data_offsets"), detail, 0, begin)


@rule("safetensors.hole", section="format", stage="open")
def hole(doc: Columns) -> Iterator[Fault]:
    """No byte between two tensors is left out."""
    for row, last, covered in _steps(doc):
        begin = doc.begins[row]
        if begin > covered and row != last:
            name, other = quoted(doc.names[row]), quoted(doc.names[last])
            detail = f"{begin - covered} bytes lie between {other} and {name}"
            yield Fault((doc.names[row], "data_offsets"), detail, covered, begin)


@rule("safetensors.trailing-bytes", section="format", stage="open")
def trailing_bytes(doc: Columns) -> Iterator[Fault]:
    """The last tensor ends where the file does."""
    needed = max(doc.ends, default=0)
    if needed < doc.data_length:
        end = doc.data_start + needed
        size = doc.data_start + doc.data_length
        yield Fault((), f"{size - end} trailing bytes", end, size, end)


def _steps(doc: Columns) -> Iterator[tuple[int, int, int]]:
    """Yield each row by place, the row that reaches furthest before it, and how far that is.

    The first row comes with itself and 0.
    """
    if doc.tiled or not doc.order:
        return
    last, covered = doc.order[0], 0
    for row in doc.order:
        yield row, last, covered
        if doc.ends[row] >= covered:
            last, covered = row, doc.ends[row]


OPEN_RULES: Final[tuple[Rule[Columns], ...]] = (
    shape_product,
    bit_align,
    byte_length,
    truncated,
    overlap,
    leading_hole,
    hole,
    trailing_bytes,
)
