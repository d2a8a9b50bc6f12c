"""The core layout `dense` (§5.1) as values: a view of its part, but for packed types."""

from __future__ import annotations

from math import prod
from typing import Final

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.core.types import size_of
from tensorark.layouts.dense.rules import LAYOUT
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.content import CONTENT_RULES, Content
from tensorark.layouts.numbers.dtypes import Array, decode, is_packed, numpy_dtype, unpack_nibbles
from tensorark.layouts.values import Values, admit_types


def admit(tensor: Tensor, read: Bytes) -> None:
    """Judge metadata and types, and the byte that an odd number of packed elements ends in.

    That byte is judged whatever is read; the others with the elements that they hold.

    Raises:
        Rejected: when one breaks a rule.
        Unsupported: when the type is unknown.
    """
    part, count = tensor.parts.get("data"), prod(tensor.shape)
    if (
        part is None
        or len(tensor.parts) != 1
        or size_of(part.dtype, part.type, count) != part.blob.nbytes
    ):
        LAYOUT.check(tensor)  # which takes longer and says what is wrong
    if part is None or part.type is None:
        return
    admit_types(tensor, read)
    if is_packed(part.type) and count % 2 and part.nbytes:
        where = ("objects", tensor.name, "parts", "data")
        last = read("data", part.nbytes - 1, part.nbytes)
        judged = Content(where=where, data=last, type=part.type, elements=count)
        Reading().require(CONTENT_RULES, judged)


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Return the elements of the one part, row-major."""
    part, where = tensor.parts["data"], ("objects", tensor.name, "parts", "data")
    return decode(read("data"), (part.dtype, part.type), tensor.shape, where)


def elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Array:
    """Return the flat elements [start, stop) from the bytes that hold them."""
    part, where = tensor.parts["data"], ("objects", tensor.name, "parts", "data")
    element = numpy_dtype(part.dtype, part.type)
    if is_packed(part.type):
        nibbles = unpack_nibbles(read("data", start // 2, -(-stop // 2)))
        return nibbles[start % 2 :][: stop - start].view(element)
    width = element.itemsize
    data = read("data", start * width, stop * width)
    return decode(data, (part.dtype, part.type), (stop - start,), where)


VALUES: Final = Values(LAYOUT, assemble, elements, admit=admit)
