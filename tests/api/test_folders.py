"""A set is what its index says, or what its files call themselves: never half a model."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy

import tensorark

INDEXES = [
    ("model.safetensors.index.json", "model-{:05}-of-{:05}.safetensors"),
    ("model.safetensors.fp16.index.json", "model-{:05}-of-{:05}.fp16.safetensors"),
    ("model.safetensors.index.fp16.json", "model.fp16-{:05}-of-{:05}.safetensors"),
    ("odd.index.json", "weights-{}-{}.safetensors"),
]


def write_set(folder, index, pattern, value=0.0, shards=2):
    names = {}
    for at in range(shards):
        file = pattern.format(at + 1, shards)
        held = {f"t{at}": np.full(3, value + at, "f4")}
        safetensors.numpy.save_file(held, folder / file)
        names |= dict.fromkeys(held, file)
    (folder / index).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return sorted(set(names.values()))


@pytest.mark.parametrize(("index", "pattern"), INDEXES)
def test_a_folder_is_opened_by_its_index_however_that_is_called(tmp_path, index, pattern):
    files = write_set(tmp_path, index, pattern)
    (tmp_path / "config.json").write_text("{}")
    with tensorark.open(tmp_path) as model:
        assert sorted(model) == ["t0", "t1"]
        assert model.path.endswith(index)
    (tmp_path / files[1]).unlink()
    with pytest.raises(tensorark.ReadFailed) as caught:
        tensorark.open(tmp_path)
    assert caught.value.code == "missing-shard"
    assert files[1] in str(caught.value)


def test_two_variants_in_a_folder_are_two_models(tmp_path):
    for number, (index, pattern) in enumerate(INDEXES[:3]):
        write_set(tmp_path, index, pattern, number)
    with pytest.raises(tensorark.InvalidInput) as caught:
        tensorark.open(tmp_path)
    assert caught.value.code == "folder"
    assert all(index in str(caught.value) for index, _ in INDEXES[:3])


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_shards_without_an_index_are_no_model(tmp_path, kept):
    index, pattern = INDEXES[0]
    files = write_set(tmp_path, index, pattern, shards=3)
    (tmp_path / index).unlink()
    for gone in files[kept:]:
        (tmp_path / gone).unlink()
    with pytest.raises(tensorark.ReadFailed) as caught:
        tensorark.open(tmp_path)
    assert caught.value.code == "missing-shard"
    assert all(gone in str(caught.value) for gone in files[kept:])


def test_one_shard_is_looked_at_but_not_taken_for_a_model(tmp_path):
    first, _ = write_set(tmp_path, *INDEXES[0])
    with tensorark.open(tmp_path / first) as shard:
        assert list(shard) == ["t0"]
        for act in (lambda: tensorark.content_digest(shard), lambda: tensorark.diff(shard, shard)):
            with pytest.raises(tensorark.ReadFailed):
                act()
    with pytest.raises(tensorark.ReadFailed):
        tensorark.convert(tmp_path / first, tmp_path / "half.zt")
    assert not (tmp_path / "half.zt").exists()
    (tmp_path / first).rename(tmp_path / "own.safetensors")
    tensorark.convert(tmp_path / "own.safetensors", tmp_path / "own.zt")


@pytest.mark.parametrize(
    "pattern",
    [
        "m-{}-of-2.safetensors",
        "m_{:05}_of_00002.safetensors",
        "m.{:05}-of-00002.safetensors",
        "M-{:05}-OF-00002.SAFETENSORS",
        "m-{:06}-of-000002.fp16.safetensors",
    ],
)
def test_however_a_shard_spells_that_it_is_one_of_several(tmp_path, pattern):
    safetensors.numpy.save_file({"t": np.ones(3)}, tmp_path / pattern.format(1))
    with pytest.raises(tensorark.ReadFailed) as caught:
        tensorark.convert(tmp_path / pattern.format(1), tmp_path / "half.zt")
    assert caught.value.code == "missing-shard"
    assert pattern.format(2) in str(caught.value)
    assert not (tmp_path / "half.zt").exists()


@pytest.mark.parametrize("name", ["proof-2", "state_of_2", "lora-of-10", "m-1-of-1"])
def test_a_model_of_its_own_may_have_numbers_in_its_name(tmp_path, name):
    safetensors.numpy.save_file({"t": np.ones(3)}, tmp_path / f"{name}.safetensors")
    tensorark.convert(tmp_path / f"{name}.safetensors", tmp_path / "whole.zt")


def test_a_single_file_may_say_that_it_is_one_of_one(tmp_path):
    safetensors.numpy.save_file({"t": np.ones(3)}, tmp_path / "model-00001-of-00001.safetensors")
    with tensorark.open(tmp_path) as model:
        assert tensorark.content_digest(model).startswith("xxh3:")
