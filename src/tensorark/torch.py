"""Loading and saving dictionaries of torch tensors, with the names that people know.

Tensors of a mapped file share its pages until they are written to; writing never reaches the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    import torch
except ImportError as error:
    detail = "torch is not installed: pip install 'tensorark[torch]' brings it"
    raise ModuleNotFoundError(detail, name="torch") from error

from tensorark import files
from tensorark.errors import InvalidInput
from tensorark.files.load import choose_names, load_all
from tensorark.files.safe_open import SafeOpen
from tensorark.io.inputs import operation
from tensorark.layouts.numbers.torch import from_array, to_array, torch_dtype

if TYPE_CHECKING:
    from tensorark.files import PathLike

__all__ = ["load_file", "load_model", "safe_open", "save_file", "save_model"]


@operation()
def load_file(
    path: PathLike,
    device: str | int | torch.device = "cpu",
    *,
    keys: Iterable[str] | None = None,
    prefix: str | None = None,
    verify: bool = False,
) -> dict[str, torch.Tensor]:
    """Load tensors into memory of their own, then move them to `device`.

    `keys`, `prefix` and `verify` as for `tensorark.numpy.load_file`.

    Raises:
        Unsupported: when torch has no type for one of them; with `verify`, when the file keeps
            nothing to compare the bytes with.
        NotFound: when there is no tensor of such a name.
        Rejected: with `verify`, when bytes do not match their digest; `where` names the tensor.
    """
    with files.open(path) as file:
        names = choose_names(file, keys, prefix)
        dtypes = {name: torch_dtype(file[name].dtype) for name in names}
        arrays = load_all(file, names, verify=verify)
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
        InvalidInput: when a tensor is sparse, nested, quantized, of a subclass, without data, or of
            a type without a storage type; and when it is no tensor.
    """
    from tensorark.conversion.save import save_arrays

    arrays = {name: to_array(tensor, str(name)) for name, tensor in tensors.items()}
    save_arrays(arrays, path, metadata)


def save_model(
    model: torch.nn.Module, path: PathLike, metadata: Mapping[str, object] | None = None
) -> None:
    """Save the state of a module.

    A `.zt` holds tied tensors under all of their names, in one blob. Other formats have them once,
    as `safetensors.torch.save_model` writes them: under the first of their names, and the metadata
    says for each other name which one was kept.

    Raises:
        InvalidInput: when the state holds something that is no tensor, such as an extra state.
    """
    from tensorark.conversion.pipeline import target_of

    state = model.state_dict()
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise InvalidInput(
                "the state of the module holds something that is no tensor",
                code="torch-type",
                where=("objects", name),
                found=type(value).__name__,
                hint="keep it elsewhere, or make it a tensor",
            )
    if target_of(path).name != "zt":
        removed = {name: kept for kept, *others in _find_tied(state) for name in others}
        if removed:
            state = {name: value for name, value in state.items() if name not in removed}
            metadata = {**removed, **(metadata or {})}
    save_file(state, path, metadata)


def load_model(
    model: torch.nn.Module, path: PathLike, *, strict: bool = True
) -> tuple[list[str], list[str]]:
    """Load a file into a module; return the names that are missing, and those unexpected.

    Of tied tensors one name is enough, whichever the file has.

    Raises:
        RuntimeError: as torch does, when `strict` and a name is missing or unexpected.
    """
    tensors = load_file(path)
    for names in _find_tied(model.state_dict()):
        held = [name for name in names if name in tensors]
        tensors |= {name: tensors[held[0]] for name in names if held and name not in tensors}
    keys = model.load_state_dict(tensors, strict=strict)
    return list(keys.missing_keys), list(keys.unexpected_keys)


def _find_tied(state: Mapping[str, Any]) -> list[list[str]]:
    """Return the names of tensors that are one in memory, each group sorted."""
    groups: dict[object, list[str]] = {}
    for name in sorted(state):
        value = state[name]
        if isinstance(value, torch.Tensor) and not value.is_meta and value.numel():
            same = (value.data_ptr(), value.dtype, value.shape, value.stride(), value.device)
            groups.setdefault(same, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


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
        from tensorark.layouts.numbers.dtypes import ids_of

        array = np.array(values)
        dtype, type_ = ids_of(array.dtype)
        return from_array(array, torch_dtype(type_ or dtype)).to(device)

    return SafeOpen(files.open(path), lambda view: view.torch().to(device), part)
