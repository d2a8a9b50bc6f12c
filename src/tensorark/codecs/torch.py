"""Between numpy, bytes and torch: the one table between our ids and torch's dtypes.

torch is imported here and in `tensorark.torch`, and nowhere else.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from tensorark.codecs.numbers import numpy_dtype
from tensorark.errors import Hint, InvalidInput, Unsupported
from tensorark.vocab import TYPES

_NAMES: Final = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "bool": "bool",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e8m0": "float8_e8m0fnu",
    "complex64": "complex64",
    "complex128": "complex128",
}


def torch_dtype(dtype: str) -> torch.dtype:
    """Return the torch dtype of an element id.

    Raises:
        Unsupported: when torch, or this release of it, has none.
    """
    found = getattr(torch, _NAMES.get(dtype, ""), None)
    if not isinstance(found, torch.dtype):
        hint = Hint("numpy() gives the values, raw() the bytes", tark="`tark cat` gives them")
        raise Unsupported("torch has no such type", code="torch-dtype", found=dtype, hint=hint)
    return found


def from_buffer(
    data: memoryview, dtype: torch.dtype, shape: tuple[int, ...]
) -> torch.Tensor | None:
    """Return a tensor over writable bytes, without copying; None where they are not aligned."""
    if not data:
        return _empty(shape, dtype)
    flat = torch.frombuffer(data, dtype=torch.uint8)
    return None if flat.data_ptr() % dtype.itemsize else flat.view(dtype).reshape(shape)


def _empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor without elements.

    Raises:
        Unsupported: when torch holds none of that shape.
    """
    try:
        return torch.empty(shape, dtype=dtype)
    except (TypeError, RuntimeError, OverflowError) as error:
        detail = "torch holds no tensor of this shape"
        raise Unsupported(detail, code="torch-shape", found=shape) from error


def from_array(values: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return a writable numpy array as a torch tensor of `dtype`, sharing its memory."""
    if not values.size:
        return _empty(values.shape, dtype)
    octets = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return torch.from_numpy(octets).view(dtype).reshape(values.shape)


def to_array(tensor: torch.Tensor) -> Any:
    """Return a dense torch tensor as a numpy array of the same strides.

    Raises:
        InvalidInput: when numpy cannot hold it.
    """
    if tensor.layout != torch.strided or tensor.is_quantized:
        detail = "only dense tensors are stored"
        raise InvalidInput(detail, code="torch-layout", found=str(tensor.layout))
    name = str(tensor.dtype).removeprefix("torch.")
    id_ = next((id_ for id_, known in _NAMES.items() if known == name), None)
    if id_ is None:
        raise InvalidInput("no storage type holds this torch dtype", code="dtype", found=name)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    known = TYPES.get(id_)
    element = numpy_dtype(id_) if known is None else numpy_dtype(known.dtype, id_)
    if plain.dtype in _AS_INTEGER:
        return plain.view(_AS_INTEGER[plain.dtype]).numpy().view(element)
    return plain.numpy()


_AS_INTEGER: Final = {
    getattr(torch, name): torch.int16 if name == "bfloat16" else torch.uint8
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
    if hasattr(torch, name)
}
"""Types that torch cannot hand to numpy, and the integers of their width."""


def sparse_parts(tensor: torch.Tensor) -> tuple[Any, Any, Any]:
    """Return values, indices and, for CSR alone, row pointers of a sparse tensor, as arrays.

    Raises:
        InvalidInput: when it is not sparse in all of its dimensions, or holds batches.
    """
    if tensor.layout == torch.sparse_coo and not tensor.dense_dim():
        plain = tensor.detach().cpu()
        return to_array(plain._values()), plain._indices().numpy(), None  # noqa: SLF001 - as they are
    if tensor.layout == torch.sparse_csr and tensor.ndim == 2 and not tensor.dense_dim():
        plain = tensor.detach().cpu()
        columns, rows = plain.col_indices().numpy(), plain.crow_indices().numpy()
        return to_array(plain.values()), columns, rows
    raise InvalidInput(
        "only matrices in CSR and tensors in COO are stored, without dense dimensions",
        code="torch-layout",
        found=f"{tensor.layout} of {tensor.ndim} dimensions",
    )


def sparse_csr(
    values: torch.Tensor, indices: Any, indptr: Any, shape: tuple[int, ...]
) -> torch.Tensor:
    """Return a CSR tensor of checked parts."""
    rows, columns = torch.from_numpy(indptr), torch.from_numpy(indices)
    return torch.sparse_csr_tensor(rows, columns, values, shape, check_invariants=False)


def sparse_coo(values: torch.Tensor, coords: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a COO tensor of checked parts, in their order."""
    where = torch.from_numpy(coords)
    return torch.sparse_coo_tensor(where, values, shape, check_invariants=False)
