"""Loading and saving dictionaries of torch tensors, with the names that people know.

Tensors of a mapped file share its pages until they are written to; writing never reaches the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tensorark import api
from tensorark.codecs.torch import from_array, to_array, torch_dtype
from tensorark.errors import InvalidInput
from tensorark.numpy import load_all
from tensorark.safeopen import SafeOpen

if TYPE_CHECKING:
    from tensorark.api import PathLike

__all__ = ["load_file", "load_model", "safe_open", "save_file", "save_model"]


def load_file(path: PathLike, device: str | int | torch.device = "cpu") -> dict[str, torch.Tensor]:
    """Load every tensor into memory of its own, then move it to `device`.

    Raises:
        Unsupported: when torch has no type for one of them.
    """
    with api.open(path) as file:
        dtypes = {name: torch_dtype(file[name].dtype) for name in file}
        arrays = load_all(file)
    tensors = {name: from_array(values, dtypes[name]) for name, values in arrays.items()}
    if str(device) == "cpu":
        return tensors
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def save_file(
    tensors: Mapping[str, torch.Tensor],
    path: PathLike,
    metadata: Mapping[str, object] | None = None,
) -> None:
    """Save tensors to `path`: a canonical `.zt`, or safetensors, by its suffix.

    Views and shared tensors are stored by value; in a `.zt`, equal tensors share a blob.

    Raises:
        InvalidInput: when a tensor is sparse, quantised, or of a type without a storage type.
    """
    from tensorark.save import save_arrays

    save_arrays({name: to_array(tensor) for name, tensor in tensors.items()}, path, metadata)


def save_model(
    model: torch.nn.Module, path: PathLike, metadata: Mapping[str, object] | None = None
) -> None:
    """Save the state of a module under all of its names, tied ones included."""
    save_file(dict(_state(model)), path, metadata)


def load_model(
    model: torch.nn.Module, path: PathLike, *, strict: bool = True
) -> tuple[list[str], list[str]]:
    """Load a file into a module; return the names that are missing, and those unexpected."""
    keys = model.load_state_dict(load_file(path), strict=strict)
    return list(keys.missing_keys), list(keys.unexpected_keys)


def _state(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in model.state_dict().items():
        if isinstance(value, torch.Tensor):
            yield name, value


def safe_open(
    path: PathLike, framework: str = "pt", device: str | int | torch.device = "cpu"
) -> SafeOpen[torch.Tensor]:
    """Open a file with the interface of `safetensors.safe_open`; `framework` names torch.

    Raises:
        InvalidInput: for another framework.
    """
    if framework not in {"pt", "torch", "pytorch"}:
        hint = "tensorark.numpy.safe_open gives numpy arrays"
        raise InvalidInput("this gives torch tensors", code="framework", found=framework, hint=hint)

    def part(values: Any) -> torch.Tensor:
        from tensorark.codecs.numbers import ids_of

        array = np.array(values)
        dtype, type_ = ids_of(array.dtype)
        return from_array(array, torch_dtype(type_ or dtype)).to(device)

    return SafeOpen(api.open(os.fspath(path)), lambda view: view.torch().to(device), part)
