"""Making N:M sparse tensors dense, for formats that know no masks.

Owns the three ways to do it, and the refusal where they would differ: what a mask prunes is never
dropped, and what it keeps is never changed, without being asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from tensorark.core.model import Catalog, Tensor
from tensorark.core.types import DTYPES
from tensorark.errors import Hint, InvalidInput, Unsupported, quoted
from tensorark.files import File
from tensorark.files.derived import Pieces, Recast, computed
from tensorark.layouts.nm.rules import ID
from tensorark.layouts.payload import Bytes

if TYPE_CHECKING:
    from tensorark.layouts.nm.window import Window
    from tensorark.layouts.numbers.dtypes import Array

Masking = Literal["checked", "masked", "stored"]
"""What becomes of a weight whose mask bit is clear.

`checked`: it must be zero, else the conversion is refused; so is a quantised tensor, unless it is
int8 without scales. `masked`: it becomes +0; weights with scales become f32. `stored`: it stays,
and the mask is dropped.
"""

WAYS: Final = ("checked", "masked", "stored")


def densified(file: File, masking: Masking = "checked") -> File:
    """Return `file` with its `tensorbit.nm/1` tensors made dense, in bounded memory.

    Raises:
        InvalidInput: when there is no such way.
        Unsupported: for a quantised tensor, when `masking` is ``checked``.
    """
    if masking not in WAYS:
        raise InvalidInput(
            "no such way to apply masks", code="masking", expected=" ".join(WAYS), found=masking
        )
    if all(tensor.layout != ID for tensor in file.catalog.tensors.values()):
        return file
    made: dict[str, Pieces] = {}
    tensors: dict[str, Tensor] = {}
    for name, tensor in file.catalog.tensors.items():
        tensors[name] = _dense(file, tensor, masking, made) if tensor.layout == ID else tensor
    return Recast(
        file, Catalog("zt", tensors, file.catalog.attributes, None, file.catalog.files), made
    )


def reader(file: File, tensor: Tensor) -> Bytes:
    """Return what gives decoded bytes of the parts of `tensor`, whole or in ranges."""

    def read(role: str, start: int = 0, stop: int | None = None) -> memoryview:
        part = tensor.parts[role]
        where = ("objects", tensor.name, "parts", role)
        end = part.nbytes if stop is None else stop
        if end <= start:
            return memoryview(b"")
        return file.ranges(part, where)(start, end - start)

    return read


def octets(values: Array) -> memoryview:
    """Return the bytes of a contiguous array of little-endian numbers."""
    import numpy as np

    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _dense(file: File, tensor: Tensor, masking: Masking, made: dict[str, Pieces]) -> Tensor:
    from tensorark.layouts.nm.window import window_of
    from tensorark.layouts.numbers.dtypes import ids_of

    window = window_of(tensor, reader(file, tensor))
    is_plain = window.sparse.dtype == "int8" and not window.is_scaled  # the codes are the values
    if masking == "checked" and window.sparse.is_quantized and not is_plain:
        raise Unsupported(
            f"{quoted(tensor.name)} is {window.sparse.dtype}: dense values are other numbers",
            code="quantized",
            where=("objects", tensor.name),
            hint=Hint(
                "masking='masked' gives its values, which are f32",
                tark="--masking masked gives its values, which are f32",
            ),
        )
    dtype, _ = ids_of(window.element)
    made[tensor.name] = partial(_pieces, window, masking)
    part = computed(tensor.name, DTYPES[dtype] * tensor.elements, dtype)
    return Tensor(tensor.name, tensor.shape, "dense", {"data": part}, tensor.attributes)


def _pieces(window: Window, masking: Masking) -> Iterator[memoryview]:
    """Yield the dense bytes of a tensor."""
    from tensorark.layouts.nm.zeros import differences

    chosen = replace(window, masked=window.masked and masking != "stored")
    for start, stop in window.cuts(0, window.sparse.elements):
        found = chosen.values(start, stop)
        if masking == "checked" and window.masked:
            stray = differences(found, window.raw(start, stop))
            if stray:
                name = window.tensor.name
                raise Unsupported(
                    f"{quoted(name)} has weights that are not zero under clear mask bits",
                    code="mask-disagrees",
                    where=("objects", name),
                    found=f"{stray} in weights {start} to {stop}",
                    hint=Hint(
                        "masking='masked' applies the mask, 'stored' drops it",
                        tark="--masking masked applies the mask, stored drops it",
                    ),
                )
        yield octets(found)
