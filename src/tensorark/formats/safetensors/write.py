"""Writing any model as safetensors: one file, or a shard set with its index."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensorark.core.model import Catalog, Tensor
from tensorark.core.writing import (
    Checksums,
    Copy,
    Goal,
    Identify,
    Next,
    Options,
    Output,
    Outputs,
    Patch,
    Word,
    Writing,
)
from tensorark.formats.safetensors.header import Header
from tensorark.formats.safetensors.identity import UNKNOWN, place, stamp
from tensorark.formats.safetensors.index import list_shards
from tensorark.formats.safetensors.plan import plan, plan_header
from tensorark.formats.safetensors.shards import index_bytes, index_name, plan_shards, shard_names
from tensorark.wire.attributes import to_text


def write(catalog: Catalog, options: Options, goal: Goal) -> Writing:
    """Write a model as one file, or as shards of at most `options.max_shard_size` bytes.

    Both are the model of this name: each takes the place of the other.
    """
    tensors = [*catalog.tensors.values()]
    metadata = to_text(catalog.attributes, catalog.tensor_attributes)
    if options.max_shard_size is not None:
        return _write_shards(tensors, metadata, options.max_shard_size, goal)
    return _write_single(tensors, metadata, goal)


def _write_single(
    tensors: Sequence[Tensor], metadata: Mapping[str, str] | None, goal: Goal
) -> Writing:
    yield Outputs(
        (Output(goal.name),),
        goal.name,
        owns=_owns(goal),
        members=list_shards,
        replaces=index_name(goal.stem),
    )
    yield from _write_file(tensors, metadata)


def _write_shards(
    tensors: Sequence[Tensor], metadata: Mapping[str, str] | None, most: int, goal: Goal
) -> Writing:
    """Write a shard set; all shards, and the index last, carry the identity of the model."""
    planned = plan_shards(tensors, most, metadata)
    stem = f"{goal.stem}-r{goal.turn}" if goal.turn else goal.stem
    shards = dict(zip(shard_names(stem, len(planned)), planned, strict=True))
    index = index_name(goal.stem)
    yield Outputs(
        (*map(Output, shards), Output(index, judged=False)),
        index,
        kind="set",
        owns=_owns(goal),
        members=list_shards,
        replaces=goal.name,
    )
    # The identity is known when all has passed: its place is patched, and no length changes.
    text = stamp(metadata, UNKNOWN)
    hashed: list[Tensor] = []
    for held in shards.values():
        digests = yield from _write_file(held, text)
        hashed += [_with_digest(each, digests[each.name]) for each in held]
        yield Next()
    identity: str = yield Identify(tuple(hashed))
    for number, held in enumerate(shards.values()):
        at = place(plan(held, text).header)
        yield Patch(number, ((at, identity.encode("ascii")),))
    yield index_bytes(shards, identity)


def _write_file(
    tensors: Sequence[Tensor], metadata: Mapping[str, str] | None
) -> Generator[Word, Any, dict[str, str]]:
    """Write one file; return the digests of what was written by the names of its tensors."""
    planned = plan(tensors, metadata)
    yield planned.header
    parts = {each.name: each.parts["data"] for each in tensors}
    digests = {}
    for name in planned.order:
        copied: Checksums = yield Copy(parts[name], ("objects", name, "parts", "data"))
        digests[name] = copied.digest
    return digests


def _with_digest(tensor: Tensor, digest: str) -> Tensor:
    return replace(tensor, parts={"data": replace(tensor.parts["data"], digest=digest)})


def _owns(goal: Goal) -> str:
    """Return what numbered members of any turn are called."""
    return rf"{re.escape(goal.stem)}(-r[1-9][0-9]*)?-[0-9]{{5,}}-of-[0-9]{{5,}}\.safetensors"


def rehead(catalog: Catalog) -> tuple[bytes, int]:
    """Return a header with the attributes of `catalog`, and where the data begin that stay.

    A shard stays one of its set: no tensor changes.
    """
    header: Header = catalog.native
    metadata = to_text(catalog.attributes, catalog.tensor_attributes)
    if header.set_id is not None:
        metadata = stamp(metadata, header.set_id)
    start = header.data_start
    return plan_header(catalog.tensors.values(), start, metadata), start
