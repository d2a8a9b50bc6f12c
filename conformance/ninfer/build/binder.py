"""Files of `reject/` that any reader opens and decodes, and that are not what they call themselves.

An architecture defines the parameters of its components; here a small Qwen3.5 text model lacks
something of it. A table of n-grams has a digest and a profile, which are found by verifying.
"""

from __future__ import annotations

import hashlib
import struct

from .image import Json, directory, entry, resource, tensor, up

_H, _D, _VOCAB, _WIDE = 8, 8, 4, 6
_CONFIG: Json = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "hidden_size": _H,
    "vocab_size": _VOCAB,
    "num_hidden_layers": 1,
    "max_position_embeddings": 16,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-06,
    "layer_types": ["full_attention"],
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": _D,
    "rope_parameters": {
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [1, 0, 0],
    },
    "intermediate_size": _WIDE,
}

_BLOCK = (
    ("input_norm", [_H], None),
    ("post_attention_norm", [_H], None),
    ("attention/query", [_D, _H], "mixer_input"),
    ("attention/key", [_D, _H], "mixer_input"),
    ("attention/gate", [_D, _H], "mixer_input"),
    ("attention/value", [_D, _H], "mixer_input"),
    ("attention/query_norm", [_D], None),
    ("attention/key_norm", [_D], None),
    ("attention/output", [_H, _D], "attention/gated_output"),
    ("mlp/gate", [_WIDE, _H], "ffn_input"),
    ("mlp/up", [_WIDE, _H], "ffn_input"),
    ("mlp/down", [_H, _WIDE], "mlp/product"),
)

_SIZES = {"bf16": 2, "fp32": 4, "int32": 4}


class _Model:
    """A text model, each parameter an object of its own and of its own name."""

    def __init__(self) -> None:
        self.components: Json = {"text": {"config": dict(_CONFIG)}}
        self.objects: list[Json] = []
        self.bindings: Json = {}
        self.uses: list[Json] = []
        self.end = 0
        self.bind("text/token_embedding", [_VOCAB, _H])
        self.bind("text/output_head", [_VOCAB, _H])
        self.use("text/output_head", "text/final_hidden")
        self.bind("text/final_norm", [_H])
        self.block("text/layers/0/")

    def block(self, at: str) -> None:
        for name, shape, given in _BLOCK:
            self.bind(at + name, shape)
            if given:
                self.use(at + name, at + given)

    def store(self, name: str, shape: list[int], format_: str = "bf16") -> None:
        size = _SIZES[format_]
        for extent in shape:
            size *= extent
        start = up(self.end, 256)
        self.objects.append(tensor(name, shape, format_, "contiguous_le_v1", start, size))
        self.end = start + size

    def bind(self, name: str, shape: list[int], format_: str = "bf16") -> None:
        self.store(name, shape, format_)
        self.bindings[name] = {"object": name}

    def use(self, parameter: str, given: str) -> None:
        use: Json = {"parameter": parameter, "input": given, "activation_policy": "A16Only"}
        self.uses.append(use)

    def predict(self) -> None:
        """Add the one-layer predictor."""
        self.components["mtp"] = {"config": {"architectures": ["Qwen3_5MTP"]}, "target": "text"}
        self.bind("mtp/input_projection", [_H, 2 * _H])
        self.use("mtp/input_projection", "mtp/stem_input")
        for role in ("embedding_norm", "hidden_norm", "final_norm"):
            self.bind("mtp/" + role, [_H])
        self.block("mtp/layers/0/")
        self.use("text/output_head", "mtp/final_hidden")

    def file(self) -> bytes:
        members = {
            "components": self.components,
            "bindings": self.bindings,
            "uses": self.uses,
        }
        return entry(directory(self.objects, self.end, **members), bytes(self.end))


def arch_component() -> bytes:
    """There is a component that nobody defined."""
    model = _Model()
    model.components["audio"] = {"config": {}, "target": "text"}
    return model.file()


def arch_component__no_text() -> bytes:
    """A vision tower stands alone, and is its own target."""
    model = _Model()
    model.components = {"vision": {"config": {}, "target": "vision"}}
    return model.file()


def arch_target() -> bytes:
    """The predictor has no target."""
    model = _Model()
    model.predict()
    model.components["mtp"] = {"config": {"architectures": ["Qwen3_5MTP"]}}
    return model.file()


def arch_config() -> bytes:
    """The head width is no number."""
    model = _Model()
    model.components["text"] = {"config": {**_CONFIG, "head_dim": "8"}}
    return model.file()


def arch_config__rope() -> bytes:
    """The sections of the rotation have more pairs than rotate."""
    model = _Model()
    rope = {"rope_theta": 1, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0]}
    model.components["text"] = {"config": {**_CONFIG, "rope_parameters": rope}}
    return model.file()


def arch_config__predictor() -> bytes:
    """The predictor is one for models with experts."""
    model = _Model()
    model.predict()
    config = {"architectures": ["Qwen3_5MoeMTP"]}
    model.components["mtp"] = {"config": config, "target": "text"}
    return model.file()


def arch_parameter() -> bytes:
    """The norm of keys is not bound."""
    model = _Model()
    del model.bindings["text/layers/0/attention/key_norm"]
    return model.file()


def arch_name() -> bytes:
    """A parameter of a second layer is bound, and there is one layer."""
    model = _Model()
    model.bind("text/layers/1/input_norm", [_H])
    return model.file()


def arch_shape() -> bytes:
    """The matrix of values is stored with its axes exchanged, and bound as a whole."""
    model = _Model()
    record = next(each for each in model.objects if each["id"] == "text/layers/0/mlp/down")
    record["shape"] = [_WIDE, _H]
    return model.file()


def arch_coverage() -> bytes:
    """The parts of the final norm have one element too few."""
    model = _Model()
    part = {"object": "text/final_norm", "range": [0, _H - 1]}
    model.bindings["text/final_norm"] = {"parts": [part]}
    return model.file()


def arch_words() -> bytes:
    """The token ids of a proposal head are stored as fp32."""
    model = _Model()
    proposal = {"domain": "indexed", "rows": 2}
    model.components["text"] = {"config": dict(_CONFIG), "proposal": proposal}
    model.bind("proposal/head", [2, _H])
    model.bind("proposal/token_ids", [2], "fp32")
    return model.file()


def arch_parent() -> bytes:
    """The final norms of model and predictor are halves of one object."""
    model = _Model()
    model.predict()
    model.store("norms", [2 * _H])
    for index, name in enumerate(("text/final_norm", "mtp/final_norm")):
        part = {"object": "norms", "range": [index * _H, (index + 1) * _H]}
        model.bindings[name] = {"parts": [part]}
    return model.file()


def arch_use() -> bytes:
    """The output head has no use."""
    model = _Model()
    del model.uses[0]
    return model.file()


def arch_input() -> bytes:
    """A matrix has a use at the input of another one as well."""
    model = _Model()
    model.use("text/layers/0/mlp/down", "text/layers/0/ffn_input")
    return model.file()


def arch_policy() -> bytes:
    """The use of the output head has no policy."""
    model = _Model()
    del model.uses[0]["activation_policy"]
    return model.file()


def arch_auxiliary() -> bytes:
    """A use has an auxiliary input of a role that nobody defined."""
    model = _Model()
    model.store("t", [1], "fp32")
    model.uses[0]["auxiliaries"] = {"temperature": {"object": "t"}}
    return model.file()


# ---------------------------------------------------------------------------------------- n-grams

_TABLE = bytes(range(48))
_NGRAM: Json = {
    "rows": 6,
    "row_width": 4,
    "multipliers": [3, 5],
    "head_vocab": [6],
    "head_offset": [0],
    "ngram_size": 2,
    "heads_per_ngram": 1,
    "format": "bf16",
    "table_sha256": hashlib.sha256(_TABLE).hexdigest(),
}


def _mark() -> int:
    """Return the FNV-1a hash that ties a profile to the config above."""
    state = 0xCBF29CE484222325
    for octet in struct.pack("<10Q", 2, 1, 2, 3, 5, 1, 6, 1, 0, 6):
        state = (state ^ octet) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return state


def _profile(rows: int, mark: int, *ids: int) -> bytes:
    head = b"NFNGHOT1" + struct.pack("<4Q", rows, mark, 99, len(ids))
    return head + struct.pack(f"<{len(ids)}I", *ids)


def _ngram(profile: bytes, table: bytes = _TABLE) -> bytes:
    start = up(len(profile), 256)
    records = [
        resource("hot", 0, len(profile)),
        tensor("table", [6, 4], "bf16", "contiguous_le_v1", start, 48),
    ]
    component = {"config": _NGRAM, "resources": {"hot_profile": "hot"}}
    found = directory(
        records,
        start + 48,
        components={"ngram": component},
        bindings={"ngram/table": {"object": "table"}},
    )
    return entry(found, profile.ljust(start, b"\0") + table)


def ngram_digest() -> bytes:
    """One bit of an n-gram table differs from what its config digests."""
    return _ngram(_profile(6, _mark(), 2, 0), b"\x01" + _TABLE[1:])


def hot_profile_frame() -> bytes:
    """A profile lacks its last row."""
    return _ngram(_profile(6, _mark(), 2, 0)[:-4])


def hot_profile_frame__magic() -> bytes:
    """A profile is of another version."""
    return _ngram(_profile(6, _mark(), 2, 0).replace(b"HOT1", b"HOT2"))


def hot_profile_table() -> bytes:
    """A profile has the fingerprint of another table."""
    return _ngram(_profile(6, _mark() ^ 1, 2, 0))


def hot_profile_table__rows() -> bytes:
    """A profile is for a table of seven rows."""
    return _ngram(_profile(7, _mark(), 2, 0))


def hot_profile_rows() -> bytes:
    """A profile names a row twice."""
    return _ngram(_profile(6, _mark(), 2, 0, 2))


def hot_profile_rows__past() -> bytes:
    """A profile names a row past the table."""
    return _ngram(_profile(6, _mark(), 6))
