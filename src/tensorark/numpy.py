"""Loading and saving dictionaries of numpy arrays, with the names that people know.

``load_file``, ``save_file``, ``load``, ``save`` and ``safe_open`` take any format that is read or
written; bf16, fp8 and fp4 come as `ml_dtypes` arrays.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorark import files
from tensorark.errors import InvalidInput
from tensorark.files.load import choose_names, load_all
from tensorark.files.safe_open import SafeOpen
from tensorark.io.inputs import operation

if TYPE_CHECKING:
    from tensorark.files import PathLike
    from tensorark.layouts.numbers.dtypes import Array

__all__ = ["load", "load_file", "safe_open", "save", "save_file"]


@operation()
def load_file(
    path: PathLike,
    *,
    keys: Iterable[str] | None = None,
    prefix: str | None = None,
    verify: bool = False,
) -> dict[str, Array]:
    """Load tensors into arrays that own their memory and can be written to.

    All of them, or those named by `keys`, or those whose names begin with `prefix`. With `verify`
    the bytes are compared with the digests of the file as they arrive. The arrays share a few large
    buffers, each of which lives as long as one of its arrays.

    Raises:
        Error: as `tensorark.open` and `TensorView.numpy` do.
        NotFound: when there is no tensor of such a name.
        Rejected: with `verify`, when bytes do not match their digest; `where` names the tensor.
        Unsupported: with `verify`, when the file keeps nothing to compare them with, as safetensors
            and Tensorbit do not (code ``no-digest``).
    """
    with files.open(path) as file:
        return load_all(file, choose_names(file, keys, prefix), verify=verify)


def save_file(
    tensors: Mapping[str, Any],
    path: PathLike,
    metadata: Mapping[str, object] | None = None,
) -> None:
    """Save arrays to `path`: a canonical `.zt`, or safetensors, by its suffix.

    The file appears complete or not at all, and replaces one that was there. The same arrays give
    the same bytes. `metadata` becomes the file's attributes; in safetensors, values that are not
    text are kept with their types.

    Raises:
        InvalidInput: when an array's elements have no storage type.
        Unsupported: when the format cannot hold a tensor.
    """
    from tensorark.conversion.save import save_arrays

    save_arrays(tensors, path, metadata)


def load(data: bytes) -> dict[str, Array]:
    """Load every tensor from the bytes of a file."""
    with tempfile.TemporaryDirectory(prefix="tensorark-") as folder:
        path = Path(folder) / "data"
        path.write_bytes(data)
        return load_file(path)


def save(
    tensors: Mapping[str, Any],
    metadata: Mapping[str, object] | None = None,
    *,
    format: str = "safetensors",  # noqa: A002 - the word users know
) -> bytes:
    """Return the bytes of a file that holds `tensors`, as ``safetensors`` or a canonical ``zt``."""
    if format not in {"safetensors", "zt"}:
        detail = "no such format to save in"
        raise InvalidInput(detail, code="format", expected="safetensors or zt", found=format)
    with tempfile.TemporaryDirectory(prefix="tensorark-") as folder:
        path = Path(folder) / f"data.{format}"
        save_file(tensors, path, metadata)
        return path.read_bytes()


def safe_open(path: PathLike, framework: str = "np", device: str = "cpu") -> SafeOpen[Array]:
    """Open a file with the interface of `safetensors.safe_open`; `framework` names numpy.

    Raises:
        InvalidInput: for another framework or device.
    """
    if framework not in {"np", "numpy"}:
        hint = "tensorark.torch.safe_open gives torch tensors"
        raise InvalidInput("this gives numpy arrays", code="framework", found=framework, hint=hint)
    if device != "cpu":
        raise InvalidInput("numpy arrays live on the CPU", code="device", found=device)
    return SafeOpen(files.open(path), lambda view: view.numpy(), lambda values: values)
