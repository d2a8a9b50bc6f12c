"""Writing any model as safetensors: one file, or a shard set with its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import xxhash

from tensorark.conversion.ledger import BY_MODEL, Keeps
from tensorark.conversion.target import LEAVE_OUT, Options, Target, require_none
from tensorark.core.model import Tensor
from tensorark.core.progress import Progress
from tensorark.errors import Hint
from tensorark.files import File
from tensorark.formats import safetensors
from tensorark.formats.zt.digest import content_digest
from tensorark.io.fileset import fresh, numbered, publish_set, require_free, retire
from tensorark.io.open_file import read_bytes
from tensorark.io.publish import publish
from tensorark.io.sink import Sink
from tensorark.layouts.ninfer.geometry import PREFIX
from tensorark.wire.attributes import to_text
from tensorark.writing.writer import CHUNK, check_digest, revalidate


def write(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as one safetensors file, or as shards of at most `options.max_shard_size`.

    Both are the model of this name: what it was before goes, whichever of the two that was.
    """
    tensors = list(file.catalog.tensors.values())
    hold(tensors, file.path, LEAVE_OUT)
    metadata = metadata_of(file)
    index = target.with_name(safetensors.index_name(target.stem))
    if options.max_shard_size is not None:
        require_free(target, overwrite=options.overwrite)
        written = _write_shards(file, target, tensors, metadata, options)
        retire(target)
        return written
    require_free(index, overwrite=options.overwrite)
    with publish(target, overwrite=options.overwrite) as sink:
        _write_file(file, tensors, metadata, sink, options.progress)
    retire(index, _members, numbered(target.stem, ".safetensors"))
    return [str(target)]


def _write_shards(
    file: File,
    target: Path,
    tensors: Sequence[Tensor],
    metadata: dict[str, str] | None,
    options: Options,
) -> list[str]:
    """Write a shard set; the index that makes the shards a model is published last."""
    planned = safetensors.plan_shards(tensors, options.max_shard_size or 0, metadata)
    index = target.with_name(safetensors.index_name(target.stem))

    def named(turn: int) -> list[str]:
        stem = target.stem if not turn else f"{target.stem}-r{turn}"
        return [*safetensors.shard_names(stem, len(planned))]

    names = fresh(index, named, overwrite=options.overwrite)
    shards = dict(zip(names, planned, strict=True))
    stamp = safetensors.stamped(metadata, safetensors.UNKNOWN)
    owns = numbered(target.stem, ".safetensors")
    with publish_set(index, names, overwrite=options.overwrite, members=_members, owns=owns) as (
        last,
        sinks,
    ):
        hashed: list[Tensor] = []
        for sink, held in zip(sinks, shards.values(), strict=True):
            hashed += _write_file(file, held, stamp, sink, options.progress)
            sink.settle()  # or many shards would keep their buffers
        identity = content_digest(hashed)
        for sink, held in zip(sinks, shards.values(), strict=True):
            at = safetensors.place(safetensors.plan(held, stamp).header)
            sink.patch([(at, identity.encode("ascii"))])
        last.write(safetensors.index_bytes(shards, identity))
    return [*(str(target.with_name(name)) for name in names), str(index)]


def _members(index: Path) -> list[str]:
    """Return the names of the shards that an index names.

    Raises:
        Error: when it is none.
    """
    return safetensors.shards_named(read_bytes(index))


def metadata_of(file: File) -> dict[str, str] | None:
    """Return the attributes of a model and its tensors as metadata that is all text."""
    return to_text(file.catalog.attributes, file.catalog.tensor_attributes)


def hold(tensors: Sequence[Tensor], path: str | None = None, hint: str | None = None) -> None:
    """Require safetensors to be able to hold each of `tensors`, before the first byte is written.

    Raises:
        Unsupported: naming every tensor that it cannot hold.
    """
    refusals = list(safetensors.refusals(tensors))
    is_packed = any(each.layout.startswith(PREFIX) for each in tensors)
    hint = _UNPACK if is_packed else hint
    require_none(refusals, len(tensors), holder="safetensors", path=path, hint=hint)


_UNPACK: Final = Hint(
    "tensorark.ninfer.pack.export_parameters() decodes an artifact",
    tark="`tark unpack` decodes an artifact",
)


def _write_file(
    file: File,
    tensors: Sequence[Tensor],
    metadata: Mapping[str, str] | None,
    sink: Sink,
    progress: Progress,
) -> list[Tensor]:
    """Write one file; return its tensors with the digests of what was written."""
    plan = safetensors.plan(tensors, metadata)
    sink.write(plan.header)
    known = {each.name: each for each in tensors}
    hashed = []
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
        digest = "xxh3:" + state.hexdigest()
        check_digest(part, digest, where, file.path)
        hashed.append(replace(known[name], parts={"data": replace(part, digest=digest)}))
    revalidate(sink, canonical_form=False)
    return hashed


SAFETENSORS: Final = Target(
    name="safetensors",
    suffixes=(".safetensors",),
    options=frozenset({"max_shard_size"}),
    put=write,
    keeps=Keeps(BY_MODEL),
    require=lambda file, _: hold([*file.catalog.tensors.values()], file.path, LEAVE_OUT),
    refuses=lambda file, _: safetensors.refusals(file.catalog.tensors.values()),
)
