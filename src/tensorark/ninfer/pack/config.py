"""From the config.json of a checkpoint to the configs of an artifact's components.

Owns which fields are kept and what is refused because the mathematics would be another. Numbers
with a fraction keep the spelling they have in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tensorark.errors import InvalidInput, Unsupported, quoted
from tensorark.formats.ninfer.architecture import draft, problems, text, vision
from tensorark.wire.json import Real

Config = Mapping[str, Any]

SOURCES: Final[Mapping[str, str]] = {
    text.DENSE: text.DENSE,
    "Qwen3_5ForConditionalGeneration": text.DENSE,
    text.MOE: text.MOE,
    "Qwen3_5MoeForConditionalGeneration": text.MOE,
}
"""The text architecture that each architecture of a checkpoint stands for."""

_EPSILON: Final = Real("1e-06")
_THETA: Final = 10_000_000


def text_root(config: Config) -> str:
    """Return what stands before the names of the text model's tensors."""
    return "model.language_model." if "text_config" in config else "model."


def component_configs(
    source: Config, components: Sequence[str], drafts: Mapping[str, Config]
) -> dict[str, dict[str, Any]]:
    """Return the configs of `components` for a checkpoint; `drafts` are those of draft models.

    Raises:
        Unsupported: when the checkpoint is of another architecture, or computes otherwise.
        InvalidInput: when its config does not state what it must.
    """
    found = {"text": _text(source, predicted="mtp" in components)}
    for name in components:
        if name == "vision":
            found[name] = _vision(source, found["text"])
        elif name == "mtp":
            found[name] = {"architectures": [text.MTP[found["text"]["architectures"][0]]]}
        elif name in {"dflash", "dflash2"}:
            found[name] = _draft(name, drafts[name], found["text"])
        elif name != "text":
            known = "text vision mtp dflash dflash2"
            raise InvalidInput(
                "no such component is converted", code="component", expected=known, found=name
            )
    for name, problem in problems(found):
        raise InvalidInput(
            f"the config of {name}: {'.'.join(problem.place)}: {problem.detail}",
            code="config",
            where=("config", *problem.place),
            expected=problem.expected,
        )
    return found


def _text(source: Config, *, predicted: bool) -> dict[str, Any]:
    names = source.get("architectures")
    name = names[0] if isinstance(names, list) and len(names) == 1 else None
    architecture = SOURCES.get(name) if isinstance(name, str) else None
    if architecture is None:
        raise Unsupported(
            "the checkpoint is of an architecture that is not converted",
            code="unknown-architecture",
            where=("config", "architectures"),
            expected="one of " + " ".join(SOURCES),
            found=quoted(str(names)),
        )
    raw = source.get("text_config", source)
    if not isinstance(raw, Mapping):
        raise InvalidInput("text_config is no object", code="config", where=("config",))
    for key, value in (
        ("hidden_act", "silu"),
        ("attention_bias", False),
        ("attn_output_gate", True),
        ("mamba_ssm_dtype", "float32"),
    ):
        _require(raw, key, value)
    if predicted:
        _require(raw, "mtp_num_hidden_layers", 1)
        _require(raw, "mtp_use_dedicated_embeddings", value=False)
    result: dict[str, Any] = {
        "architectures": [architecture],
        "model_type": text.ARCHITECTURES[architecture],
    }
    _keep(result, raw, text.SIZES)
    tied = raw.get("tie_word_embeddings", source.get("tie_word_embeddings", False))
    result["tie_word_embeddings"] = tied
    result["rms_norm_eps"] = raw.get("rms_norm_eps", _EPSILON)
    result["layer_types"] = layers = _layer_types(raw)
    if text.ATTENTION in layers or predicted:
        _keep(result, raw, text.ATTENTION_SIZES)
        result["rope_parameters"] = _rope(raw)
    if text.LINEAR in layers:
        _keep(result, raw, text.LINEAR_SIZES)
    _keep(result, raw, text.EXPERT_SIZES if architecture == text.MOE else ("intermediate_size",))
    return result


def _layer_types(raw: Config) -> list[Any]:
    layers = raw.get("layer_types")
    if isinstance(layers, list):
        return list(layers)
    interval, count = raw.get("full_attention_interval", 4), raw.get("num_hidden_layers")
    if type(interval) is not int or interval < 1 or type(count) is not int or count > 1 << 20:
        raise InvalidInput("the layers have no types", code="config", where=("config",))
    kinds = (text.ATTENTION, text.LINEAR)
    return [kinds[(layer + 1) % interval != 0] for layer in range(count)]


def _rope(raw: Config) -> dict[str, Any]:
    rope = _rope_source(raw)
    _require(rope, "mrope_interleaved", value=True)
    return {
        "rope_theta": rope.get("rope_theta", raw.get("rope_theta", _THETA)),
        "partial_rotary_factor": rope.get(
            "partial_rotary_factor", raw.get("partial_rotary_factor", Real("0.25"))
        ),
        "mrope_section": rope.get("mrope_section"),
    }


def _rope_source(raw: Config) -> Config:
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise InvalidInput("rope_parameters is no object", code="config", where=("config",))
    for key in ("rope_type", "type"):
        if rope.get(key, "default") not in {"default", "mrope"}:
            _require(rope, key, "default")
    return rope


def _vision(source: Config, of_text: Config) -> dict[str, Any]:
    raw = source.get("vision_config")
    if not isinstance(raw, Mapping):
        raise InvalidInput(
            "the checkpoint has no vision tower",
            code="component",
            where=("config", "vision_config"),
        )
    _require(raw, "in_channels", 3)
    _require(raw, "hidden_act", "gelu_pytorch_tanh")
    _require(raw, "deepstack_visual_indexes", [])
    _require(raw, "out_hidden_size", of_text["hidden_size"])
    experts = of_text["architectures"] == [text.MOE]
    result: dict[str, Any] = {"model_type": vision.MODEL_TYPES[experts]}
    _keep(result, raw, vision.SIZES)
    return result


def _draft(name: str, raw: Config, of_text: Config) -> dict[str, Any]:
    architecture = draft.ARCHITECTURES[name]
    if raw.get("architectures") != [architecture]:
        raise Unsupported(
            f"the checkpoint for {name} is of another architecture",
            code="unknown-architecture",
            where=("config", "architectures"),
            expected=architecture,
            found=quoted(str(raw.get("architectures"))),
        )
    for key, value in (
        ("model_type", draft.MODEL_TYPE),
        ("hidden_act", "silu"),
        ("attention_bias", False),
        ("is_causal", False),
        ("hidden_size", of_text["hidden_size"]),
        ("vocab_size", of_text["vocab_size"]),
        ("num_target_layers", of_text["num_hidden_layers"]),
    ):
        _require(raw, key, value)
    result: dict[str, Any] = {"architectures": [architecture], "model_type": draft.MODEL_TYPE}
    _keep(result, raw, draft.SIZES)
    result["rms_norm_eps"] = raw.get("rms_norm_eps", _EPSILON)
    theta = _rope_source(raw).get("rope_theta", raw.get("rope_theta", _THETA))
    result["rope_parameters"] = {"rope_theta": theta}
    result["layer_types"] = layers = _draft_layers(raw)
    if draft.SLIDING in layers:
        _keep(result, raw, ("sliding_window",))
    own = raw.get("dflash_config")
    kept: dict[str, Any] = {}
    if isinstance(own, Mapping):
        _keep(kept, own, ("target_layer_ids", "mask_token_id"))
        if name == "dflash2":
            _keep(kept, own, draft.SECOND_SIZES)
    result["dflash_config"] = kept
    return result


def _draft_layers(raw: Config) -> list[Any]:
    layers = raw.get("layer_types")
    if isinstance(layers, list):
        return list(layers)
    count, first = raw.get("num_hidden_layers"), raw.get("max_window_layers", 28)
    if type(count) is not int or count > 1 << 20 or type(first) is not int:
        raise InvalidInput("the layers have no types", code="config", where=("config",))
    slides = raw.get("use_sliding_window", False) is True
    kinds = (text.ATTENTION, draft.SLIDING)
    return [kinds[slides and layer >= first] for layer in range(count)]


def _keep(result: dict[str, Any], raw: Config, keys: Sequence[str]) -> None:
    for key in keys:
        if key in raw:
            result[key] = raw[key]


def _require(raw: Config, key: str, value: object) -> None:
    """Require a field to say what the mathematics is; one that is absent says nothing else.

    Raises:
        Unsupported: when it says something else.
    """
    if key in raw and raw[key] != value:
        raise Unsupported(
            f"the checkpoint computes otherwise: {key}",
            code="config",
            where=("config", key),
            expected=str(value),
            found=quoted(str(raw[key])),
        )
