"""The layouts `gguf.<type>/1`: known, measured, and not decoded yet."""

from __future__ import annotations

from typing import Final

from tensorark.codecs.layout import Bytes, Layout
from tensorark.codecs.numbers import Array
from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.errors import RAW, Unsupported
from tensorark.vocab.layouts import check
from tensorark.vocab.layouts.gguf import GGUF, ID


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
