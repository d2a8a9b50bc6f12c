"""Conversions move bytes and nothing else, refuse what cannot be held, and harm no input."""

from __future__ import annotations

import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import tensorark
import tensorark.numpy as ark


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.safetensors"
    rng = np.random.default_rng(2)
    arrays = {f"layers.{i}.w": rng.random((30, 20), dtype="f4") for i in range(6)}
    safetensors.numpy.save_file(arrays, path, {"format": "pt"})
    return path, arrays


def test_there_and_back_is_equal_and_keeps_metadata(source, tmp_path):
    path, arrays = source
    done = tensorark.convert(path, tmp_path / "m.zt")
    assert (done.tensors, done.nbytes) == (6, 6 * 2400)
    tensorark.convert(tmp_path / "m.zt", tmp_path / "back.safetensors")
    loaded = safetensors.numpy.load_file(tmp_path / "back.safetensors")
    assert all(np.array_equal(loaded[name], arrays[name]) for name in arrays)
    with safetensors.safe_open(tmp_path / "back.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}
    tensorark.convert(tmp_path / "back.safetensors", tmp_path / "again.zt")
    assert (tmp_path / "again.zt").read_bytes() == (tmp_path / "m.zt").read_bytes()


def test_a_shard_set_keeps_to_its_cap_and_opens_as_one_model(source, tmp_path):
    path, arrays = source
    done = tensorark.convert(path, tmp_path / "m.safetensors", max_shard_size=6000)
    shards = [each for each in done.files if not each.endswith(".json")]
    assert len(shards) > 2
    assert all(Path(each).stat().st_size <= 6000 for each in shards)
    with tensorark.open(tmp_path / "m.safetensors.index.json") as file, tensorark.open(path) as a:
        assert set(file) == set(arrays)
        assert tensorark.diff(a, file).is_equal
        assert tensorark.content_digest(a) == tensorark.content_digest(file)
    tensorark.convert(tmp_path / "m.safetensors.index.json", tmp_path / "m.zt")
    tensorark.convert(path, tmp_path / "single.zt")
    assert (tmp_path / "m.zt").read_bytes() == (tmp_path / "single.zt").read_bytes()


def test_a_shard_that_is_whole_keeps_neither_thread_nor_buffers(tmp_path):
    ark.save_file({f"t{at}": np.full(2 << 20, at, "u1") for at in range(12)}, tmp_path / "in.zt")
    before, seen = threading.active_count(), []

    def progress(_done):
        seen.append(threading.active_count())

    target = tmp_path / "m.safetensors"
    done = tensorark.convert(
        tmp_path / "in.zt", target, max_shard_size=(2 << 20) + 4096, progress=progress
    )
    assert len(done.files) == 13
    assert max(seen) <= before + 2


@pytest.mark.parametrize("gone", ["first", "last"])
def test_a_missing_shard_is_named_with_its_tensors(source, tmp_path, gone):
    done = tensorark.convert(source[0], tmp_path / "m.safetensors", max_shard_size=6000)
    shards = [each for each in done.files if not each.endswith(".json")]
    lost = shards[0 if gone == "first" else -1]
    Path(lost).unlink()
    with pytest.raises(tensorark.ReadFailed) as caught:
        tensorark.open(tmp_path / "m.safetensors.index.json")
    assert caught.value.code == "missing-shard"
    assert Path(lost).name in str(caught.value)
    assert "layers." in str(caught.value)


def test_a_target_that_is_the_source_is_refused(source, tmp_path):
    link = tmp_path / "link.safetensors"
    link.symlink_to(source[0])
    before = source[0].read_bytes()
    for target in (source[0], link):
        with pytest.raises(tensorark.InvalidInput, match="inputs are never written"):
            tensorark.convert(source[0], target, overwrite=True)
    assert source[0].read_bytes() == before


def test_a_target_that_exists_is_kept_unless_asked_for(source, tmp_path):
    target = tmp_path / "m.zt"
    target.write_bytes(b"mine")
    with pytest.raises(tensorark.InvalidInput, match="exists"):
        tensorark.convert(source[0], target)
    assert target.read_bytes() == b"mine"
    tensorark.convert(source[0], target, overwrite=True)
    assert tensorark.validate(target, canonical=True) == []


def test_what_safetensors_cannot_hold_is_refused_by_name_and_leaves_no_file(tmp_path):
    path = tmp_path / "m.zt"
    arrays = {
        "plain": np.arange(3),
        "complex": np.ones(2, "c16"),
        "odd": np.zeros(3, ml_dtypes.float4_e2m1fn),
    }
    ark.save_file(arrays, path)
    with pytest.raises(tensorark.Unsupported) as caught:
        tensorark.convert(path, tmp_path / "m.safetensors")
    assert '"complex"' in str(caught.value)
    assert '"odd"' in str(caught.value)
    assert '"plain"' not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["m.zt"]


def test_a_damaged_source_is_not_passed_on(source, tmp_path):
    path = tmp_path / "m.zt"
    tensorark.convert(source[0], path)
    with tensorark.open(path) as file:
        offset = file["layers.3.w"].parts["data"].blob.spans[0].offset
    data = bytearray(path.read_bytes())
    data[offset + 5] ^= 1
    path.write_bytes(data)
    for name in ("out.zt", "out.safetensors"):
        with pytest.raises(tensorark.Rejected) as caught:
            tensorark.convert(path, tmp_path / name)
        assert caught.value.code == "zt.digest"
        assert "layers.3.w" in caught.value.where
        assert not (tmp_path / name).exists()


def test_a_truncated_source_leaves_no_output(source, tmp_path):
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(source[0].read_bytes()[:-4])
    with pytest.raises(tensorark.Rejected, match="layers"):
        tensorark.convert(cut, tmp_path / "m.zt")
    assert not (tmp_path / "m.zt").exists()


def test_options_that_do_not_fit_the_target_are_refused(source, tmp_path):
    with pytest.raises(tensorark.InvalidInput, match="takes no align"):
        tensorark.convert(source[0], tmp_path / "m.safetensors", align=4096)
    with pytest.raises(tensorark.InvalidInput, match="takes no max shard size"):
        tensorark.convert(source[0], tmp_path / "m.zt", max_shard_size=10**6)
    with pytest.raises(tensorark.InvalidInput, match="no format that is written"):
        tensorark.convert(source[0], tmp_path / "m.gguf")


def test_diff_names_what_differs_and_by_how_much(tmp_path):
    a = {"same": np.arange(4), "moved": np.arange(6.0), "shape": np.ones(4), "left": np.ones(1)}
    b = {
        "same": np.arange(4),
        "moved": np.arange(6.0),
        "shape": np.ones((2, 2)),
        "right": np.ones(1),
    }
    b["moved"][3] += 0.5
    b["moved"][5] -= 0.25
    ark.save_file(a, tmp_path / "a.zt")
    ark.save_file(b, tmp_path / "b.safetensors")
    with tensorark.open(tmp_path / "a.zt") as x, tensorark.open(tmp_path / "b.safetensors") as y:
        found = tensorark.diff(x, y)
    assert not found.is_equal
    assert (found.only_left, found.only_right, found.equal) == (("left",), ("right",), 1)
    by_name = {change.name: change for change in found.changes}
    assert set(by_name) == {"moved", "shape"}
    assert (by_name["moved"].elements, by_name["moved"].first, by_name["moved"].largest) == (
        2,
        3,
        0.5,
    )
    assert (by_name["shape"].left, by_name["shape"].right) == ([4], [2, 2])
