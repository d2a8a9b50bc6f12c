"""The Qwen3.5 text models, dense and with experts, and the one-layer predictor that goes with them.

Owns what their config must say, and the parameters that follow from it: names, shapes, places of
use and the tensors of a checkpoint. Gated attention and gated delta networks alternate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tensorark.formats.ninfer.architecture.fields import Fields, Problem
from tensorark.formats.ninfer.architecture.parameter import Parameter, Source, cut, plain

DENSE: Final = "Qwen3_5ForCausalLM"
MOE: Final = "Qwen3_5MoeForCausalLM"
ARCHITECTURES: Final[Mapping[str, str]] = MappingProxyType(
    {DENSE: "qwen3_5_text", MOE: "qwen3_5_moe_text"}
)
"""The `model_type` that goes with each architecture."""
MTP: Final[Mapping[str, str]] = MappingProxyType({DENSE: "Qwen3_5MTP", MOE: "Qwen3_5MoeMTP"})
"""The architecture of the predictor of each text model."""

ATTENTION: Final = "full_attention"
LINEAR: Final = "linear_attention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The geometry of a text model: sizes in elements, 0 where a kind of layer is absent."""

    architecture: str
    hidden: int
    vocabulary: int
    layers: tuple[str, ...]
    tied: bool
    heads: int = 0
    kv_heads: int = 0
    head_width: int = 0
    key_heads: int = 0
    key_width: int = 0
    value_heads: int = 0
    value_width: int = 0
    taps: int = 0
    intermediate: int = 0
    experts: int = 0
    expert_width: int = 0
    shared_width: int = 0


SIZES: Final = ("hidden_size", "vocab_size", "num_hidden_layers", "max_position_embeddings")
ATTENTION_SIZES: Final = ("num_attention_heads", "num_key_value_heads", "head_dim")
LINEAR_SIZES: Final = (
    "linear_num_key_heads",
    "linear_key_head_dim",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)
EXPERT_SIZES: Final = (
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
)


def problems(config: Mapping[str, Any], *, predicted: bool) -> Iterator[Problem]:
    """Yield what is wrong with the config of a text model; `predicted` when MTP goes with it."""
    fields = Fields(config)
    architecture = fields.architecture()
    if architecture not in ARCHITECTURES:
        yield Problem(("architectures",), "an unknown architecture", " or ".join(ARCHITECTURES))
        return
    yield from fields.exactly("model_type", ARCHITECTURES[architecture])
    needed = [*SIZES]
    layers = config.get("layer_types")
    if (isinstance(layers, list) and ATTENTION in layers) or predicted:
        needed += ATTENTION_SIZES
    if isinstance(layers, list) and LINEAR in layers:
        needed += LINEAR_SIZES
    needed += EXPERT_SIZES if architecture == MOE else ["intermediate_size"]
    for key in needed:
        yield from fields.positive(key)
    yield from fields.real("rms_norm_eps")
    if type(config.get("tie_word_embeddings")) is not bool:
        yield Problem(("tie_word_embeddings",), "not a truth value", "true or false")
    yield from _layer_problems(fields)
    if ATTENTION_SIZES[0] in needed:
        yield from fields.multiple("num_attention_heads", "num_key_value_heads")
        yield from _rope_problems(fields)
    if LINEAR_SIZES[0] in needed:
        yield from fields.multiple("linear_num_value_heads", "linear_num_key_heads")
    if architecture == MOE and fields.number("num_experts_per_tok") > fields.number("num_experts"):
        yield Problem(
            ("num_experts_per_tok",), "more experts than there are", "at most num_experts"
        )


def _layer_problems(fields: Fields) -> Iterator[Problem]:
    layers = fields.config.get("layer_types")
    expected = f"{ATTENTION} or {LINEAR} for each of num_hidden_layers"
    if not isinstance(layers, list) or not {ATTENTION, LINEAR}.issuperset(
        each if isinstance(each, str) else "" for each in layers
    ):
        yield Problem(("layer_types",), "not a list of layer types", expected)
    elif len(layers) != fields.number("num_hidden_layers"):
        yield Problem(("layer_types",), f"{len(layers)} layer types", expected)


def _rope_problems(fields: Fields) -> Iterator[Problem]:
    rope = fields.config.get("rope_parameters")
    if not isinstance(rope, dict):
        yield Problem(("rope_parameters",), "missing", "an object")
        return
    inner = Fields(rope, ("rope_parameters",))
    yield from inner.real("rope_theta")
    factor = inner.value("partial_rotary_factor")
    sections = rope.get("mrope_section")
    if not isinstance(sections, list) or len(sections) != 3 or not all(map(_natural, sections)):
        place = ("rope_parameters", "mrope_section")
        yield Problem(place, "not three sections", "three integers")
        return
    rotary = int(fields.number("head_dim") * factor)
    if not 0 < factor <= 1 or rotary % 2 or sum(sections) * 2 != rotary:
        detail = "sections and partial_rotary_factor disagree"
        place = ("rope_parameters", "mrope_section")
        yield Problem(place, detail, f"sections of {rotary // 2} pairs together")


def _natural(value: object) -> bool:
    return type(value) is int and value >= 0


def build(config: Mapping[str, Any]) -> Text:
    """Return the geometry that a config without problems states."""
    number = Fields(config).number
    architecture = Fields(config).architecture()
    return Text(
        architecture=architecture,
        hidden=number("hidden_size"),
        vocabulary=number("vocab_size"),
        layers=tuple(config["layer_types"]),
        tied=config["tie_word_embeddings"],
        heads=number("num_attention_heads"),
        kv_heads=number("num_key_value_heads"),
        head_width=number("head_dim"),
        key_heads=number("linear_num_key_heads"),
        key_width=number("linear_key_head_dim"),
        value_heads=number("linear_num_value_heads"),
        value_width=number("linear_value_head_dim"),
        taps=number("linear_conv_kernel_dim"),
        intermediate=number("intermediate_size"),
        experts=number("num_experts") if architecture == MOE else 0,
        expert_width=number("moe_intermediate_size"),
        shared_width=number("shared_expert_intermediate_size"),
    )


# --------------------------------------------------------------------------------------- parameters


def parameters(text: Text, *heads: str, root: str = "model.") -> Iterator[Parameter]:
    """Yield the parameters of a text model.

    `heads` are the components beside `text` whose hidden states go through its output head; `root`
    stands before the names in a checkpoint.
    """
    table = (text.vocabulary, text.hidden)
    embedding = root + "embed_tokens.weight"
    yield plain("text/token_embedding", table, embedding)
    head = embedding if text.tied else "lm_head.weight"
    inputs = tuple(f"{each}/final_hidden" for each in ("text", *heads))
    yield plain("text/output_head", table, head, *inputs)
    yield plain("text/final_norm", (text.hidden,), root + "norm.weight")
    for index, kind in enumerate(text.layers):
        yield from _block(text, f"text/layers/{index}/", f"{root}layers.{index}.", kind)


def predictor(text: Text) -> Iterator[Parameter]:
    """Yield the parameters of the one-layer predictor (component `mtp`) of a text model."""
    hidden = (text.hidden,)
    stem = (text.hidden, 2 * text.hidden)
    yield plain("mtp/input_projection", stem, "mtp.fc.weight", "mtp/stem_input")
    yield plain("mtp/embedding_norm", hidden, "mtp.pre_fc_norm_embedding.weight")
    yield plain("mtp/hidden_norm", hidden, "mtp.pre_fc_norm_hidden.weight")
    yield plain("mtp/final_norm", hidden, "mtp.norm.weight")
    yield from _block(text, "mtp/layers/0/", "mtp.layers.0.", ATTENTION)


def _block(text: Text, prefix: str, source: str, kind: str) -> Iterator[Parameter]:
    hidden = (text.hidden,)
    yield plain(prefix + "input_norm", hidden, source + "input_layernorm.weight")
    if kind == ATTENTION:
        yield from _attention(text, prefix, source + "self_attn.")
    else:
        yield from _delta_network(text, prefix, source + "linear_attn.")
    norm = source + "post_attention_layernorm.weight"
    yield plain(prefix + "post_attention_norm", hidden, norm)
    if text.experts:
        yield from _experts(text, prefix, source + "mlp.")
    else:
        yield from dense(prefix, source + "mlp.", text.hidden, text.intermediate)


def _attention(text: Text, prefix: str, source: str) -> Iterator[Parameter]:
    width, hidden = text.head_width, text.hidden
    queries, keys = text.heads * width, text.kv_heads * width
    mixed = prefix + "mixer_input"
    # The rows of q_proj are, head by head, those of the query and then those of its gate.
    both = (source + "q_proj.weight", (2 * queries, hidden))
    for role, half in (("query", 0), ("gate", 1)):
        starts = ((2 * head + half) * width for head in range(text.heads))
        rows = tuple((start, start + width) for start in starts)
        yield cut(f"{prefix}attention/{role}", (queries, hidden), both, rows, mixed)
    for role, tensor in (("key", "k_proj"), ("value", "v_proj")):
        name = f"{prefix}attention/{role}"
        yield plain(name, (keys, hidden), f"{source}{tensor}.weight", mixed)
    for role, tensor in (("query_norm", "q_norm"), ("key_norm", "k_norm")):
        yield plain(f"{prefix}attention/{role}", (width,), f"{source}{tensor}.weight")
    output = (hidden, queries)
    gated = prefix + "attention/gated_output"
    yield plain(prefix + "attention/output", output, source + "o_proj.weight", gated)


def _delta_network(text: Text, prefix: str, source: str) -> Iterator[Parameter]:
    hidden, mixed = text.hidden, prefix + "mixer_input"
    prefix += "gdn/"
    keys, values = text.key_heads * text.key_width, text.value_heads * text.value_width
    channels = 2 * keys + values
    heads = (text.value_heads,)
    yield plain(prefix + "a_log", heads, source + "A_log", words="fp32")
    yield plain(prefix + "dt_bias", heads, source + "dt_bias", words="fp32")
    convolution = Source(
        tensor=source + "conv1d.weight", shape=(channels, 1, text.taps), axes=(2, 0, 1)
    )
    yield Parameter(name=prefix + "convolution", shape=(text.taps, channels), source=convolution)
    for role in ("a", "b"):
        name, tensor = f"{prefix}{role}_projection", f"{source}in_proj_{role}.weight"
        yield plain(name, (text.value_heads, hidden), tensor, mixed)
    joint = (source + "in_proj_qkv.weight", (channels, hidden))
    bounds = {"query": (0, keys), "key": (keys, 2 * keys), "value": (2 * keys, channels)}
    for role, (start, stop) in bounds.items():
        yield cut(prefix + role, (stop - start, hidden), joint, ((start, stop),), mixed)
    yield plain(prefix + "z", (values, hidden), source + "in_proj_z.weight", mixed)
    yield plain(prefix + "norm", (text.value_width,), source + "norm.weight")
    gated = prefix + "gated_output"
    yield plain(prefix + "output", (hidden, values), source + "out_proj.weight", gated)


def dense(
    prefix: str,
    source: str,
    hidden: int,
    intermediate: int,
    places: tuple[str, str] = ("ffn_input", "mlp/product"),
) -> Iterator[Parameter]:
    """Yield the parameters of a gated feed-forward block; `places` are its two inputs."""
    for role in ("gate", "up"):
        tensor = f"{source}{role}_proj.weight"
        yield plain(f"{prefix}mlp/{role}", (intermediate, hidden), tensor, prefix + places[0])
    product = prefix + places[1]
    yield plain(prefix + "mlp/down", (hidden, intermediate), source + "down_proj.weight", product)


def _experts(text: Text, prefix: str, source: str) -> Iterator[Parameter]:
    hidden, width, given = text.hidden, text.expert_width, prefix + "ffn_input"
    prefix += "moe/"
    yield plain(prefix + "router", (text.experts, hidden), source + "gate.weight", given)
    score = source + "shared_expert_gate.weight"
    yield plain(prefix + "shared_score", (1, hidden), score, given)
    both = (source + "experts.gate_up_proj", (text.experts, 2 * width, hidden))
    downs = (source + "experts.down_proj", (text.experts, hidden, width))
    for expert in range(text.experts):
        at, own = f"{prefix}experts/{expert}/", f"{source}experts.{expert}."
        for half, role in enumerate(("gate", "up")):
            start = (2 * expert + half) * width
            rows, alone = ((start, start + width),), f"{own}{role}_proj.weight"
            yield cut(at + role, (width, hidden), both, rows, given, alone=alone)
        rows = ((expert * hidden, (expert + 1) * hidden),)
        alone = own + "down_proj.weight"
        yield cut(at + "down", (hidden, width), downs, rows, at + "product", alone=alone)
    shared = source + "shared_expert."
    for role in ("gate", "up"):
        tensor = f"{shared}{role}_proj.weight"
        yield plain(f"{prefix}shared/{role}", (text.shared_width, hidden), tensor, given)
    down, product = shared + "down_proj.weight", prefix + "shared/product"
    yield plain(prefix + "shared/down", (hidden, text.shared_width), down, product)
