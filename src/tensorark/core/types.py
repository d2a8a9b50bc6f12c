"""The published types: storage types (§4.1) and logical types over them, with their sizes.

The storage types are a closed set. The registered logical types are those of `.zt` Appendix A; ids
with a vendor prefix are ours, for what other formats hold. Sizes only: numbers are made in
`tensorark.layouts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

DTYPES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "f64": 8,
        "f32": 4,
        "f16": 2,
        "bf16": 2,
        "i64": 8,
        "i32": 4,
        "i16": 2,
        "i8": 1,
        "u64": 8,
        "u32": 4,
        "u16": 2,
        "u8": 1,
    }
)
"""The twelve storage types of `.zt` and their widths in bytes."""


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
