"""What the stored bytes of an array must be: one stream of the right length, and its CRC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tensorark.core.rules import Fault, rule

ARRAY: Final = "npy.array/1"
"""A CRC-32, then the array that it is of, as it is."""
DEFLATE: Final = "npy.deflate/1"
"""The same, the array being deflated."""
FILE: Final = "npy.file/1"
"""An array as it is, without a CRC."""


# Both are judged by the codec, which knows the fault already: they say what it breaks.
@rule("npz.stream", section="npy", stage="content")
def stream(bad: Fault) -> Iterator[Fault]:
    """A deflated array is one deflate stream that decodes to exactly the size of the member."""
    yield bad


@rule("npz.stored-crc", section="zip", stage="content")
def stored_crc(bad: Fault) -> Iterator[Fault]:
    """The CRC-32 of a deflated or reordered array is that of its bytes."""
    yield bad
