"""Between numpy, bytes and torch: the one table between our ids and torch's dtypes.

torch is imported here and in `tensorark.torch`, and nowhere else.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from tensorark.core.types import TYPES
from tensorark.errors import Hint, InvalidInput, Unsupported, Where
from tensorark.layouts.numbers.dtypes import numpy_dtype, unpack_nibbles

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
    "f4_e2m1": "float4_e2m1fn_x2",
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
    """Return a writable numpy array as a torch tensor of `dtype`, sharing its memory.

    f4_e2m1 is packed: torch holds pairs, so that the last dimension is half as long.

    Raises:
        Unsupported: when torch holds no tensor of that shape.
    """
    if dtype == _PAIRS:
        return _pair(values)
    if not values.size:
        return _empty(values.shape, dtype)
    octets = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return torch.from_numpy(octets).view(dtype).reshape(values.shape)


_PAIRS: Final[Any] = getattr(torch, "float4_e2m1fn_x2", None)


def _pair(values: Any) -> torch.Tensor:
    """Return f4_e2m1 elements as the pairs that torch holds, the first in the low half."""
    if not values.ndim or values.shape[-1] % 2:
        raise Unsupported(
            "torch holds f4_e2m1 in pairs, and the last dimension is not even",
            code="torch-shape",
            found=values.shape,
            hint="as a numpy array it has its values",
        )
    codes = np.ascontiguousarray(values).view(np.uint8)
    packed = codes[..., 0::2] & 15 | codes[..., 1::2] << 4
    return torch.from_numpy(np.ascontiguousarray(packed)).view(_PAIRS)


def _unpair(tensor: torch.Tensor) -> Any:
    """Return pairs of f4_e2m1 as elements: the last dimension is twice as long."""
    if not tensor.ndim:
        raise InvalidInput("a pair of f4_e2m1 has no shape of its own", code="torch-shape")
    packed = tensor.contiguous().view(torch.uint8).numpy()
    codes = unpack_nibbles(packed.reshape(-1).data)
    shape = (*packed.shape[:-1], 2 * packed.shape[-1])
    return codes.reshape(shape).view(numpy_dtype("u8", "f4_e2m1"))


def to_array(tensor: torch.Tensor, name: str | None = None) -> Any:
    """Return a dense torch tensor as a numpy array of the same strides.

    Raises:
        InvalidInput: when it is no such tensor, or numpy cannot hold it; `name` says which.
    """
    where = () if name is None else ("objects", name)
    plain = _plain(tensor, where)
    type_ = str(tensor.dtype).removeprefix("torch.")
    id_ = next((id_ for id_, known in _NAMES.items() if known == type_), None)
    if id_ is None:
        detail = "no storage type holds this torch dtype"
        raise InvalidInput(detail, code="dtype", found=type_, where=where)
    if plain.dtype == _PAIRS:
        return _unpair(plain)
    known = TYPES.get(id_)
    element = numpy_dtype(id_) if known is None else numpy_dtype(known.dtype, id_)
    if plain.dtype in _AS_INTEGER:
        return plain.view(_AS_INTEGER[plain.dtype]).numpy().view(element)
    return plain.numpy()


def _plain(tensor: Any, where: Where) -> torch.Tensor:
    """Return a tensor whose elements lie in memory of this process.

    Raises:
        InvalidInput: when it is no tensor, or one without such elements, or with more to it.
    """
    if not isinstance(tensor, torch.Tensor):
        detail = "this is no tensor"
        found = type(tensor).__name__
        raise InvalidInput(detail, code="torch-type", found=found, where=where)
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout)
        found = f"{kind}, {tensor.dtype}"
        detail = "only dense tensors are stored"
        raise InvalidInput(detail, code="torch-layout", found=found, where=where)
    if tensor.is_meta:
        raise InvalidInput(
            "a tensor on the device `meta` has no values",
            code="torch-meta",
            found=str(tensor.dtype),
            where=where,
            hint="load the weights first",
        )
    if type(tensor) not in {torch.Tensor, torch.nn.Parameter}:
        raise InvalidInput(
            "a subclass of torch.Tensor may be more, or less, than its elements",
            code="torch-type",
            found=f"{type(tensor).__name__} of {tensor.dtype}",
            where=where,
            hint="give the plain tensor that it stands for",
        )
    try:
        return tensor.detach().cpu().resolve_conj().resolve_neg()
    except (RuntimeError, NotImplementedError) as error:
        detail = f"the values cannot be had: {error}"
        raise InvalidInput(
            detail.split("\n")[0], code="torch-values", found=str(tensor.dtype), where=where
        ) from error


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
