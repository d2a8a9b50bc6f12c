"""Saving arrays to a file: by suffix, deterministic, complete or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorark.conversion.ledger import refusal_of
from tensorark.conversion.pipeline import convert, target_of
from tensorark.core.model import Part, Raw, Tensor
from tensorark.errors import Error, Hint, InvalidInput
from tensorark.formats import safetensors
from tensorark.io.fileset import scratch
from tensorark.io.inputs import aside
from tensorark.io.publish import publish
from tensorark.layouts.payload import Passing
from tensorark.wire import attributes as carry
from tensorark.writing.assembly import revalidate
from tensorark.writing.writer import Writer, judge_bytes

if TYPE_CHECKING:
    from tensorark.files import PathLike


def save_arrays(
    arrays: Mapping[str, Any], path: PathLike, metadata: Mapping[str, object] | None = None
) -> None:
    """Save arrays, or anything numpy makes arrays of, to `path` in the format of its suffix.

    Raises:
        InvalidInput: when elements have no storage type, or a name or value cannot be stored.
        Unsupported: when the format cannot hold a tensor.
    """
    for name in arrays:
        if not isinstance(name, str):
            detail = "the name of a tensor is not text"
            raise InvalidInput(detail, code="name", found=type(name).__name__)
    kind = target_of(path).name
    if kind == "safetensors":
        _save_safetensors(arrays, path, metadata)
    elif kind == "zt":
        _save_zt(arrays, path, metadata)
    else:
        _save_by_way(arrays, Path(path), metadata)


def _save_zt(
    arrays: Mapping[str, Any], path: PathLike, metadata: Mapping[str, object] | None
) -> None:
    with Writer(path, attributes=metadata) as writer:
        for name in sorted(arrays):
            writer.add(name, arrays[name])


def _save_by_way(
    arrays: Mapping[str, Any], path: Path, metadata: Mapping[str, object] | None
) -> None:
    """Save arrays in a format that is written from a model: by way of a `.zt` on the same disk."""
    with scratch(path) as made:
        whole = made / f"{path.stem}.zt"
        _save_zt(arrays, whole, metadata)
        try:
            with aside():  # what leads to the file is no input
                convert(whole, path, overwrite=True)
        except Error as error:
            error.path = str(path)  # of the way nobody has heard, nor of its arguments
            error.hint = None if isinstance(error.hint, Hint) else error.hint
            raise


def _save_safetensors(
    arrays: Mapping[str, Any], path: PathLike, metadata: Mapping[str, object] | None
) -> None:
    from tensorark.core.model import Span
    from tensorark.layouts.numbers.arrays import as_array
    from tensorark.layouts.numbers.dtypes import encode, ids_of, nbytes_of

    values = {name: as_array(array, ("objects", name)) for name, array in arrays.items()}
    tensors = []
    for name, array in values.items():
        ids = ids_of(array.dtype, ("objects", name))  # first: what has none is named
        parts = {"data": Part(Raw((Span(0, nbytes_of(array)),)), *ids)}
        tensors.append(Tensor(name, array.shape, "dense", parts))
    refusals = [*safetensors.refusals(tensors)]
    if refusals:
        raise refusal_of(refusals, len(tensors), "safetensors")
    plan = safetensors.plan(tensors, carry.to_text(metadata))
    with publish(path, overwrite=True) as sink:
        sink.write(plan.header)
        for name in plan.order:
            ids, where = ids_of(values[name].dtype), ("objects", name)
            passing = Passing(*ids, where, values[name].size)
            for chunk in encode(values[name]):
                sink.write(judge_bytes(passing, chunk))
        revalidate(sink, canonical_form=False)
