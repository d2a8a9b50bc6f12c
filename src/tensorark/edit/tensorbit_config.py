"""What a Tensorbit model says of itself: its config, in our words or those of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorark.errors import InvalidInput
from tensorark.layouts.nm.rules import KEY, members

_HUGGING_FACE: Final = {
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "num_hidden_layers": "num_layers",
    "max_position_embeddings": "max_seq_len",
    "layer_norm_epsilon": "norm_eps",
    "layer_norm_eps": "norm_eps",
    "rms_norm_eps": "norm_eps",
    "rope_theta": "rope_theta",
    "head_dim": "head_dim",
}


def config_of(value: object) -> dict[str, object]:
    """Return a `config` for an index: `value` itself, or what it says in Hugging Face's words.

    Raises:
        InvalidInput: when it is no object.
    """
    if not isinstance(value, dict):
        raise InvalidInput("a configuration is an object", code="config")
    if not _is_foreign(value):
        return value
    rope = value.get("rope_parameters")
    flat = {**(rope if isinstance(rope, dict) else {}), **value}
    found = {ours: flat[theirs] for theirs, ours in _HUGGING_FACE.items() if theirs in flat}
    found.setdefault("num_kv_heads", found.get("num_heads"))
    return {key: each for key, each in found.items() if each is not None}


def _is_foreign(config: Mapping[str, object]) -> bool:
    return "num_hidden_layers" in config or "num_attention_heads" in config


def list_untranslated(config: Mapping[str, object]) -> list[str]:
    """Return the members of Hugging Face's `config` for which an index has no word."""
    if not _is_foreign(config):
        return []
    held = {"rope_type": "default", "type": "default"}
    rope = config.get("rope_parameters")
    parts = rope.items() if isinstance(rope, dict) else ()
    rest = [f"rope_parameters.{k}" for k, v in parts if k != "rope_theta" and held.get(k) != v]
    plain = rope is None or isinstance(rope, dict)
    known = {*_HUGGING_FACE, *(("rope_parameters",) if plain else ())}
    return [k for k, v in config.items() if v is not None and k not in known] + rest


def without_order(attributes: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return attributes of a model without the order of tensors that it had."""
    if attributes is None:
        return None
    facts = {key: value for key, value in members(attributes).items() if key != "order"}
    rest = {key: value for key, value in attributes.items() if key != KEY}
    return {**rest, **({KEY: facts} if facts else {})} or None
