"""Masks of a Tensorbit model changed as asked: spelled out, applied to weights, or dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from tensorark.core.model import Part, Tensor
from tensorark.files import File
from tensorark.files.derived import derive_part, octets
from tensorark.layouts.nm.rules import ID, KEY, mask_size, members
from tensorark.layouts.payload import Reader

if TYPE_CHECKING:
    from tensorark.layouts.nm.window import Window

Masks = Literal["keep", "spell", "drop", "apply"]
"""`keep`: as they are. `spell`: written as the specification says, with ceil(M / 8) bytes for each
group. `drop`: none, weights as stored. `apply`: kept, and weights under clear bits become 0."""

MASKS: Final = ("keep", "spell", "drop", "apply")


def remask(file: File, tensor: Tensor, masks: Masks) -> tuple[Tensor, str | None]:
    """Return a tensor of `file` with its mask changed, and what that changes; None if nothing."""
    from tensorark.layouts.nm.window import window_of

    if masks == "keep" or tensor.layout != ID or "mask" not in tensor.parts:
        return tensor, None
    window = window_of(tensor, Reader(file, tensor))
    if masks == "drop":
        return _drop(tensor), f"{tensor.name}: mask dropped"
    return _apply(file, window) if masks == "apply" else _spell(window)


def _drop(tensor: Tensor) -> Tensor:
    """Return a tensor without its mask: dense, unless its weights need scales."""
    facts = dict(members(tensor.attributes))
    kept = {k: v for k, v in facts.items() if k not in {"n", "m"}}
    if "scales" in tensor.parts or facts.get("dtype") == "int4":
        parts: dict[str, Part] = {r: p for r, p in tensor.parts.items() if r != "mask"}
        return replace(tensor, parts=parts, attributes={KEY: {**kept, "n": 0, "m": 0}})
    kept.pop("dtype", None)
    weights = {"data": tensor.parts["weights"]}
    return replace(tensor, layout="dense", parts=weights, attributes={KEY: kept} if kept else None)


def _apply(file: File, window: Window) -> tuple[Tensor, str | None]:
    """Set weights under clear mask bits to 0."""
    from tensorark.layouts.nm.census import count

    tensor = window.tensor
    if window.sparse.is_quantized:
        return tensor, None
    stray = count(tensor, Reader(file, tensor)).stray
    if not stray:
        return tensor, None

    def values() -> Iterator[memoryview]:
        for start, stop in window.cuts(0, window.sparse.elements):
            yield octets(window.values(start, stop))

    old = tensor.parts["weights"]
    weights = derive_part(values, old.nbytes, old.dtype)
    change = f"{tensor.name}: {stray} weights under clear mask bits set to 0"
    return replace(tensor, parts={**tensor.parts, "weights": weights}), change


def _spell(window: Window) -> tuple[Tensor, str | None]:
    """Write a mask as the specification says, with whole bytes for each group."""
    tensor, sparse = window.tensor, window.sparse
    if sparse.packing not in {"floor", "truncated"}:
        return tensor, None

    def octets_of_mask() -> Iterator[memoryview]:
        from tensorark.layouts.nm.masks import pack_mask, unpack_mask

        for start, stop in window.cuts(0, sparse.elements):
            keep = unpack_mask(window.octets(start, stop), window.part(start, stop))
            yield octets(pack_mask(keep, sparse.pattern))

    size = mask_size(sparse.elements, sparse.pattern)
    change = f"{tensor.name}: mask of {tensor.parts['mask'].nbytes} bytes → {size} bytes"
    if sparse.packing == "truncated":
        change += "; weights 8 and up of each group stay pruned"
    mask = derive_part(octets_of_mask, size, "u8")
    return replace(tensor, parts={**tensor.parts, "mask": mask}), change
