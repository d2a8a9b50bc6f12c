"""`prune`, `sparsity` and `mend`: their command lines; what they do is tested elsewhere."""

import json

import numpy as np
import pytest

import tensorark
from conformance.tensorbit.build.image import container, dense_entry, entry, index, sparse, usual
from tensorark.numpy import save_file


@pytest.fixture
def model(tmp_path):
    arrays = {
        "model.layers.0.mlp.up_proj.weight": np.arange(1, 33, dtype=np.float32).reshape(4, 8),
        "model.layers.1.mlp.up_proj.weight": np.arange(1, 33, dtype=np.float32).reshape(4, 8),
        "model.norm.weight": np.ones(8, np.float32),
    }
    save_file(arrays, tmp_path / "in.safetensors")
    return tmp_path / "in.safetensors"


@pytest.fixture
def tbm(tmp_path):
    (tmp_path / "in.tbm").write_bytes(usual())
    return tmp_path / "in.tbm"


def test_prune_says_what_it_took_away(tark, model, tmp_path):
    target = tmp_path / "out.tbm"
    ran = tark("prune", model, target, "--nm", "2:4", "--nm", "*.1.*=1:4", "-v")
    assert ran.code == 0
    assert "50.0%" in ran.out
    assert "75.0%" in ran.out
    assert "dense: model.norm.weight: no matrix" in ran.out
    with tensorark.open(target) as file:
        values = file["model.layers.0.mlp.up_proj.weight"].numpy()
        assert values[0].tolist() == [0, 0, 3, 4, 0, 0, 7, 8]
    again = tark("prune", model, target)
    assert again.code == 2
    document = json.loads(tark("prune", model, target, "-f", "--json").out)
    assert [each["pattern"] for each in document["pruned"]] == ["2:4", "2:4"]
    assert document["dense"].keys() == {"model.norm.weight"}
    assert tark("prune", model, target, "-f", "-q").out == f"{target}\n"


def test_prune_refuses_two_patterns_for_everything(tark, model, tmp_path):
    assert tark("prune", model, tmp_path / "x.zt", "--nm", "2:4", "--nm", "1:4").code == 2
    assert tark("prune", model, tmp_path / "x.zt", "--nm", "4:2").code == 2


def test_sparsity_counts_by_tensor_and_by_layer(tark, model, tmp_path):
    tark("prune", model, tmp_path / "out.tbm")
    ran = tark("sparsity", tmp_path / "out.tbm")
    assert ran.code == 0
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["model.layers.0.mlp.up_proj.weight", "2:4", "groups", "50.0%", "0", "0", "0"] in lines
    assert ["0", "50.0%"] in lines
    assert ["elsewhere", "0.0%"] in lines


def test_sparsity_of_one_tensor_shows_its_bits_and_a_contradiction_is_the_honest_no(tark, tmp_path):
    values = np.arange(1, 33, dtype="<f4").tobytes()
    blob = sparse(weights=values, mask=b"\3" * 8)
    (tmp_path / "mock.tbm").write_bytes(container([blob.data], index([entry()])))
    ran = tark("sparsity", tmp_path / "mock.tbm", "a.weight", "--limit", "2")
    assert ran.code == 1
    assert ran.out.splitlines()[-2:] == ["group 0: 03  1100", "group 1: 03  1100"]
    document = json.loads(tark("sparsity", tmp_path / "mock.tbm", "--json").out)
    (found,) = document["tensors"]
    assert (found["stray"], found["kept"], found["kept_by_groups"]) == (16, 16, {"2": 8})


def test_sparsity_finds_the_pattern_of_dense_zeros(tark, model, tmp_path):
    tark("prune", model, tmp_path / "out.safetensors")
    document = json.loads(tark("sparsity", tmp_path / "out.safetensors", "--json").out)
    assert [each["detected"] for each in document["tensors"]] == ["2:4", "2:4", None]


def test_mend_lists_every_change(tark, tmp_path):
    broken = usual(entries=[entry(nm_m=8), dense_entry(4231)])
    (tmp_path / "b.tbm").write_bytes(broken)
    assert tark("validate", tmp_path / "b.tbm").code == 3
    ran = tark("mend", tmp_path / "b.tbm", tmp_path / "out.tbm")
    assert ran.code == 0
    assert "a.weight: nm_m 8 → 4" in ran.out
    assert "b.weight: offset 4231 → 4232" in ran.out
    assert tark("validate", tmp_path / "out.tbm").code == 0
    assert tark("repack", tmp_path / "b.tbm", tmp_path / "again.tbm").code == 0
    assert (tmp_path / "again.tbm").read_bytes() == (tmp_path / "out.tbm").read_bytes()
    assert "tark repack" in tark("doctor", tmp_path / "b.tbm").out


def test_mend_chooses_renames_joins_and_divides(tark, tbm, tmp_path):
    out = tmp_path / "out.tbm"
    assert (
        tark("mend", tbm, out, "--include", "a.*", "--rename", "a.=c.", "--masking", "drop").code
        == 0
    )
    with tensorark.open(out) as file:
        assert {name: view.layout for name, view in file.items()} == {"c.weight": "dense"}
    ran = tark("mend", tbm, tmp_path / "p.tbm", "--max-size", "4300")
    assert ran.code == 0
    parts = sorted(tmp_path.glob("p-*.tbm"))
    assert len(parts) == 2
    document = json.loads(tark("mend", parts[0], out, "--join", parts[1], "-f", "--json").out)
    assert document["written"][0]["tensors"] == 2
    assert out.read_bytes() == tbm.read_bytes()
    assert tark("mend", tbm, out, "--join", parts[0], "--include", "a.*").code == 2
    assert tark("mend", tbm, out, "-f", "--rename", "x").code == 2


def test_mend_takes_the_configuration_of_hugging_face(tark, tbm, tmp_path):
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 3, "hidden_size": 8}')
    words = ("--config", tmp_path / "config.json", "--architecture-name", "qwen2")
    assert tark("mend", tbm, tmp_path / "out.tbm", *words).code == 0
    with tensorark.open(tmp_path / "out.tbm") as file:
        facts = file.attributes["tensorbit"]
        assert facts["config"] == {"num_layers": 3, "hidden_size": 8}
        assert facts["architecture"] == "qwen2"
    (tmp_path / "config.json").write_text("[")
    assert tark("mend", tbm, tmp_path / "x.tbm", *words).code == 2


def test_convert_casts_and_applies_masks_when_asked(tark, tmp_path):
    values = np.full(32, 1.001, "<f4").tobytes()
    blob = sparse(weights=values, mask=b"\3" * 8)
    (tmp_path / "mock.tbm").write_bytes(container([blob.data], index([entry()])))
    target = tmp_path / "out.safetensors"
    assert tark("convert", tmp_path / "mock.tbm", target).code == 4
    ran = tark("convert", tmp_path / "mock.tbm", target, "--masking", "masked", "--cast", "bf16")
    assert ran.code == 0
    assert "cast to bf16: 32 of 32 values changed" in ran.err
    document = json.loads(
        tark("convert", target, tmp_path / "out.tbm", "--sparse", "detect", "--json").out
    )
    assert document["target_format"] == "tbm"


def test_lenient_says_what_it_let_pass(tark, tmp_path):
    broken = usual(sparse(magic=b"TB10"), entries=[entry(), dense_entry(4232, shape=[9, 9])])
    (tmp_path / "b.tbm").write_bytes(broken)
    assert tark("show", tmp_path / "b.tbm").code == 3
    ran = tark("show", tmp_path / "b.tbm", "b.weight", "--decode", "--lenient")
    assert ran.code == 0
    assert "tb.magic" in ran.err
    assert "tb.shape" in ran.err
    assert 'left out: "a.weight"' in ran.err
    assert "0.0 0.25 0.5" in ran.out
    assert tark("cat", tmp_path / "b.tbm", "b.weight", "--as", "text", "--lenient").code == 0
    assert tark("sparsity", tmp_path / "b.tbm", "--lenient").code == 0


def test_show_and_validate_know_tensorbit(tark, tbm):
    out = tark("show", tbm, "a.weight", "--decode").out
    assert "tensorbit.nm/1" in out
    assert '{"n": 2, "m": 4}' in out
    assert "1.0 0.0 2.0 0.0" in out
    bits = json.loads(tark("show", tbm, "a.weight", "--decode", "--limit", "6", "--json").out)
    with tensorark.open(tbm) as file:
        mask = bytes(file["a.weight"].raw("mask"))
    assert bits["mask_bits"] == [f"{octet:04b}"[::-1] for octet in mask[:2]]
    assert "mask bits" not in tark("show", tbm, "b.weight", "--decode").out


def test_a_tensor_has_one_type_whatever_the_order_of_its_parts(tark, tbm, tmp_path):
    """In a `.zt` the mask comes first."""
    assert tark("convert", tbm, tmp_path / "in.zt").code == 0
    types = [json.loads(tark("ls", each, "--json").out) for each in (tbm, tmp_path / "in.zt")]
    first, second = ([each["type"] for each in one["models"][0]["tensors"]] for one in types)
    assert first == second
    assert "u8" not in first


def test_a_mask_that_holds_is_judged_and_that_is_said(tark, tbm):
    ran = tark("verify", tbm)
    assert ran.code == 0
    assert "verified in part" in ran.out
    assert "no digests; 2 of 3 parts judged by the rules of their format" in ran.out
    assert "nothing checked" not in ran.out
    blob = sparse(weights=np.ones(32, "f4").tobytes(), mask=b"\3" * 8)
    tbm.write_bytes(container([blob.data], index([entry()])))
    assert tark("verify", tbm).code == 1


def test_a_model_without_a_mask_is_not_called_judged(tark, model, tmp_path):
    assert tark("convert", model, tmp_path / "dense.tbm").code == 0
    ran = tark("verify", tmp_path / "dense.tbm")
    assert ran.code == 4
    assert "nothing checked" in ran.out


def test_tree_lets_pass_what_the_others_do(tark, tmp_path):
    (tmp_path / "b.tbm").write_bytes(usual(sparse(magic=b"TB10")))
    assert tark("tree", tmp_path / "b.tbm").code == 3
    ran = tark("tree", tmp_path / "b.tbm", "--lenient")
    assert ran.code == 0
    assert 'left out: "a.weight"' in ran.err


def test_values_are_compared_however_they_are_stored(tark, tmp_path):
    values = np.random.default_rng(3).standard_normal((8, 16)).astype(np.float32)
    save_file({"w": values, "b": np.ones(3, np.float32)}, tmp_path / "d.safetensors")
    tark("prune", tmp_path / "d.safetensors", tmp_path / "d.tbm")
    tark("convert", tmp_path / "d.tbm", tmp_path / "d2.safetensors")
    assert tark("diff", tmp_path / "d.tbm", tmp_path / "d2.safetensors").code == 1
    assert tark("diff", tmp_path / "d.tbm", tmp_path / "d2.safetensors", "--values").code == 0
    ran = tark("diff", tmp_path / "d.safetensors", tmp_path / "d.tbm", "--values", "--json")
    (change,) = json.loads(ran.out)["changes"]
    assert (ran.code, change["name"], change["what"], change["elements"]) == (1, "w", "values", 64)
    save_file({"w": values.astype("f2"), "b": np.ones((1, 3), "f4")}, tmp_path / "h.zt")
    ran = tark("diff", tmp_path / "d.safetensors", tmp_path / "h.zt", "--values", "--json")
    assert {each["what"] for each in json.loads(ran.out)["changes"]} == {"type", "shape"}


def test_applying_a_mask_lists_what_it_changes_and_nothing_else(tark, tmp_path):
    values = np.arange(1, 9, dtype=np.float32).reshape(1, 8)
    save_file({"w": values}, tmp_path / "d.zt")
    tark("prune", tmp_path / "d.zt", tmp_path / "d.tbm")
    ran = tark("mend", tmp_path / "d.tbm", tmp_path / "e.tbm", "--masking", "apply", "--json")
    assert json.loads(ran.out)["written"][0]["changes"] == []


@pytest.mark.parametrize("way", ["import", "detect", "export"])
def test_a_step_that_finds_nothing_to_do_says_so(tark, tmp_path, way):
    save_file({"w": np.ones((4, 4), np.float32)}, tmp_path / "in.zt")
    done = tark("convert", tmp_path / "in.zt", tmp_path / "out.zt", "--sparse", way)
    assert done.code == 0
    assert "nothing was there" in done.err


def test_convert_says_that_masks_are_only_zeros_now(tark, tmp_path):
    save_file({"l.weight": np.eye(4, 8, dtype=np.float32)}, tmp_path / "in.zt")
    assert tark("prune", tmp_path / "in.zt", tmp_path / "in.tbm").code == 0
    for flags in ([], ["--dry-run", "-f"]):
        done = tark("convert", tmp_path / "in.tbm", tmp_path / "out.safetensors", *flags)
        assert (
            '1 tensor made dense ("l.weight"): safetensors keeps the zeros and no masks' in done.err
        )
        done = tark(
            "convert", tmp_path / "in.tbm", tmp_path / "out.safetensors", "-f", "--json", *flags
        )
        assert json.loads(done.out)["densified"] == ["l.weight"]


def test_prune_says_that_a_configuration_is_not_carried(tark, tmp_path):
    folder = tmp_path / "hf"
    folder.mkdir()
    save_file({"l.weight": np.ones((4, 8), np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    done = tark("prune", folder, tmp_path / "out.tbm")
    assert done.code == 0
    assert "beside the model, and not taken along: config.json" in done.err
    assert "no `config`" in tark("doctor", tmp_path / "out.tbm").out
    done = tark("prune", folder, tmp_path / "out.tbm", "-f", "--json")
    assert json.loads(done.out)["beside"] == ["config.json"]


@pytest.mark.parametrize("verb", ["convert", "prune"])
def test_a_buffer_that_the_target_cannot_hold_is_left_out_when_asked(tark, tmp_path, verb):
    weights = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    save_file({"w": weights, "bn.num_batches_tracked": np.array(3)}, tmp_path / "in.safetensors")
    words = (verb, tmp_path / "in.safetensors", tmp_path / "out.tbm")
    refused = tark(*words)
    assert refused.code == 4
    assert "--drop tensors" in refused.err
    assert tark(*words, "--dry-run").code == 4
    document = json.loads(tark(*words, "--drop", "tensors", "--json").out)
    assert document["dropped"] == {"tensors": ["bn.num_batches_tracked"]}
    told = tark(*words, "--drop", "tensors", "-f")
    assert 'left out: tensors "bn.num_batches_tracked"' in told.err


def test_what_joining_and_dividing_leave_out_is_listed(tark, tmp_path):
    blob = sparse().data
    (tmp_path / "in.tbm").write_bytes(container([blob, b"left over"], index([entry()])))
    words = ("mend", tmp_path / "in.tbm", tmp_path / "out.tbm")
    for way in (("--max-size", "9999"), ()):
        assert tark(*words, *way).code == 4
        ran = tark(*words, *way, "--drop", "gaps")
        assert ran.code == 0
        assert f'left out: gaps "bytes {len(blob)} to {len(blob) + 9}"' in ran.out


def test_validate_tells_of_a_blob_without_an_entry(tark, tmp_path):
    blob = sparse().data
    (tmp_path / "in.tbm").write_bytes(container([blob, blob], index([entry()])))
    ran = tark("validate", tmp_path / "in.tbm")
    assert ran.code == 0
    assert "note: a blob has no entry in the index: 32 weights, 2:4" in ran.out
    assert f"byte {len(blob)}" in ran.out
    document = json.loads(tark("validate", tmp_path / "in.tbm", "--json").out)
    assert [each["rule"] for each in document["models"][0]["notes"]] == ["tb.orphan"]
    assert "tail -c +" in tark("doctor", tmp_path / "in.tbm").out
    assert tark("explain", "tb.orphan").code == 0
