"""Replacing a set removes the files of the old one alone, whatever its root names."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
from tests.unit.formats.ninfer import sets

ARRAYS = {f"w{i}": np.full(5000, i, "f4") for i in range(4)}


def names_in(folder):
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def whole(tmp_path):
    """A model in a folder of its own, and a folder to write into with a file of the user."""
    ark.save_file(ARRAYS, tmp_path / "whole.zt")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_bytes(b"of the user")
    return tmp_path / "whole.zt"


def test_an_index_that_names_files_of_others_removes_none_of_them(whole, tmp_path):
    out = tmp_path / "out"
    ark.save_file({"a": ARRAYS["w0"]}, out / "precious.safetensors")
    ark.save_file({"b": ARRAYS["w1"]}, out / "m-00001-of-00001.safetensors")
    places = {"a": "precious.safetensors", "b": "m-00001-of-00001.safetensors", "c": "mine"}
    index = out / "m.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    tensorark.convert(whole, out / "m.safetensors", max_shard_size=45_000, overwrite=True)
    assert names_in(out) == [
        *(f"m-0000{i}-of-00002.safetensors" for i in (1, 2)),
        index.name,
        "mine",
        "precious.safetensors",
    ]


def test_the_base_of_an_overlay_that_is_replaced_stays(whole, tmp_path):
    out = tmp_path / "out"
    shutil.copy(whole, out / "base.zt")
    ark.save_file({"w0": ARRAYS["w1"]}, tmp_path / "change.zt")
    tensorark.overlay(out / "base.zt", tmp_path / "change.zt", out / "m.zt")
    (out / "base.zt").rename(out / "m-base.zt")  # where it is looked for first
    with tensorark.open(out / "m.zt") as file:
        assert file.missing() == {}
    tensorark.split(whole, out / "m.zt", max_size=100_000, overwrite=True)
    assert {"mine", "m-base.zt"} < set(names_in(out))


def test_an_entry_that_names_files_of_others_removes_none_of_them(tmp_path):
    (tmp_path / "source").mkdir()
    source = sets.model(tmp_path / "source")
    out = tmp_path / "out"
    out.mkdir()
    entry = sets.model(out, (300, 600))
    theirs = "notes-of-the-user-0001"
    (out / "model.ninfer.part-0001").rename(out / theirs)
    text = entry.read_bytes()
    entry.write_bytes(text.replace(b"model.ninfer.part-0001", theirs.encode()))
    with tensorark.open(entry) as file:
        assert set(file.catalog.files) == {theirs, "model.ninfer.part-0002"}
    tensorark.convert(source, entry, overwrite=True)
    assert names_in(out) == ["model.ninfer", theirs]


def test_shards_that_another_root_means_by_their_identity_stay(whole, tmp_path):
    """A copy of a root under another name finds its shards by digest, and must go on to."""
    out = tmp_path / "out"
    tensorark.split(whole, out / "m.zt", max_size=100_000)
    shutil.copy(out / "m.zt", out / "copy.zt")
    ark.save_file({name: each + 10 for name, each in ARRAYS.items()}, whole)
    tensorark.split(whole, out / "m.zt", max_size=100_000, overwrite=True)
    for name, more in (("copy.zt", 0), ("m.zt", 10)):
        with tensorark.open(out / name) as file:
            for each, array in ARRAYS.items():
                assert np.array_equal(file[each].numpy(), array + more)
    (out / "copy.zt").unlink()
    tensorark.split(whole, out / "m.zt", max_size=100_000, overwrite=True)
    assert "m-r1-00001-of-00004.zt" not in names_in(out)


def convert_to(out, whole, **options):
    return tensorark.convert(whole, out / "m.safetensors", **options)


FORMS = {"file": {}, "set": {"max_shard_size": 45_000}}


@pytest.mark.parametrize(("old", "new"), [("file", "set"), ("set", "file")])
def test_a_set_and_a_file_of_one_name_are_one_model(whole, tmp_path, old, new):
    """A folder with both would be read as the old one by some, and as the new one by others."""
    out = tmp_path / "out"
    convert_to(out, whole, **FORMS[old])
    before = names_in(out)
    ark.save_file({name: each + 10 for name, each in ARRAYS.items()}, whole)
    with pytest.raises(tensorark.InvalidInput) as caught:
        convert_to(out, whole, **FORMS[new])
    assert caught.value.code == "exists"
    assert names_in(out) == before
    convert_to(out, whole, **FORMS[new], overwrite=True)
    assert not {*before} & {*names_in(out)} - {"mine"}
    with tensorark.open(out) as file:
        assert file["w0"].numpy()[0] == 10


@pytest.mark.parametrize(("old", "new"), [("file", "set"), ("set", "file")])
def test_a_model_that_is_read_stays_beside_the_other_form_of_it(whole, tmp_path, old, new):
    out = tmp_path / "out"
    convert_to(out, whole, **FORMS[old])
    before = names_in(out)
    source = out / ("m.safetensors" if old == "file" else "m.safetensors.index.json")
    content = {name: (out / name).read_bytes() for name in before}
    tensorark.convert(source, out / "m.safetensors", **FORMS[new])
    assert {name: (out / name).read_bytes() for name in before} == content
    assert len(names_in(out)) > len(before)
