"""The vision tower of the Qwen3.5 models (component `vision`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Any, Final

from tensorark.formats.ninfer.architecture.fields import Fields, Problem
from tensorark.formats.ninfer.architecture.parameter import Parameter, Source, cut, plain

MODEL_TYPES: Final = ("qwen3_5_vision", "qwen3_5_moe_vision")
CHANNELS: Final = 3

SIZES: Final = (
    "depth",
    "hidden_size",
    "intermediate_size",
    "num_heads",
    "patch_size",
    "temporal_patch_size",
    "spatial_merge_size",
    "num_position_embeddings",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vision:
    """The geometry of a tower; its output is as wide as the text model."""

    depth: int
    hidden: int
    intermediate: int
    patch: int
    frames: int
    merge: int
    positions: int


def problems(config: Mapping[str, Any], *, experts: bool) -> Iterator[Problem]:
    """Yield what is wrong with the config of a tower; `experts` when its text model has some."""
    fields = Fields(config)
    yield from fields.exactly("model_type", MODEL_TYPES[experts])
    for key in SIZES:
        yield from fields.positive(key)
    hidden, heads = fields.number("hidden_size"), fields.number("num_heads")
    if heads and (hidden % heads or hidden // heads % 4):
        detail = "heads have no width that is a multiple of four"
        yield Problem(("num_heads",), detail, "a divisor of hidden_size / 4")
    positions = fields.number("num_position_embeddings")
    if isqrt(positions) ** 2 != positions:
        yield Problem(("num_position_embeddings",), "no square grid", "a square number")


def build(config: Mapping[str, Any]) -> Vision:
    """Return the geometry that a config without problems states."""
    number = Fields(config).number
    return Vision(
        depth=number("depth"),
        hidden=number("hidden_size"),
        intermediate=number("intermediate_size"),
        patch=number("patch_size"),
        frames=number("temporal_patch_size"),
        merge=number("spatial_merge_size"),
        positions=number("num_position_embeddings"),
    )


def parameters(vision: Vision, output: int, root: str = "model.visual.") -> Iterator[Parameter]:
    """Yield the parameters of a tower whose output has `output` elements."""
    hidden, patch = vision.hidden, vision.patch
    pixels = (hidden, CHANNELS * vision.frames * patch * patch)
    shape = (hidden, CHANNELS, vision.frames, patch, patch)
    yield Parameter(
        name="vision/patch_embedding",
        shape=pixels,
        source=Source(tensor=root + "patch_embed.proj.weight", shape=shape),
        inputs=("vision/patch_input",),
    )
    yield plain("vision/patch_embedding_bias", (hidden,), root + "patch_embed.proj.bias")
    grid = (vision.positions, hidden)
    yield plain("vision/position_embedding", grid, root + "pos_embed.weight")
    for index in range(vision.depth):
        yield from _layer(vision, f"vision/layers/{index}/", f"{root}blocks.{index}.")
    yield from _merger(vision, output, root + "merger.")


def _layer(vision: Vision, prefix: str, source: str) -> Iterator[Parameter]:
    hidden = vision.hidden
    for role in ("norm1", "norm2"):
        for kind in ("weight", "bias"):
            yield plain(f"{prefix}{role}_{kind}", (hidden,), f"{source}{role}.{kind}")
    joint = (source + "attn.qkv.weight", (3 * hidden, hidden))
    biases = (source + "attn.qkv.bias", (3 * hidden,))
    for third, role in enumerate(("query", "key", "value")):
        rows = ((third * hidden, (third + 1) * hidden),)
        name = f"{prefix}attention/{role}"
        yield cut(name, (hidden, hidden), joint, rows, prefix + "attention_input")
        yield cut(name + "_bias", (hidden,), biases, rows)
    square, wide = (hidden, hidden), (vision.intermediate, hidden)
    yield from _weight_and_bias(
        prefix + "attention/output", square, source + "attn.proj", prefix + "attention_output"
    )
    yield from _weight_and_bias(
        prefix + "mlp/fc1", wide, source + "mlp.linear_fc1", prefix + "mlp_input"
    )
    narrow, activated = (hidden, vision.intermediate), prefix + "mlp_activation"
    yield from _weight_and_bias(prefix + "mlp/fc2", narrow, source + "mlp.linear_fc2", activated)


def _merger(vision: Vision, output: int, source: str) -> Iterator[Parameter]:
    merged = vision.merge**2 * vision.hidden
    yield plain("vision/merger/norm_weight", (vision.hidden,), source + "norm.weight")
    yield plain("vision/merger/norm_bias", (vision.hidden,), source + "norm.bias")
    square, last = (merged, merged), (output, merged)
    yield from _weight_and_bias(
        "vision/merger/fc1", square, source + "linear_fc1", "vision/merger/input"
    )
    activated = "vision/merger/activation"
    yield from _weight_and_bias("vision/merger/fc2", last, source + "linear_fc2", activated)


def _weight_and_bias(
    name: str, shape: tuple[int, int], source: str, given: str
) -> Iterator[Parameter]:
    yield plain(name, shape, source + ".weight", given)
    yield plain(name + "_bias", shape[:1], source + ".bias")
