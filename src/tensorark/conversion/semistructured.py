"""N:M tensors as the pair of tensors that CUTLASS kernels of torch take: packed values and meta.

Owns names and attributes of the pairs. The form belongs to run time, not to files: no format has a
type for it, and what is exported is not read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tensorark.conversion.layers import Layers, Left, Recasting, replace_layers
from tensorark.core.model import Tensor
from tensorark.errors import InvalidInput
from tensorark.files import File
from tensorark.files.derived import derive_part, octets
from tensorark.layouts.nm.rules import ID
from tensorark.layouts.payload import Reader

if TYPE_CHECKING:
    from tensorark.layouts.nm.semistructured import Form
    from tensorark.layouts.numbers.dtypes import Array

KEY: Final = "semi_structured"
"""The attribute of an exported pair: form, shape, dtype."""

_VALUES: Final = 1 << 21
"""Weights that are worked on at a time, in whole rows."""


def export_packed(file: File) -> tuple[File, Recasting]:
    """Return `file` with its 2:4 tensors as ``<name>.packed`` and ``<name>.meta``.

    Tensors that no kernel takes stay as they are and are listed with the reason.
    """
    return replace_layers(file, _pack)


def _pack(layers: Layers, name: str) -> None:
    tensor = layers.tensors[name]
    if tensor.layout != ID:
        return
    try:
        pair = _pair(layers.file, tensor)
    except InvalidInput as error:
        raise Left(error.detail) from error
    layers.replace([name], pair)


def _pair(file: File, tensor: Tensor) -> tuple[Tensor, Tensor]:
    from tensorark.layouts.nm import semistructured
    from tensorark.layouts.nm.values import elements
    from tensorark.layouts.nm.window import window_of

    window = window_of(tensor, Reader(file, tensor))
    if window.is_scaled or window.sparse.dtype == "int4":
        raise InvalidInput("quantized weights with scales have no packed form", code="dtype")
    dtype = "i8" if window.sparse.is_quantized else window.sparse.dtype
    form = semistructured.form_of(tensor.shape, dtype)
    rows, columns = tensor.shape
    step = max(1, _VALUES // columns)

    def chunks() -> Iterator[Array]:
        read = Reader(file, tensor)
        for first in range(0, rows, step):
            last = min(first + step, rows)
            found = elements(tensor, read, first * columns, last * columns)
            yield found.reshape(-1, columns)

    for chunk in chunks():  # a group that holds too much is met before anything is written
        semistructured.codes_of(chunk, form)

    facts: dict[str, object] = {"form": "cutlass", "shape": list(tensor.shape), "dtype": dtype}
    attributes = {KEY: facts}
    names = (f"{tensor.name}.packed", f"{tensor.name}.meta")

    def values() -> Iterator[memoryview]:
        for chunk in chunks():
            yield octets(semistructured.kept_of(chunk, semistructured.codes_of(chunk, form), form))

    size = window.element.itemsize
    meta = semistructured.meta_shape(tensor.shape, form)
    word = f"i{8 * form.word}"
    packed = derive_part(values, rows * (columns // 2) * size, dtype)
    compute = partial(_meta, chunks, rows, form)
    words = derive_part(compute, meta[0] * meta[1] * form.word, word)
    return (
        Tensor(names[0], (rows, columns // 2), "dense", {"data": packed}, attributes),
        Tensor(names[1], meta, "dense", {"data": words}, attributes),
    )


def _meta(chunks: Callable[[], Iterator[Array]], rows: int, form: Form) -> Iterator[memoryview]:
    from tensorark.layouts.nm import semistructured

    codes = (semistructured.codes_of(chunk, form) for chunk in chunks())
    yield octets(semistructured.meta_of(codes, rows, form))
