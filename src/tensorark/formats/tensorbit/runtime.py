"""What the public runtime makes of a model: remarks, not faults.

Owns the limits of `tb-run` and what its kernels assume. A file with remarks is valid all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tensorark.errors import quoted
from tensorark.formats.tensorbit.index import Index
from tensorark.formats.tensorbit.layouts import Blob
from tensorark.formats.tensorbit.read import Record
from tensorark.layouts.nm.rules import packing_of

MAX_TENSORS: Final = 512
MAX_NAME: Final = 127
MAX_ARCHITECTURE: Final = 63
MAX_INDEX: Final = 1 << 20

_LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_SPARSE: Final = re.compile(r"\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)\.weight$")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a valid file that its user should know; `code` is stable."""

    code: str
    detail: str
    where: tuple[str | int, ...] = ()


def layers_of(names: list[str]) -> int:
    """Return the number of layers that the names of tensors speak of; 0 where they name none."""
    numbers = [int(match[1]) for name in names if (match := _LAYER.search(name))]
    return max(numbers, default=-1) + 1


def remarks(record: Record) -> Iterator[Remark]:
    """Yield what the public runtime refuses, cuts, forgets or computes wrongly."""
    index = record.index
    if record.kind == "tbm":
        yield from _loader(index, record)
    if record.kind in {"tensorbit-directory", "tensorbit-folder"}:
        yield Remark("directory", "tb-run reads no weights from a directory")
    yield from _config(index)
    for blob in record.blobs:
        yield from _blob(blob)


def _loader(index: Index, record: Record) -> Iterator[Remark]:
    if len(index.claims) > MAX_TENSORS:
        detail = f"{len(index.claims)} tensors: tb-run loads no more than {MAX_TENSORS}"
        yield Remark("tensor-count", detail)
    if not index.claims:
        yield Remark("no-tensors", "no tensors: tb-run refuses the file")
    if record.text.length > MAX_INDEX:
        yield Remark("index-size", "the index is larger than 1 MiB, which small readers refuse")
    members = list(index.members)
    if "architecture" in members and "config" in members[members.index("architecture") :]:
        detail = "`architecture` stands before `config`: tb-run forgets it"
        yield Remark("member-order", detail, ("architecture",))
    if index.config is None and index.claims:
        detail = "no `config`: tb-run computes with sizes of its own, such as 4096 and 32 heads"
        yield Remark("config-missing", detail, ("config",))
    if index.config is not None and not index.config:
        detail = "an empty `config`: tb-run reads no tensors behind it"
        yield Remark("config-empty", detail, ("config",))
    if index.architecture is not None and len(index.architecture.encode()) > MAX_ARCHITECTURE:
        yield Remark("architecture-length", "tb-run cuts the architecture at 63 bytes")
    fractions = [key for key, value in index.extra.items() if _has_fraction(value)]
    if fractions:
        detail = f"{quoted(fractions[0])} holds a fraction, which tb-run cannot parse"
        yield Remark("fraction", detail, (fractions[0],))
    for row, claim in enumerate(index.claims):
        where = ("tensors", row)
        if len(claim.name.encode()) > MAX_NAME:
            detail = f"tb-run cuts {quoted(claim.name, 40)} at {MAX_NAME} bytes"
            yield Remark("name-length", detail, where)
        if claim.shape is not None and len(claim.shape) not in {1, 2}:
            detail = f"{len(claim.shape)} dimensions: tb-run cannot parse the index"
            yield Remark("shape-rank", detail, where)
        if any(_has_fraction(value) for value in claim.extra.values()):
            yield Remark("fraction", "a member holds a fraction: tb-run cannot parse it", where)


_FLOATS: Final = {"norm_eps", "rope_theta"}


def _config(index: Index) -> Iterator[Remark]:
    config: Mapping[str, object] = index.config or {}
    names = [claim.name for claim in index.claims]
    layers, stated = layers_of(names), config.get("num_layers")
    if layers and isinstance(stated, int) and stated != layers:
        detail = f"num_layers is {stated}, the names speak of {layers} layers"
        if stated == len(names):
            detail += "; the public tools write the number of tensors there"
        yield Remark("num-layers", detail, ("config", "num_layers"))
    for key, value in config.items():
        if isinstance(value, float) and key not in _FLOATS:
            detail = f"{quoted(key)} is written with a fraction, which tb-run cannot parse"
            yield Remark("fraction", detail, ("config", key))


def _blob(blob: Blob) -> Iterator[Remark]:
    where = ("tensors", blob.row) if blob.row is not None else ()
    n, m = blob.header.n, blob.header.m
    name = quoted(blob.claim.name, 60)
    if m and (n, m) != (2, 4):
        yield Remark("not-2-4", f"{name} is {n}:{m}: tb-run computes with 2:4", where)
    length = (blob.claim.shape or (blob.header.weights,))[-1]
    if m > 1 and len(blob.claim.shape or ()) == 2 and length > 1 and length % m:
        detail = f"{name}: groups of {m} cross the ends of rows of {length}, which tb-run ignores"
        yield Remark("rows-cut-groups", detail, where)
    packing = packing_of(blob.header.weights, blob.pattern, blob.header.mask_bytes)
    if m and packing == "none":
        yield Remark("no-mask", f"{name} is {n}:{m} and has no mask", where)
    if packing == "truncated":
        detail = f"{name} has one mask byte a group at {n}:{m}: weights 8 and up count as pruned"
        yield Remark("mask-truncated", detail, where)
    if packing == "floor":
        rest = blob.header.weights % m
        detail = f"the mask of {name} ends before its last {rest} weights, which count as kept"
        yield Remark("mask-floor", detail, where)
    if not m and _SPARSE.search(blob.claim.name):
        yield Remark("dense-projection", f"{name} is dense: tb-run reads a mask behind it", where)
    if blob.dtype in {"fp16", "bf16", "fp64"}:
        yield Remark("precision", f"{name} is {blob.dtype}: tb-run computes as if fp32", where)


def _has_fraction(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_fraction, value.values()))
    if isinstance(value, list):
        return any(map(_has_fraction, value))
    return isinstance(value, float)
