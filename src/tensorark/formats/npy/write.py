"""Writing the only tensor of a model as a `.npy`, as `numpy.save` does."""

from __future__ import annotations

from collections.abc import Iterator

from tensorark.core.model import Catalog
from tensorark.core.writing import Copy, Goal, Options, Output, Outputs, Writing
from tensorark.errors import Unsupported
from tensorark.wire.npy import header_bytes
from tensorark.wire.npy_types import array_refusal, descr_of


def write(catalog: Catalog, _options: Options, goal: Goal) -> Writing:
    """Write one array, row-major and little-endian; neither its name nor attributes are kept.

    Raises:
        Unsupported: when the model has another number of tensors than one.
    """
    if len(catalog.tensors) != 1:
        raise Unsupported(
            f"a .npy holds one array, this model has {len(catalog.tensors)} tensors",
            code="refused",
            hint="write an .npz, or choose one tensor",
        )
    (tensor,) = catalog.tensors.values()
    part = tensor.parts["data"]
    yield Outputs((Output(goal.name),), goal.name)
    yield header_bytes(descr_of(part.dtype, part.type) or "", tensor.shape)
    yield Copy(part, ("objects", tensor.name, "parts", "data"))


def refusals(catalog: Catalog, _options: Options) -> Iterator[tuple[str, str]]:
    """Yield the tensors that are no array of numpy, and why."""
    for tensor in catalog.tensors.values():
        reason = array_refusal(tensor, voids=False)
        if reason is not None:
            yield tensor.name, reason


def keeps(_catalog: Catalog, stem: str, kind: str, name: str) -> bool:
    """Tell what an array file keeps beside its shape: a name that is that of the file."""
    return kind == "names" and name == stem
