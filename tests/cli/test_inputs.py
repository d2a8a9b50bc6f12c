"""What a verb reads it never writes: every verb with ``--output``, every input, every alias."""

from __future__ import annotations

import os
import shutil

import click
import numpy as np
import pytest

import tensorark
from tensorark.cli import main
from tensorark.cli.group import TARK
from tensorark.numpy import save_file
from tests import synthetic
from tests.unit.formats.ninfer.sets import model

WORDS = {
    "resources": [
        (
            "resources model.ninfer --extract chat_template.jinja",
            ["model.ninfer", "model.ninfer.part-0001"],
        ),
        ("resources model.ninfer --resource tokenizer.json=tok", ["model.ninfer", "tok"]),
    ],
    "cat": [
        ("cat m.zt w0", ["m.zt"]),
        ("cat set/m.zt w0", ["set/m.zt", "set/m-00001-of-00006.zt"]),
    ],
    "seal": [("seal m.zt", ["m.zt"])],
    "sign": [("sign m.zt --key key", ["m.zt", "key"])],
    "convert": [
        ("convert m.zt", ["m.zt"]),
        ("convert set/m.zt", ["set/m.zt", "set/m-00002-of-00006.zt"]),
        (
            "convert st/m.safetensors.index.json",
            ["st/m-00001-of-00003.safetensors"],
        ),
        ("convert model.ninfer --to zt", ["model.ninfer", "model.ninfer.part-0001"]),
    ],
    "pack": [("pack hf --recipe bf16", ["hf/config.json", "hf/model.safetensors"])],
    "unpack": [
        ("unpack model.ninfer --as objects", ["model.ninfer", "model.ninfer.part-0001"]),
        ("unpack model.ninfer --as parameters", ["model.ninfer"]),
    ],
    "diff": [("diff m.zt n.zt", ["m.zt", "n.zt"])],
    "split": [("split m.zt --max-size 140000", ["m.zt"])],
    "merge": [("merge set/m.zt", ["set/m.zt", "set/m-00001-of-00006.zt"])],
    "overlay": [("overlay m.zt n.zt", ["m.zt", "n.zt"])],
    "repack": [("repack m.zt", ["m.zt"])],
    "prune": [
        ("prune m.zt --scores n.zt", ["m.zt", "n.zt"]),
        ("prune m.zt --masks b.zt", ["m.zt", "b.zt"]),
    ],
    "mend": [("mend m.tbm --config my.tbm", ["m.tbm", "my.tbm"])],
}
"""By verb: words without a target, and the files that are read."""

READ_NOTHING = {"keygen"}
"""Verbs that have no inputs."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    arrays = {f"w{i}": np.full((4, 1024), i + 1, "f4") for i in range(6)}
    save_file(arrays, folder / "m.zt")
    save_file({name: each + 1 for name, each in arrays.items()}, folder / "n.zt")
    save_file({name: each > each - 1 for name, each in arrays.items()}, folder / "b.zt")
    for name in ("set", "st"):
        (folder / name).mkdir()
    tensorark.split(folder / "m.zt", folder / "set/m.zt", max_size=140000)
    tensorark.convert(folder / "m.zt", folder / "st/m.safetensors", max_shard_size=40000)
    tensorark.convert(folder / "m.zt", folder / "m.tbm")
    model(folder, (300, 600))
    (folder / "tok").write_bytes(b"{}")
    synthetic.write_checkpoint(folder / "hf")
    shutil.copy(folder / "hf/config.json", folder / "my.tbm")
    assert main(["-q", "keygen", str(folder / "key")]) == 0
    return folder


def cases():
    for verb, calls in WORDS.items():
        for words, inputs in calls:
            for each in inputs:
                yield pytest.param(words, each, id=f"{verb}-{each}")


@pytest.mark.parametrize(("words", "path"), [*cases()])
def test_no_output_is_an_input(made, tmp_path, monkeypatch, tark, words, path):
    folder = tmp_path / "made"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    name = path.rsplit("/", 1)[-1]
    (folder / "alias").mkdir()
    targets = {
        "itself": folder / path,
        "relative": os.path.join("alias", "..", path),  # noqa: PTH118 - no `..` is resolved
        "symbolic": folder / "alias" / name,
        "hard": folder / "alias" / f"hard-{name}",
    }
    targets["symbolic"].symlink_to(folder / path)
    targets["hard"].hardlink_to(folder / path)
    before = content(folder)
    for alias, target in targets.items():
        ran = tark(*words.split(), "-o", target, "--force")
        assert ran.code == 2, (alias, ran)
        assert "same-file" in ran.err, (alias, ran.err)
        assert content(folder) == before, alias


def content(folder):
    return {
        path: (path.is_symlink(), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_verb_that_writes_is_tried():
    context = click.Context(TARK)
    writing = {
        name
        for name in TARK.list_commands(context)
        if any("--output" in each.opts for each in TARK.get_command(context, name).params)
    }
    assert writing == WORDS.keys() | READ_NOTHING
