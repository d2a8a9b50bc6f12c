"""Between numpy, bytes and torch: the one table between our ids and torch's dtypes.

torch is imported here and in `tensorark.torch`, and nowhere else.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from tensorark.codecs.numbers import numpy_dtype
from tensorark.errors import InvalidInput, Unsupported
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
        hint = "numpy() gives the values, raw() the bytes"
        raise Unsupported("torch has no such type", code="torch-dtype", found=dtype, hint=hint)
    return found


def from_buffer(
    data: memoryview, dtype: torch.dtype, shape: tuple[int, ...]
) -> torch.Tensor | None:
    """Return a tensor over writable bytes, without copying; None where they are not aligned."""
    if not data:
        return torch.empty(shape, dtype=dtype)
    flat = torch.frombuffer(data, dtype=torch.uint8)
    return None if flat.data_ptr() % dtype.itemsize else flat.view(dtype).reshape(shape)


def from_array(values: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return a writable numpy array as a torch tensor of `dtype`, sharing its memory."""
    if not values.size:
        return torch.empty(values.shape, dtype=dtype)
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
