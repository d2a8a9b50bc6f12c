"""What a type forbids: bytes that no element of it has.

Judged when values are decoded, and when a file is verified or written. They are rules of `.zt` and
hold for whatever other format carries such a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Decoded bytes of one part: its type and, where the layout tells, its element count.

    A part may be judged piece by piece: `start` is where `data` begin in it, and only with those
    that end it `elements` are given.
    """

    where: Where
    data: memoryview
    type: str | None
    elements: int | None
    start: int = 0


@rule("zt.bool-byte", section="A", stage="content")
def bool_byte(part: Content) -> Iterator[Fault]:
    """A bool is stored as the byte 0 or 1."""
    if part.type != "bool":
        return
    values = np.frombuffer(part.data, np.uint8)
    if values.size and values.max() > 1:
        index = int(np.argmax(values > 1))
        detail = f"byte {part.start + index} of a bool part is neither 0 nor 1"
        yield Fault(part.where, detail, "0 or 1", int(values[index]))


@rule("zt.f4-padding", section="A", stage="content")
def f4_padding(part: Content) -> Iterator[Fault]:
    """The nibble after an odd last f4_e2m1 element is zero."""
    if part.type == "f4_e2m1" and part.elements is not None and part.elements % 2 and part.data:
        nibble = part.data[-1] >> 4
        if nibble:
            yield Fault(part.where, "the nibble after the last element is not zero", 0, nibble)


CONTENT_RULES: Final[tuple[Rule[Content], ...]] = (bool_byte, f4_padding)
