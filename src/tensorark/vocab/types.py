"""Logical types: what stored elements mean, over which storage type, in how many bytes.

The registered ones are those of `.zt` Appendix A; ids with a vendor prefix are ours, for what other
formats hold. Sizes only: numbers are made in `tensorark.codecs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tensorark.vocab.dtypes import DTYPES


@dataclass(frozen=True, slots=True)
class Type:
    """A logical type: its id, the storage type it requires and its size in bits per element."""

    id: str
    dtype: str
    bits: int

    def size(self, elements: int) -> int:
        """Return the decoded bytes of `elements` elements; packed types round up to a byte."""
        return (elements * self.bits + 7) // 8


def _table(*types: Type) -> Mapping[str, Type]:
    return MappingProxyType({each.id: each for each in types})


TYPES: Final = _table(
    Type("bool", "u8", 8),
    Type("f8_e4m3fn", "u8", 8),
    Type("f8_e5m2", "u8", 8),
    Type("f8_e4m3fnuz", "u8", 8),
    Type("f8_e5m2fnuz", "u8", 8),
    Type("f8_e8m0", "u8", 8),
    Type("f4_e2m1", "u8", 4),
    Type("complex64", "f32", 64),
    Type("complex128", "f64", 128),
)
"""The registered logical types of `.zt` Appendix A."""

RESTRICTED: Final = frozenset({"bool", "f4_e2m1"})
"""Those that forbid some bytes; of all others any byte is legal."""


def size_of(dtype: str, type_: str | None, elements: int) -> int | None:
    """Return the decoded bytes of `elements` elements, in unbounded integers (§5.1).

    None where `type_` is not registered, so that nothing is known about its size.
    """
    if type_ is None:
        return DTYPES[dtype] * elements
    known = TYPES.get(type_)
    return None if known is None else known.size(elements)
