"""What a layout is to the codecs: how its parts become values, and what its payload must obey."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorark.codecs.numbers import Array
from tensorark.model import Part, Tensor
from tensorark.rules import Reading

Bytes = Callable[[str], memoryview]
"""Gives the decoded bytes of the part with this role."""


def _no_rules(_tensor: Tensor, _read: Bytes, _reading: Reading) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Layout:
    """`assemble` gives the values, a row-major array of the tensor's shape.

    `judge` checks payload beyond what the types of the parts demand.
    """

    assemble: Callable[[Tensor, Bytes], Array]
    judge: Callable[[Tensor, Bytes, Reading], None] = _no_rules


def ids(part: Part) -> tuple[str, str | None]:
    """Return the storage type and the logical type of a part."""
    return part.dtype, part.type
