"""Quantized checkpoints: imported with the values that they mean, exported byte for byte.

The checkpoints are made here, code by code, and dequantized here by the formula of their format.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import tensorark
from tensorark.conversion.pipeline import Conversion

MLX = json.loads((Path(__file__).resolve().parents[1] / "data/mlx-affine.json").read_text())
AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)  # which of eight columns each nibble holds, lowest first


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    numbers = itertools.count()
    return lambda: tmp_path_factory.mktemp(f"model{next(numbers)}")


def word(codes, bits):
    """One i32 of codes, the first in the lowest bits."""
    value = sum(int(code) << (bits * lane) for lane, code in enumerate(codes))
    return value - (1 << 32) if value >> 31 else value


def packed(codes, bits, axis):
    """A matrix of codes in words along one axis."""
    lines = codes.T if axis == 0 else codes
    step = 32 // bits
    words = [
        [word(line[at : at + step], bits) for at in range(0, len(line), step)] for line in lines
    ]
    made = np.array(words, np.int32).reshape(len(lines), -1)
    return np.ascontiguousarray(made.T if axis == 0 else made)


def awq_packed(codes):
    words = [
        [word([line[at + column] for column in AWQ_COLUMNS], 4) for at in range(0, len(line), 8)]
        for line in codes
    ]
    return np.array(words, np.int32)


class Layer:
    """Codes, zero points and scales of a layer, and the weight that they mean: [out, in]."""

    def __init__(self, seed, inputs, outputs, group_size, bits, *, least=0):
        rng = np.random.default_rng(seed)
        groups = inputs // group_size
        self.bits, self.group_size, self.inputs = bits, group_size, inputs
        self.codes = rng.integers(0, 2**bits, (inputs, outputs))
        self.zeros = rng.integers(least, 2**bits, (groups, outputs))
        self.scales = rng.standard_normal((groups, outputs)).astype(np.float16)

    def weight(self):
        values = np.empty(self.codes.T.shape, np.float32)
        for (row, column), code in np.ndenumerate(self.codes):
            group = row // self.group_size
            scale = float(self.scales[group, column])
            values[column, row] = (int(code) - int(self.zeros[group, column])) * scale
        return values

    def gptq(self, *, less=1, index=True):
        made = {
            "qweight": packed(self.codes, self.bits, 0),
            "qzeros": packed(self.zeros - less, self.bits, 1),
            "scales": self.scales,
        }
        if index:
            made["g_idx"] = (np.arange(self.inputs) // self.group_size).astype(np.int32)
        return made

    def awq(self):
        return {
            "qweight": awq_packed(self.codes),
            "qzeros": awq_packed(self.zeros),
            "scales": self.scales,
        }


def gptq_config(layer, **fields):
    usual = {
        "quant_method": "gptq",
        "bits": layer.bits,
        "group_size": layer.group_size,
        "desc_act": False,
        "sym": False,
        "checkpoint_format": "gptq",
    }
    return {"quantization_config": {**usual, **fields}}


def awq_config(layer, **fields):
    usual = {"quant_method": "awq", "bits": 4, "group_size": layer.group_size, "version": "gemm"}
    return {"quantization_config": {**usual, **fields}}


def write(folder, tensors, config, name="config.json"):
    path = folder / "model.safetensors"
    save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, path,
              metadata={"format": "pt"})  # fmt: skip
    if config is not None:
        (folder / name).write_text(json.dumps(config))
    return path


def named(layer, prefix="model.layers.0.mlp.up_proj."):
    return {prefix + role: array for role, array in layer.items()}


def imported(path, **options) -> tuple[tensorark.File, Conversion]:
    target = path.with_name("model.zt")
    report = tensorark.convert(path, target, quantized="import", **options)
    assert tensorark.validate(target, canonical=True) == []
    return tensorark.open(target), report


def assert_comes_back(path, tensors):
    """Export what was imported, and compare with the tensors that the checkpoint began with."""
    back = path.with_name("back.safetensors")
    report = tensorark.convert(path.with_name("model.zt"), back, quantized="export")
    found = load_file(back)
    assert set(found) == set(tensors)
    for name, array in tensors.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name
    return report


NAME = "model.layers.0.mlp.up_proj.weight"


@given(
    seed=st.integers(0, 2**32),
    bits=st.sampled_from([2, 4, 8]),
    version=st.sampled_from(["gptq", "gptq_v2"]),
    index=st.booleans(),
    size=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_gptq_means_what_its_formula_says_and_comes_back(folders, seed, bits, version, index, size):
    groups, words = size
    less = int(version == "gptq")
    group_size = 32 // bits
    layer = Layer(seed, groups * group_size, words * 32 // bits, group_size, bits, least=less)
    tensors = named(layer.gptq(less=less, index=index)) | {"norm.weight": np.ones(3, np.float32)}
    path = write(folders(), tensors, gptq_config(layer, checkpoint_format=version))
    file, report = imported(path)
    assert report.quantized.made == (NAME,)
    assert report.quantized.left == {}
    assert set(report.quantized.replaced) == set(tensors) - {"norm.weight"}
    assert set(file) == {NAME, "norm.weight"}
    view = file[NAME]
    assert (view.layout, view.shape) == ("zt.quant_group/1", layer.codes.T.shape)
    assert np.array_equal(view.numpy(), layer.weight())
    assert file["norm.weight"].numpy().tolist() == [1, 1, 1]
    assert file.attributes == {"format": "pt"}
    assert_comes_back(path, tensors)


@given(seed=st.integers(0, 2**32), groups=st.integers(1, 3), words=st.integers(1, 3))
def test_awq_means_what_its_formula_says_and_comes_back(folders, seed, groups, words):
    layer = Layer(seed, groups * 8, words * 8, 8, 4)
    tensors = named(layer.awq()) | named({"bias": np.ones(words * 8, np.float16)})
    path = write(folders(), tensors, awq_config(layer))
    file, report = imported(path)
    assert report.quantized.left == {}
    assert np.array_equal(file[NAME].numpy(), layer.weight())
    assert_comes_back(path, tensors)


def test_the_order_of_awq_in_one_word(folders):
    """The word 0x75316420 holds the columns 0 to 7, as AWQ interleaves them."""
    layer = Layer(0, 8, 8, 8, 4)
    layer.codes = np.tile(np.arange(8), (8, 1))
    layer.zeros[:] = 0
    assert hex(layer.awq()["qweight"][0, 0]) == "0x75316420"
    file, _ = imported(write(folders(), named(layer.awq()), awq_config(layer)))
    assert file[NAME].decoded("data")[:4].hex() == "00000000"
    assert file[NAME].decoded("data")[4:8].hex() == "11111111"


def test_a_matrix_of_many_blocks_comes_back(folders):
    rng = np.random.default_rng(1)
    shape = (4096, 4096 // 8)
    awq = {
        "a.qweight": rng.integers(-(2**31), 2**31, shape, np.int32),
        "a.qzeros": rng.integers(-(2**31), 2**31, (32, shape[1]), np.int32),
        "a.scales": rng.standard_normal((32, 4096)).astype(np.float16),
    }
    layer = Layer(0, 8, 8, 128, 4)
    path = write(folders(), awq, awq_config(layer))
    file, report = imported(path)
    assert report.quantized.made == ("a.weight",)
    nibbles = (awq["a.qweight"].astype(np.int64)[:, :, None] >> np.arange(0, 32, 4)) & 15
    codes = np.empty_like(nibbles)
    codes[:, :, AWQ_COLUMNS] = nibbles
    held = np.frombuffer(file["a.weight"].decoded("data"), np.uint8)
    assert np.array_equal(held & 15, codes.reshape(4096, 4096).T.reshape(-1)[::2])
    assert np.array_equal(held >> 4, codes.reshape(4096, 4096).T.reshape(-1)[1::2])
    assert_comes_back(path, awq)


@pytest.mark.parametrize("bits", MLX["bits"])
def test_mlx_means_what_mlx_computes_and_comes_back(folders, bits):
    known = {role: bytes.fromhex(text) for role, text in MLX["bits"][bits].items()}
    rows, columns = MLX["shape"]
    tensors = {
        "lm.weight": np.frombuffer(known["weight"], np.uint32).reshape(rows, -1),
        "lm.scales": np.frombuffer(known["scales"], np.float32).reshape(rows, -1),
        "lm.biases": np.frombuffer(known["biases"], np.float32).reshape(rows, -1),
    }
    config = {"quantization": {"group_size": MLX["group_size"], "bits": int(bits)}}
    path = write(folders(), tensors, config)
    file, _ = imported(path)
    view = file["lm.weight"]
    assert (view.layout, view.shape) == ("mlx.affine/1", (rows, columns))
    wanted = np.frombuffer(known["dequantized"], np.float32).reshape(rows, columns)
    assert np.allclose(view.numpy(), wanted, rtol=0, atol=2**-23)  # mlx rounds the product to f32
    codes = int.from_bytes(known["weight"], "little")
    scales, biases = (tensors[f"lm.{role}"].astype(np.float64) for role in ("scales", "biases"))
    for place in (0, 1, 9, 31, 32, 63):
        row = place // columns
        code = codes >> (int(bits) * place) & ((1 << int(bits)) - 1)
        assert view[row, place % columns] == np.float32(code * scales[row, 0] + biases[row, 0])
    assert_comes_back(path, tensors)


def test_layers_of_mlx_may_differ(folders):
    def layer(bits, inputs=64):
        return {
            "weight": np.arange(2 * inputs * bits // 32, dtype=np.uint32).reshape(2, -1),
            "scales": np.full((2, inputs // 32), 0.5, np.float16),
            "biases": np.full((2, inputs // 32), -1, np.float16),
        }

    plain = {"weight": np.ones((2, 3), np.float32)}
    tensors = {}
    for prefix, held in {"a.": layer(4), "b.": layer(8), "c.": plain, "d.": layer(4)}.items():
        tensors |= named(held, prefix)
    config = {
        "quantization": {
            "group_size": 32, "bits": 4, "b": {"group_size": 32, "bits": 8}, "c": False, "d": False
        }
    }  # fmt: skip
    path = write(folders(), tensors, config)
    file, report = imported(path)
    assert {name: file[name].attributes.get("bits") for name in file if name[0] in "ab"} == {
        "a.weight": 4, "b.weight": 8,
    }  # fmt: skip
    assert set(report.quantized.left) == {"d.weight"}
    assert file["d.weight"].layout == "dense"
    assert_comes_back(path, tensors)


def scattered(layer):
    made = layer.gptq()
    made["g_idx"] = made["g_idx"][::-1].copy()
    return made


def lacking(made, role):
    return {key: value for key, value in made.items() if key != role}


USUAL = Layer(5, 16, 16, 8, 4, least=1)
SYMMETRIC = Layer(5, 16, 16, 8, 4, least=1)
SYMMETRIC.zeros[:] = 8

LEFT = {
    "no configuration": (USUAL.gptq(), None, "no configuration"),
    "another method": (
        USUAL.gptq(), {"quantization_config": {"quant_method": "fp8"}}, "fp8",
    ),
    "mlx": (USUAL.gptq(), {"quantization": {"bits": 4, "group_size": 8}}, "speaks of mlx"),
    "scattered groups": (scattered(USUAL), gptq_config(USUAL, desc_act=True), "scatters"),
    "no index": (USUAL.gptq(index=False), gptq_config(USUAL, desc_act=True), "activations"),
    "ambiguous zero": (Layer(5, 16, 16, 8, 4).gptq(), gptq_config(USUAL), "less one as 15"),
    "mislabeled": (
        SYMMETRIC.gptq(less=0), gptq_config(USUAL, sym=True), "they are not",
    ),
    "3 bits": (USUAL.gptq(), gptq_config(USUAL, bits=3), "do not divide words"),
    "other bits": (USUAL.gptq(), gptq_config(USUAL, bits=8), "do not fit"),
    "other groups": (USUAL.gptq(), gptq_config(USUAL, group_size=16), "do not fit"),
    "odd group size": (USUAL.gptq(), gptq_config(USUAL, group_size=0), "group size"),
    "a list": (USUAL.gptq(), gptq_config(USUAL, checkpoint_format=["gptq"]), "not known"),
    "marlin": (USUAL.gptq(), gptq_config(USUAL, checkpoint_format="marlin"), "marlin"),
    "dynamic": (USUAL.gptq(), gptq_config(USUAL, dynamic={"x": {}}), "different ways"),
    "gptq as awq": (USUAL.gptq(), awq_config(USUAL), "do not fit"),
    "awq as gptq": (USUAL.awq(), gptq_config(USUAL), "do not fit"),
    "awq of another version": (USUAL.awq(), awq_config(USUAL, version="gemv"), "gemv"),
    "no zeros": (lacking(USUAL.gptq(), "qzeros"), gptq_config(USUAL), "qzeros"),
    "other type": (
        {**USUAL.gptq(), "scales": USUAL.scales.astype(np.float64)}, gptq_config(USUAL), "f64",
    ),
    "other rank": (
        {**USUAL.gptq(), "scales": USUAL.scales.reshape(-1)}, gptq_config(USUAL), "1 dimensions",
    ),
    "a weight already": (
        {**USUAL.gptq(), "weight": np.ones(1)}, gptq_config(USUAL), "already",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT)
def test_what_is_not_exact_stays_as_it_is_with_the_reason(folders, case):
    layer, config, reason = LEFT[case]
    tensors = named(layer)
    file, report = imported(write(folders(), tensors, config))
    assert report.quantized.made == ()
    ((name, told),) = report.quantized.left.items()
    assert name.endswith(".qweight")
    assert reason in told
    assert set(file) == set(tensors)
    for name, array in tensors.items():
        assert file[name].numpy().tobytes() == array.tobytes()


def test_other_names_of_configurations_are_known(folders):
    """AutoGPTQ's own file, AutoAWQ's old keys, and a configuration given by hand."""
    old = {"bits": 4, "group_size": 8, "desc_act": False}
    path = write(folders(), named(USUAL.gptq()), old, name="quantize_config.json")
    file, report = imported(path)
    assert np.array_equal(file[NAME].numpy(), USUAL.weight())
    path = write(folders(), named(USUAL.awq()), {"w_bit": 4, "q_group_size": 8, "version": "GEMM"})
    file, report = imported(path)
    assert np.array_equal(file[NAME].numpy(), USUAL.weight())
    path = write(folders(), named(USUAL.gptq(less=0)), gptq_config(USUAL))
    by_hand = gptq_config(USUAL, checkpoint_format="gptq_v2")
    file, report = imported(path, quantized_config=by_hand)
    assert report.quantized.left == {}
    assert np.array_equal(file[NAME].numpy(), USUAL.weight())


def test_one_group_for_all_inputs(folders):
    layer = Layer(2, 16, 8, 16, 4, least=1)
    path = write(folders(), named(layer.gptq()), gptq_config(layer, group_size=-1))
    file, _ = imported(path)
    assert file[NAME].attributes["group_size"] == 16
    assert np.array_equal(file[NAME].numpy(), layer.weight())
    assert_comes_back(path, named(layer.gptq()))


def test_names_without_a_prefix(folders):
    path = write(folders(), USUAL.gptq(), gptq_config(USUAL))
    file, _ = imported(path)
    assert set(file) == {"weight"}
    assert_comes_back(path, USUAL.gptq())


def test_a_configuration_that_is_no_json_is_rejected(folders):
    path = write(folders(), USUAL.gptq(), None)
    for text in ('{"a": 1, "a": 2}', "[]", "{"):
        path.with_name("config.json").write_text(text)
        with pytest.raises(tensorark.Rejected) as caught:
            imported(path)
        assert caught.value.code == "config"
    path.with_name("config.json").write_text('{"quantization_config": 4}')
    with pytest.raises(tensorark.InvalidInput, match="no object"):
        imported(path)


@pytest.mark.parametrize(
    "origin",
    [
        {"method": "gptq", "zeros_less": 7, "g_idx": False},
        {"method": "gptq", "zeros_less": True, "g_idx": False},
        {"method": "gptq", "zeros_less": 0, "g_idx": 1},
        {"method": "awq", "zeros_less": 1},
        {"method": "mlx"},
        {"method": ["gptq"]},
        {},
    ],
)
def test_an_origin_that_cannot_be_is_not_followed(folders, origin):
    path = write(folders(), named(USUAL.gptq()), gptq_config(USUAL))
    file, _ = imported(path)
    view = file[NAME]
    forged = path.with_name("forged.zt")
    with tensorark.Writer(forged) as writer:
        parts = {
            role: ((part.dtype, part.type), [view.decoded(role)])
            for role, part in view.parts.items()
        }
        attributes = {**view.attributes, "tensorark.checkpoint": origin}
        writer.add_parts(NAME, view.shape, view.layout, parts, attributes=attributes)
    with pytest.raises(tensorark.Unsupported, match=r"zt\.quant_group/1"):
        tensorark.convert(forged, path.with_name("x.safetensors"), quantized="export")
    assert not path.with_name("x.safetensors").exists()


def test_options_that_do_not_fit_are_refused(folders):
    path = write(folders(), named(USUAL.gptq()), gptq_config(USUAL))
    with pytest.raises(tensorark.InvalidInput, match="no such direction"):
        tensorark.convert(path, path.with_name("x.zt"), quantized="sideways")
    with pytest.raises(tensorark.InvalidInput, match="only used to import"):
        tensorark.convert(path, path.with_name("x.zt"), quantized_config={})
    with pytest.raises(tensorark.Unsupported, match=r"zt\.quant_group/1"):
        tensorark.convert(path, path.with_name("x.safetensors"), quantized="import")
    report = tensorark.convert(path, path.with_name("x.zt"))
    assert report.quantized is None
