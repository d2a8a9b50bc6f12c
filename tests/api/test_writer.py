"""The writer: everything or nothing, and never what was there before."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
from tensorark import Writer


def names_in(folder):
    return sorted(each.name for each in folder.iterdir())


def test_nothing_appears_when_the_block_fails(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), Writer(tmp_path / "m.zt") as writer:
        writer.add("a", np.arange(3))
        raise RuntimeError("stop")
    assert names_in(tmp_path) == []


def test_what_was_there_survives_a_failure(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"a": np.arange(3)}, path)
    before = path.read_bytes()
    with pytest.raises(tensorark.InvalidInput, match="no storage type"):
        ark.save_file({"a": np.array(["text"])}, path)
    with pytest.raises(tensorark.InvalidInput), Writer(path) as writer:
        writer.add("b", np.arange(3), attributes={"": 1})
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["m.zt"]


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"": 1}, "zt.name-empty"),
        ({"a\0b": 1}, "zt.name-nul"),
        ({"k" * 1025: 1}, "zt.name-length"),
        ({"k": 2**64}, "attribute"),
        ({"k": -(2**64) - 1}, "attribute"),
        ({"k": {1, 2}}, "attribute"),
        ({"k": "\ud800"}, "attribute"),
        ({1: "k"}, "zt.name-text"),
        ({"e\u0301": 1}, "zt.canonical-names"),
    ],
)
def test_attributes_that_no_reader_would_accept_are_refused(tmp_path, attributes, code):
    with (
        pytest.raises(tensorark.InvalidInput) as caught,
        Writer(tmp_path / "m.zt", attributes=attributes) as writer,
    ):
        writer.add("a", np.arange(3))
    assert caught.value.code == code
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", ["", "a\0", "n" * 1025])
def test_names_that_no_reader_would_accept_are_refused(tmp_path, name):
    with pytest.raises(tensorark.InvalidInput), Writer(tmp_path / "m.zt") as writer:
        writer.add(name, np.arange(3))
    assert names_in(tmp_path) == []


def test_a_writer_outside_of_its_block_is_refused(tmp_path):
    writer = Writer(tmp_path / "m.zt")
    with pytest.raises(tensorark.InvalidInput, match="inside of its `with` block"):
        writer.add("a", np.arange(3))
    with writer:
        writer.add("a", np.arange(3))
    with pytest.raises(tensorark.InvalidInput, match="inside of its `with` block"):
        writer.add("b", np.arange(3))
    assert names_in(tmp_path) == ["m.zt"]


def test_a_name_given_twice_is_refused(tmp_path):
    with pytest.raises(tensorark.InvalidInput, match="twice"), Writer(tmp_path / "m.zt") as writer:
        writer.add("a", np.arange(3))
        writer.add("a", np.arange(4))


def test_an_integer_out_of_range_never_becomes_a_float(tmp_path):
    path = tmp_path / "m.zt"
    values = {"low": -(2**64), "high": 2**64 - 1, "one": 1, "float": 1.0, "flag": True}
    ark.save_file({"a": np.arange(3)}, path, values)
    with tensorark.open(path) as file:
        assert dict(file.attributes) == values
        assert [type(value) for value in file.attributes.values()] == [
            type(values[key]) for key in file.attributes
        ]


def test_equal_tensors_share_a_blob_and_come_back_under_both_names(tmp_path):
    path = tmp_path / "m.zt"
    array = np.arange(100_000, dtype="f4")
    ark.save_file({"embed": array, "head": array.copy(), "other": array + 1}, path)
    with tensorark.open(path) as file:
        blobs = {name: file[name].parts["data"].blob for name in file}
        assert blobs["embed"] == blobs["head"] != blobs["other"]
        assert np.array_equal(file["head"].numpy(), array)


def test_a_stream_that_is_too_short_is_refused(tmp_path):
    with (
        pytest.raises(tensorark.InvalidInput, match="12 bytes"),
        Writer(tmp_path / "m.zt") as writer,
        writer.stream("a", (3,), "f32") as part,
    ):
        part.write(b"\0" * 8)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("align", [0, 1, 4095, 4097, -4096])
def test_an_alignment_that_is_no_multiple_of_4096_is_refused(tmp_path, align):
    with pytest.raises(tensorark.InvalidInput, match="multiple of 4096"):
        Writer(tmp_path / "m.zt", align=align)


def test_an_alignment_that_is_no_power_of_two_is_allowed(tmp_path):
    path = tmp_path / "m.zt"
    with Writer(path, align=3 * 4096) as writer:
        for name in "abc":
            writer.add(name, np.full(5, ord(name)))
    with tensorark.open(path) as file:
        offsets = [file[name].parts["data"].blob.spans[0].offset for name in "abc"]
        assert offsets == [12288, 24576, 36864]
    assert tensorark.validate(path) == []


def test_saving_over_a_file_while_its_arrays_are_alive_harms_neither(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"a": np.arange(5)}, path)
    with tensorark.open(path) as file:
        held = file["a"].numpy()
        ark.save_file({"a": held[::-1]}, path)
        assert held.tolist() == [0, 1, 2, 3, 4]
    with tensorark.open(path) as file:
        assert file["a"].numpy().tolist() == [4, 3, 2, 1, 0]


def test_a_file_that_exists_is_kept_when_asked_to(tmp_path):
    path = tmp_path / "m.zt"
    path.write_bytes(b"mine")
    with pytest.raises(tensorark.InvalidInput, match="exists"), Writer(path, overwrite=False) as w:
        w.add("a", np.arange(3))
    assert path.read_bytes() == b"mine"


def test_eight_saves_are_the_same_bytes(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {f"layer.{i}": rng.random(7) for i in range(16)}
    metadata = {f"key{i}": str(i) for i in range(16)}
    for suffix in ("zt", "safetensors"):
        seen = set()
        for turn in range(8):
            order = sorted(arrays, reverse=bool(turn % 2))
            assert len(seen) < 2
            seen.add(
                ark.save(
                    {name: arrays[name] for name in order},
                    dict(sorted(metadata.items(), reverse=bool(turn % 3))),
                    format=suffix,
                )
            )
        assert len(seen) == 1


@pytest.mark.parametrize("suffix", ["zt", "safetensors"])
def test_a_conversion_stays_within_the_largest_tensor_and_64_mib(tmp_path, suffix):
    """320 MiB in five tensors through a child whose peak memory is measured."""
    source = tmp_path / "big.zt"
    block = np.arange(16 << 20, dtype="f4")
    with Writer(source, align=4096) as writer:
        for index in range(5):
            writer.add(f"t{index}", block + index)
    code = (
        "import sys, resource, numpy, ml_dtypes, tensorark.conversion;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "tensorark.convert(sys.argv[1], sys.argv[2]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    target = tmp_path / f"out.{suffix}"
    done = subprocess.run(
        [sys.executable, "-c", code, source, target], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) * 1024 < block.nbytes + (64 << 20)
    with tensorark.open(source) as a, tensorark.open(target) as b:
        assert tensorark.diff(a, b).is_equal


@pytest.mark.parametrize("suffix", ["zt", "safetensors", "npz", "tbm"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_is_saved_is_of_the_format_of_its_suffix(tmp_path, suffix, library):
    import torch

    import tensorark.torch as ark_torch

    path = tmp_path / f"m.{suffix}"
    array = np.arange(12, dtype="f4").reshape(3, 4)
    if library == "numpy":
        ark.save_file({"w": array}, path, {"epoch": 3})
    else:
        ark_torch.save_file({"w": torch.from_numpy(array)}, path, {"epoch": 3})
    with tensorark.open(path) as file:
        assert f".{suffix}" in file.format.suffixes
        assert file["w"].numpy().tolist() == array.tolist()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["ninfer", "onnx", "h5", "pt"])
def test_a_suffix_that_cannot_be_kept_is_refused(tmp_path, suffix):
    with pytest.raises(tensorark.Error) as caught:
        ark.save_file({"w": np.ones(4, "f4")}, tmp_path / f"m.{suffix}")
    assert ".tensorark-" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "tbm", "tb", "ninfer"])
def test_a_writer_writes_no_zt_under_the_suffix_of_another_format(tmp_path, suffix):
    with (
        pytest.raises(tensorark.InvalidInput) as caught,
        tensorark.Writer(tmp_path / f"m.{suffix}") as writer,
    ):
        writer.add("w", np.ones(4, "f4"))
    assert caught.value.code == "target"
    assert list(tmp_path.iterdir()) == []
