"""The draft models DFlash and DFlash2 (components `dflash`, `dflash2`), which read a text model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tensorark.formats.ninfer.architecture.fields import Fields, Problem
from tensorark.formats.ninfer.architecture.parameter import Parameter, plain
from tensorark.formats.ninfer.architecture.text import ATTENTION, ATTENTION_SIZES, Text, dense

ARCHITECTURES: Final[Mapping[str, str]] = MappingProxyType(
    {"dflash": "DFlashDraftModel", "dflash2": "DFlash2DraftModel"}
)
"""The architecture of each component."""

MODEL_TYPE: Final = "qwen3"

SIZES: Final = (
    "intermediate_size",
    *ATTENTION_SIZES,
    "num_hidden_layers",
    "max_position_embeddings",
)
SECOND_SIZES: Final = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
SLIDING: Final = "sliding_attention"
_LAYERS: Final = frozenset({SLIDING, ATTENTION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The geometry of a draft model; the last three are 0 for DFlash."""

    component: str
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    intermediate: int
    taps: int
    kernel: int = 0
    kernel_group: int = 0
    rank: int = 0


def problems(component: str, config: Mapping[str, Any], text: Text) -> Iterator[Problem]:
    """Yield what is wrong with the config of a draft model for `text`."""
    fields = Fields(config)
    if fields.architecture() != ARCHITECTURES[component]:
        detail = "not the architecture of the component"
        yield Problem(("architectures",), detail, ARCHITECTURES[component])
    yield from fields.exactly("model_type", MODEL_TYPE)
    for key in SIZES:
        yield from fields.positive(key)
    yield from fields.multiple("num_attention_heads", "num_key_value_heads")
    yield from fields.real("rms_norm_eps")
    rope = config.get("rope_parameters")
    inner = Fields(rope if isinstance(rope, dict) else {}, ("rope_parameters",))
    yield from inner.real("rope_theta")
    layers = config.get("layer_types")
    count = fields.number("num_hidden_layers")
    if (
        not isinstance(layers, list)
        or len(layers) != count
        or not _LAYERS.issuperset(each if isinstance(each, str) else "" for each in layers)
    ):
        expected = " or ".join(sorted(_LAYERS)) + " for each layer"
        yield Problem(("layer_types",), "not a list of layer types", expected)
    elif SLIDING in layers:
        yield from fields.positive("sliding_window")
    yield from _own_problems(component, config, text)


def _own_problems(component: str, config: Mapping[str, Any], text: Text) -> Iterator[Problem]:
    found = config.get("dflash_config")
    own = found if isinstance(found, dict) else {}
    place = ("dflash_config",)
    taps = own.get("target_layer_ids")
    if not _layer_ids(taps, len(text.layers)):
        expected = f"different layers below {len(text.layers)}"
        yield Problem((*place, "target_layer_ids"), "not layers of the text model", expected)
    mask = own.get("mask_token_id")
    if type(mask) is not int or not 0 <= mask < text.vocabulary:
        detail, expected = "not a token", f"an integer below {text.vocabulary}"
        yield Problem((*place, "mask_token_id"), detail, expected)
    if component == "dflash2":
        inner = Fields(own, place)
        for key in SECOND_SIZES:
            yield from inner.positive(key)
        if inner.number("conv_group_size") and text.hidden % inner.number("conv_group_size"):
            detail = "does not divide the hidden width"
            yield Problem((*place, "conv_group_size"), detail, f"a divisor of {text.hidden}")


def _layer_ids(found: object, layers: int) -> bool:
    if not isinstance(found, list) or not found:
        return False
    if not all(type(each) is int and 0 <= each < layers for each in found):
        return False
    return len(set(found)) == len(found)


def build(component: str, config: Mapping[str, Any]) -> Draft:
    """Return the geometry that a config without problems states."""
    number, own = Fields(config).number, Fields(config["dflash_config"])
    second = component == "dflash2"
    return Draft(
        component=component,
        layers=number("num_hidden_layers"),
        heads=number("num_attention_heads"),
        kv_heads=number("num_key_value_heads"),
        head_width=number("head_dim"),
        intermediate=number("intermediate_size"),
        taps=len(config["dflash_config"]["target_layer_ids"]),
        kernel=own.number("conv_kernel_size") if second else 0,
        kernel_group=own.number("conv_group_size") if second else 0,
        rank=own.number("selector_rank") if second else 0,
    )


def parameters(draft: Draft, text: Text) -> Iterator[Parameter]:
    """Yield the parameters of a draft model for `text`; their sources are its own checkpoint."""
    at, hidden = draft.component, text.hidden
    features, given = (hidden, draft.taps * hidden), at + "/target_features"
    yield plain(at + "/feature_projection", features, "fc.weight", given)
    yield plain(at + "/context_norm", (hidden,), "hidden_norm.weight")
    yield plain(at + "/final_norm", (hidden,), "norm.weight")
    for index in range(draft.layers):
        yield from _layer(draft, hidden, f"{at}/layers/{index}/", f"layers.{index}.")
    if draft.rank:
        selector, source = at + "/candidate_selector/", "candidate_selector."
        projection, shape = source + "hidden_projection.weight", (draft.rank, hidden)
        yield plain(selector + "hidden_projection", shape, projection, at + "/final_hidden")
        book = (text.vocabulary, draft.rank)
        for role in ("predecessor_codebook", "successor_codebook"):
            yield plain(selector + role, book, source + role)


def _layer(draft: Draft, hidden: int, prefix: str, source: str) -> Iterator[Parameter]:
    width = draft.head_width
    queries, keys = (draft.heads * width, hidden), (draft.kv_heads * width, hidden)
    yield plain(prefix + "input_norm", (hidden,), source + "input_layernorm.weight")
    norm = source + "post_attention_layernorm.weight"
    yield plain(prefix + "post_attention_norm", (hidden,), norm)
    given, attention = prefix + "query_projection_input", source + "self_attn."
    for role, shape in (("query", queries), ("key", keys), ("value", keys)):
        tensor = f"{attention}{role[0]}_proj.weight"
        yield plain(f"{prefix}attention/{role}", shape, tensor, given)
        if role != "query":
            context = draft.component + "/context_input"
            yield plain(f"{prefix}attention/context_{role}", shape, tensor, context)
    for role in ("query", "key"):
        tensor = f"{attention}{role[0]}_norm.weight"
        yield plain(f"{prefix}attention/{role}_norm", (width,), tensor)
    output, result = (hidden, draft.heads * width), prefix + "attention_output"
    yield plain(prefix + "attention/output", output, attention + "o_proj.weight", result)
    places = ("mlp_input", "mlp_product")
    yield from dense(prefix, source + "mlp.", hidden, draft.intermediate, places)
    if draft.kernel:
        yield from _convolutions(draft, hidden, prefix, source)


def _convolutions(draft: Draft, hidden: int, prefix: str, source: str) -> Iterator[Parameter]:
    groups = hidden // draft.kernel_group
    for branch in ("attention_conv", "mlp_conv"):
        kernel = (2, draft.kernel, hidden)
        yield plain(f"{prefix}{branch}/base_kernel", kernel, f"{source}{branch}.base_kernel")
        projection = (2 * draft.kernel * groups, hidden)
        tensor = f"{source}{branch}.kernel_projection.weight"
        given = f"{prefix}{branch}_input"
        yield plain(f"{prefix}{branch}/kernel_projection", projection, tensor, given)
