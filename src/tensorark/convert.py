"""Converting between formats: one pipeline, verbatim, in bounded memory.

open → refusals → write, hashing as bytes pass → judge the result → publish. Nothing is cast,
dropped or reinterpreted; what the target cannot hold is refused before the first byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import xxhash

from tensorark import api, carry
from tensorark.api import File, PathLike
from tensorark.errors import InvalidInput, Unsupported, quoted
from tensorark.formats import FORMATS, safetensors
from tensorark.io.publish import publish
from tensorark.io.sink import Sink
from tensorark.model import Tensor
from tensorark.writer import CHUNK, check_digest, revalidate, rewrite

Progress = Callable[[int], None]
TARGETS: Final = ("zt", "safetensors")


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
    with api.open(source) as file:
        kind = format or target_format(target)
        if kind not in TARGETS:
            raise InvalidInput("no such target", code="format", expected=TARGETS, found=kind)
        if align is not None and kind != "zt":
            raise InvalidInput("only a `.zt` can be aligned", code="align")
        if max_shard_size is not None and kind != "safetensors":
            raise InvalidInput("only safetensors are split here", code="shard-size")
        _not_itself(file, target)
        if kind == "zt":
            files = [_to_zt(file, target, align, overwrite=overwrite, progress=progress)]
        elif max_shard_size is None:
            files = [_to_safetensors(file, target, overwrite=overwrite, progress=progress)]
        else:
            files = _to_shards(
                file, Path(target), max_shard_size, overwrite=overwrite, progress=progress
            )
        return Conversion(
            source=file.path,
            source_format=file.format.name,
            target_format=kind,
            files=tuple(files),
            tensors=len(file),
            nbytes=sum(file.catalog.tensors[name].nbytes for name in file),
        )


def target_format(target: PathLike) -> str:
    """Return the name of the format that the suffix of `target` stands for.

    Raises:
        InvalidInput: when no format that is written has this suffix.
    """
    suffix = Path(target).suffix
    for each in FORMATS:
        if suffix in each.suffixes and each.name in TARGETS:
            return each.name
    known = ", ".join(s for each in FORMATS if each.name in TARGETS for s in each.suffixes)
    detail = "the suffix of the target says no format that is written"
    raise InvalidInput(detail, code="suffix", expected=known, found=suffix or "none")


def _not_itself(file: File, target: PathLike) -> None:
    """Refuse a target that is an input: inputs are never outputs."""
    if not Path(target).exists():
        return
    inputs = [Path(file.path), *(Path(file.path).parent / each for each in file.catalog.files)]
    if any(each.exists() and each.samefile(target) for each in inputs):
        detail = "the target is the file that is converted; inputs are never written"
        raise InvalidInput(detail, code="same-file", path=os.fspath(target))


def _to_zt(
    file: File, target: PathLike, align: int | None, *, overwrite: bool, progress: Progress
) -> str:
    with publish(target, overwrite=overwrite) as sink:
        rewrite(
            file, sink, align=align, carried=carry.brought_home(file.catalog), progress=progress
        )
    return os.fspath(target)


def _to_safetensors(file: File, target: PathLike, *, overwrite: bool, progress: Progress) -> str:
    tensors = list(file.catalog.tensors.values())
    hold(tensors, file.path)
    with publish(target, overwrite=overwrite) as sink:
        _write_safetensors(file, tensors, _metadata(file), sink, progress)
    return os.fspath(target)


def _to_shards(
    file: File, target: Path, most: int, *, overwrite: bool, progress: Progress
) -> list[str]:
    """Write a shard set: the shards first, the index that makes them a model last."""
    tensors = list(file.catalog.tensors.values())
    hold(tensors, file.path)
    metadata = _metadata(file)
    planned = safetensors.plan_shards(tensors, most, metadata)
    names = safetensors.shard_names(target.stem, len(planned))
    shards = dict(zip(names, planned, strict=True))
    index = target.with_name(safetensors.index_name(target.stem))
    with ExitStack() as unpublished:
        last = unpublished.enter_context(publish(index, overwrite=overwrite))
        sinks = {
            name: unpublished.enter_context(publish(target.with_name(name), overwrite=overwrite))
            for name in shards
        }
        for name, held in shards.items():
            _write_safetensors(file, held, metadata, sinks[name], progress)
        last.write(safetensors.index_bytes(shards))
    return [str(target.with_name(name)) for name in names] + [str(index)]


def _metadata(file: File) -> dict[str, str] | None:
    if file.format.name != "zt":
        return carry.text_of(file.catalog.attributes)
    return carry.to_text(file.catalog.attributes, file.catalog.tensors.values())


def hold(tensors: Sequence[Tensor], path: str | None = None) -> None:
    """Require safetensors to be able to hold each of `tensors`, before the first byte is written.

    Raises:
        Unsupported: naming every tensor that it cannot hold.
    """
    refusals = list(safetensors.refusals(tensors))
    if refusals:
        reasons = "; ".join(f"{quoted(name)}: {reason}" for name, reason in refusals[:_SHOWN])
        more = f"; and {len(refusals) - _SHOWN} more" if len(refusals) > _SHOWN else ""
        raise Unsupported(
            f"safetensors cannot hold {len(refusals)} of {len(tensors)} tensors: {reasons}{more}",
            code="refused",
            path=path,
            where=("objects", refusals[0][0]),
        )


_SHOWN: Final = 8


def _write_safetensors(
    file: File,
    tensors: Sequence[Tensor],
    metadata: Mapping[str, str] | None,
    sink: Sink,
    progress: Progress,
) -> None:
    plan = safetensors.plan(tensors, metadata)
    sink.write(plan.header)
    for name in plan.order:
        part = file.catalog.tensors[name].parts["data"]
        where = ("objects", name, "parts", "data")
        state = xxhash.xxh3_64()
        for chunk in file.chunks(part, where):
            for start in range(0, len(chunk), CHUNK):
                piece = chunk[start : start + CHUNK]
                state.update(piece)
                sink.write(piece)
            progress(len(chunk))
        check_digest(part, "xxh3:" + state.hexdigest(), where, file.path)
    revalidate(sink, canonical_form=False)
