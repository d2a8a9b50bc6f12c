"""Attributes are edited without touching payload, and come back with their types."""

from __future__ import annotations

import datetime as dt
import errno
import math
import os

import numpy as np
import pytest
import safetensors

import tensorark
import tensorark.numpy as ark
from tensorark.edit.metadata import edit_metadata, metadata_of
from tensorark.edit.split import split
from tensorark.report.diagnosis import diagnose

TYPED = {"n": 3, "x": 1.5, "t": True, "none": None, "l": [1, [2.5, "s"]], "m": {"k": -1}, "s": "é"}


@pytest.fixture(params=[".zt", ".safetensors"])
def model(request, tmp_path):
    path = tmp_path / f"m{request.param}"
    ark.save_file({"w": np.arange(12, dtype="f4"), "b": np.arange(3, dtype="u1")}, path)
    return path


def payload(path):
    with tensorark.open(path) as file:
        return {name: file[name].numpy().tobytes() for name in file}


def digest_of(path):
    with tensorark.open(path) as file:
        return tensorark.content_digest(file)


def test_values_keep_their_types(model):
    before, digest = payload(model), digest_of(model)
    done = edit_metadata(model, TYPED)
    assert metadata_of(model) == done.attributes == TYPED
    assert metadata_of(model)["t"] is True
    assert payload(model) == before
    assert digest_of(model) == digest
    assert done.after == model.stat().st_size > done.before


def test_attributes_of_a_tensor_are_its_own(model):
    edit_metadata(model, {"file": 1})
    edit_metadata(model, {"k": 1}, tensor="w")
    edit_metadata(model, {"k": 2, "z": [None]}, tensor="w")
    assert metadata_of(model, tensor="w") == {"k": 2, "z": [None]}
    assert metadata_of(model, tensor="b") == {}
    assert metadata_of(model)["file"] == 1
    with pytest.raises(tensorark.NotFound):
        edit_metadata(model, {"k": 1}, tensor="nothing")
    with pytest.raises(tensorark.NotFound):
        metadata_of(model, tensor="nothing")


def test_what_was_set_and_taken_away_leaves_the_model_as_it_was(model):
    digest = digest_of(model)
    edit_metadata(model, {"k": 1}, tensor="w")
    edit_metadata(model, {"f": 1})
    if model.suffix == ".zt":
        assert digest_of(model) != digest
    edit_metadata(model, remove=["k"], tensor="w")
    edit_metadata(model, remove=["f"])
    assert digest_of(model) == digest
    with tensorark.open(model) as file:
        assert file.catalog.attributes is None


def test_an_edit_that_changes_nothing_writes_nothing(model):
    edit_metadata(model, {"k": 1})
    before = model.read_bytes()
    edit_metadata(model, {"k": 1})
    assert model.read_bytes() == before
    edit_metadata(model, {"k": 1.0})  # another type is another value
    assert model.read_bytes() != before


def test_one_edit_sets_and_removes(model):
    edit_metadata(model, {"a": 1, "b": 2})
    edit_metadata(model, {"c": 3}, remove=["a"])
    assert metadata_of(model) == {"b": 2, "c": 3}
    with pytest.raises(tensorark.NotFound):
        edit_metadata(model, {"d": 4}, remove=["a"])
    assert metadata_of(model) == {"b": 2, "c": 3}


@pytest.mark.parametrize("values", [{"k": object()}, {"k": 2**64}, {"\ud800": 1}])
def test_what_cannot_be_stored_is_refused_and_harms_nothing(model, values):
    before = model.read_bytes()
    with pytest.raises(tensorark.InvalidInput):
        edit_metadata(model, values)
    assert model.read_bytes() == before
    assert [path.name for path in model.parent.iterdir()] == [model.name]


@pytest.mark.parametrize("suffix", [".zt", ".safetensors", ".npz"])
def test_an_attribute_that_cannot_be_stored_is_named(suffix, tmp_path, model):
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    target = tmp_path / f"x{suffix}"
    arrays = {"w": np.ones(2, "f4")}

    def write(file, tensor=None):
        source = tmp_path / "source.zt"
        with tensorark.Writer(source, attributes=file) as writer:
            writer.add("w", arrays["w"], attributes=tensor)

    for call, where in [
        (lambda: ark.save_file(arrays, target, {"k": {"at": [moment]}}), "attributes.k.at[0]"),
        (lambda: ark.save_file(arrays, target, {1: "a", "b": 2}), 'attributes["1"]'),
        (lambda: edit_metadata(model, {"k": moment}), "attributes.k"),
        (lambda: edit_metadata(model, {"k": moment}, tensor="w"), "objects.w.attributes.k"),
        (lambda: write({}, {"k": moment}), "objects.w.attributes.k"),
        (lambda: write({"k": moment}), "attributes.k"),
    ]:
        with pytest.raises(tensorark.InvalidInput) as caught:
            call()
        assert f"at {where}" in str(caught.value)
        assert "datetime is none of text, bytes" in str(caught.value) or "not text" in str(
            caught.value
        )
    assert not target.exists()


@pytest.mark.parametrize("key", ["", "k\0", "k" * 1025])
def test_a_key_that_is_no_name_of_a_zt_is_refused(tmp_path, key):
    path = tmp_path / "m.zt"
    ark.save_file({"w": np.zeros(3)}, path)
    before = path.read_bytes()
    with pytest.raises(tensorark.InvalidInput):
        edit_metadata(path, {key: 1})
    assert path.read_bytes() == before


def test_a_zt_gets_a_generation_of_its_manifest_alone(tmp_path):
    path = tmp_path / "m.zt"
    with tensorark.Writer(path, align=4096) as writer:
        writer.add("w", np.arange(100_000))
    old = path.read_bytes()
    edit_metadata(path, {"k": 1})
    assert path.read_bytes().startswith(old)
    assert path.stat().st_size < len(old) + 8192
    assert len(diagnose(path).generations) == 2
    edit_metadata(path, {"k": 2}, repack=True)
    assert tensorark.validate(path, canonical=True) == []
    assert metadata_of(path) == {"k": 2}
    with tensorark.open(path) as file:
        assert tensorark.verify(file).complete


def test_the_data_of_safetensors_is_copied_byte_for_byte(tmp_path):
    """Also where the public library would have put the tensors in another order."""
    path = tmp_path / "m.safetensors"
    header = (
        b'{"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},'
        b'"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    )
    data = bytes(range(11))
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    edit_metadata(path, {"format": "pt"})
    assert path.read_bytes().endswith(data)
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {"format": "pt"}
        assert file.get_tensor("b").tolist() == [8, 9, 10]
    with tensorark.open(path) as file:
        assert list(file) == ["b", "a"]
        assert file.catalog.native.data_start % 64 == 0


def test_text_in_safetensors_is_what_other_tools_read(tmp_path):
    path = tmp_path / "m.safetensors"
    ark.save_file({"a": np.zeros(1)}, path, {"format": "pt"})
    edit_metadata(path, {"author": "é"})
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {"format": "pt", "author": "é"}
    edit_metadata(path, {"nan": math.nan})
    assert math.isnan(metadata_of(path)["nan"])


def test_a_full_disk_leaves_the_old_file(model, monkeypatch):
    before = model.read_bytes()

    def full(*_arguments):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(tensorark.ReadFailed) as caught:
        edit_metadata(model, {"k": 1})
    assert caught.value.code == "no-space"
    assert model.read_bytes() == before
    assert [path.name for path in model.parent.iterdir()] == [model.name]


def test_a_split_model_is_edited_in_its_root_and_an_index_is_not_edited(tmp_path):
    ark.save_file({"a": np.zeros(1), "b": np.ones(1)}, tmp_path / "in.zt")
    split(tmp_path / "in.zt", tmp_path / "m.zt", max_size=4200, align=4096)
    edit_metadata(tmp_path / "m.zt", {"k": 1})
    with tensorark.open(tmp_path / "m.zt") as file:
        assert tensorark.verify(file, deep=True).shards == 2
        assert file.attributes == {"k": 1}
    with pytest.raises(tensorark.Unsupported):
        edit_metadata(tmp_path / "m.zt", {"k": 2}, repack=True)
    tensorark.convert(tmp_path / "in.zt", tmp_path / "s.safetensors", max_shard_size=400)
    with pytest.raises(tensorark.Unsupported):
        edit_metadata(tmp_path / "s.safetensors.index.json", {"k": 2})


@pytest.mark.parametrize("suffix", [".zt", ".safetensors", ".npz", ".tbm"])
def test_attributes_look_the_same_from_every_format(suffix, tmp_path):
    source, target = tmp_path / "source.zt", tmp_path / f"x{suffix}"
    with tensorark.Writer(source, attributes=TYPED) as writer:
        writer.add("w", np.ones((4, 4), "f4"), attributes={"k": [1, None]})
        writer.add("v", np.ones((4, 4), "f4"))
    tensorark.convert(source, target)
    with tensorark.open(target) as file:
        held = {key: value for key, value in file.attributes.items() if key != "tensorbit"}
        assert held == TYPED
        assert type(held["x"]) is float
        assert {**file["w"].attributes, "tensorbit": 0} == {"k": [1, None], "tensorbit": 0}
        assert "k" not in file["v"].attributes
    if suffix == ".safetensors":  # what others see stays text
        with safetensors.safe_open(target, "np") as theirs, ark.safe_open(target) as ours:
            assert ours.metadata() == theirs.metadata()
    tensorark.convert(target, tmp_path / "again.zt")
    with tensorark.open(tmp_path / "again.zt") as again, tensorark.open(target) as file:
        assert again.attributes == file.attributes
