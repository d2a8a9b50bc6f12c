"""Loading some of the tensors, and comparing digests as the bytes arrive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
import tensorark.torch as torch_ark
from tensorark import sparse

ARRAYS = {
    "model.a": np.arange(9 << 18, dtype="f4"),  # arrives in several blocks
    "model.b": np.arange(5, dtype="i2"),
    "model.empty": np.zeros((0, 3)),
    "head": np.ones(1),
}


@pytest.fixture(params=["xxh3", "sha256"])
def model(tmp_path, request) -> Path:
    path = tmp_path / "m.zt"
    with tensorark.Writer(path, digest=request.param) as writer:
        for name, values in ARRAYS.items():
            writer.add(name, values)
    return path


def flipped(path: Path, name: str, at: int) -> Path:
    with tensorark.open(path) as file:
        span = file[name].parts["data"].blob.spans[0]
    data = bytearray(path.read_bytes())
    data[span.offset + at] ^= 1
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("load", [ark.load_file, torch_ark.load_file])
def test_what_is_whole_loads_the_same_verified(model, load):
    found = load(model, verify=True)
    assert list(found) == sorted(ARRAYS)
    for name, values in ARRAYS.items():
        assert np.array_equal(np.asarray(found[name]), values)


@pytest.mark.parametrize("load", [ark.load_file, torch_ark.load_file])
@pytest.mark.parametrize(("name", "at"), [("model.a", 0), ("model.a", -1), ("model.b", 3)])
def test_any_bit_that_flipped_is_named(model, load, name, at):
    flipped(model, name, at % ARRAYS[name].nbytes)
    load(model)
    with pytest.raises(tensorark.Rejected, match="digest") as caught:
        load(model, verify=True)
    assert caught.value.where[:2] == ("objects", name)
    assert caught.value.path == str(model)
    load(model, keys=["head"], verify=True)  # what is not loaded is not judged


def test_encoded_and_sparse_tensors_are_compared_too(tmp_path):
    path, packed = tmp_path / "m.zt", tmp_path / "packed.zt"
    with tensorark.Writer(path) as writer:
        writer.add("dense", np.arange(1 << 16, dtype="f4"))
        writer.add_laid("coo", sparse.coo(np.ones(2, "f4"), [np.array([0, 1])], (4,)))
    tensorark.convert(path, packed, encoding="zt.zstd-seekable/1")
    for each in (path, packed):
        found = ark.load_file(each, verify=True)
        assert found["coo"].tolist() == [1, 1, 0, 0]
    with tensorark.open(path) as file:
        span = file["coo"].parts["values"].blob.spans[0]
    data = bytearray(path.read_bytes())
    data[span.offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(tensorark.Rejected, match="digest") as caught:
        ark.load_file(path, verify=True)
    assert caught.value.where == ("objects", "coo", "parts", "values")


def test_the_crc_of_an_archive_is_compared(tmp_path):
    for save in (np.savez, np.savez_compressed):
        path = tmp_path / f"{save.__name__}.npz"
        save(path, a=np.arange(99), b=np.zeros(0))
        assert ark.load_file(path, verify=True)["a"][98] == 98
    flipped(tmp_path / "savez.npz", "a", 17)
    with pytest.raises(tensorark.Rejected, match="CRC"):
        ark.load_file(tmp_path / "savez.npz", verify=True)


def test_a_shard_is_compared_as_a_whole_where_parts_have_no_digests(tmp_path):
    path, root = tmp_path / "m.zt", tmp_path / "root.zt"
    with tensorark.Writer(path, digest="none") as writer:
        writer.add("a", np.arange(99))
    with pytest.raises(tensorark.Unsupported, match="nothing in the file") as caught:
        ark.load_file(path, verify=True)
    assert caught.value.code == "no-digest"
    plan = tensorark.split(path, root, max_size=200_000)
    assert ark.load_file(root, verify=True)["a"][98] == 98
    shard = tmp_path / plan.shards[0].path
    data = bytearray(shard.read_bytes())
    data[65536] ^= 1
    shard.write_bytes(data)
    with pytest.raises(tensorark.Error):
        ark.load_file(root, verify=True)


def test_a_format_without_digests_says_so(tmp_path):
    path = tmp_path / "m.safetensors"
    ark.save_file(ARRAYS, path)
    with pytest.raises(tensorark.Unsupported, match="nothing in the file") as caught:
        ark.load_file(path, verify=True)
    assert caught.value.code == "no-digest"
    ark.load_file(path, keys=["model.empty"], verify=True)  # no bytes, nothing to compare


@pytest.mark.parametrize("load", [ark.load_file, torch_ark.load_file])
def test_names_are_chosen(model, load):
    assert list(load(model, prefix="model.")) == ["model.a", "model.b", "model.empty"]
    assert list(load(model, keys=["head", "model.b", "head"])) == ["head", "model.b"]
    with pytest.raises(tensorark.NotFound, match="did you mean"):
        load(model, keys=["model.bb"])
    with pytest.raises(tensorark.NotFound):
        load(model, prefix="nodel.")
    with pytest.raises(tensorark.InvalidInput):
        load(model, keys=["head"], prefix="model.")
    with pytest.raises(tensorark.InvalidInput):
        load(model, keys="head")
