"""N:M tensors as the pair of tensors that CUTLASS kernels of torch take: packed values and meta.

Owns names and attributes of the pairs. The form belongs to run time, not to files: no format has a
type for it, and what is exported is not read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tensorark.conversion.dense import octets, reader
from tensorark.conversion.quantized import Recasting
from tensorark.core.model import Catalog, Tensor
from tensorark.errors import InvalidInput
from tensorark.files import File
from tensorark.files.derived import Pieces, Recast, computed
from tensorark.layouts.nm.rules import ID

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
    tensors: dict[str, Tensor] = {}
    made: dict[str, Pieces] = {}
    names: list[str] = []
    replaced: list[str] = []
    left: dict[str, str] = {}
    for name, tensor in file.catalog.tensors.items():
        if tensor.layout == ID:
            try:
                pair = _pair(file, tensor, made)
            except InvalidInput as error:
                left[name] = str(error.detail)
            else:
                tensors |= {each.name: each for each in pair}
                names += [each.name for each in pair]
                replaced.append(name)
                continue
        tensors[name] = tensor
    catalog = Catalog("zt", tensors, file.catalog.attributes, None, file.catalog.files)
    return Recast(file, catalog, made), Recasting(tuple(names), tuple(replaced), left)


def _pair(file: File, tensor: Tensor, made: dict[str, Pieces]) -> tuple[Tensor, Tensor]:
    from tensorark.layouts.nm import semistructured
    from tensorark.layouts.nm.values import elements
    from tensorark.layouts.nm.window import window_of

    window = window_of(tensor, reader(file, tensor))
    if window.is_scaled or window.sparse.dtype == "int4":
        raise InvalidInput("quantised weights with scales have no packed form", code="dtype")
    dtype = "i8" if window.sparse.is_quantized else window.sparse.dtype
    form = semistructured.form_of(tensor.shape, dtype)
    rows, columns = tensor.shape
    step = max(1, _VALUES // columns)

    def chunks() -> Iterator[Array]:
        for first in range(0, rows, step):
            last = min(first + step, rows)
            found = elements(tensor, window.read, first * columns, last * columns)
            yield found.reshape(-1, columns)

    for chunk in chunks():  # a group that holds too much is met before anything is written
        semistructured.codes_of(chunk, form)

    facts: dict[str, object] = {"form": "cutlass", "shape": list(tensor.shape), "dtype": dtype}
    attributes = {KEY: facts}
    names = (f"{tensor.name}.packed", f"{tensor.name}.meta")

    def values() -> Iterator[memoryview]:
        for chunk in chunks():
            yield octets(semistructured.kept_of(chunk, semistructured.codes_of(chunk, form), form))

    made[names[0]] = values
    made[names[1]] = partial(_meta, chunks, rows, form)
    size = window.element.itemsize
    meta = semistructured.meta_shape(tensor.shape, form)
    word = f"i{8 * form.word}"
    packed = computed(names[0], rows * (columns // 2) * size, dtype)
    words = computed(names[1], meta[0] * meta[1] * form.word, word)
    return (
        Tensor(names[0], (rows, columns // 2), "dense", {"data": packed}, attributes),
        Tensor(names[1], meta, "dense", {"data": words}, attributes),
    )


def _meta(chunks: Callable[[], Iterator[Array]], rows: int, form: Form) -> Iterator[memoryview]:
    from tensorark.layouts.nm import semistructured

    codes = (semistructured.codes_of(chunk, form) for chunk in chunks())
    yield octets(semistructured.meta_of(codes, rows, form))
