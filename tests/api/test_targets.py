"""No file gets a suffix that lies about it, and no half of a set passes for a model."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest

import tensorark
import tensorark.numpy as ark
from tensorark.conversion import save
from tensorark.conversion.pipeline import targets
from tensorark.io import inputs
from tensorark.io.inputs import operation
from tensorark.ninfer.objects import export_objects, import_objects
from tensorark.ninfer.pack import convert_checkpoint
from tensorark.ninfer.resources import replace_resources
from tensorark.ninfer.unpack import export_parameters
from tests import synthetic
from tests.unit.formats.ninfer import sets

SUFFIXES = [suffix for each in targets() for suffix in each.suffixes]
FOREIGN = [suffix for suffix in [*SUFFIXES, ".safetensors.index.json", ".NPZ"] if suffix != ".zt"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_arrays_are_saved_as_the_suffix_says_or_not_at_all(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    try:
        ark.save_file({"w": np.ones(3, "f4")}, path)
    except (tensorark.InvalidInput, tensorark.Unsupported) as error:
        assert error.code in {"target", "refused"}  # noqa: PT017 - either is right
        assert not path.exists()
    else:
        with tensorark.open(path) as file:
            assert suffix in file.format.suffixes


@pytest.mark.parametrize("suffix", [".npz", ".tbm"])
def test_what_a_killed_save_left_is_cleared_by_the_next_one(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    child = os.fork()
    if not child:
        save.convert = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
        ark.save_file({"w": np.ones((2, 4), "f4")}, path)
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    ark.save_file({"w": np.ones((2, 4), "f4")}, path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", FOREIGN)
def test_a_zt_gets_no_suffix_of_another_format(tmp_path, suffix):
    ark.save_file({"w": np.ones(3, "f4")}, tmp_path / "in.zt")
    with pytest.raises(tensorark.InvalidInput):
        tensorark.Writer(tmp_path / f"m{suffix}")
    with pytest.raises(tensorark.InvalidInput):
        tensorark.repack(tmp_path / "in.zt", tmp_path / f"m{suffix}")
    assert [each.name for each in tmp_path.iterdir()] == ["in.zt"]


WRITERS = {
    "objects": (".safetensors", export_objects),
    "parameters": (".safetensors", export_parameters),
    "artifact": (".ninfer", lambda _, path: import_objects(path.with_name("o.safetensors"), path)),
    "resources": (".ninfer", lambda source, path: replace_resources(source, path, {})),
    "checkpoint": (
        ".ninfer",
        lambda _, path: convert_checkpoint(path.with_name("hf"), path, "bf16"),
    ),
}
"""Writers of one format, with its suffix."""


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".safetensors.index.json", ".Zt", ".NPZ"])
@pytest.mark.parametrize("way", WRITERS)
def test_what_writes_one_format_gives_it_no_suffix_of_another(tmp_path, way, suffix):
    own, write = WRITERS[way]
    if suffix == own:
        return
    source = sets.model(tmp_path)
    export_objects(source, tmp_path / "o.safetensors")
    if way == "checkpoint":
        synthetic.write_checkpoint(tmp_path / "hf")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(tensorark.InvalidInput) as refused:
        write(source, tmp_path / f"m{suffix}")
    assert refused.value.code == "target"
    assert sorted(tmp_path.iterdir()) == before


def set_of(folder, index, shard):
    places = {}
    for at, name in enumerate("ab", 1):
        file = shard.format(at)
        ark.save_file({name: np.full(4, at, "f4")}, folder / file)
        places[name] = file
    (folder / index).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


@pytest.mark.parametrize(
    ("index", "shard"),
    [
        ("m.safetensors.index.json", "m-{:05}-of-00002.safetensors"),
        ("m.safetensors.fp16.index.json", "m-{:05}-of-00002.fp16.safetensors"),
        ("m.safetensors.index.fp16.json", "m.fp16-{:05}-of-00002.safetensors"),
        ("m.safetensors.index.json", "some-{}.safetensors"),
    ],
)
def test_a_set_is_what_its_index_lists(tmp_path, index, shard):
    set_of(tmp_path, index, shard)
    with tensorark.open(tmp_path) as file:
        assert set(file) == {"a", "b"}
    (tmp_path / shard.format(2)).unlink()
    with pytest.raises(tensorark.ReadFailed) as caught:
        tensorark.open(tmp_path)
    assert caught.value.code == "missing-shard"
    (tmp_path / index).unlink()
    if "-of-" in shard:
        with pytest.raises(tensorark.ReadFailed, match="one of 2 shards"):
            tensorark.open(tmp_path)


@pytest.mark.parametrize("is_named", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize("kind", targets(), ids=lambda kind: kind.name)
def test_what_is_written_is_no_input(tmp_path, monkeypatch, kind, is_named):
    """Another file may get its number later, and would be refused as an output."""
    if is_named:
        monkeypatch.setattr("tensorark.io.publish._open_unnamed", lambda *_: None)
    source = tmp_path / "w.zt"
    ark.save_file({"w": np.ones(4, "f4")}, source)
    if kind.name == "ninfer":
        source = sets.model(tmp_path)
    goal = tmp_path / "out" / ("w" + "".join(end for end in kind.suffixes if end[0] == "."))
    goal.parent.mkdir()
    with operation():
        tensorark.convert(source, goal, format=kind.name, drop=["shapes"])
        noted = inputs._CURRENT.get().files
        if kind.name not in {"ninfer", "tb", "tensorbit-directory"}:
            ark.save_file({"w": np.ones(4, "f4")}, goal)
    assert {*noted.values()} == {str(source)}
