"""The layouts `gguf.<type>/1`: known, measured, and not decoded yet."""

from __future__ import annotations

from typing import Final

from tensorark.core.model import Tensor
from tensorark.errors import RAW, Unsupported
from tensorark.layouts.gguf.rules import ID, LAYOUT
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.dtypes import Array
from tensorark.layouts.values import Values


def assemble(tensor: Tensor, _read: Bytes) -> Array:
    """Refuse to decode the blocks of GGUF.

    Raises:
        Unsupported: always.
    """
    LAYOUT.check(tensor)
    raise Unsupported(
        "the blocks of this GGUF type are kept as they are; turning them into numbers is not built",
        code="gguf-blocks",
        section=ID,
        where=("objects", tensor.name, "layout"),
        found=tensor.layout,
        hint=RAW,
    )


VALUES: Final = Values(LAYOUT, assemble)
