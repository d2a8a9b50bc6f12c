"""Making N:M sparse tensors dense, for formats that know no masks.

Owns the three ways to do it, and the refusal where they would differ: what a mask prunes is never
dropped, and what it keeps is never changed, without being asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from tensorark.core.model import Tensor
from tensorark.core.types import DTYPES
from tensorark.errors import Hint, InvalidInput, Unsupported, quoted
from tensorark.files import File
from tensorark.files.derived import derive_file, derive_part, octets
from tensorark.layouts.nm.rules import ID
from tensorark.layouts.payload import Reader

Masking = Literal["checked", "masked", "stored"]
"""What becomes of a weight whose mask bit is clear.

`checked`: it must be zero, else the conversion is refused; so is a quantized tensor, unless it is
int8 without scales. `masked`: it becomes +0; weights with scales become f32. `stored`: it stays,
and the mask is dropped.
"""

WAYS: Final = ("checked", "masked", "stored")


def densify(file: File, masking: Masking = "checked") -> File:
    """Return `file` with its `tensorbit.nm/1` tensors made dense, in bounded memory.

    Raises:
        InvalidInput: when there is no such way.
        Unsupported: for a quantized tensor, when `masking` is ``checked``.
    """
    if masking not in WAYS:
        raise InvalidInput(
            "no such way to apply masks", code="masking", expected=" ".join(WAYS), found=masking
        )
    if all(tensor.layout != ID for tensor in file.catalog.tensors.values()):
        return file
    tensors = {
        name: _dense(file, tensor, masking) if tensor.layout == ID else tensor
        for name, tensor in file.catalog.tensors.items()
    }
    return derive_file(file, tensors)


def _dense(file: File, tensor: Tensor, masking: Masking) -> Tensor:
    from tensorark.layouts.nm.window import window_of
    from tensorark.layouts.numbers.dtypes import ids_of

    window = window_of(tensor, Reader(file, tensor))
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
    size = DTYPES[dtype] * tensor.elements
    part = derive_part(partial(_pieces, file, tensor, masking), size, dtype)
    return Tensor(tensor.name, tensor.shape, "dense", {"data": part}, tensor.attributes)


def _pieces(file: File, tensor: Tensor, masking: Masking) -> Iterator[memoryview]:
    """Yield the dense bytes of a tensor."""
    from tensorark.layouts.nm.window import window_of
    from tensorark.layouts.nm.zeros import differences

    window = window_of(tensor, Reader(file, tensor))
    chosen = replace(window, masked=window.masked and masking != "stored")
    for start, stop in window.cuts(0, window.sparse.elements):
        found = chosen.values(start, stop)
        if masking == "checked" and window.masked:
            stray = differences(found, window.raw(start, stop))
            if stray:
                raise Unsupported(
                    f"{quoted(tensor.name)} has weights that are not zero under clear mask bits",
                    code="mask-disagrees",
                    where=("objects", tensor.name),
                    found=f"{stray} in weights {start} to {stop}",
                    hint=Hint(
                        "masking='masked' applies the mask, 'stored' drops it",
                        tark="--masking masked applies the mask, stored drops it",
                    ),
                )
        yield octets(found)
