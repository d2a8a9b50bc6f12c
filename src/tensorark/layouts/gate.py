"""From the id of a layout to its values. Unknown ones are refused, never guessed (§5.2)."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.errors import RAW, Unsupported
from tensorark.layouts import IDS, folder_of
from tensorark.layouts.layout import Bytes
from tensorark.layouts.numbers.dtypes import Array
from tensorark.layouts.values import Values


@lru_cache(64)
def values_of(id_: str) -> Values | None:
    """Return how the layout with this id becomes values; None where it is unknown."""
    folder = folder_of(id_)
    if folder is None:
        return None
    found: Values = import_module(f"{__package__}.{folder}.values").VALUES
    return found


def find(tensor: Tensor) -> Values:
    """Return how the layout of `tensor` becomes values.

    Raises:
        Unsupported: when it is unknown.
    """
    found = values_of(tensor.layout)
    if found is None:
        raise Unsupported(
            "the layout is unknown, so the tensor is not interpreted",
            code="unknown-layout",
            section="5.2",
            where=("objects", tensor.name, "layout"),
            expected="one of " + " ".join(IDS),
            found=tensor.layout,
            hint=RAW,
        )
    return found


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Return the values of `tensor`, a row-major array of its shape.

    Raises:
        Rejected: when the payload breaks a rule of the layout or of a type.
        Unsupported: when the layout, or a type in it, is unknown.
    """
    values = find(tensor)
    values.admit(tensor, read)
    return values.assemble(tensor, read)


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check what the layout of `tensor` demands of it, beyond what its types do.

    Raises:
        Rejected: when it breaks a rule, unless `reading` gathers.
        Unsupported: when the layout is unknown.
    """
    values = find(tensor)
    if values.judge is None:  # any payload is legal
        values.layout.check(tensor, reading)
    else:
        values.judge(tensor, read, reading)


def remark(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Gather the notes about a tensor that was judged and found legal."""
    values = find(tensor)
    if values.remark is not None:
        values.remark(tensor, read, reading)
