"""The element types of safetensors, and which storage and logical type each of them is.

Names and widths are those that release 0.8 of the public library accepts; the types that no
registered id describes get an id under ``safetensors.``. Sizes only, never numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Dtype:
    """An element type: storage type, logical type or None, and size in bits (None: unknown)."""

    dtype: str
    type: str | None
    bits: int | None


# F4 packs two elements to a byte: the shape counts elements, not bytes (0.8 doubles the last
# dimension of torch's packed type), and the low nibble comes first, as in torch and in `.zt`.
DTYPES: Final[Mapping[str, Dtype]] = MappingProxyType(
    {
        "F64": Dtype("f64", None, 64),
        "I64": Dtype("i64", None, 64),
        "U64": Dtype("u64", None, 64),
        "C64": Dtype("f32", "complex64", 64),
        "F32": Dtype("f32", None, 32),
        "I32": Dtype("i32", None, 32),
        "U32": Dtype("u32", None, 32),
        "F16": Dtype("f16", None, 16),
        "BF16": Dtype("bf16", None, 16),
        "I16": Dtype("i16", None, 16),
        "U16": Dtype("u16", None, 16),
        "I8": Dtype("i8", None, 8),
        "U8": Dtype("u8", None, 8),
        "BOOL": Dtype("u8", "bool", 8),
        "F8_E4M3": Dtype("u8", "f8_e4m3fn", 8),
        "F8_E5M2": Dtype("u8", "f8_e5m2", 8),
        "F8_E4M3FNUZ": Dtype("u8", "f8_e4m3fnuz", 8),
        "F8_E5M2FNUZ": Dtype("u8", "f8_e5m2fnuz", 8),
        "F8_E8M0": Dtype("u8", "f8_e8m0", 8),
        "F6_E2M3": Dtype("u8", "safetensors.f6_e2m3", 6),
        "F6_E3M2": Dtype("u8", "safetensors.f6_e3m2", 6),
        "F4": Dtype("u8", "f4_e2m1", 4),
    }
)

NAMES: Final[Mapping[tuple[str, str | None], str]] = MappingProxyType(
    {(each.dtype, each.type): name for name, each in DTYPES.items()}
)
"""The name in safetensors of a storage type with a logical type."""


def dtype_of(name: str) -> Dtype:
    """Return what `name` means; a name that is not known is bytes of an unknown type."""
    return DTYPES.get(name) or Dtype("u8", f"safetensors.{name.lower()}", None)
