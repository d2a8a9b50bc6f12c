"""The recipes of the official artifacts, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tensorark.ninfer.pack.recipe import IMPORT, Assignment, Recipe

_Q4: Final = "q4_g64_fp16"
_Q5: Final = "q5_g64_fp16"
_Q6: Final = "q6_g64_fp16"
_Q8: Final = "q8_g32_fp16"
_FP8: Final = "fp8_e4m3fn_row_bf16"
_NVFP4: Final = "nvfp4"

QUANTIZED: Final = "quantized"
"""The source that the presets with imported codes take them from."""

_LAYERS: Final = "text/layers/*"


def _all(format_: str, *patterns: str) -> Assignment:
    return Assignment(parameters=patterns, projections=True, format=format_)


def _plain(*patterns: str) -> Assignment:
    return Assignment(parameters=patterns, format="bf16")


# The vision tower and the draft models are the same in all of them.
_OPTIONAL: Final = (
    _all(_Q5, "vision/*"),
    _all(_Q6, "vision/patch_embedding"),
    _all(_Q8, "vision/merger/*"),
    _all(_Q4, *(f"vision/layers/*/attention/{role}" for role in ("query", "key", "value"))),
    _all(_Q4, "vision/layers/*/mlp/fc1"),
    _all(_Q8, "mtp/*", "dflash/*", "dflash2/*"),
    _plain(
        "mtp/*/moe/router",
        "mtp/*/moe/shared_score",
        "dflash2/*_conv/kernel_projection",
        "dflash2/candidate_selector/hidden_projection",
    ),
)

_CONTEXT: Final = tuple(
    (
        f"{draft}/layers/{{}}/attention/context_{role}",
        f"{draft}/layers/{{}}/attention/{role}",
    )
    for draft in ("dflash", "dflash2")
    for role in ("key", "value")
)

# Kept as they are, and apart from each other.
_CONTROLS: Final = Assignment(
    parameters=("text/layers/*/gdn/a_projection", "text/layers/*/gdn/b_projection"),
    format="bf16",
    method="cast_direct",
    policy="A16Only",
    separate=True,
)


def _dense(name: str, vocabulary: str) -> Recipe:
    """Return a recipe of integer codes for a dense model."""
    return Recipe(
        name=name,
        experts=False,
        share=_CONTEXT,
        assignments=(
            *_OPTIONAL,
            Assignment(parameters=("text/token_embedding", "text/output_head"), format=vocabulary),
            _all(_Q5, _LAYERS),
            _all(
                _Q4,
                "text/layers/*/attention/query",
                "text/layers/*/attention/key",
                "text/layers/*/gdn/query",
                "text/layers/*/gdn/key",
                "text/layers/*/mlp/gate",
                "text/layers/*/mlp/up",
            ),
            _CONTROLS,
        ),
    )


def _experts(name: str) -> Recipe:
    """Return a recipe of integer codes for the model with 40 layers of experts."""
    downs = ("text/layers/*/moe/experts/*/down",)
    return Recipe(
        name=name,
        experts=True,
        share=_CONTEXT,
        assignments=(
            *_OPTIONAL,
            Assignment(parameters=("text/token_embedding",), format=_Q8),
            Assignment(parameters=("text/output_head",), format=_Q6),
            _all(_Q8, _LAYERS),
            _all(_Q4, "text/layers/*/moe/experts/*"),
            _all(_Q5, *downs),
            Assignment(parameters=downs, layers=(34, 38, 39), format=_Q6),
            _plain(
                "text/layers/*/gdn/a_projection",
                "text/layers/*/gdn/b_projection",
                "text/layers/*/moe/router",
                "text/layers/*/moe/shared_score",
            ),
        ),
    )


def _import(format_: str, *patterns: str, layers: range | None = None) -> Assignment:
    return Assignment(
        parameters=patterns,
        layers=None if layers is None else tuple(layers),
        projections=True,
        format=format_,
        method=IMPORT,
        policy="AllowA4" if format_ == _NVFP4 else "AllowA8",
        source=QUANTIZED,
    )


def _back(*patterns: str, layers: tuple[int, ...] | None = None) -> Assignment:
    return Assignment(
        parameters=patterns,
        layers=layers,
        format="bf16",
        method="cast_direct",
        policy="A16Only",
        source="base",
    )


_27B_NVFP4: Final = Recipe(
    name="qwen3_6_27b_nvfp4",
    experts=False,
    share=_CONTEXT,
    assignments=(
        *_OPTIONAL,
        Assignment(parameters=("text/token_embedding", "text/output_head"), format=_Q8),
        _import(_NVFP4, _LAYERS),
        _back(
            *(f"text/layers/*/attention/{role}" for role in ("query", "key", "gate", "value")),
            layers=tuple(range(24)),
        ),
        _back("text/layers/*/attention/output", layers=(3, 7)),
        _back("text/layers/*/gdn/output", layers=(4,)),
        Assignment(parameters=_CONTROLS.parameters, source="base"),
        _CONTROLS,
    ),
)

_38_27B_NVFP4: Final = Recipe(
    name="qwen3_8_27b_nvfp4",
    experts=False,
    share=_CONTEXT,
    assignments=(
        *_OPTIONAL,
        Assignment(parameters=("text/*",), source=QUANTIZED),
        Assignment(parameters=("text/token_embedding",), format=_FP8, source="base"),
        _import(_FP8, "text/output_head", _LAYERS),
        _import(_NVFP4, "text/layers/*/mlp/*", layers=range(56)),
        replace(_CONTROLS, separate=None),
    ),
)

PRESETS: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        each.name: each
        for each in (
            Recipe(name="bf16", share=_CONTEXT),
            _dense("qwen3_6_27b", _Q6),
            _dense("qwen3_8_27b", _Q8),
            _experts("qwen3_6_35b_a3b"),
            _27B_NVFP4,
            _38_27B_NVFP4,
        )
    }
)
"""The recipes by name; `bf16` keeps everything as plain words."""
