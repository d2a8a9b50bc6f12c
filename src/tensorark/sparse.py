"""Sparse tensors: to and from scipy, torch and plain arrays, without making them full.

`csr`, `coo`, `from_scipy` and `from_torch` give what ``Writer.add_laid`` stores; `read_csr`,
`read_coo`, `to_scipy` and `to_torch` take a tensor of an opened file. Indices and values are kept
exactly: nothing is summed, dropped or cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensorark.core.rules import Reading
from tensorark.errors import InvalidInput, Unsupported
from tensorark.files.view import TensorView
from tensorark.layouts.coo.make import make as make_coo
from tensorark.layouts.coo.rules import ID as COO
from tensorark.layouts.coo.values import read_coo as read_coords
from tensorark.layouts.csr.make import make as make_csr
from tensorark.layouts.csr.rules import ID as CSR
from tensorark.layouts.csr.values import read_csr as read_indices
from tensorark.layouts.numbers.dtypes import Array
from tensorark.layouts.parts import TensorParts
from tensorark.layouts.sparse import read_values

if TYPE_CHECKING:
    import torch

__all__ = [
    "coo",
    "csr",
    "from_scipy",
    "from_torch",
    "read_coo",
    "read_csr",
    "to_scipy",
    "to_torch",
]


def csr(values: Any, indices: Any, indptr: Any, shape: Sequence[int]) -> TensorParts:
    """Lay a matrix out as `zt.sparse_csr/1`.

    Row r has values at the columns indices[indptr[r]:indptr[r + 1]].
    The columns of a row must increase. 64-bit indices are stored in 64 bits, narrower ones in 32.

    Raises:
        InvalidInput: when the arrays are no such matrix, or no storage type holds the values.
    """
    return make_csr(values, indices, indptr, shape)


def coo(values: Any, coords: Sequence[Any], shape: Sequence[int]) -> TensorParts:
    """Lay a tensor out as `zt.sparse_coo/1`; `coords` has an array of indices for each dimension.

    Cells may come in any order and none twice. 64-bit indices are stored in 64 bits, narrower ones
    in 32.

    Raises:
        InvalidInput: when the arrays are no such tensor, or no storage type holds the values.
    """
    return make_coo(values, coords, shape)


def read_csr(view: TensorView) -> tuple[Array, Array, Array]:
    """Return values, indices and indptr of a tensor stored as `zt.sparse_csr/1`, checked.

    Raises:
        InvalidInput: when it is stored otherwise.
        Rejected: when its payload breaks a rule.
    """
    _require(view, CSR)
    read = _reader(view)
    found = read_indices(view.tensor, read, Reading())
    return read_values(view.tensor, read, found.indices.size), found.indices, found.indptr


def read_coo(view: TensorView) -> tuple[Array, Array]:
    """Return values and coordinates, a row for each dimension, of a `zt.sparse_coo/1`, checked.

    Raises:
        InvalidInput: when it is stored otherwise.
        Rejected: when its payload breaks a rule.
    """
    _require(view, COO)
    read = _reader(view)
    found = read_coords(view.tensor, read, Reading())
    return read_values(view.tensor, read, found.count), found.coords


def _require(view: TensorView, *layouts: str) -> None:
    if view.layout not in layouts:
        raise InvalidInput(
            "the tensor is not stored so",
            code="layout",
            where=("objects", view.name, "layout"),
            expected=" or ".join(layouts),
            found=view.layout,
        )


def _reader(view: TensorView) -> Any:
    def read(role: str, start: int = 0, stop: int | None = None) -> memoryview:
        return view.decoded(role)[start:stop]

    return read


def from_scipy(matrix: Any) -> TensorParts:
    """Lay out a scipy array or matrix in CSR format, or in COO format of any rank.

    The entries of a CSR row are sorted, which changes no value.

    Raises:
        InvalidInput: for other formats, and when an entry comes twice.
    """
    kind = getattr(matrix, "format", None)
    if kind == "csr":
        ordered = matrix if matrix.has_sorted_indices else matrix.sorted_indices()
        return csr(ordered.data, ordered.indices, ordered.indptr, ordered.shape)
    if kind == "coo":
        coords = matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)
        return coo(matrix.data, coords, matrix.shape)
    raise InvalidInput(
        "only CSR and COO are stored",
        code="scipy-format",
        found=kind or type(matrix).__name__,
        hint="tocsr() or tocoo()",
    )


def to_scipy(view: TensorView) -> Any:
    """Return a `scipy.sparse.csr_array` or `coo_array` with the stored indices and values.

    Raises:
        InvalidInput: when the tensor is not stored sparse.
        Unsupported: when scipy is not installed, or has no arrays of such values.
    """
    try:
        import scipy.sparse  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        hint = "pip install scipy"
        raise Unsupported("scipy is not installed", code="no-scipy", hint=hint) from error
    _require(view, CSR, COO)
    if view.layout == CSR:
        values, indices, indptr = read_csr(view)
        _scipy_holds(view, values)
        parts = (values, _as_signed(indices), _as_signed(indptr))
        return scipy.sparse.csr_array(parts, shape=view.shape)
    values, coords = read_coo(view)
    _scipy_holds(view, values)
    return scipy.sparse.coo_array((values, tuple(_as_signed(each) for each in coords)), view.shape)


def _scipy_holds(view: TensorView, values: Array) -> None:
    native = values.dtype.type.__module__ == "numpy" and values.dtype != np.float16
    if not native or max(view.shape) > _I64_MAX:
        hint = "read_csr() and read_coo() give arrays"
        raise Unsupported("scipy holds no such tensor", code="scipy", found=view.dtype, hint=hint)


_I32_MAX: Final = (1 << 31) - 1
_I64_MAX: Final = (1 << 63) - 1


def _as_signed(index: Array) -> Array:
    """Return indices as signed integers of the same width, or wider where they need it."""
    narrow = index.itemsize == 4 and (not index.size or int(index.max()) <= _I32_MAX)
    return index.astype(np.int32 if narrow else np.int64)


def from_torch(tensor: torch.Tensor) -> TensorParts:
    """Lay out a torch tensor of layout `sparse_csr` or `sparse_coo`, on any device.

    Raises:
        InvalidInput: for other layouts, batches, dense dimensions, and when an entry comes twice.
        Unsupported: when torch is not installed.
    """
    _need_torch()
    from tensorark.layouts.numbers.torch import sparse_parts

    values, indices, indptr = sparse_parts(tensor)
    if indptr is None:
        return coo(values, [*indices], tuple(tensor.shape))
    return csr(values, indices, indptr, tuple(tensor.shape))


def to_torch(view: TensorView) -> torch.Tensor:
    """Return a torch tensor of layout `sparse_csr` or `sparse_coo` with the stored entries.

    Raises:
        InvalidInput: when the tensor is not stored sparse.
        Unsupported: when torch is not installed, or has no such type.
    """
    _need_torch()
    from tensorark.layouts.numbers.torch import from_array, sparse_coo, sparse_csr, torch_dtype

    _require(view, CSR, COO)
    dtype = torch_dtype(view.dtype)
    if view.layout == CSR:
        values, indices, indptr = read_csr(view)
        # torch wants one width
        wide = max(_as_signed(indices).itemsize, _as_signed(indptr).itemsize)
        held = from_array(np.array(values), dtype)
        signed = np.dtype(f"i{wide}")
        return sparse_csr(held, indices.astype(signed), indptr.astype(signed), view.shape)
    values, coords = read_coo(view)
    return sparse_coo(from_array(np.array(values), dtype), coords.astype(np.int64), view.shape)


def _need_torch() -> None:
    try:
        import tensorark.layouts.numbers.torch  # noqa: F401 - the one place that imports torch
    except ImportError as error:
        hint = "pip install 'tensorark[torch]'"
        raise Unsupported("torch is not installed", code="no-torch", hint=hint) from error
