"""The tensors of several models written into one target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.ledger import Settlement, among, settle
from tensorark.conversion.pipeline import target_of
from tensorark.core.model import NORMAL, Catalog, Part, Tensor
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.edit.account import Mended, write
from tensorark.edit.tensorbit_config import without_order
from tensorark.errors import InvalidInput, quoted
from tensorark.files import File, PathLike
from tensorark.files.derived import DerivedFile, derive_part
from tensorark.formats.format import Format
from tensorark.formats.zt import ZT
from tensorark.io.inputs import operation
from tensorark.wire.attributes import extend


@operation()
def join(
    sources: Sequence[PathLike],
    target: PathLike,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    align: int | None = None,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Mended:
    """Write the tensors of several models into one target; the first says what the model is.

    Sources may be of any format that is read. Attributes of the others are added to those of the
    first. What has no place, such as another value of an attribute that an earlier one has, is
    refused unless `drop` names its kind (`conversion.ledger`).

    Raises:
        InvalidInput: when there are no sources, one is the target, or two tensors share a name.
        Unsupported: when something would be lost, or the target cannot hold a tensor.
    """
    if not sources:
        raise InvalidInput("nothing to join", code="sources")
    kind = target_of(target, format)
    with ExitStack() as opened:
        models = [opened.enter_context(files.open(each)) for each in sources]
        if kind is ZT:
            models = [
                as_zt_model(each) if each.format.normalize is not None else each for each in models
            ]
        options = Options(overwrite=overwrite, align=align, drop=frozenset(drop), progress=progress)
        joined, others = _join(models, kind, Path(target), options)
        settled = settle(joined, kind, Path(target), options)
        return write(settled, others=others)


def _join(
    files: Sequence[File], kind: Format, path: Path, options: Options
) -> tuple[File, list[Settlement]]:
    """Return the first file with the tensors of all, and what is settled of each of the others."""
    tensors: dict[str, Tensor] = {}
    settled: list[Settlement] = []
    attributes: Mapping[str, object] | None = None
    for number, each in enumerate(files):
        file, own = each, each.catalog.attributes or {}
        theirs = without_order(own) or {}
        attributes, kept = extend(attributes, theirs)
        if number:
            kept |= own.keys() - theirs.keys()  # the order is that of the whole
            target = replace(kind, keeps=among(kind.keeps, kept))
            settled.append(settle(each, target, path, options))
            file = settled[-1].file
        for name, tensor in file.catalog.tensors.items():
            if name in tensors:
                raise InvalidInput(
                    f"two models have a tensor {quoted(name)}",
                    code="duplicate",
                    path=file.path,
                    where=("objects", name),
                )
            tensors[name] = _move(file, tensor) if number else tensor
    catalog = Catalog(NORMAL, tensors, attributes, None, files[0].catalog.files)
    return DerivedFile(files[0], catalog), settled


def _move(file: File, tensor: Tensor) -> Tensor:
    """Return a tensor whose parts are read from another file."""
    parts: dict[str, Part] = {}
    for role, each in tensor.parts.items():
        compute = partial(file.chunks, each, ("objects", tensor.name, "parts", role))
        moved = derive_part(compute, each.nbytes, each.dtype, each.type)
        parts[role] = replace(moved, digest=each.digest)
    return replace(tensor, parts=parts)
