"""The layouts `gguf.<type>/1`: known, measured, and not decoded yet."""

from __future__ import annotations

from typing import Final

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.errors import RAW, Unsupported
from tensorark.layouts import check
from tensorark.layouts.gguf.rules import GGUF, ID
from tensorark.layouts.layout import Bytes, Layout
from tensorark.layouts.numbers.dtypes import Array


def assemble(tensor: Tensor, _read: Bytes) -> Array:
    """Refuse to decode the blocks of GGUF.

    Raises:
        Unsupported: always.
    """
    check(GGUF, tensor)
    raise Unsupported(
        "the blocks of this GGUF type are kept as they are; turning them into numbers is not built",
        code="gguf-blocks",
        section=ID,
        where=("objects", tensor.name, "layout"),
        found=tensor.layout,
        hint=RAW,
    )


def judge(tensor: Tensor, _read: Bytes, reading: Reading) -> None:
    """Check the metadata; any payload is legal."""
    check(GGUF, tensor, reading)


GGUF_BLOCKS: Final = Layout(assemble, judge)
