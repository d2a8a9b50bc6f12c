"""What a layout is as values: how its parts become numbers, and what its payload must obey."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.errors import Unsupported
from tensorark.layouts import layout_of
from tensorark.layouts.layout import AnyLayout, Bytes
from tensorark.layouts.numbers.dtypes import Array, numpy_dtype


def admit_types(tensor: Tensor, _read: Bytes) -> None:
    """Require that all types of a tensor are known, or what its layout says of them.

    Raises:
        Unsupported: when a type is unknown (§4.2).
        Rejected: when it breaks a rule of the layout, which says more.
    """
    for role, part in tensor.parts.items():
        if part.type is not None:
            try:
                numpy_dtype(part.dtype, part.type)
            except Unsupported as error:
                layout = layout_of(tensor.layout)
                if layout is not None:
                    layout.check(tensor)
                error.where = ("objects", tensor.name, "parts", role)
                raise


@dataclass(frozen=True, slots=True)
class Values:
    """How the parts of `layout` become values.

    `admit` is the gate that every way to them passes, once, before anything is read. `assemble`
    gives them all, a row-major array of the tensor's shape. `elements`, where a layout has it,
    gives the flat elements [start, stop) alone, so that a slice need not decode everything. Each of
    them judges the metadata that it relies on: a tensor may come from a file that was opened
    without that.

    `judge`, where a payload can break a rule of the layout, judges it; `remark` tells what is legal
    and still worth a note.
    """

    layout: AnyLayout
    assemble: Callable[[Tensor, Bytes], Array]
    elements: Callable[[Tensor, Bytes, int, int], Array] | None = None
    judge: Callable[[Tensor, Bytes, Reading], None] | None = None
    remark: Callable[[Tensor, Bytes, Reading], None] | None = None
    admit: Callable[[Tensor, Bytes], None] = admit_types


def all_of(
    elements: Callable[[Tensor, Bytes, int, int], Array],
) -> Callable[[Tensor, Bytes], Array]:
    """Return what assembles a tensor from its `elements`, which are computed a chunk at a time."""
    return lambda tensor, read: reshape(elements(tensor, read, 0, tensor.elements), tensor)


def reshape(values: Array, tensor: Tensor) -> Array:
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
