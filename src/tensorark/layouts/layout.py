"""What a layout is: how its parts become values, and what its payload must obey."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tensorark.core.model import Part, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import LimitExceeded, Unsupported
from tensorark.layouts.numbers.dtypes import Array

if TYPE_CHECKING:
    from typing_extensions import Buffer

Ids = tuple[str, str | None]
"""A storage type, and a logical type or None."""


class Bytes(Protocol):
    """Gives decoded bytes of a part: all of them, or those from `start` up to `stop`."""

    def __call__(self, role: str, start: int = 0, stop: int | None = None) -> memoryview:
        """Return the bytes [start, stop) of the part with this role."""
        ...


def _no_rules(_tensor: Tensor, _read: Bytes, _reading: Reading) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Layout:
    """`assemble` gives the values, a row-major array of the tensor's shape.

    `judge` checks payload beyond what the types of the parts demand. `elements`, where a layout has
    it, gives the flat elements [start, stop) alone, so that a slice need not decode everything.
    Each of them judges the metadata that it relies on: a tensor may come from a file that was
    opened without that.
    """

    assemble: Callable[[Tensor, Bytes], Array]
    judge: Callable[[Tensor, Bytes, Reading], None] = _no_rules
    elements: Callable[[Tensor, Bytes, int, int], Array] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A tensor laid out in parts, ready to be written: `Writer.add_laid` takes it.

    `parts` gives for each role the storage type, the logical type or None, and the decoded bytes in
    pieces, which can be iterated more than once.
    """

    shape: tuple[int, ...]
    layout: str
    parts: Mapping[str, tuple[Ids, Iterable[Buffer]]]
    attributes: Mapping[str, object] | None = field(default=None)


def ids(part: Part) -> Ids:
    """Return the storage type and the logical type of a part."""
    return part.dtype, part.type


def blank(tensor: Tensor, element: np.dtype[Any]) -> Array:
    """Return as many zeros as the tensor has elements, flat.

    Raises:
        LimitExceeded: when this process cannot hold them: a sparse tensor may be any size.
        Unsupported: when the type has no zero.
    """
    require_zero(tensor, element)
    try:
        return np.zeros(tensor.elements, element)
    except (MemoryError, OverflowError, ValueError) as error:
        raise LimitExceeded(
            "the full array is too large for this process",
            code="decoded-size",
            where=("objects", tensor.name),
            found=f"{tensor.elements} elements",
        ) from error


def require_zero(tensor: Tensor, element: np.dtype[Any]) -> None:
    """Require that what a sparse tensor does not store has a value: a zero of its type.

    Raises:
        Unsupported: when the type has none, as a scale that is a power of two.
    """
    if np.zeros(1, element).astype(np.complex128)[0] != 0:
        raise Unsupported(
            "the type has no zero, so cells that are not stored mean nothing",
            code="no-zero",
            where=("objects", tensor.name, "parts", "values"),
            found=str(element),
        )


def shaped(values: Array, tensor: Tensor) -> Array:
    """Return flat values in the shape of the tensor.

    Raises:
        Unsupported: when numpy holds no array of that shape, though it has no elements.
    """
    try:
        return values.reshape(tensor.shape)
    except (ValueError, OverflowError) as error:
        raise Unsupported(
            "numpy holds no array of this shape",
            code="numpy-shape",
            where=("objects", tensor.name, "shape"),
            found=tensor.shape,
        ) from error
