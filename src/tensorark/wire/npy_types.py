"""The dtypes of numpy, and which storage and logical type each of them is.

numpy has no name of its own for bfloat16 and the fp8 types; `ml_dtypes` saves them as voids of
their width, and so do we; an archive has a note of what they are. Sizes only, never numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tensorark.core.model import Tensor
from tensorark.core.types import TYPES, size_of
from tensorark.errors import quoted

PREFIX: Final = "npy."
"""Before the ids of what has no meaning outside of numpy: objects, text, records, dates, voids."""

NAMED: Final[Mapping[str, tuple[str, str | None]]] = MappingProxyType(
    {
        "b1": ("u8", "bool"),
        **{f"i{width}": (f"i{8 * width}", None) for width in (1, 2, 4, 8)},
        **{f"u{width}": (f"u{8 * width}", None) for width in (1, 2, 4, 8)},
        **{f"f{width}": (f"f{8 * width}", None) for width in (2, 4, 8)},
        "c8": ("f32", "complex64"),
        "c16": ("f64", "complex128"),
    }
)
"""What a dtype without its byte order means."""

VOIDS: Final[Mapping[tuple[str, str | None], int]] = MappingProxyType(
    {
        ("bf16", None): 2,
        **{("u8", each.id): 1 for each in TYPES.values() if each.id.startswith("f8_")},
    }
)
"""The types that are saved as voids, and the width of each in bytes."""

_SIMPLE: Final = re.compile(r"([<>|=])([a-zA-Z?])([0-9]{0,9})(\[[0-9a-zA-Z]+\])?", re.ASCII)
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {"O": "object", "S": "bytes", "U": "text", "V": "void", "M": "date", "m": "span", "f": "float"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    """What one `descr` means: storage type, logical type, width, and whether bytes are swapped.

    `width` is None where it is not known, as for objects; `is_void` says that a note may name it.
    """

    dtype: str
    type: str | None
    width: int | None
    is_swapped: bool = False
    is_void: bool = False


def dtype_of(descr: object) -> Dtype:
    """Return what `descr` means; what has no id becomes bytes of an unknown type."""
    found = _SIMPLE.fullmatch(descr) if isinstance(descr, str) else None
    if found is None:
        return Dtype(dtype="u8", type=f"{PREFIX}record", width=None)
    order, kind, width = found[1], found[2], int(found[3] or 0)
    known = NAMED.get(kind + found[3])
    if known is not None and found[4] is None:
        return Dtype(
            dtype=known[0], type=known[1], width=width, is_swapped=order == ">" and width > 1
        )
    # ml_dtypes calls one of its types a float of one byte, which numpy has not.
    void = (kind == "V" or (kind, width) == ("f", 1)) and order != ">"
    size = None if kind == "O" else 4 * width if kind == "U" else width
    return Dtype(dtype="u8", type=PREFIX + _WORDS.get(kind, "other"), width=size, is_void=void)


def descr_of(dtype: str, type_: str | None) -> str | None:
    """Return how numpy writes a type, None where it has no way."""
    if (dtype, type_) in VOIDS:
        width = VOIDS[dtype, type_]
        return f"|V{width}"
    for name, ids in NAMED.items():
        if ids == (dtype, type_):
            return ("|" if name in ("b1", "i1", "u1") else "<") + name
    return None


def array_refusal(tensor: Tensor, *, voids: bool) -> str | None:
    """Say why numpy saves no array like `tensor`; None if it does.

    `voids` says whether anything tells what a void is of: alone it would not.
    """
    if tensor.layout != "dense" or tensor.parts.keys() != {"data"}:
        return f"layout {quoted(tensor.layout)} has no counterpart"
    part = tensor.parts["data"]
    ids = part.dtype, part.type
    if descr_of(*ids) is None or (ids in VOIDS and not voids):
        return f"type {quoted(part.type or part.dtype)} over {part.dtype} has no counterpart"
    if any(n >= 1 << 63 for n in tensor.shape):
        return "its shape is too large"
    expected = size_of(part.dtype, part.type, tensor.elements)
    if part.nbytes != expected:
        return f"its shape needs {expected} bytes, its data has {part.nbytes}"
    return None
