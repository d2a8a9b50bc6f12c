"""`ls`, `show`, `tree`, `cat` and `stat`: what they say of a small model, by hand."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tensorark
from tensorark.numpy import save_file
from tensorark.report import report
from tests.unit.formats.ninfer.sets import model as write_artifact


def test_ls_lists_numbers_by_value_and_totals_by_type(tark, zt):
    assert tark("ls", zt).out.splitlines() == [
        "name              type  shape  size",
        "layers.0.weight   f32   2×3    24 B",
        "layers.2.weight   f32   2×3    24 B",
        "layers.10.weight  f32   2×3    24 B",
        "norm              i16   4       8 B",
        "4 tensors, 22 elements, 80 B: f32 3 (72 B), i16 1 (8 B)",
    ]


def test_ls_chooses_sorts_and_limits(tark, st):
    ran = tark("ls", st, "-q", "--include", "layers.*", "--exclude", "*.2.*")
    assert ran.out.split() == ["layers.0.weight", "layers.10.weight"]
    assert tark("ls", st, "-q", "--sort", "type", "--limit", "1").out.split() == ["layers.0.weight"]
    assert tark("ls", st, "-q", "--sort", "size").out.split()[-1] == "norm"
    ran = tark("ls", st, "--limit", "1")
    assert ran.out.splitlines()[-2:] == [
        "… and 3 more",
        "4 tensors, 22 elements, 80 B: f32 3 (72 B), i16 1 (8 B)",
    ]


def test_ls_sorts_as_in_the_file(tark, tmp_path):
    path = tmp_path / "x.safetensors"
    header = b'{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
    header += b'"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\1\2")
    assert tark("ls", path, "-q", "--sort", "file").out.split() == ["b", "a"]
    assert tark("ls", path, "-q").out.split() == ["a", "b"]


def test_ls_in_full_shows_layout_place_and_digest(tark, zt):
    line = tark("ls", "-l", zt).out.splitlines()[1]
    assert line.startswith("layers.0.weight   f32   2×3    24 B  dense   data: f32, 24 B, bytes ")
    assert ", xxh3:" in line


def test_ls_as_json_has_a_schema_and_every_model(tark, folder):
    document = json.loads(tark("ls", folder, "--json").out)
    assert document["schema"] == "tensorark.ls/1"
    assert [each["path"] for each in document["models"]] == [
        str(folder / "a.zt"),
        str(folder / "b.safetensors"),
    ]
    assert document["models"][1]["tensors"] == [
        {
            "name": "w",
            "type": "f32",
            "shape": [2],
            "elements": 2,
            "nbytes": 8,
            "layout": "dense",
            "scheme": None,
        }
    ]


def test_ls_of_a_folder_has_a_heading_for_each_model(tark, folder):
    ran = tark("ls", folder)
    assert ran.out.splitlines()[0] == f"{folder}/a.zt:"
    assert f"{folder}/b.safetensors:" in ran.out.splitlines()


def test_ls_of_a_folder_goes_on_after_a_broken_model(tark, folder):
    (folder / "a.zt").write_bytes(b"")
    ran = tark("ls", folder)
    assert ran.code == 3
    assert "w     f32   2       8 B" in ran.out
    assert ran.err.startswith("error: ")


def test_options_may_stand_before_the_verb(tark, zt):
    assert tark("--json", "ls", zt).out == tark("ls", zt, "--json").out
    assert tark("-q", "ls", zt).out == tark("ls", zt, "-q").out


def test_show_describes_a_file(tark, tmp_path):
    path = tmp_path / "tied.zt"
    same = np.arange(4, dtype=np.float32)
    save_file({"a": same, "b": same, "c": np.ones(2, np.float32)}, path, {"steps": 3, "by": "us"})
    lines = tark("show", path).out.splitlines()
    assert lines == [
        f"file        {path}",
        "format      zTensor v2 (zt)",
        f"size        {path.stat().st_size / 1024:.1f} KiB ({path.stat().st_size:,} bytes)",
        "tensors     3 tensors, 10 elements, 40 B: f32 3 (40 B)",
        "digests     3 of 3 parts (xxh3 3)",
        "alignment   all 3 parts at multiples of 4096",
        "aliases     a = b",
        "attributes  by = us",
        "            steps = 3",
    ]


def test_show_counts_what_is_not_aligned(tark, tmp_path):
    path = tmp_path / "odd.safetensors"
    header = b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},'
    header += b'"b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}}'
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(7))
    facts = json.loads(tark("show", path, "--json").out)["alignment"]
    start = 8 + len(header)
    assert facts == {
        "parts": 2,
        "off_dtype": 1,
        "off_64": (start % 64 != 0) + 1,
        "off_4096": 2,
    }


def test_show_guesses_a_family_and_says_that_it_guesses(tark, tmp_path):
    path = tmp_path / "llama.safetensors"
    save_file({"model.layers.0.self_attn.q_proj.weight": np.zeros(1, np.float32)}, path)
    ran = tark("show", path)
    assert "guess      a decoder of the Llama kind, to judge by its names" in ran.out


def test_show_one_tensor_with_its_first_values(tark, zt):
    lines = tark("show", zt, "norm", "--decode", "--limit", 3).out.splitlines()
    assert lines[:5] == [
        "name       norm",
        "shape      4 (4 elements)",
        "type       i16",
        "layout     dense",
        "size       8 B (8 bytes)",
    ]
    assert lines[-1] == "values     1 2 0"


def test_show_decodes_scalars_empty_tensors_and_odd_floats(tark, tmp_path):
    path = tmp_path / "x.zt"
    odd = np.array([np.nan, np.inf, 1.5], np.float32)
    save_file({"s": np.float32(2.5), "e": np.zeros((0, 3), np.float32), "n": odd}, path)
    assert tark("show", path, "s", "--decode").out.splitlines()[-1].split() == ["values", "2.5"]
    assert tark("show", path, "e", "--decode").out.splitlines()[-1].split() == ["values", "none"]
    found = json.loads(tark("show", path, "n", "--decode", "--json").out)["values"]
    assert found == [{"$float": "nan"}, {"$float": "inf"}, 1.5]


def test_show_names_what_looks_like_the_name_that_is_not_there(tark, zt):
    ran = tark("show", zt, "norn")
    assert ran.code == 2
    assert 'hint: did you mean "norm"?' in ran.err


def test_show_lists_the_files_of_a_set(tark, zt, tmp_path):
    target = tmp_path / "set.safetensors"
    assert tark("convert", zt, target, "--max-size", 440).code == 0
    index = tmp_path / "set.safetensors.index.json"
    files = json.loads(tark("show", index, "--json").out)["files"]
    shards = sorted(each.name for each in tmp_path.glob("set-*.safetensors"))
    assert len(shards) == 2
    assert files == [
        {"label": label, "size": (tmp_path / name).stat().st_size, "present": True}
        for label, name in [(None, index.name), *((each, each) for each in shards)]
    ]


@pytest.mark.parametrize("how", ["missing", "another"])
def test_show_says_which_tensors_a_missing_shard_holds(tark, zt, tmp_path, how):
    assert tark("split", zt, tmp_path / "s.zt", "--by", "layer").code == 0
    shard = tmp_path / "s-00002-of-00004.zt"
    shard.write_bytes(b"") if how == "another" else shard.unlink()
    assert "00002-of-00004  missing, with 1 tensor: layers.0.weight" in (
        tark("show", tmp_path / "s.zt").out
    )
    files = json.loads(tark("show", tmp_path / "s.zt", "--json").out)["files"]
    assert [each.get("tensors") for each in files] == [None, None, ["layers.0.weight"], None, None]


@pytest.mark.parametrize("frame_size", [1, 7, 4096])
def test_stat_takes_compressed_tensors_apart_wherever_frames_end(
    tark, tmp_path, frame_size, monkeypatch
):
    monkeypatch.setattr("tensorark.report.statistics.WHOLE", 0)  # nothing is read as a whole
    arrays = {
        "c": np.arange(40, dtype="c16") * 1j,
        "d": np.linspace(-1, 2, 99),
        "s": np.arange(-30, 70, dtype="i2"),
    }
    with tensorark.Writer(tmp_path / "z.zt", encoding="zstd", frame_size=frame_size) as writer:
        for name, array in arrays.items():
            writer.add(name, array)
    rows = json.loads(tark("stat", tmp_path / "z.zt", "--json").out)["tensors"]
    for row, array in zip(rows, (abs(arrays["c"]), arrays["d"], arrays["s"]), strict=True):
        assert (row["min"], row["max"]) == (array.min(), array.max())
        assert row["mean"] == pytest.approx(array.mean())
        assert row["std"] == pytest.approx(array.std())


def test_tree_folds_layers_that_look_alike(tark, zt):
    assert tark("tree", zt).out.splitlines() == [
        "layers.#.weight ×3 (0,2,10)  f32  2×3  24 B",
        "norm                         i16  4     8 B",
        "4 tensors, 22 elements, 80 B: f32 3 (72 B), i16 1 (8 B)",
    ]


def test_cat_writes_an_array_file_that_numpy_loads(tark, zt, tmp_path):
    out = tmp_path / "w.npy"
    assert tark("cat", zt, "layers.0.weight", "-o", out).code == 0
    assert np.load(out).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tark("cat", zt, "norm", "-o", out).code == 2
    assert tark("cat", zt, "norm", "-o", out, "--force").code == 0
    assert np.load(out).dtype == np.int16


def test_cat_pipes_bytes(process, zt):
    raw = process("cat", zt, "norm", "--as", "raw").communicate()[0]
    assert raw == np.array([1, 2, 0, -3], "<i2").tobytes()
    npy = process("cat", zt, "layers.0.weight", "--slice", "1,:2").communicate()[0]
    assert np.load(io.BytesIO(npy)).tolist() == [3, 4]


def test_cat_writes_text_and_slices(tark, zt):
    assert tark("cat", zt, "layers.0.weight", "--as", "text").out == "0.0 1.0 2.0\n3.0 4.0 5.0\n"
    ran = tark("cat", zt, "layers.0.weight", "--as", "text", "--slice", "::-1,1")
    assert ran.out == "4.0 1.0\n"
    assert tark("cat", zt, "norm", "--as", "text", "--slice", "...,-1").out == "-3\n"


@pytest.mark.parametrize("index", ["", "a", "1:2:3:4", "0,,1", "0,0,0", "9", "__import__('os')"])
def test_cat_refuses_what_is_no_index_or_does_not_fit(tark, zt, index):
    ran = tark("cat", zt, "norm", "--as", "text", "--slice", index)
    assert ran.code == 2
    assert ran.err.startswith("error: ")


def test_cat_keeps_the_bits_of_types_that_numpy_lacks_and_says_so(tark, tmp_path):
    path, out = tmp_path / "b.zt", tmp_path / "b.npy"
    values = np.array([1.5, -2, 0.25], ml_dtypes.bfloat16)
    save_file({"b": values}, path)
    ran = tark("cat", path, "b", "-o", out)
    assert ran.err.startswith("note: numpy has no bf16")
    assert np.load(out).view(ml_dtypes.bfloat16).tolist() == [1.5, -2, 0.25]


def test_cat_asks_for_a_part_where_there_are_several(tark, tmp_path):
    path = tmp_path / "csr.zt"
    with tensorark.Writer(path) as writer:
        parts = {
            "values": (("f32", None), [np.array([7], "<f4").tobytes()]),
            "indices": (("u32", None), [np.array([1], "<u4").tobytes()]),
            "indptr": (("u32", None), [np.array([0, 1], "<u4").tobytes()]),
        }
        writer.add_parts("m", (1, 3), "zt.sparse_csr/1", parts)
    assert tark("cat", path, "m", "--as", "text").out == "0.0 7.0 0.0\n"
    assert tark("cat", path, "m", "--as", "raw").code == 2
    out = tmp_path / "v"
    assert tark("cat", path, "m", "--as", "raw", "--part", "values", "-o", out).code == 0
    assert out.read_bytes() == np.array([7], "<f4").tobytes()
    assert tark("cat", path, "m", "--as", "raw", "--part", "nope").code == 2


def test_stat_agrees_with_numpy(tark, tmp_path):
    rng = np.random.default_rng(3)
    big = rng.standard_normal(700_001).astype(np.float32) * 3 + 1  # more than two blocks
    big[[5, 300_000]] = np.nan, -np.inf
    big[7] = 0
    path = tmp_path / "x.safetensors"
    save_file(
        {
            "big": big,
            "half": rng.standard_normal((50, 4)).astype(ml_dtypes.bfloat16),
            "ints": np.array([[2**63, 1], [0, 3]], np.uint64),
            "flags": np.array([True, False, True]),
            "empty": np.zeros((0,), np.float64),
        },
        path,
    )
    rows = {each["name"]: each for each in json.loads(tark("stat", path, "--json").out)["tensors"]}
    finite = big[np.isfinite(big)].astype(np.float64)
    assert (rows["big"]["nan"], rows["big"]["inf"], rows["big"]["zeros"]) == (1, 1, 1)
    assert rows["big"]["min"] == finite.min()
    assert rows["big"]["max"] == finite.max()
    assert rows["big"]["mean"] == pytest.approx(finite.mean(), rel=1e-9)
    assert rows["big"]["std"] == pytest.approx(finite.std(), rel=1e-9)
    assert rows["ints"]["max"] == 2**63
    assert (rows["flags"]["zeros"], rows["flags"]["mean"]) == (1, pytest.approx(2 / 3))
    assert (rows["empty"]["min"], rows["empty"]["mean"], rows["empty"]["std"]) == (None,) * 3


def test_stat_counts_both_nibbles_of_packed_types_and_no_padding(tark, tmp_path):
    path = tmp_path / "f4.zt"
    values = np.array([6, -6, 0.5], ml_dtypes.float4_e2m1fn)
    save_file({"f4": values}, path)
    (row,) = json.loads(tark("stat", path, "--json").out)["tensors"]
    assert (row["min"], row["max"], row["zeros"]) == (-6, 6, 0)


def test_stat_counts_no_padding_after_many_blocks(tark, tmp_path):
    path = tmp_path / "f4.zt"
    nbytes = (1 << 20) + 1  # one block and a byte, half of which is padding
    with tensorark.Writer(path) as writer:
        writer.add_parts(
            "x", (2 * nbytes - 1,), "dense", {"data": (("u8", "f4_e2m1"), [bytes(nbytes)])}
        )
    (row,) = json.loads(tark("stat", path, "--json").out)["tensors"]
    assert row["zeros"] == row["elements"] == 2 * nbytes - 1


def test_stat_shows_the_rest_when_one_tensor_cannot_be_read(tark, tmp_path):
    path = tmp_path / "x.zt"
    with tensorark.Writer(path) as writer:
        writer.add("a", np.ones(2, np.float32))
        writer.add_parts("b", (2,), "acme.secret/1", {"data": (("u8", None), [b"xy"])})
    ran = tark("stat", path)
    assert ran.code == 4
    assert ran.out.splitlines()[1].split() == ["a", "f32", "2", "1", "1", "1", "0", "0", "0", "0"]
    assert "acme.secret/1" in ran.err


def test_stat_of_no_tensor_is_a_mistake(tark, zt):
    assert tark("stat", zt, "--include", "nothing*").code == 2


def test_ls_imports_neither_numpy_nor_rich_nor_torch(zt):
    script = (
        "import sys; from tensorark.cli import main; main(['ls', sys.argv[1]]);"
        "print(sorted({'numpy', 'rich', 'torch', 'ml_dtypes'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(zt)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"


@pytest.mark.parametrize(
    ("file", "name", "scheme"),
    [
        ("tensorbit/accept/six-hundred-tensors.tbm", "t0", "2:4"),
        ("zt/accept/quant-group--bits.zt", "2 bits", "int2/g2"),
        ("zt/accept/mx.zt", "nan", "mx/g2"),
        ("zt/accept/gguf.zt", "none", "gguf.q8_0"),
        ("zt/accept/sparse-coo.zt", "f4", "sparse_coo"),
        ("ninfer/accept/negative-scale.ninfer", "w", None),
    ],
)
def test_ls_shows_how_each_tensor_is_stored(tark, file, name, scheme):
    found = json.loads(tark("ls", CONFORMANCE / file, "--json").out)["models"][0]["tensors"]
    assert {each["name"]: each["scheme"] for each in found}[name] == scheme
    assert (" scheme" in tark("ls", CONFORMANCE / file).out.splitlines()[0]) == bool(scheme)


ODD_SCHEMES = [
    ("tensorbit.nm/1", {"tensorbit": {"n": "x", "m": 1 << 99, "dtype": 7}}, "?:?"),
    (
        "tensorbit.nm/1",
        {"tensorbit": {"n": 2, "m": 4, "dtype": "int4", "group_size": 32}},
        "2:4 int4/g32",
    ),
    ("tensorbit.nm/1", None, "?:?"),
    ("zt.quant_group/1", {"bits": -1, "group_size": []}, "int?/g?"),
    ("zt.quant_group/1", {"bits": 8, "group_size": 0}, "int8/channel"),
    ("mlx.affine/1", {"bits": 4, "group_size": 64}, "int4/g64"),
    ("acme", {}, "acme"),
]


@pytest.mark.parametrize(("layout", "attributes", "scheme"), ODD_SCHEMES)
def test_a_scheme_is_told_from_any_attributes(layout, attributes, scheme):
    part = tensorark.Part(tensorark.Raw((tensorark.Span(0, 1),)), "u8")
    tensor = tensorark.Tensor("x", (1,), layout, {"data": part}, attributes)
    assert report.scheme(tensor) == scheme


def test_show_tells_what_an_artifact_is_beside_its_objects(tark, tmp_path):
    path = write_artifact(tmp_path, (300, 600, 1100))
    document = json.loads(tark("show", path, "--json").out)["artifact"]
    with tensorark.open(path) as file:
        native = file.catalog.native
        assert document["artifact_id"] == native.artifact_id
        assert document["components"].keys() == native.components.keys()
    lines = tark("show", path).out
    assert document["artifact_id"] in lines
    for name in document["components"]:
        assert re.search(rf"component +{name}", lines)
    assert "  config" in lines


def test_a_report_says_what_a_file_takes_and_what_makes_it_smaller(tark, tmp_path):
    source, target = tmp_path / "small.safetensors", tmp_path / "m.zt"
    save_file({f"t{n}": np.full(64, n, np.float32) for n in range(40)}, source)
    ran = tark("convert", source, target)
    assert "written 2.6 MiB" in ran.out
    assert "--compact makes it smaller" in ran.err
    document = json.loads(tark("convert", source, target, "-f", "--json").out)
    assert document["file_bytes"] == target.stat().st_size
    ran = tark("convert", source, target, "-f", "--compact")
    assert (ran.code, ran.err) == (0, "")
    assert target.stat().st_size < 200_000
    assert tark("convert", source, target, "-f", "--compact", "--align", 8192).code == 2
    assert tark("convert", source, tmp_path / "n.safetensors", "--compact").code == 2
