"""Converting between formats: one pipeline, verbatim, in bounded memory.

open → refusals → write, hashing as bytes pass → judge the result → publish. Nothing is cast,
dropped or reinterpreted; what the target cannot hold is refused before the first byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorark import api
from tensorark.api import File, PathLike
from tensorark.convert.safetensors import SAFETENSORS
from tensorark.convert.target import Options, Progress, Target
from tensorark.convert.zt import ZT
from tensorark.errors import InvalidInput

__all__ = ["TARGETS", "Conversion", "Options", "Target", "convert", "target_of"]

TARGETS: Final[tuple[Target, ...]] = (ZT, SAFETENSORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What a conversion did: formats, files written, tensors and decoded bytes in and out."""

    source: str
    source_format: str
    target_format: str
    files: tuple[str, ...]
    tensors: int
    nbytes: int


def convert(
    source: PathLike,
    target: PathLike,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    align: int | None = None,
    max_shard_size: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Conversion:
    """Convert the model at `source` into the file `target`, tensor by tensor, verbatim.

    The target's format follows its suffix unless `format` names it. A `.zt` is canonical unless
    `align`, a multiple of 4096, asks for another placement; `max_shard_size`, in bytes, splits a
    safetensors target into a shard set with an index.

    Raises:
        InvalidInput: when source and target are one file, or the options do not fit the format.
        Rejected: when the source breaks a rule, or payload does not match its digest.
        Unsupported: when the target cannot hold something; every such tensor is named.
        ReadFailed: when something cannot be read or written.
    """
    kind = target_of(target, format)
    options = Options(
        overwrite=overwrite, align=align, max_shard_size=max_shard_size, progress=progress
    )
    _check_options(kind, options)
    with api.open(source) as file:
        not_itself(file, target)
        return Conversion(
            source=file.path,
            source_format=file.format.name,
            target_format=kind.name,
            files=tuple(kind.write(file, Path(target), options)),
            tensors=len(file),
            nbytes=sum(tensor.nbytes for tensor in file.catalog.tensors.values()),
        )


def target_of(path: PathLike, name: str | None = None) -> Target:
    """Return the target named `name`, or else the one that the suffix of `path` stands for.

    Raises:
        InvalidInput: when there is none.
    """
    suffix = Path(path).suffix
    for each in TARGETS:
        if each.name == name or (name is None and suffix in each.suffixes):
            return each
    raise InvalidInput(
        "no such format is written" if name else "the suffix names no format that is written",
        code="target",
        expected=" ".join(each.name if name else each.suffixes[0] for each in TARGETS),
        found=name or suffix or "no suffix",
    )


def _check_options(target: Target, options: Options) -> None:
    for name in ("align", "max_shard_size"):
        if getattr(options, name) is not None and name not in target.options:
            detail = f"{target.name} takes no {name.replace('_', ' ')}"
            raise InvalidInput(detail, code="option", found=getattr(options, name))


def not_itself(file: File, target: PathLike) -> None:
    """Refuse a target that is an input: inputs are never outputs.

    Raises:
        InvalidInput: when `target` is the opened file or one of its shards.
    """
    if not Path(target).exists():
        return
    inputs = [Path(file.path), *(Path(file.path).parent / each for each in file.catalog.files)]
    if any(each.exists() and each.samefile(target) for each in inputs):
        detail = "the target is the file that is converted; inputs are never written"
        raise InvalidInput(detail, code="same-file", path=str(target))
