"""Small checkpoints with the tensor names of the real Qwen3.5 ones, written without the library."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
NAMES = {
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(np.float64): "F64",
    np.dtype(np.uint8): "U8",
    np.dtype(np.int32): "I32",
    BF16: "BF16",
    np.dtype(ml_dtypes.float8_e4m3fn): "F8_E4M3",
}

H, VOCAB, LAYERS = 128, 256, 4
HEADS, KV, D = 2, 1, 64
KEY_HEADS, VALUE_HEADS, LINEAR = 1, 2, 64
KEYS, VALUES, TAPS = KEY_HEADS * LINEAR, VALUE_HEADS * LINEAR, 4
DENSE, EXPERTS, EXPERT, SHARED = 256, 3, 64, 128
ATTENTION = (3,)
V_H, V_DEPTH, V_I, V_PATCH, V_FRAMES, V_MERGE, V_POSITIONS = 32, 2, 64, 2, 2, 2, 16

TEXT: dict[str, Any] = {
    "hidden_act": "silu",
    "hidden_size": H,
    "vocab_size": VOCAB,
    "num_hidden_layers": LAYERS,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-06,
    "full_attention_interval": 4,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "head_dim": D,
    "attention_bias": False,
    "attn_output_gate": True,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [4, 2, 2],
        "mrope_interleaved": True,
    },
    "linear_num_key_heads": KEY_HEADS,
    "linear_key_head_dim": LINEAR,
    "linear_num_value_heads": VALUE_HEADS,
    "linear_value_head_dim": LINEAR,
    "linear_conv_kernel_dim": TAPS,
    "mamba_ssm_dtype": "float32",
    "mtp_num_hidden_layers": 1,
    "tie_word_embeddings": False,
}

VISION: dict[str, Any] = {
    "depth": V_DEPTH,
    "hidden_size": V_H,
    "intermediate_size": V_I,
    "num_heads": 2,
    "patch_size": V_PATCH,
    "temporal_patch_size": V_FRAMES,
    "spatial_merge_size": V_MERGE,
    "num_position_embeddings": V_POSITIONS,
    "in_channels": 3,
    "hidden_act": "gelu_pytorch_tanh",
    "deepstack_visual_indexes": [],
    "out_hidden_size": H,
}


@dataclass
class Maker:
    """Makes tensors of seeded values, bf16 unless said otherwise."""

    rng: np.random.Generator
    tensors: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, name: str, *shape: int, dtype: Any = BF16) -> None:
        values = self.rng.standard_normal(shape).astype(np.float32) * 0.05
        self.tensors[name] = values.astype(dtype)


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write a safetensors file from the description of the format."""
    header, offset, blobs = {}, 0, []
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        offset += len(data)
        blobs.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def text_tensors(make: Maker, root: str, *, experts: bool = False, tied: bool = False) -> None:
    make.add(root + "embed_tokens.weight", VOCAB, H)
    if not tied:
        make.add("lm_head.weight", VOCAB, H)
    make.add(root + "norm.weight", H)
    for layer in range(LAYERS):
        block(make, f"{root}layers.{layer}.", attention=layer in ATTENTION, experts=experts)


def mtp_tensors(make: Maker, *, experts: bool = False) -> None:
    make.add("mtp.fc.weight", H, 2 * H)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        make.add(f"mtp.{name}.weight", H)
    block(make, "mtp.layers.0.", attention=True, experts=experts)


def block(make: Maker, at: str, *, attention: bool, experts: bool) -> None:
    make.add(at + "input_layernorm.weight", H)
    make.add(at + "post_attention_layernorm.weight", H)
    if attention:
        make.add(at + "self_attn.q_proj.weight", 2 * HEADS * D, H)
        make.add(at + "self_attn.k_proj.weight", KV * D, H)
        make.add(at + "self_attn.v_proj.weight", KV * D, H)
        make.add(at + "self_attn.q_norm.weight", D)
        make.add(at + "self_attn.k_norm.weight", D)
        make.add(at + "self_attn.o_proj.weight", H, HEADS * D)
    else:
        make.add(at + "linear_attn.A_log", VALUE_HEADS, dtype=np.float32)
        make.add(at + "linear_attn.dt_bias", VALUE_HEADS)
        make.add(at + "linear_attn.conv1d.weight", 2 * KEYS + VALUES, 1, TAPS)
        make.add(at + "linear_attn.in_proj_a.weight", VALUE_HEADS, H)
        make.add(at + "linear_attn.in_proj_b.weight", VALUE_HEADS, H)
        make.add(at + "linear_attn.in_proj_qkv.weight", 2 * KEYS + VALUES, H)
        make.add(at + "linear_attn.in_proj_z.weight", VALUES, H)
        make.add(at + "linear_attn.norm.weight", LINEAR)
        make.add(at + "linear_attn.out_proj.weight", H, VALUES)
    if experts:
        make.add(at + "mlp.gate.weight", EXPERTS, H)
        make.add(at + "mlp.shared_expert_gate.weight", 1, H)
        make.add(at + "mlp.experts.gate_up_proj", EXPERTS, 2 * EXPERT, H)
        make.add(at + "mlp.experts.down_proj", EXPERTS, H, EXPERT)
        make.add(at + "mlp.shared_expert.gate_proj.weight", SHARED, H)
        make.add(at + "mlp.shared_expert.up_proj.weight", SHARED, H)
        make.add(at + "mlp.shared_expert.down_proj.weight", H, SHARED)
    else:
        make.add(at + "mlp.gate_proj.weight", DENSE, H)
        make.add(at + "mlp.up_proj.weight", DENSE, H)
        make.add(at + "mlp.down_proj.weight", H, DENSE)


def vision_tensors(make: Maker) -> None:
    root = "model.visual."
    make.add(root + "patch_embed.proj.weight", V_H, 3, V_FRAMES, V_PATCH, V_PATCH)
    make.add(root + "patch_embed.proj.bias", V_H)
    make.add(root + "pos_embed.weight", V_POSITIONS, V_H)
    for layer in range(V_DEPTH):
        at = f"{root}blocks.{layer}."
        for name, rows, columns in (
            ("attn.qkv", 3 * V_H, V_H),
            ("attn.proj", V_H, V_H),
            ("mlp.linear_fc1", V_I, V_H),
            ("mlp.linear_fc2", V_H, V_I),
        ):
            make.add(f"{at}{name}.weight", rows, columns)
            make.add(f"{at}{name}.bias", rows)
        for name in ("norm1", "norm2"):
            make.add(f"{at}{name}.weight", V_H)
            make.add(f"{at}{name}.bias", V_H)
    merged = V_MERGE**2 * V_H
    make.add(root + "merger.norm.weight", V_H)
    make.add(root + "merger.norm.bias", V_H)
    for name, rows in (("linear_fc1", merged), ("linear_fc2", H)):
        make.add(f"{root}merger.{name}.weight", rows, merged)
        make.add(f"{root}merger.{name}.bias", rows)


DRAFT = {"layers": 2, "heads": 2, "kv": 1, "width": 32, "mlp": 64, "taps": [0, 2]}


def write_draft(folder: Path, *, second: bool) -> dict[str, np.ndarray]:
    """Write a DFlash or DFlash2 checkpoint."""
    make = Maker(np.random.default_rng(5))
    q, kv, d = DRAFT["heads"] * DRAFT["width"], DRAFT["kv"] * DRAFT["width"], DRAFT["width"]
    make.add("fc.weight", H, len(DRAFT["taps"]) * H)
    make.add("hidden_norm.weight", H)
    make.add("norm.weight", H)
    for layer in range(DRAFT["layers"]):
        at = f"layers.{layer}."
        make.add(at + "input_layernorm.weight", H)
        make.add(at + "post_attention_layernorm.weight", H)
        make.add(at + "self_attn.q_proj.weight", q, H)
        make.add(at + "self_attn.k_proj.weight", kv, H)
        make.add(at + "self_attn.v_proj.weight", kv, H)
        make.add(at + "self_attn.q_norm.weight", d)
        make.add(at + "self_attn.k_norm.weight", d)
        make.add(at + "self_attn.o_proj.weight", H, q)
        make.add(at + "mlp.gate_proj.weight", DRAFT["mlp"], H)
        make.add(at + "mlp.up_proj.weight", DRAFT["mlp"], H)
        make.add(at + "mlp.down_proj.weight", H, DRAFT["mlp"])
        if second:
            for branch in ("attention_conv", "mlp_conv"):
                make.add(f"{at}{branch}.base_kernel", 2, 3, H)
                make.add(f"{at}{branch}.kernel_projection.weight", 2 * 3 * (H // 64), H)
    own: dict[str, Any] = {"target_layer_ids": DRAFT["taps"], "mask_token_id": 7}
    if second:
        make.add("candidate_selector.hidden_projection.weight", 16, H)
        make.add("candidate_selector.predecessor_codebook", VOCAB, 16)
        make.add("candidate_selector.successor_codebook", VOCAB, 16)
        own |= {"conv_kernel_size": 3, "conv_group_size": 64, "selector_rank": 16}
        own["selector_top_k"] = 4
    config = {
        "architectures": ["DFlash2DraftModel" if second else "DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "hidden_size": H,
        "vocab_size": VOCAB,
        "num_target_layers": LAYERS,
        "intermediate_size": DRAFT["mlp"],
        "num_attention_heads": DRAFT["heads"],
        "num_key_value_heads": DRAFT["kv"],
        "head_dim": DRAFT["width"],
        "num_hidden_layers": DRAFT["layers"],
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000000,
        "use_sliding_window": True,
        "max_window_layers": 1,
        "sliding_window": 128,
        "dflash_config": own,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", make.tensors)
    return make.tensors


RESOURCES = {
    "tokenizer.json": '{"model": {"vocab": {}}}',
    "tokenizer_config.json": "{}",
    "chat_template.jinja": "{{ messages }}",
    "generation_config.json": '{"eos_token_id": 1}',
}


def write_checkpoint(
    folder: Path,
    *,
    experts: bool = False,
    tied: bool = False,
    vision: bool = False,
    mtp: bool = False,
    shards: int = 1,
    seed: int = 1,
    **changes: Any,
) -> dict[str, np.ndarray]:
    """Write a checkpoint into a new folder and return its tensors by name."""
    make = Maker(np.random.default_rng(seed))
    root = "model.language_model." if vision else "model."
    text_tensors(make, root, experts=experts, tied=tied)
    if mtp:
        mtp_tensors(make, experts=experts)
    sizes: dict[str, Any] = {"intermediate_size": DENSE}
    if experts:
        sizes = {
            "num_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": EXPERT,
            "shared_expert_intermediate_size": SHARED,
        }
    text = {**TEXT, **sizes, "tie_word_embeddings": tied, **changes}
    name = "Qwen3_5Moe" if experts else "Qwen3_5"
    config = {"architectures": [name + "ForCausalLM"], **text}
    folder.mkdir()
    if vision:
        vision_tensors(make)
        config = {
            "architectures": [name + "ForConditionalGeneration"],
            "tie_word_embeddings": tied,
            "text_config": text,
            "vision_config": VISION,
        }
        sizes = {"patch_size": V_PATCH, "temporal_patch_size": V_FRAMES, "merge_size": V_MERGE}
        for role in ("preprocessor_config.json", "video_preprocessor_config.json"):
            (folder / role).write_text(json.dumps(sizes))
    (folder / "config.json").write_text(json.dumps(config))
    for role, content in RESOURCES.items():
        (folder / role).write_text(content)
    write_model(folder, make.tensors, shards)
    return make.tensors


def write_model(folder: Path, tensors: dict[str, np.ndarray], shards: int = 1) -> None:
    """Write tensors as one file, or as shards with their index."""
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors)
        return
    names = list(tensors)
    index = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        held = {name: tensors[name] for name in names[number::shards]}
        write_safetensors(folder / file, held)
        index |= dict.fromkeys(held, file)
    total = sum(each.nbytes for each in tensors.values())
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text)
