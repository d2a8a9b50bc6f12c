"""The layout profiles `gguf.<type>/1`: blocks of GGUF, as far as metadata goes.

The family is opaque: the attributes say how large blocks are, and GGUF what they mean. No table of
types is consulted, so a type of tomorrow is measured like those of today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from tensorark.core.rules import Fault, rule
from tensorark.layouts.layout import (
    Description,
    Layout,
    attribute_fault,
    ids_fault,
    parts_fault,
    size_fault,
)

ID: Final = "gguf.<type>/1"


@rule("zt.gguf-parts", section=ID, stage="open")
def gguf_parts(objects: Sequence[Description]) -> Iterator[Fault]:
    """A GGUF object has exactly one part, `data`."""
    for each in objects:
        if each.parts.keys() != {"data"}:
            yield parts_fault(each, "data")


@rule("zt.gguf-dtype", section=ID, stage="open")
def gguf_dtype(objects: Sequence[Description]) -> Iterator[Fault]:
    """`data` is u8, without a logical type."""
    for each in objects:
        if "data" in each.parts and each.parts["data"][:2] != ("u8", None):
            yield ids_fault(each, "data", "u8")


@rule("zt.gguf-elems-per-block", section=ID, stage="open")
def gguf_elems_per_block(objects: Sequence[Description]) -> Iterator[Fault]:
    """`elems_per_block` is present, at least 1, and divides the number of elements."""
    for each in objects:
        if _elements_per_block(each) is None:
            yield attribute_fault(each, "elems_per_block", f"a divisor of {prod(each.shape)}")


@rule("zt.gguf-block-bytes", section=ID, stage="open")
def gguf_block_bytes(objects: Sequence[Description]) -> Iterator[Fault]:
    """`block_bytes` is present and at least 1."""
    for each in objects:
        if _positive(each, "block_bytes") is None:
            yield attribute_fault(each, "block_bytes", "an integer of at least 1")


@rule("zt.gguf-size", section=ID, stage="open")
def gguf_size(objects: Sequence[Description]) -> Iterator[Fault]:
    """`data` holds the blocks of all elements."""
    for each in objects:
        elements, octets = _elements_per_block(each), _positive(each, "block_bytes")
        if elements is None or octets is None or "data" not in each.parts:
            continue
        blocks = prod(each.shape) // elements
        if each.parts["data"][2] != blocks * octets:
            yield size_fault(each, "data", blocks * octets, f"{blocks} blocks")


def _positive(each: Description, key: str) -> int | None:
    value = each.attributes.get(key)
    return value if type(value) is int and value >= 1 else None


def _elements_per_block(each: Description) -> int | None:
    value = _positive(each, "elems_per_block")
    return None if value is None or prod(each.shape) % value else value


LAYOUT: Final[Layout[Description]] = Layout(
    ID,
    lambda each: each,
    (gguf_parts, gguf_dtype, gguf_elems_per_block, gguf_block_bytes, gguf_size),
    element="f32",
    pattern=re.compile(r"gguf\.[a-z0-9_]+/1", re.ASCII),
)
