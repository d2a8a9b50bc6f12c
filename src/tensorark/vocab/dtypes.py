"""The twelve storage types of `.zt` (§4.1) and their widths in bytes. The set is closed."""

from __future__ import annotations

from collections.abc import Mapping
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
