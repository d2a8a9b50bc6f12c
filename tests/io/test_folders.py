"""A process that changes its folder goes on with the files that it opened."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import tensorark
from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.files.view import TensorView
from tensorark.numpy import save_file


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two folders with models of the same names and other values; the first is the present one."""
    for value, name in enumerate(("here", "there")):
        folder = tmp_path / name
        folder.mkdir()
        arrays = {"a": np.full(3000, value, np.float32), "b": np.full(3000, value, np.float32)}
        save_file(arrays, folder / "in.zt")
        save_file(arrays, folder / "m.safetensors")
        save_file(arrays, folder / "m.npz")
        tensorark.split(folder / "in.zt", folder / "m.zt", max_size=13_000, align=4096)
        save_file({"a": arrays["a"]}, folder / "s-00001-of-00002.safetensors")
        save_file({"b": arrays["b"]}, folder / "s-00002-of-00002.safetensors")
        index = {"a": "s-00001-of-00002.safetensors", "b": "s-00002-of-00002.safetensors"}
        text = json.dumps({"weight_map": index})
        (folder / "s.safetensors.index.json").write_text(text)
        (folder / "set").mkdir()
        for label in (*index.values(), "s.safetensors.index.json"):
            os.link(folder / label, folder / "set" / label)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["in.zt", "m.zt", "m.safetensors", "m.npz", "s.safetensors.index.json", "set"]
)
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_an_opened_file_stays_itself(folders, monkeypatch, name, io):
    with tensorark.open(name, io=io) as file:
        monkeypatch.chdir(folders / "there")
        paths = file.paths()
        assert all(path.is_absolute() and path.is_relative_to(folders / "here") for path in paths)
        for each in (file, pickle.loads(pickle.dumps(file))):
            assert not each["b"].numpy().any()
            assert each.paths() == paths
        assert pickle.loads(pickle.dumps(file["a"])).numpy()[0] == 0


def test_a_store_is_where_it_was(folders, monkeypatch):
    (folders / "here" / "store").mkdir()
    with tensorark.open("m.zt", store="store") as file:
        monkeypatch.chdir(folders / "there")
        with pickle.loads(pickle.dumps(file)) as again:
            assert Path(again._store) == folders / "here" / "store"


def test_no_repr_and_no_log_line_steers_a_terminal(tmp_path, caplog):
    evil = "\x1b[2J\u202e"
    part = Part(Raw((Span(0, 1),)), "u8", evil)
    with tensorark.Writer(tmp_path / f"{evil}.zt"):
        pass
    with tensorark.open(tmp_path / f"{evil}.zt") as file:
        assert repr(file).isprintable()
        for layout in ("dense", evil):
            assert repr(TensorView(file, Tensor(evil, (), layout, {"data": part}))).isprintable()
    folder = tmp_path / evil
    folder.mkdir()
    for name in ("a.safetensors.index.json", f"{evil}.zt"):
        (folder / name).write_bytes(b"{")
    with pytest.raises(tensorark.Error) as caught:
        tensorark.open(folder)
    assert str(caught.value).isprintable()
    assert all(line.isprintable() for line in caplog.messages)
    assert caplog.messages
