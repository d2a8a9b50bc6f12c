"""Checkpoints with the names of real ones become artifacts, by presets and recipes, and go back."""

from __future__ import annotations

import json
import re
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorark
from tensorark.errors import InvalidInput, NotFound, ReadFailed, Unsupported
from tensorark.files.parameters import ParameterViews
from tensorark.formats.ninfer import architecture
from tensorark.integrity.verify import verify
from tensorark.ninfer import pack as huggingface
from tensorark.ninfer.objects import export_objects, import_objects
from tensorark.ninfer.pack import (
    PRESETS,
    convert_checkpoint,
    parse_recipe,
    read_recipe,
)
from tensorark.ninfer.pack.plan import Member
from tensorark.ninfer.unpack import export_checkpoint, export_parameters
from tests import synthetic
from tests.synthetic import HEADS, KEYS, KV, D, H
from tests.unit.layouts import scalar

ID = bytes(range(16))


def convert(folder: Path, recipe: Any = "bf16", **options: Any) -> Path:
    target = folder.parent / f"{folder.name}.ninfer"
    convert_checkpoint(folder, target, recipe, artifact_id=ID, overwrite=True, **options)
    return target


class Opened:
    """An artifact that was converted: its directory, its parameters as float32, its objects."""

    def __init__(self, path: Path) -> None:
        self.file = tensorark.open(path)
        self.directory = self.file.catalog.native
        self.views = ParameterViews(self.file, self.directory)

    def values(self, name: str, *shape: int) -> np.ndarray:
        return self.views[name].numpy(shape or None).astype(np.float32)

    def stored(self, name: str) -> Any:
        return self.directory.object(self.directory.bindings[name].ranges[0].object)

    def members(self, name: str) -> list[str]:
        """Return what is bound in the object of a parameter, in the order of the object."""
        wanted = self.stored(name).id
        found = []
        for other, binding in self.directory.bindings.items():
            each = binding.ranges[0]
            if each.object == wanted:
                found.append((each.begin, other))
        return [other for _, other in sorted(found)]

    def raw(self, name: str) -> bytes:
        return bytes(self.file[self.stored(name).id].raw())


def check(path: Path) -> Opened:
    """Open what was converted; it must be sound to the last byte, and what it calls itself."""
    opened = Opened(path)
    assert architecture.check(opened.directory) == []
    found = verify(opened.file)
    assert (found.findings, found.refused, found.notes) == ((), (), ())
    return opened


# ------------------------------------------------------------------------------------------ meaning


def test_parameters_are_the_rows_of_the_tensors_that_hold_them(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m")
    opened = check(convert(tmp_path / "m"))
    attention, linear = "model.layers.3.self_attn.", "model.layers.0.linear_attn."
    both = tensors[attention + "q_proj.weight"].astype(np.float32).reshape(HEADS, 2, D, H)
    at = "text/layers/3/attention/"
    assert (opened.values(at + "query", HEADS * D, H) == both[:, 0].reshape(-1, H)).all()
    assert (opened.values(at + "gate", HEADS * D, H) == both[:, 1].reshape(-1, H)).all()
    joint = tensors[linear + "in_proj_qkv.weight"].astype(np.float32)
    at = "text/layers/0/gdn/"
    for role, rows in (
        ("query", joint[:KEYS]),
        ("key", joint[KEYS : 2 * KEYS]),
        ("value", joint[2 * KEYS :]),
    ):
        assert (opened.values(at + role, *rows.shape) == rows).all()
    convolution = tensors[linear + "conv1d.weight"].astype(np.float32)
    expected = convolution[:, 0, :].T
    assert opened.stored(at + "convolution").shape == expected.shape
    assert (opened.values(at + "convolution") == expected).all()
    assert opened.stored(at + "a_log").format == opened.stored(at + "dt_bias").format == "fp32"
    dt_bias = tensors[linear + "dt_bias"].astype(np.float32)
    assert (opened.values(at + "dt_bias") == dt_bias).all()


def test_standard_groups_share_a_parent_in_their_order(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    opened = check(convert(tmp_path / "m"))
    at = "text/layers/3/attention/"
    expected = [at + role for role in ("query", "key", "gate", "value")]
    assert opened.members(at + "key") == expected
    assert opened.stored(at + "key").shape == ((2 * HEADS + 2 * KV) * D, H)
    at = "text/layers/0/gdn/"
    assert opened.members(at + "z") == [at + role for role in ("query", "key", "value", "z")]
    assert opened.members(at + "b_projection") == [at + "a_projection", at + "b_projection"]
    at = "text/layers/0/mlp/"
    assert opened.members(at + "up") == [at + "gate", at + "up"]
    assert opened.directory.bindings[at + "down"].whole


def test_the_preset_for_dense_models_packs_two_and_two(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m")
    opened = check(convert(tmp_path / "m", "qwen3_8_27b"))
    at = "text/layers/3/attention/"
    assert opened.members(at + "query") == [at + "query", at + "key"]
    assert opened.members(at + "value") == [at + "gate", at + "value"]
    formats = {
        at + "query": "q4_g64_fp16",
        at + "gate": "q5_g64_fp16",
        at + "output": "q5_g64_fp16",
        "text/token_embedding": "q8_g32_fp16",
        "text/output_head": "q8_g32_fp16",
        "text/layers/0/gdn/key": "q4_g64_fp16",
        "text/layers/0/gdn/z": "q5_g64_fp16",
        "text/layers/0/gdn/output": "q5_g64_fp16",
        "text/layers/0/mlp/up": "q4_g64_fp16",
        "text/layers/0/mlp/down": "q5_g64_fp16",
        "text/layers/0/gdn/a_projection": "bf16",
        "text/final_norm": "bf16",
    }
    assert {name: opened.stored(name).format for name in formats} == formats
    at = "text/layers/0/gdn/"
    assert opened.members(at + "a_projection") == [at + "a_projection"]
    # The bytes are those that the description gives for the rows in this order.
    both = tensors["model.layers.3.self_attn.q_proj.weight"].astype(np.float32)
    query = both.reshape(HEADS, 2, D, H)[:, 0].reshape(-1, H)
    key = tensors["model.layers.3.self_attn.k_proj.weight"].astype(np.float32)
    rows = [[Fraction(float(each)) for each in row] for row in np.concatenate([query, key])]
    raw = opened.raw("text/layers/3/attention/query")
    assert raw == scalar.grouped_object("q4", rows)
    other = check(convert(tmp_path / "m", "qwen3_6_27b"))
    assert other.stored("text/output_head").format == "q6_g64_fp16"


def test_the_preset_for_experts(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m", experts=True, mtp=True)
    path = convert(tmp_path / "m", "qwen3_6_35b_a3b", components=("text", "mtp"))
    opened = check(path)
    at = "text/layers/1/moe/"
    assert opened.members(at + "experts/1/up") == [
        f"{at}experts/{expert}/{role}" for expert in range(3) for role in ("gate", "up")
    ]
    assert opened.members(at + "experts/0/down") == [
        f"{at}experts/{expert}/down" for expert in range(3)
    ]
    assert opened.members(at + "router") == [at + "router", at + "shared_score"]
    formats = {
        at + "experts/1/up": "q4_g64_fp16",
        at + "experts/1/down": "q5_g64_fp16",
        at + "router": "bf16",
        at + "shared/down": "q8_g32_fp16",
        "text/token_embedding": "q8_g32_fp16",
        "text/output_head": "q6_g64_fp16",
        "mtp/layers/0/moe/router": "bf16",
        "mtp/layers/0/moe/experts/0/down": "q8_g32_fp16",
        "mtp/input_projection": "q8_g32_fp16",
    }
    assert {name: opened.stored(name).format for name in formats} == formats
    gate_up = tensors["model.layers.1.mlp.experts.gate_up_proj"].astype(np.float32)
    half = synthetic.EXPERT
    found = opened.values(at + "experts/2/up", half, H)
    assert np.abs(found - gate_up[2, half:]).max() < np.abs(gate_up).max() / 12
    synthetic.write_checkpoint(tmp_path / "d")
    with pytest.raises(InvalidInput, match="with experts"):
        convert(tmp_path / "d", "qwen3_6_35b_a3b")


def test_experts_in_tensors_of_their_own_give_the_same_artifact(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m", experts=True)
    expected = convert(tmp_path / "m", "qwen3_6_35b_a3b").read_bytes()
    apart = {}
    for name, array in tensors.items():
        at = name.partition("experts.")[0]
        if name.endswith("gate_up_proj"):
            for expert, rows in enumerate(array):
                gate, up = np.split(rows, 2)
                apart[f"{at}experts.{expert}.gate_proj.weight"] = gate
                apart[f"{at}experts.{expert}.up_proj.weight"] = up
        elif name.endswith("experts.down_proj"):
            for expert, rows in enumerate(array):
                apart[f"{at}experts.{expert}.down_proj.weight"] = rows
        else:
            apart[name] = array
    synthetic.write_model(tmp_path / "m", apart, shards=2)
    (tmp_path / "m/model.safetensors").unlink()
    assert convert(tmp_path / "m", "qwen3_6_35b_a3b").read_bytes() == expected


def test_vision_and_the_predictor_come_along(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m", vision=True, mtp=True, shards=3)
    components = ("text", "vision", "mtp")
    opened = check(convert(tmp_path / "m", "qwen3_6_27b", components=components))
    formats = {
        "vision/patch_embedding": "q6_g64_fp16",
        "vision/merger/fc2": "q8_g32_fp16",
        "vision/layers/0/attention/key": "q4_g64_fp16",
        "vision/layers/0/attention/output": "q5_g64_fp16",
        "vision/layers/1/mlp/fc1": "q4_g64_fp16",
        "vision/layers/1/mlp/fc2": "q5_g64_fp16",
        "vision/position_embedding": "bf16",
        "mtp/layers/0/mlp/gate": "q8_g32_fp16",
    }
    assert {name: opened.stored(name).format for name in formats} == formats
    at = "vision/layers/0/attention/"
    assert opened.members(at + "value") == [at + role for role in ("query", "key", "value")]
    expected = [at + role + "_bias" for role in ("query", "key", "value")]
    assert opened.members(at + "query_bias") == expected
    bias = tensors["model.visual.blocks.0.attn.qkv.bias"].astype(np.float32)
    width = synthetic.V_H
    assert (opened.values(at + "key_bias") == bias[width : 2 * width]).all()
    roles = set(opened.directory.components["vision"].resources)
    assert roles == {"preprocessor_config.json", "video_preprocessor_config.json"}
    uses = {(each.parameter, each.input) for each in opened.directory.uses}
    assert ("text/output_head", "mtp/final_hidden") in uses


def test_draft_models_come_from_checkpoints_of_their_own(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    tensors = synthetic.write_draft(tmp_path / "d", second=True)
    options = {"components": ("text", "dflash2"), "sources": {"dflash2": tmp_path / "d"}}
    opened = check(convert(tmp_path / "m", "qwen3_8_27b", **options))
    at = "dflash2/layers/1/"
    assert (
        opened.directory.bindings[at + "attention/context_key"]
        == (opened.directory.bindings[at + "attention/key"])
    )
    assert opened.stored(at + "mlp/gate").format == "q8_g32_fp16"
    assert opened.stored(at + "attention_conv/kernel_projection").format == "bf16"
    kernel = tensors["layers.1.mlp_conv.base_kernel"].astype(np.float32)
    assert (opened.values(at + "mlp_conv/base_kernel") == kernel).all()
    config = opened.directory.components["dflash2"].config
    assert config["layer_types"] == ["full_attention", "sliding_attention"]
    with pytest.raises(InvalidInput, match="a checkpoint of its own"):
        convert(tmp_path / "m", components=("text", "dflash"))
    with pytest.raises(Unsupported, match="another architecture"):
        convert(tmp_path / "m", components=("text", "dflash"), sources={"dflash": tmp_path / "d"})


def test_tied_heads_share_an_object_where_the_recipe_gives_them_one_format(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m", tied=True)
    opened = check(convert(tmp_path / "m"))
    bindings = opened.directory.bindings
    assert bindings["text/output_head"] == bindings["text/token_embedding"]
    embedding = tensors["model.embed_tokens.weight"].astype(np.float32)
    assert (opened.values("text/output_head") == embedding).all()
    recipe = parse_recipe(
        {"assign": [{"parameters": "text/output_head", "format": "q8_g32_fp16"}]}, PRESETS, "r"
    )
    opened = check(convert(tmp_path / "m", recipe))
    assert opened.stored("text/output_head").format == "q8_g32_fp16"
    assert opened.stored("text/token_embedding").format == "bf16"


def test_configs_are_kept_as_they_were_spelt(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    path = tmp_path / "m/config.json"
    text = path.read_text().replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 1.000E-6')
    path.write_text(text.replace('"full_attention_interval": 4, ', ""))
    opened = check(convert(tmp_path / "m"))
    config = opened.directory.components["text"].config
    assert config["rms_norm_eps"] == "1.000E-6"
    assert config["layer_types"] == ["linear_attention"] * 3 + ["full_attention"]
    assert "hidden_act" not in config


# ----------------------------------------------------------------------------- planning and writing


def test_a_dry_run_says_what_will_be_written_and_writes_nothing(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    target = tmp_path / "m.ninfer"
    planned = convert_checkpoint(tmp_path / "m", target, "qwen3_8_27b", dry_run=True)
    assert planned.files == ()
    assert not target.exists()
    convert(tmp_path / "m", "qwen3_8_27b")
    with tensorark.open(target) as file:
        directory = file.catalog.native
        assert planned.payload_bytes == directory.payload_bytes
        sizes = [(each["object"], each["nbytes"]) for each in planned.objects]
        assert sizes == list(zip(directory.ids, directory.sizes, strict=True))
    row = next(
        each for each in planned.objects if "text/layers/0/mlp/up" in each.get("parameters", ())
    )
    assert row["format"] == "q4_g64_fp16"
    assert row["method"] == "grouped_absmax"
    assert row["source"] == ["bf16"]


def test_the_same_checkpoint_recipe_and_id_give_the_same_bytes(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    first = convert(tmp_path / "m", "qwen3_8_27b").read_bytes()
    assert convert(tmp_path / "m", "qwen3_8_27b").read_bytes() == first
    assert first[16:32] == ID


def test_an_artifact_is_split_at_a_limit(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    whole = check(convert(tmp_path / "m", "qwen3_8_27b"))
    payload = {name: bytes(whole.file[name].raw()) for name in whole.file}
    path = convert(tmp_path / "m", "qwen3_8_27b", max_file_bytes=200_000)
    assert (tmp_path / "m.ninfer.part-0001").exists()
    opened = check(path)
    assert {name: bytes(opened.file[name].raw()) for name in opened.file} == payload


def test_blocks_of_any_size_give_the_same_bytes(tmp_path, monkeypatch):
    synthetic.write_checkpoint(tmp_path / "m", experts=True)
    recipe = {
        "extends": "qwen3_6_35b_a3b",
        "assign": [{"parameters": ["*/gdn/output", "*/moe/shared/down"], "format": "nvfp4"}],
    }
    made = parse_recipe(recipe, PRESETS, "r")
    expected = convert(tmp_path / "m", made).read_bytes()
    from tensorark.ninfer.pack import weights

    monkeypatch.setattr(weights, "BLOCK", 3000)
    monkeypatch.setattr(weights, "_KEPT", 100)
    monkeypatch.setattr(weights, "_COPIED", 77)
    assert convert(tmp_path / "m", made).read_bytes() == expected


def test_values_that_have_no_code_are_refused_by_name_and_nothing_is_left(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m")
    bad = tensors["model.layers.2.mlp.down_proj.weight"]
    bad[5, 7] = np.inf
    synthetic.write_model(tmp_path / "m", tensors)
    with pytest.raises(InvalidInput, match="not finite") as caught:
        convert(tmp_path / "m", "qwen3_8_27b")
    assert caught.value.where == ("text/layers/2/mlp/down",)
    assert [each.name for each in tmp_path.iterdir()] == ["m"]
    check(convert(tmp_path / "m"))  # bf16 has a word for it
    made = parse_recipe({"assign": [{"parameters": "*/mlp/down", "format": "nvfp4"}]}, PRESETS, "r")
    with pytest.raises(InvalidInput, match="not finite"):
        convert(tmp_path / "m", made)


def test_an_existing_target_is_not_replaced_unasked(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    target = tmp_path / "t.ninfer"
    target.write_bytes(b"mine")
    with pytest.raises(InvalidInput, match="exists"):
        convert_checkpoint(tmp_path / "m", target, "bf16")
    assert target.read_bytes() == b"mine"


def test_the_name_and_how_it_was_made_are_stored(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    opened = check(convert(tmp_path / "m", "qwen3_8_27b", name="A model"))
    assert opened.directory.metadata == {"name": "A model"}
    assert opened.directory.provenance == {
        "recipe": "qwen3_8_27b",
        "methods": ["cast_direct", "grouped_absmax"],
    }


# ---------------------------------------------------------------------------------------- resources


def test_resources_are_found_beside_the_model_or_given(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    other = tmp_path / "other.jinja"
    other.write_text("{# mine #}")
    opened = check(convert(tmp_path / "m", resources={"chat_template.jinja": other}))
    resources = opened.directory.components["text"].resources
    assert list(resources) == list(synthetic.RESOURCES)
    assert resources["chat_template.jinja"] == "resource/text/chat_template.jinja"
    stored = opened.directory.object(resources["chat_template.jinja"])
    assert stored.nbytes == 10
    (tmp_path / "m/generation_config.json").unlink()
    with pytest.raises(ReadFailed) as caught:
        convert(tmp_path / "m")
    assert caught.value.code == "missing-resource"


@pytest.mark.parametrize(
    ("role", "content", "message"),
    [
        ("tokenizer.json", b"", "empty"),
        ("tokenizer.json", b'{"a": 1, "a": 2}', "no strict JSON"),
        ("chat_template.jinja", b"\xff", "not UTF-8"),
    ],
)
def test_resources_that_are_unusable_are_refused(tmp_path, role, content, message):
    synthetic.write_checkpoint(tmp_path / "m")
    (tmp_path / "m" / role).write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        convert(tmp_path / "m")


def test_processors_must_agree_with_the_tower_and_be_wanted(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m", vision=True)
    path = tmp_path / "m/preprocessor_config.json"
    with pytest.raises(InvalidInput, match="no component takes"):
        convert(tmp_path / "m", resources={"preprocessor_config.json": path})
    path.write_text('{"patch_size": 3}')
    with pytest.raises(InvalidInput, match="disagree about patch_size"):
        convert(tmp_path / "m", components=("text", "vision"))


# ------------------------------------------------------------------------------------------ recipes


def test_a_recipe_file_extends_a_preset(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    path = tmp_path / "mine.toml"
    path.write_text(
        """
        extends = "qwen3_8_27b"

        [[assign]]
        parameters = ["text/layers/*/mlp/*"]
        layers = [0, 2]
        format = "nvfp4"
        method = "nvfp4_maxabs"
        policy = "AllowA4"

        [[assign]]
        parameters = "text/layers/3/attention/*"
        projections = true
        format = "fp8_e4m3fn_row_bf16"
        separate = true
        """
    )
    opened = check(convert(tmp_path / "m", path))
    assert opened.stored("text/layers/2/mlp/down").format == "nvfp4"
    assert opened.stored("text/layers/1/mlp/down").format == "q5_g64_fp16"
    at = "text/layers/3/attention/"
    assert opened.members(at + "query") == [at + "query"]
    assert opened.stored(at + "query").format == "fp8_e4m3fn_row_bf16"
    assert opened.stored(at + "query_norm").format == "bf16"
    policies = {each.parameter: each.activation_policy for each in opened.directory.uses}
    assert policies["text/layers/0/mlp/up"] == "AllowA4"
    assert policies["text/layers/1/mlp/up"] == "A16Only"
    assert opened.directory.provenance["recipe"] == "mine"
    as_json = tmp_path / "mine.json"
    as_json.write_text(json.dumps({"extends": "bf16", "name": "other"}))
    assert read_recipe(as_json, PRESETS).name == "other"


def test_a_format_alone_means_its_own_method(tmp_path):
    quantized(tmp_path / "m")
    recipe = {"assign": [*IMPORTING["assign"], {"parameters": "*/mlp/up", "format": "q4_g64_fp16"}]}
    opened = check(convert(tmp_path / "m", parse_recipe(recipe, PRESETS, "r")))
    assert opened.stored("text/layers/0/mlp/up").format == "q4_g64_fp16"
    assert opened.stored("text/layers/0/mlp/gate").format == "nvfp4"


def test_groups_of_a_recipe_come_before_the_standard_ones(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    roles = ["gate", "query"]
    recipe = {
        "standard_groups": False,
        "fuse": [[f"text/layers/{{}}/attention/{role}" for role in roles]],
    }
    opened = check(convert(tmp_path / "m", parse_recipe(recipe, PRESETS, "r")))
    at = "text/layers/3/attention/"
    assert opened.members(at + "query") == [at + "gate", at + "query"]
    assert opened.members(at + "key") == [at + "key"]


def test_shared_parameters_must_be_the_same_weights(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    pair = ["text/layers/{}/mlp/up", "text/layers/{}/mlp/gate"]
    with pytest.raises(InvalidInput, match="not the same weights"):
        convert(tmp_path / "m", parse_recipe({"share": [pair]}, PRESETS, "r"))


BAD = [
    ([], "not a table"),
    ({"assing": []}, "unknown members"),
    ({"extends": "nothing"}, "no such recipe"),
    ({"assign": {}}, "not a list"),
    ({"assign": [{"format": "bf16"}]}, "not a list"),
    ({"assign": [{"parameters": []}]}, "no names"),
    ({"assign": [{"parameters": "*", "format": "q3"}]}, "no such format"),
    ({"assign": [{"parameters": "*", "policy": "AllowAll"}]}, "no such policy"),
    ({"assign": [{"parameters": "*", "layers": ["1"]}]}, "not layers"),
    ({"assign": [{"parameters": "*", "separate": 1}]}, "not a truth value"),
    ({"assign": [{"parameters": "*", "method": ""}]}, "not text"),
    ({"share": [["a"]]}, "not pairs"),
    ({"standard_groups": "no"}, "not a truth value"),
    ({"proposal": {"domain": "some"}}, "no domain"),
    ({"proposal": {"domain": "indexed"}}, "not the rows"),
    ({"proposal": {"domain": "full", "token_ids": [1]}}, "not the rows"),
    ({"name": ""}, "not text"),
]


@pytest.mark.parametrize(("recipe", "message"), BAD, ids=str)
def test_what_is_no_recipe_is_refused(recipe, message):
    with pytest.raises(InvalidInput, match=message):
        parse_recipe(recipe, PRESETS, "r")


def test_files_that_hold_no_recipe_are_refused(tmp_path):
    path = tmp_path / "r.toml"
    with pytest.raises(ReadFailed):
        read_recipe(path, PRESETS)
    for content in (b"\xff", b"a = ", b"[[assign]]\nformat = 1"):
        path.write_bytes(content)
        with pytest.raises(InvalidInput) as caught:
            read_recipe(path, PRESETS)
        assert caught.value.path == str(path)


WRONG = [
    ({"parameters": "text/layers/*/mlp/up", "format": "q2_g64_fp16"}, "not made from floats"),
    ({"parameters": "text/final_norm", "format": "q4_g64_fp16"}, "holds matrices"),
    ({"parameters": "*/gdn/a_log", "format": "bf16"}, "only stored as fp32"),
    ({"parameters": "*/gdn/a_projection", "format": "nvfp4"}, "multiples of 128"),
    ({"parameters": "*/mlp/up", "format": "q4_g64_fp16", "method": "x"}, "not made by this method"),
    ({"parameters": "*/mlp/up", "format": "nvfp4", "method": "import_encoded"}, "does not hold"),
]


@pytest.mark.parametrize(("assign", "message"), WRONG, ids=str)
def test_recipes_that_ask_for_what_cannot_be_are_refused(tmp_path, assign, message):
    synthetic.write_checkpoint(tmp_path / "m")
    with pytest.raises((InvalidInput, Unsupported), match=message):
        convert(tmp_path / "m", parse_recipe({"assign": [assign]}, PRESETS, "r"))


def test_groups_that_do_not_fit_are_refused(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m", mtp=True)
    options = {"components": ("text", "mtp")}
    for group, message in (
        (["text/layers/0/mlp/up", "text/layers/0/mlp/down"], "other columns"),
        (["text/final_norm", "mtp/final_norm"], "another component"),
        (["text/layers/0/gdn/a_log", "text/layers/0/gdn/norm"], "another format"),
        (["text/layers/0/attention/query", "text/layers/0/mlp/up"], "not there"),
    ):
        with pytest.raises(InvalidInput, match=message):
            convert(tmp_path / "m", parse_recipe({"fuse": [group]}, PRESETS, "r"), **options)


def test_a_proposal_head_is_rows_of_the_output_head(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m", mtp=True)
    ids = [7, 3, 250, 0]
    recipe = {"proposal": {"domain": "indexed", "token_ids": ids, "format": "bf16"}}
    made = parse_recipe(recipe, PRESETS, "r")
    opened = check(convert(tmp_path / "m", made, components=("text", "mtp")))
    head = tensors["lm_head.weight"].astype(np.float32)
    assert (opened.values("proposal/head") == head[ids]).all()
    assert opened.views["proposal/token_ids"].numpy().tolist() == ids
    assert opened.directory.components["text"].proposal == {"domain": "indexed", "rows": 4}
    full = parse_recipe({"proposal": {"domain": "full"}}, PRESETS, "r")
    opened = check(convert(tmp_path / "m", full, components=("text", "mtp")))
    assert opened.stored("proposal/head").format == "q4_g64_fp16"
    for wrong in ([1, 1], [256]):
        recipe = {"proposal": {"domain": "indexed", "token_ids": wrong}}
        with pytest.raises(InvalidInput, match="not different tokens"):
            convert(tmp_path / "m", parse_recipe(recipe, PRESETS, "r"))


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"hidden_act": "gelu"}, Unsupported, "computes otherwise: hidden_act"),
        ({"attention_bias": True}, Unsupported, "computes otherwise: attention_bias"),
        ({"attn_output_gate": False}, Unsupported, "computes otherwise"),
        ({"rope_parameters": {"rope_type": "yarn"}}, Unsupported, "computes otherwise: rope_type"),
        ({"rope_parameters": 3}, InvalidInput, "no object"),
        ({"hidden_size": "128"}, InvalidInput, "hidden_size"),
        ({"full_attention_interval": 0}, InvalidInput, "no types"),
    ],
    ids=str,
)
def test_models_that_compute_otherwise_are_refused(tmp_path, change, error, message):
    synthetic.write_checkpoint(tmp_path / "m", **change)
    with pytest.raises(error, match=message):
        convert(tmp_path / "m")


def test_other_architectures_are_refused(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    path = tmp_path / "m/config.json"
    config = json.loads(path.read_text())
    for names in (["LlamaForCausalLM"], [], None, ["Qwen3_5ForCausalLM", "x"]):
        path.write_text(json.dumps({**config, "architectures": names}))
        with pytest.raises(Unsupported, match="not converted"):
            convert(tmp_path / "m")
    for text in ("[]", "{", '{"a": 1, "a": 1}'):
        path.write_text(text)
        with pytest.raises(InvalidInput, match="the config is no"):
            convert(tmp_path / "m")
    path.unlink()
    with pytest.raises(ReadFailed):
        convert(tmp_path / "m")


def test_missing_tensors_and_other_shapes_are_refused_by_name(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m")
    name = "model.layers.3.self_attn.o_proj.weight"
    kept = tensors.pop(name)
    synthetic.write_model(tmp_path / "m", tensors)
    with pytest.raises(NotFound) as caught:
        convert(tmp_path / "m")
    assert caught.value.where == ("objects", name)
    for array, message in (
        (kept[:, :64], "another shape"),
        (np.zeros(kept.shape, np.uint8), "not known"),
    ):
        synthetic.write_model(tmp_path / "m", {**tensors, name: array})
        with pytest.raises((InvalidInput, Unsupported), match=message) as found:
            convert(tmp_path / "m")
        assert found.value.where == ("objects", name)


def test_components_are_named_once_and_known(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    for components in (("vision",), ("text", "text"), ("text", "audio"), ("text", "vision")):
        with pytest.raises(InvalidInput):
            convert(tmp_path / "m", components=components)


# ------------------------------------------------------------------------------- imported encodings


def nvfp4_layer(rng: np.random.Generator, name: str, rows: int, columns: int, divisor: float):
    """Return a layer as compressed-tensors stores it."""
    return {
        name + ".weight_packed": rng.integers(0, 256, (rows, columns // 2)).astype(np.uint8),
        name + ".weight_scale": rng.integers(8, 0x7F, (rows, columns // 16))
        .astype(np.uint8)
        .view(ml_dtypes.float8_e4m3fn),
        name + ".weight_global_scale": np.array([divisor], np.float32),
        name + ".input_global_scale": np.array([divisor / 2], np.float32),
    }


def fp8_layer(rng: np.random.Generator, name: str, rows: int, columns: int, scale: np.ndarray):
    codes = rng.integers(0, 0x7F, (rows, columns)).astype(np.uint8)
    return {
        name + ".weight": codes.view(ml_dtypes.float8_e4m3fn),
        name + ".weight_scale": scale,
    }


def quantized(folder: Path, *, modelopt: bool = False, divisors: tuple[float, float] = (8, 8)):
    """Write a checkpoint whose dense blocks are nvfp4, and whose o_proj is FP8."""
    tensors = synthetic.write_checkpoint(folder)
    rng = np.random.default_rng(9)
    for layer in range(4):
        at = f"model.layers.{layer}.mlp."
        shapes = {"gate_proj": (256, 128), "up_proj": (256, 128), "down_proj": (128, 256)}
        for index, (role, shape) in enumerate(shapes.items()):
            del tensors[f"{at}{role}.weight"]
            divisor = divisors[index] if index < 2 else 3.0
            made = nvfp4_layer(rng, at + role, *shape, divisor)
            if modelopt:
                made = {
                    f"{at}{role}.weight": made[f"{at}{role}.weight_packed"],
                    f"{at}{role}.weight_scale": made[f"{at}{role}.weight_scale"],
                    f"{at}{role}.weight_scale_2": np.array([1 / divisor], np.float32),
                    f"{at}{role}.input_scale": np.array([2 / divisor], np.float32),
                }
            tensors |= made
    name = "model.layers.3.self_attn.o_proj"
    del tensors[name + ".weight"]
    scale = rng.uniform(0.001, 0.01, (128, 1)).astype(np.float32)
    tensors |= fp8_layer(rng, name, 128, 128, scale)
    synthetic.write_model(folder, tensors)
    return tensors


IMPORTING = {
    "assign": [
        {
            "parameters": "*/mlp/*",
            "format": "nvfp4",
            "method": "import_encoded",
            "policy": "AllowA4",
        },
        {
            "parameters": "*/attention/output",
            "format": "fp8_e4m3fn_row_bf16",
            "method": "import_encoded",
            "policy": "AllowA8",
        },
    ]
}


def nvfp4_values(tensors: dict[str, np.ndarray], name: str, divisor: float) -> np.ndarray:
    packed, scales = tensors[name + ".weight_packed"], tensors[name + ".weight_scale"]
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), -1)
    values = table[codes] * np.repeat(scales.astype(np.float64), 16, axis=1)
    return (values / divisor).astype(np.float32)


def test_nvfp4_and_fp8_are_imported_word_by_word(tmp_path):
    tensors = quantized(tmp_path / "m")
    opened = check(convert(tmp_path / "m", parse_recipe(IMPORTING, PRESETS, "r")))
    at = "text/layers/1/mlp/"
    assert opened.members(at + "up") == [at + "gate", at + "up"]
    name = "model.layers.1.mlp."
    for role in ("gate", "up"):
        expected = nvfp4_values(tensors, f"{name}{role}_proj", 8)
        assert (opened.values(at + role, 256, 128) == expected).all()
    output = "model.layers.3.self_attn.o_proj"
    codes = tensors[output + ".weight"].astype(np.float32)
    scales = tensors[output + ".weight_scale"].astype(ml_dtypes.bfloat16).astype(np.float32)
    assert (opened.values("text/layers/3/attention/output") == codes * scales).all()
    uses = {each.parameter: each for each in opened.directory.uses}
    assert uses[at + "up"].activation_policy == "AllowA4"
    auxiliary = uses[at + "up"].auxiliaries["activation_input_divisor"]
    data = opened.file[auxiliary.ranges[0].object].numpy()
    assert (data.shape, float(data)) == ((), 4.0)
    assert uses["text/layers/3/attention/output"].activation_policy == "AllowA8"


def test_multipliers_become_divisors(tmp_path):
    packed = quantized(tmp_path / "a", divisors=(7, 7))
    quantized(tmp_path / "b", modelopt=True, divisors=(7, 7))
    recipe = parse_recipe(IMPORTING, PRESETS, "r")
    opened = check(convert(tmp_path / "b", recipe))
    expected = np.float32(1) / np.float32(1 / 7)
    raw = opened.raw("text/layers/0/mlp/up")
    assert struct.unpack("<f", raw[-4:])[0] == expected
    first = check(convert(tmp_path / "a", recipe)).raw("text/layers/0/mlp/up")
    assert raw[:-4] == first[:-4]
    assert packed


def test_different_divisors_keep_parents_apart_unless_they_are_asked_to_stack(tmp_path):
    tensors = quantized(tmp_path / "m", divisors=(8, 5))
    opened = check(convert(tmp_path / "m", parse_recipe(IMPORTING, PRESETS, "r")))
    at = "text/layers/1/mlp/"
    assert opened.members(at + "up") == [at + "up"]
    stacked = {**IMPORTING, "fuse": [["text/layers/{}/mlp/gate", "text/layers/{}/mlp/up"]]}
    opened = check(convert(tmp_path / "m", parse_recipe(stacked, PRESETS, "r")))
    assert opened.members(at + "up") == [at + "gate", at + "up"]
    assert opened.stored(at + "up").divisors == 2
    for role, divisor in (("gate", 8), ("up", 5)):
        expected = nvfp4_values(tensors, f"model.layers.1.mlp.{role}_proj", divisor)
        assert (opened.values(at + role, 256, 128) == expected).all()
    uses = {each.parameter: each for each in opened.directory.uses}
    smallest = uses[at + "gate"].auxiliaries["activation_input_divisor"].ranges[0].object
    assert float(opened.file[smallest].numpy()) == 2.5


def test_encoded_weights_can_be_decoded_into_another_format(tmp_path):
    tensors = quantized(tmp_path / "m")
    recipe = {"assign": [{"parameters": "text/*", "projections": True, "format": "fp32"}]}
    opened = check(convert(tmp_path / "m", parse_recipe(recipe, PRESETS, "r")))
    expected = nvfp4_values(tensors, "model.layers.0.mlp.down_proj", 3)
    assert (opened.values("text/layers/0/mlp/down") == expected).all()


def test_words_that_the_format_forbids_are_not_imported(tmp_path):
    tensors = quantized(tmp_path / "m")
    recipe = parse_recipe(IMPORTING, PRESETS, "r")
    name = "model.layers.2.mlp.up_proj.weight_scale"
    tensors[name].view(np.uint8)[200, 3] = 0x80
    synthetic.write_model(tmp_path / "m", tensors)
    with pytest.raises(InvalidInput, match="cannot be imported") as caught:
        convert(tmp_path / "m", recipe)
    assert caught.value.code == "ninfer.scale-word"
    assert "text/layers/2/mlp/up" in caught.value.where
    tensors[name].view(np.uint8)[200, 3] = 0x38
    tensors["model.layers.2.mlp.up_proj.weight_global_scale"][0] = 0
    synthetic.write_model(tmp_path / "m", tensors)
    with pytest.raises(InvalidInput, match="divisor"):
        convert(tmp_path / "m", recipe)


def test_the_presets_with_a_second_checkpoint(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    tensors = synthetic.write_checkpoint(tmp_path / "q", seed=2)
    rng = np.random.default_rng(4)
    for name, array in list(tensors.items()):
        prefix = name.removesuffix(".weight")
        if re.search(r"lm_head|[qkvo]_proj\.|out_proj|in_proj_(qkv|z)", name):
            del tensors[name]
            tensors |= fp8_layer(rng, prefix, *array.shape, np.array([0.01], np.float32))
        elif "mlp" in name:
            del tensors[name]
            tensors |= nvfp4_layer(rng, prefix, *array.shape, 4.0)
    synthetic.write_model(tmp_path / "q", tensors)
    with pytest.raises(NotFound, match="not given"):
        convert(tmp_path / "m", "qwen3_8_27b_nvfp4")
    sources = {"quantized": tmp_path / "q"}
    opened = check(convert(tmp_path / "m", "qwen3_8_27b_nvfp4", sources=sources))
    formats = {
        "text/token_embedding": "fp8_e4m3fn_row_bf16",
        "text/output_head": "fp8_e4m3fn_row_bf16",
        "text/layers/3/attention/query": "fp8_e4m3fn_row_bf16",
        "text/layers/0/mlp/down": "nvfp4",
        "text/layers/0/gdn/a_projection": "bf16",
    }
    assert {name: opened.stored(name).format for name in formats} == formats
    norm = tensors["model.norm.weight"].astype(np.float32)
    assert (opened.values("text/final_norm") == norm).all()
    both = tensors["model.layers.3.self_attn.q_proj.weight"].astype(np.float32)
    scale = np.float32(ml_dtypes.bfloat16(0.01))
    gate = (both * scale).reshape(HEADS, 2, D, H)[:, 1].reshape(-1, H)
    assert (opened.values("text/layers/3/attention/gate", HEADS * D, H) == gate).all()


@pytest.mark.parametrize("chosen", [(), ("mtp",), ("vision",), ("mtp", "vision")])
def test_every_tensor_is_taken_refused_or_of_a_component_that_nobody_chose(tmp_path, chosen):
    """Of a whole checkpoint nothing is left; one more tensor anywhere is told by its name."""
    tensors = synthetic.write_checkpoint(tmp_path / "m", vision=True, mtp=True)
    target, components = tmp_path / "m.ninfer", ("text", *chosen)
    done = convert_checkpoint(tmp_path / "m", target, "bf16", components=components)
    starts = {"mtp": "mtp.", "vision": "model.visual."}
    assert done.unchosen == {
        component: sum(name.startswith(start) for name in tensors)
        for component, start in starts.items()
        if component not in chosen
    }
    assert done.dropped == ()
    more = ["lm_head.bias", "model.layers.0.odd.weight", *(starts[each] + "odd" for each in chosen)]
    for name in more:
        synthetic.write_model(tmp_path / "m", {**tensors, name: np.ones(4, np.float32)})
        with pytest.raises(Unsupported, match=re.escape(name)) as caught:
            convert_checkpoint(
                tmp_path / "m", target, "bf16", components=components, overwrite=True
            )
        assert caught.value.code == "refused"
        kept = convert_checkpoint(
            tmp_path / "m",
            target,
            "bf16",
            components=components,
            drop=["tensors"],
            dry_run=True,
        )
        assert [each.name for each in kept.dropped] == [name]
        assert kept.objects == done.objects


def test_input_scales_of_fp8_are_left_out(tmp_path):
    """Only 4-bit activations have a divisor of their input."""
    quantized(tmp_path / "m")
    opened = check(convert(tmp_path / "m", parse_recipe(IMPORTING, PRESETS, "r")))
    for use in opened.directory.uses:
        assert bool(use.auxiliaries) == ("/mlp/" in use.parameter), use.parameter


def test_fp8_with_scales_of_blocks_is_refused_by_name_with_the_reason(tmp_path):
    tensors = quantized(tmp_path / "m")
    name = "model.layers.3.self_attn.o_proj.weight"
    del tensors[name + "_scale"]
    tensors[name + "_scale_inv"] = np.ones((1, 1), np.float32)
    synthetic.write_model(tmp_path / "m", tensors)
    with pytest.raises(Unsupported, match="a scale for each block") as caught:
        convert(tmp_path / "m")
    assert (caught.value.code, caught.value.where) == ("checkpoint-type", ("objects", name))


def test_searched_scales_are_a_method_of_a_recipe(tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m")
    wanted = tensors["model.layers.0.mlp.down_proj.weight"].astype(np.float64)
    gaps = []
    for method in ("grouped_absmax", "grouped_search"):
        assign = {"parameters": "*/mlp/down", "format": "q4_g64_fp16", "method": method}
        opened = check(convert(tmp_path / "m", parse_recipe({"assign": [assign]}, PRESETS, method)))
        assert method in opened.directory.root["provenance"]["methods"]
        found = opened.values("text/layers/0/mlp/down")
        gaps.append(((found.reshape(wanted.shape) - wanted) ** 2).sum())
    assert gaps[1] < gaps[0]


# ----------------------------------------------------------------------------------------- and back


def loaded(path: Path) -> dict[str, np.ndarray]:
    with tensorark.open(path) as file:
        return {name: file[name].numpy(copy=True) for name in file}


@pytest.mark.parametrize(
    ("made", "components"),
    [
        ({}, ("text",)),
        ({"tied": True}, ("text",)),
        ({"experts": True, "mtp": True}, ("text", "mtp")),
        ({"vision": True, "mtp": True}, ("text", "vision", "mtp")),
    ],
    ids=str,
)
def test_a_checkpoint_in_bf16_comes_back_as_it_was(tmp_path, made, components):
    tensors = synthetic.write_checkpoint(tmp_path / "m", **made)
    path = convert(tmp_path / "m", components=components)
    export_checkpoint(path, tmp_path / "back")
    found = loaded(tmp_path / "back")
    assert found.keys() == tensors.keys()
    for name, array in tensors.items():
        widened = array.dtype == synthetic.BF16 and "dt_bias" in name  # stored as fp32
        expected = array.astype(np.float32) if widened else array
        assert (found[name].dtype, found[name].shape) == (expected.dtype, expected.shape), name
        assert found[name].tobytes() == expected.tobytes(), name
    for role, content in synthetic.RESOURCES.items():
        assert (tmp_path / "back" / role).read_text() == content
    again = tmp_path / "again.ninfer"
    convert_checkpoint(tmp_path / "back", again, "bf16", components=components, artifact_id=ID)
    assert again.read_bytes() == path.read_bytes()


def test_decoded_values_come_back_exactly_and_bf16_only_when_asked_for(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    path = convert(tmp_path / "m", "qwen3_8_27b")
    opened = check(path)
    export_checkpoint(path, tmp_path / "back")
    found = loaded(tmp_path / "back")["model.layers.1.mlp.down_proj.weight"]
    exact = opened.values("text/layers/1/mlp/down")
    assert found.dtype == np.float32
    assert (found == exact).all()
    export_checkpoint(path, tmp_path / "short", rounded=True, max_shard_size=300_000)
    assert (tmp_path / "short/model.safetensors.index.json").exists()
    found = loaded(tmp_path / "short")["model.layers.1.mlp.down_proj.weight"]
    assert (found == exact.astype(ml_dtypes.bfloat16)).all()


def test_parameters_are_written_under_their_own_names(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    path = convert(tmp_path / "m", "qwen3_8_27b")
    opened = check(path)
    target = tmp_path / "p.safetensors"
    assert export_parameters(path, target) == [str(target)]
    found = loaded(target)
    assert found.keys() == opened.directory.bindings.keys()
    query = found["text/layers/3/attention/query"]
    assert (query == opened.values("text/layers/3/attention/query", HEADS * D, H)).all()
    assert found["text/final_norm"].dtype == synthetic.BF16
    assert found["text/layers/0/gdn/a_log"].dtype == np.float32


def test_objects_go_into_safetensors_and_back_byte_by_byte(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    path = convert(tmp_path / "m", "qwen3_8_27b")
    stored, back = tmp_path / "o.safetensors", tmp_path / "back.ninfer"
    export_objects(path, stored)
    import_objects(stored, back)
    assert back.read_bytes() == path.read_bytes()
    with pytest.raises(InvalidInput, match="does not hold the objects"):
        import_objects(tmp_path / "m/model.safetensors", tmp_path / "x.ninfer")


def test_what_is_no_checkpoint_is_not_exported_as_one(tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    synthetic.write_draft(tmp_path / "d", second=False)
    options = {"components": ("text", "dflash"), "sources": {"dflash": tmp_path / "d"}}
    path = convert(tmp_path / "m", **options)
    with pytest.raises(Unsupported, match="one checkpoint"):
        export_checkpoint(path, tmp_path / "back")
    with pytest.raises(InvalidInput, match="NInfer"):
        export_checkpoint(tmp_path / "m/model.safetensors", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_the_names_of_the_package_are_these():
    assert set(PRESETS) == {
        "bf16",
        "qwen3_6_27b",
        "qwen3_6_27b_nvfp4",
        "qwen3_6_35b_a3b",
        "qwen3_8_27b",
        "qwen3_8_27b_nvfp4",
    }
    assert all(hasattr(huggingface, each) for each in huggingface.__all__)
    assert Member  # the plan is a value too


def test_memory_does_not_grow_with_the_matrices(tmp_path, monkeypatch):
    import tracemalloc

    monkeypatch.setattr(synthetic, "VOCAB", 1 << 18)
    changes = {"tied": True, "vocab_size": 1 << 18}
    monkeypatch.setattr(synthetic.Maker, "add", _plain_values)
    synthetic.write_checkpoint(tmp_path / "m", **changes)
    recipe = {"assign": [{"parameters": "text/token_embedding", "format": "q6_g64_fp16"}]}
    made = parse_recipe(recipe, PRESETS, "r")
    tracemalloc.start()
    convert(tmp_path / "m", made)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20  # the embedding has 64 MiB in bf16 and 128 MiB in float32


def _plain_values(make: synthetic.Maker, name: str, *shape: int, dtype: Any = synthetic.BF16):
    make.tensors[name] = np.full(shape, 0.5, dtype)
