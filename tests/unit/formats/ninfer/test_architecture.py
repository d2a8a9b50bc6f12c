"""The binder level: what each component calls for, and every way an artifact can miss it."""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorark
from tensorark.core.rules import Reading
from tensorark.errors import InvalidInput, LimitExceeded, Unsupported
from tensorark.formats.ninfer import architecture
from tensorark.formats.ninfer.architecture import fingerprint, parse_profile
from tensorark.formats.ninfer.frame import Frame
from tensorark.formats.ninfer.read import judge_directory
from tensorark.integrity.verify import verify
from tests.unit.layouts.test_ninfer import VECTORS

PAGE = 4096

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False,
    "layer_types": ["linear_attention", "full_attention"],
    "rope_parameters": {
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [2, 1, 1],
    },
    "linear_num_key_heads": 1,
    "linear_key_head_dim": 16,
    "linear_num_value_heads": 2,
    "linear_value_head_dim": 24,
    "linear_conv_kernel_dim": 4,
}

# Names, shapes and uses of the text model above, written out: kg 16, vg 48, Q 64, Kv 32.
MIXER, FFN = "mixer_input", "ffn_input"
TEXT: dict[str, tuple[list[int], str | None]] = {
    "text/token_embedding": ([100, 64], None),
    "text/output_head": ([100, 64], "text/final_hidden"),
    "text/final_norm": ([64], None),
    **{
        f"text/layers/{layer}/{name}": (shape, f"text/layers/{layer}/{use}" if use else None)
        for layer in (0, 1)
        for name, shape, use in (
            ("input_norm", [64], None),
            ("post_attention_norm", [64], None),
            ("mlp/gate", [128, 64], FFN),
            ("mlp/up", [128, 64], FFN),
            ("mlp/down", [64, 128], "mlp/product"),
        )
    },
    **{
        f"text/layers/0/gdn/{name}": (shape, f"text/layers/0/{use}" if use else None)
        for name, shape, use in (
            ("a_log", [2], None),
            ("dt_bias", [2], None),
            ("convolution", [4, 80], None),
            ("a_projection", [2, 64], MIXER),
            ("b_projection", [2, 64], MIXER),
            ("query", [16, 64], MIXER),
            ("key", [16, 64], MIXER),
            ("value", [48, 64], MIXER),
            ("z", [48, 64], MIXER),
            ("norm", [24], None),
            ("output", [64, 48], "gdn/gated_output"),
        )
    },
    **{
        f"text/layers/1/attention/{name}": (shape, f"text/layers/1/{use}" if use else None)
        for name, shape, use in (
            ("query", [64, 64], MIXER),
            ("gate", [64, 64], MIXER),
            ("key", [32, 64], MIXER),
            ("value", [32, 64], MIXER),
            ("query_norm", [32], None),
            ("key_norm", [32], None),
            ("output", [64, 64], "attention/gated_output"),
        )
    },
}


def size_of(shape: list[int], width: int) -> int:
    for each in shape:
        width *= each
    return width


class Artifact:
    """A directory that is made object by object, every parameter a whole object of its own."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {"text": {"config": copy.deepcopy(CONFIG)}}
        self.objects: list[dict[str, Any]] = []
        self.bindings: dict[str, Any] = {}
        self.uses: list[dict[str, Any]] = []
        self.end = 0

    def add(self, name: str, shape: list[int], use: str | None = None, format_: str = "bf16"):
        if name.endswith(("a_log", "dt_bias")):
            format_ = "fp32"
        self.tensor(name, shape, format_)
        self.bindings[name] = {"object": name}
        if use:
            self.use(name, use)

    def tensor(self, name: str, shape: list[int], format_: str = "bf16") -> None:
        offset = -(-self.end // 256) * 256
        nbytes = size_of(shape, 2 if format_ == "bf16" else 4)
        self.objects.append(
            {
                "id": name,
                "kind": "tensor",
                "shape": shape,
                "format": format_,
                "layout": "contiguous_le_v1",
                "offset": offset,
                "bytes": nbytes,
            }
        )
        self.end = offset + nbytes

    def resource(self, name: str, nbytes: int) -> None:
        record = {"id": name, "kind": "resource", "encoding": "raw_bytes_v1"}
        self.objects.append(record | {"offset": self.end, "bytes": nbytes})
        self.end += nbytes

    def use(self, parameter: str, given: str, **members: Any) -> None:
        use = {"parameter": parameter, "input": given, "activation_policy": "A16Only"}
        self.uses.append(use | members)

    def text(self) -> bytes:
        root = {
            "components": self.components,
            "objects": self.objects,
            "bindings": self.bindings,
            "uses": self.uses,
            "files": [{"path": None, "payload_bytes": max(self.end, 1)}],
        }
        return json.dumps(root).encode()

    def check(self) -> list[tuple[str, str]]:
        text = self.text()
        frame = Frame(size=0, json_bytes=len(text), artifact_id=bytes(16))
        directory = judge_directory(text, frame, Reading(), sized=False)
        return [(each.rule, each.detail) for each in architecture.check(directory)]

    def write(self, path: Path, payload: dict[str, bytes]) -> Path:
        text = self.text().ljust(PAGE * 8 - 32)
        data = bytearray(self.end)
        for each in self.objects:
            if each["id"] in payload:
                piece = payload[each["id"]]
                data[each["offset"] : each["offset"] + len(piece)] = piece
        head = b"NINFER\0\3" + struct.pack("<Q", len(text)) + bytes(16)
        path.write_bytes(head + text + data)
        return path


def dense() -> Artifact:
    made = Artifact()
    for name, (shape, use) in TEXT.items():
        made.add(name, shape, use)
    return made


def test_a_text_model_with_everything_it_calls_for_is_in_order():
    assert dense().check() == []


@pytest.mark.parametrize("name", ["mini_text", "mini_mixed_sharded"])
def test_published_artifacts_are_in_order(name):
    if not VECTORS.exists():
        return
    with tensorark.open(VECTORS / "files" / f"{name}.ninfer") as file:
        assert architecture.check(file.catalog.native) == []


@pytest.mark.parametrize("name", TEXT)
def test_a_parameter_that_is_not_bound_is_missed(name):
    made = dense()
    del made.bindings[name]
    made.uses = [each for each in made.uses if each["parameter"] != name]
    found = made.check()
    assert found[0] == ("ninfer.arch-parameter", f'"{name}" is not bound')
    assert {rule for rule, _ in found} <= {"ninfer.arch-parameter", "ninfer.arch-use"}


@pytest.mark.parametrize("name", TEXT)
def test_a_parameter_of_another_shape_is_found(name):
    made = dense()
    record = next(each for each in made.objects if each["id"] == name)
    record["shape"] = [1, *record["shape"]]
    ((rule, detail),) = made.check()
    assert rule == "ninfer.arch-shape"
    assert f'than "{name}"' in detail


def test_parts_must_cover_a_parameter_and_may_reshape_it():
    made = dense()
    name = "text/layers/0/mlp/down"
    made.bindings[name] = {
        "parts": [{"object": name, "range": [64, 8192]}, {"object": name, "range": [0, 64]}]
    }
    assert made.check() == []
    made.bindings[name]["parts"][1]["range"] = [0, 63]
    ((rule, detail),) = made.check()
    assert (rule, name in detail) == ("ninfer.arch-coverage", True)


def test_words_of_another_format_are_found():
    made = dense()
    record = next(each for each in made.objects if each["id"].endswith("a_log"))
    record["format"], record["bytes"] = "bf16", 4
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-words"]


def test_a_name_that_nobody_defined_is_found():
    made = dense()
    made.add("text/layers/2/input_norm", [64])
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-name"]


def test_every_projection_needs_its_use():
    for index, use in enumerate(dense().uses):
        made = dense()
        del made.uses[index]
        ((rule, detail),) = made.check()
        assert (rule, use["input"] in detail) == ("ninfer.arch-use", True)


def test_uses_need_a_policy_and_a_known_place():
    made = dense()
    del made.uses[0]["activation_policy"]
    made.use("text/layers/0/mlp/down", "text/layers/0/ffn_input")
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-input", "ninfer.arch-policy"]


def test_a_parent_that_mixes_components_is_found_and_sharing_is_not():
    made = dense()
    add_predictor(made)
    made.tensor("both", [128])
    made.bindings["text/final_norm"] = {"parts": [{"object": "both", "range": [0, 64]}]}
    made.bindings["mtp/final_norm"] = {"parts": [{"object": "both", "range": [0, 64]}]}
    assert made.check() == []
    made.bindings["mtp/final_norm"] = {"parts": [{"object": "both", "range": [64, 128]}]}
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-parent"]


def add_predictor(made: Artifact) -> None:
    made.components["mtp"] = {"config": {"architectures": ["Qwen3_5MTP"]}, "target": "text"}
    made.add("mtp/input_projection", [64, 128], "mtp/stem_input")
    for role in ("embedding_norm", "hidden_norm", "final_norm"):
        made.add("mtp/" + role, [64])
    for name, (shape, use) in TEXT.items():
        head, layer, rest = name.partition("text/layers/1/")
        if layer and not head:
            at = use.replace("text/layers/1/", "mtp/layers/0/") if use else None
            made.add("mtp/layers/0/" + rest, shape, at)
    made.use("text/output_head", "mtp/final_hidden")


def test_the_predictor_is_a_block_and_its_stem():
    made = dense()
    add_predictor(made)
    assert made.check() == []
    made.components["mtp"]["config"]["architectures"] = ["Qwen3_5MoeMTP"]
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-config"]


def test_components_have_the_text_model_as_their_target():
    made = dense()
    add_predictor(made)
    del made.components["mtp"]["target"]
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-target"]
    made.components["mtp"]["target"] = "mtp"
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-target"]
    made.components["mtp"]["target"] = "text"
    made.components["text"]["target"] = "text"
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-target"]


def test_unknown_components_and_a_missing_text_model_are_found():
    made = dense()
    made.components["audio"] = {"config": {}, "target": "text"}
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-component"]
    made = dense()
    made.components = {"vision": {"config": {}}}
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-component"]


def test_an_architecture_that_we_do_not_know_is_refused_and_not_judged():
    made = dense()
    made.components["text"]["config"]["architectures"] = ["Qwen4ExpForCausalLM"]
    with pytest.raises(Unsupported) as caught:
        made.check()
    assert caught.value.code == "unknown-architecture"


FIELDS = [
    ("model_type", "qwen3_5_moe_text"),
    ("hidden_size", 0),
    ("hidden_size", "64"),
    ("hidden_size", True),
    ("vocab_size", -1),
    ("max_position_embeddings", None),
    ("rms_norm_eps", "1e-6"),
    ("rms_norm_eps", 0),
    ("rms_norm_eps", True),
    ("tie_word_embeddings", 0),
    ("layer_types", ["linear_attention"]),
    ("layer_types", ["linear_attention", "sliding_attention"]),
    ("layer_types", "linear_attention"),
    ("num_key_value_heads", 3),
    ("linear_num_key_heads", 3),
    ("rope_parameters", 1),
    ("rope_parameters", {**CONFIG["rope_parameters"], "mrope_section": [2, 1]}),
    ("rope_parameters", {**CONFIG["rope_parameters"], "mrope_section": [2, 2, 1]}),
    ("rope_parameters", {**CONFIG["rope_parameters"], "rope_theta": -1.5}),
    ("rope_parameters", {**CONFIG["rope_parameters"], "partial_rotary_factor": 1.5}),
]


@pytest.mark.parametrize(("field", "value"), FIELDS, ids=str)
def test_a_config_that_states_no_geometry_is_found(field, value):
    made = dense()
    made.components["text"]["config"][field] = value
    found = made.check()
    assert {rule for rule, _ in found} == {"ninfer.arch-config"}
    assert any(field in detail for _, detail in found)


def test_a_field_that_is_missing_is_found():
    for field in CONFIG:
        made = dense()
        del made.components["text"]["config"][field]
        assert {rule for rule, _ in made.check()} == {"ninfer.arch-config"}, field


# ----------------------------------------------------------------------------------- other families


def called(configs: dict[str, Any], proposal: Any = None) -> dict[str, tuple[tuple[int, ...], Any]]:
    assert list(architecture.problems(configs)) == []
    found = architecture.parameters(configs, proposal)
    return {name: (each.shape, each.inputs) for name, each in found.items()}


EXPERTS = {
    **{key: value for key, value in CONFIG.items() if key != "intermediate_size"},
    "architectures": ["Qwen3_5MoeForCausalLM"],
    "model_type": "qwen3_5_moe_text",
    "num_experts": 3,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 40,
}


def test_experts_take_the_place_of_the_dense_block():
    found = called({"text": EXPERTS})
    at = "text/layers/1/moe/"
    given = ("text/layers/1/ffn_input",)
    assert found[at + "router"] == ((3, 64), given)
    assert found[at + "shared_score"] == ((1, 64), given)
    assert found[at + "experts/2/up"] == ((16, 64), given)
    assert found[at + "experts/2/down"] == ((64, 16), (at + "experts/2/product",))
    assert found[at + "shared/gate"] == ((40, 64), given)
    assert found[at + "shared/down"] == ((64, 40), (at + "shared/product",))
    assert not any("/mlp/" in name for name in found)
    assert sum("/experts/" in name for name in found) == 2 * 3 * 3
    too_many = {**EXPERTS, "num_experts_per_tok": 4}
    assert [each.place for _, each in architecture.problems({"text": too_many})] == [
        ("num_experts_per_tok",)
    ]


VISION = {
    "model_type": "qwen3_5_vision",
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 4,
    "patch_size": 2,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "num_position_embeddings": 9,
}


def test_the_vision_tower():
    found = called({"text": CONFIG, "vision": VISION})
    at = "vision/layers/0/"
    assert found["vision/patch_embedding"] == ((32, 24), ("vision/patch_input",))
    assert found["vision/patch_embedding_bias"] == ((32,), ())
    assert found["vision/position_embedding"] == ((9, 32), ())
    assert found[at + "attention/key"] == ((32, 32), (at + "attention_input",))
    assert found[at + "attention/key_bias"] == ((32,), ())
    assert found[at + "attention/output"] == ((32, 32), (at + "attention_output",))
    assert found[at + "mlp/fc1"] == ((48, 32), (at + "mlp_input",))
    assert found[at + "mlp/fc2"] == ((32, 48), (at + "mlp_activation",))
    assert found["vision/merger/fc1"] == ((128, 128), ("vision/merger/input",))
    assert found["vision/merger/fc2"] == ((64, 128), ("vision/merger/activation",))
    assert found["vision/merger/fc2_bias"] == ((64,), ())
    assert sum(name.startswith("vision/") for name in found) == 3 + 4 + 6 + 6 + 6
    for change in ({"num_heads": 3}, {"num_position_embeddings": 8}, {"model_type": "x"}):
        problems = architecture.problems({"text": CONFIG, "vision": {**VISION, **change}})
        assert [(name, each.place) for name, each in problems] == [
            ("vision", (next(iter(change)),))
        ]


DRAFT = {
    "architectures": ["DFlash2DraftModel"],
    "model_type": "qwen3",
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 1,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10000000},
    "layer_types": ["sliding_attention"],
    "sliding_window": 64,
    "dflash_config": {
        "target_layer_ids": [0, 1],
        "mask_token_id": 99,
        "conv_kernel_size": 3,
        "conv_group_size": 16,
        "selector_rank": 8,
        "selector_top_k": 2,
    },
}


def test_draft_models():
    found = called({"text": CONFIG, "dflash2": DRAFT})
    at = "dflash2/layers/0/"
    assert found["dflash2/feature_projection"] == ((64, 128), ("dflash2/target_features",))
    assert found[at + "attention/query"] == ((64, 64), (at + "query_projection_input",))
    assert found[at + "attention/key"] == ((32, 64), (at + "query_projection_input",))
    assert found[at + "attention/context_key"] == ((32, 64), ("dflash2/context_input",))
    assert found[at + "attention/output"] == ((64, 64), (at + "attention_output",))
    assert found[at + "mlp/down"] == ((64, 96), (at + "mlp_product",))
    assert found[at + "mlp_conv/base_kernel"] == ((2, 3, 64), ())
    assert found[at + "mlp_conv/kernel_projection"] == ((24, 64), (at + "mlp_conv_input",))
    selector = "dflash2/candidate_selector/"
    assert found[selector + "hidden_projection"] == ((8, 64), ("dflash2/final_hidden",))
    assert found[selector + "successor_codebook"] == ((100, 8), ())
    head = found["text/output_head"]
    assert head[1] == ("text/final_hidden", "dflash2/final_hidden")
    first = {**DRAFT, "architectures": ["DFlashDraftModel"]}
    found = called({"text": CONFIG, "dflash": first})
    assert "dflash/layers/0/mlp/gate" in found
    assert not any("conv" in name and "dflash" in name for name in found)


@pytest.mark.parametrize(
    ("own", "place"),
    [
        ({"target_layer_ids": [0, 2]}, "target_layer_ids"),
        ({"target_layer_ids": [0, 0]}, "target_layer_ids"),
        ({"target_layer_ids": []}, "target_layer_ids"),
        ({"mask_token_id": 100}, "mask_token_id"),
        ({"conv_group_size": 48}, "conv_group_size"),
        ({"selector_rank": 0}, "selector_rank"),
    ],
)
def test_what_a_draft_model_takes_from_its_target_must_be_there(own, place):
    config = {**DRAFT, "dflash_config": {**DRAFT["dflash_config"], **own}}
    problems = list(architecture.problems({"text": CONFIG, "dflash2": config}))
    assert [each.place for _, each in problems] == [("dflash_config", place)]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 8),
    st.text(max_size=3),
    st.just([]),
    st.lists(st.one_of(st.integers(0, 3), st.sampled_from(CONFIG["layer_types"])), max_size=3),
    st.dictionaries(st.sampled_from(["rope_theta", "mrope_section"]), st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from(sorted(CONFIG)), VALUES, min_size=1), st.booleans())
def test_any_config_is_judged_or_understood(changes, experts):
    base = EXPERTS if experts else CONFIG
    configs = {"text": {**base, **changes}, "vision": {**VISION, **changes}}
    if not any(architecture.problems(configs)):
        try:
            architecture.parameters(configs)
        except LimitExceeded:
            return


def test_numbers_without_end_are_refused_before_they_are_counted_through():
    configs = {"text": {**EXPERTS, "num_experts": 1 << 60}}
    assert not any(architecture.problems(configs))
    with pytest.raises(LimitExceeded):
        architecture.parameters(configs)
    with pytest.raises(LimitExceeded):
        architecture.parameters({"text": CONFIG, "vision": {**VISION, "depth": 1 << 60}})
    endless = {**NGRAM, "head_vocab": [1] * 70000}
    assert any(architecture.problems({"ngram": endless}))


def test_a_proposal_head_has_rows_of_its_own_and_says_which():
    made = dense()
    add_predictor(made)
    made.components["text"]["proposal"] = {"domain": "indexed", "rows": 10}
    made.add("proposal/head", [10, 64], "mtp/final_hidden")
    made.add("proposal/token_ids", [10], format_="int32")
    # Proposals go through their own head now, so that of the text model is not asked for there.
    made.uses = [
        each
        for each in made.uses
        if (each["parameter"], each["input"]) != ("text/output_head", "mtp/final_hidden")
    ]
    assert made.check() == []
    record = next(each for each in made.objects if each["id"] == "proposal/token_ids")
    record["format"] = "fp32"
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-words"]
    record["format"] = "int32"
    made.components["text"]["proposal"] = {"domain": "full"}
    assert {rule for rule, _ in made.check()} == {"ninfer.arch-name", "ninfer.arch-shape"}


# ---------------------------------------------------------------------------------------- auxiliary


def with_auxiliary(shape: list[int], format_: str, role: str, use: int = 0) -> list[str]:
    made = dense()
    made.tensor("a", shape, format_)
    made.uses[use]["auxiliaries"] = {role: {"object": "a"}}
    return [rule for rule, _ in made.check()]


def test_auxiliaries_have_known_roles_and_fitting_values():
    assert with_auxiliary([], "fp32", "activation_input_divisor") == []
    assert with_auxiliary([2], "fp32", "activation_input_divisor") == ["ninfer.activation-divisor"]
    assert with_auxiliary([], "bf16", "activation_input_divisor") == ["ninfer.activation-divisor"]
    assert with_auxiliary([64], "bf16", "hadamard_signs") == ["ninfer.hadamard-signs"]
    assert with_auxiliary([64], "int32", "input_columns") == ["ninfer.input-columns"]
    assert with_auxiliary([], "fp32", "temperature") == ["ninfer.arch-auxiliary"]


# ------------------------------------------------------------------------------------------- n-gram

TABLE = bytes(range(240))
NGRAM = {
    "rows": 10,
    "row_width": 12,
    "multipliers": [3, 5],
    "head_vocab": [7],
    "head_offset": [0, 1],
    "ngram_size": 2,
    "heads_per_ngram": 1,
    "format": "bf16",
    "table_sha256": hashlib.sha256(TABLE).hexdigest(),
}


def test_the_fingerprint_is_fnv_1a_of_the_config():
    words = [2, 1, 2, 3, 5, 1, 7, 2, 0, 1, 10]
    state = 14695981039346656037
    for octet in b"".join(each.to_bytes(8, "little") for each in words):
        state = (state ^ octet) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    assert fingerprint(NGRAM) == state


def profile(rows: int, mark: int, ids: list[int], magic: bytes = b"NFNGHOT1") -> bytes:
    head = magic + struct.pack("<4Q", rows, mark, 123, len(ids))
    return head + struct.pack(f"<{len(ids)}I", *ids)


def table(data: bytes) -> Artifact:
    made = Artifact()
    made.components = {"ngram": {"config": dict(NGRAM), "resources": {"hot_profile": "hot"}}}
    made.resource("hot", len(data))
    made.add("ngram/table", [10, 12])
    return made


def judged(tmp_path: Path, data: bytes, content: bytes = TABLE) -> list[str]:
    path = tmp_path / "t.ninfer"
    made = table(data).write(path, {"hot": data, "ngram/table": content})
    with tensorark.open(made) as file:
        assert architecture.check(file.catalog.native) == []
        found = verify(file)
    path.unlink()
    return [each.rule for each in found.findings]


def test_a_table_alone_with_its_profile(tmp_path):
    mark = fingerprint(NGRAM)
    good = profile(10, mark, [4, 0, 9])
    assert judged(tmp_path, good) == []
    assert parse_profile(good).ids == (4, 0, 9)
    assert parse_profile(good).encode() == good
    assert judged(tmp_path, good, b"x" * 240) == ["ninfer.ngram-digest"]
    assert judged(tmp_path, good[:-4]) == ["ninfer.hot-profile-frame"]
    assert judged(tmp_path, good[:20]) == ["ninfer.hot-profile-frame"]
    assert judged(tmp_path, profile(10, mark, [1], b"NFNGHOT2")) == ["ninfer.hot-profile-frame"]
    assert judged(tmp_path, profile(11, mark, [1])) == ["ninfer.hot-profile-table"]
    assert judged(tmp_path, profile(10, mark ^ 1, [1])) == ["ninfer.hot-profile-table"]
    assert judged(tmp_path, profile(10, mark, [1, 10])) == ["ninfer.hot-profile-rows"]
    assert judged(tmp_path, profile(10, mark, [1, 2, 1])) == ["ninfer.hot-profile-rows"]
    with pytest.raises(InvalidInput):
        parse_profile(b"NFNGHOT1")


def test_a_table_states_its_shape_and_how_it_is_found():
    made = table(b"x")
    made.components["ngram"]["config"]["row_width"] = 11
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-shape"]
    made.components["ngram"]["config"] = {**NGRAM, "format": "fp32"}
    assert [rule for rule, _ in made.check()] == ["ninfer.arch-words"]
    for change in (
        {"rows": 0},
        {"multipliers": [1 << 64]},
        {"head_vocab": 3},
        {"format": None},
        {"table_sha256": "abc"},
    ):
        made.components["ngram"]["config"] = {**NGRAM, **change}
        assert [rule for rule, _ in made.check()] == ["ninfer.arch-config"], change
