"""Matrices that an artifact stores for turned inputs come back as they apply to plain ones."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

import tensorark
from tensorark.ninfer.pack import convert_checkpoint
from tensorark.ninfer.rotation import RestoredViews
from tensorark.ninfer.unpack import export_checkpoint, export_parameters
from tests import synthetic
from tests.unit.formats.ninfer.sets import PAGE, entry, up, write_set

WIDTH = 1024
SYLVESTER = np.ones((1, 1))
while len(SYLVESTER) < WIDTH:
    SYLVESTER = np.kron([[1.0, 1.0], [1.0, -1.0]], SYLVESTER)


def signs_of(seed, width=WIDTH):
    return np.random.default_rng(seed).choice([-1.0, 1.0], width)


def rotated(weight, signs):
    """What is stored for `weight`, so that it takes ``H(signs * x) / 32`` instead of x."""
    blocks = (weight.astype(np.float64) * signs).reshape(*weight.shape[:-1], -1, WIDTH)
    return (blocks @ SYLVESTER / 32).reshape(weight.shape)


def words(values):
    return np.asarray(values).astype(synthetic.BF16)


def artifact(tmp_path, matrix, vectors, uses):
    """Write an artifact of one bf16 or f32 matrix, vectors, and uses of the matrix by vectors."""
    payload, objects = b"", []
    for name, array in {"m": matrix, **vectors}.items():
        payload += bytes(up(len(payload), 256) - len(payload))
        formats = {"bfloat16": "bf16", "float32": "fp32", "int32": "int32"}
        objects.append(
            {"id": name, "kind": "tensor", "shape": list(array.shape),
             "format": formats[array.dtype.name], "layout": "contiguous_le_v1",
             "offset": len(payload), "bytes": array.nbytes}
        )  # fmt: skip
        payload += array.tobytes()
    directory = {
        "components": {"text": {"config": {}}},
        "objects": objects,
        "bindings": {"m": {"object": "m"}, "plain": {"object": "m"}},
        "uses": [
            {"parameter": "m", "input": f"x{at}",
             "auxiliaries": {role: {"object": name} for role, name in each.items()}}
            for at, each in enumerate(uses)
        ],
    }  # fmt: skip
    return write_set(tmp_path, directory, payload)


@pytest.mark.parametrize("width", [1024, 2048])
def test_parameters_are_written_without_the_rotation_of_their_uses(tmp_path, monkeypatch, width):
    monkeypatch.setattr("tensorark.ninfer.unpack._CHUNK", 1500)  # cuts rows
    signs = signs_of(3, width)
    weight = np.random.default_rng(4).integers(-50, 50, (5, width)).astype(np.float64)
    stored = rotated(weight, signs).astype("<f4")
    same = {"hadamard_signs": "a"}
    path = artifact(tmp_path, stored, {"a": words(signs), "b": words(signs)}, [same] * 2)
    export_parameters(path, tmp_path / "p.safetensors")
    with tensorark.open(tmp_path / "p.safetensors") as file:
        assert file["m"].dtype == "f32"
        assert np.abs(file["m"].numpy() - weight).max() < 1e-3
        assert (file["plain"].numpy() == stored).all()  # bound, and turned by no use
    export_parameters(path, tmp_path / "r.safetensors", rounded=True)
    with tensorark.open(tmp_path / "r.safetensors") as file:
        assert (file["m"].numpy().astype(np.float64) == weight).all()  # integers of 7 bits


def test_uses_agree_by_values_not_by_names(tmp_path):
    signs = words(signs_of(1))
    uses = [{"hadamard_signs": "a"}, {"hadamard_signs": "b"}]
    path = artifact(tmp_path, words(np.ones((1, WIDTH))), {"a": signs, "b": signs}, uses)
    with tensorark.open(path) as file:
        assert RestoredViews(file, file.catalog.native)["m"].numpy().shape == (1, WIDTH)


@pytest.mark.parametrize(
    "uses", [[{"hadamard_signs": "a"}, {"hadamard_signs": "b"}], [{"hadamard_signs": "a"}, {}]]
)
def test_uses_that_turn_inputs_differently_are_refused(tmp_path, uses):
    vectors = {"a": words(signs_of(1)), "b": words(signs_of(2))}
    path = artifact(tmp_path, words(np.ones((1, WIDTH))), vectors, uses)
    with pytest.raises(tensorark.Unsupported) as refused:
        export_parameters(path, tmp_path / "p.safetensors")
    assert refused.value.code == "inputs"
    assert not (tmp_path / "p.safetensors").exists()


def test_a_role_that_nobody_knows_is_refused(tmp_path):
    vectors = {"a": words(signs_of(1))}
    path = artifact(tmp_path, words(np.ones((1, WIDTH))), vectors, [{"mystery": "a"}])
    with pytest.raises(tensorark.Unsupported) as refused:
        export_parameters(path, tmp_path / "p.safetensors")
    assert refused.value.code == "unknown-auxiliary"


def test_permuted_columns_are_refused(tmp_path):
    """Rows of gguf_q2_0 are blocks of 18 bytes for 64 elements."""
    columns = np.arange(64, dtype="<i4")[::-1]
    objects = [
        {"id": "m", "kind": "tensor", "shape": [2, 64], "format": "gguf_q2_0",
         "layout": "gguf_blocks_v1", "offset": 0, "bytes": 36},
        {"id": "c", "kind": "tensor", "shape": [64], "format": "int32",
         "layout": "contiguous_le_v1", "offset": 256, "bytes": 256},
    ]  # fmt: skip
    auxiliaries = {"input_columns": {"object": "c"}}
    directory = {
        "components": {"text": {"config": {}}},
        "objects": objects,
        "bindings": {"m": {"object": "m"}},
        "uses": [{"parameter": "m", "input": "x", "auxiliaries": auxiliaries}],
    }
    path = write_set(tmp_path, directory, bytes(256) + columns.tobytes())
    with pytest.raises(tensorark.Unsupported) as refused:
        export_parameters(path, tmp_path / "p.safetensors")
    assert refused.value.code == "inputs"


def test_a_checkpoint_has_the_weights_of_its_authors(tmp_path, monkeypatch):
    """Head, token table (which has no use, and the signs of the head) and one matrix, rotated."""
    monkeypatch.setattr(synthetic, "H", WIDTH)
    names = {
        "model.embed_tokens.weight": None,
        "lm_head.weight": "text/output_head",
        "model.layers.3.self_attn.q_proj.weight": None,
        "model.layers.2.mlp.up_proj.weight": "text/layers/2/mlp/up",
    }
    tensors = synthetic.write_checkpoint(tmp_path / "m", hidden_size=WIDTH)
    signs = signs_of(7)
    turned = dict(tensors)
    for name in ("model.embed_tokens.weight", *(each for each in names if names[each])):
        turned[name] = words(rotated(tensors[name].astype(np.float32), signs))
    synthetic.write_model(tmp_path / "m", turned)
    convert_checkpoint(tmp_path / "m", tmp_path / "m.ninfer", "bf16")
    used = {each for each in names.values() if each}
    path = with_signs(tmp_path / "m.ninfer", tmp_path / "signs.ninfer", used, signs)
    export_checkpoint(path, tmp_path / "back")
    with tensorark.open(tmp_path / "back" / "model.safetensors") as file:
        for name, array in tensors.items():
            found, expected = file[name].numpy().astype(np.float32), array.astype(np.float32)
            if turned[name] is not array:
                assert file[name].dtype == "f32"
                gap = np.abs(found - expected).max() / np.abs(expected).max()
                assert gap < 0.01, name  # bf16 of what was rotated
            else:
                assert (found == expected).all(), name


def with_signs(path, target, parameters, signs):
    """Write an artifact again, with signs for the uses of these parameters."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[8:16])
    directory = json.loads(data[32 : 32 + size])
    payload = data[up(32 + size, PAGE) :]
    start = up(len(payload), 256)
    payload = payload.ljust(start, b"\0") + words(signs).tobytes()
    directory["objects"].append(
        {"id": "signs", "kind": "tensor", "shape": [len(signs)], "format": "bf16",
         "layout": "contiguous_le_v1", "offset": start, "bytes": 2 * len(signs)}
    )  # fmt: skip
    for use in directory["uses"]:
        if use["parameter"] in parameters:
            use["auxiliaries"] = {"hadamard_signs": {"object": "signs"}}
    directory["files"] = [{"path": None, "payload_bytes": len(payload)}]
    target.write_bytes(entry(json.dumps(directory).encode(), payload))
    return target
