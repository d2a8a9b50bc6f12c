"""What a verb leaves out is refused, or named by `--drop` and told, by every verb alike."""

from __future__ import annotations

import json

import click
import numpy as np
import pytest

from tensorark.cli.group import TARK
from tests import synthetic
from tests.api.test_ledger import annotated, archive, orphaned
from tests.api.test_ledger_verbs import base

GAP = {"gaps": ["bytes 4224 to 4233"]}
ODD = {"members": ["notes.txt", "folder/"], "objects": ["words"]}
BIASED = {"tensors": ["model.layers.3.self_attn.q_proj.bias"]}
WORDS = {
    "convert": ("convert in.npz o.zt", ODD),
    "convert, a plan": ("convert in.npz o.zt --dry-run", ODD),
    "merge": ("merge in.npz o.zt", ODD),
    "merge, a plan": ("merge in.npz o.zt --dry-run", ODD),
    "split": ("split in.npz o.zt --by layer", ODD),
    "split, a plan": ("split in.npz o.zt --by layer --dry-run", ODD),
    "append": ("append base.zt in.npz", ODD),
    "overlay": ("overlay base.zt in.npz -o o.zt", ODD),
    "diff": ("diff base.zt in.npz -o o.zt", ODD),
    "prune": ("prune in.npz o.zt", ODD),
    "prune, a plan": ("prune in.npz o.zt --dry-run", ODD),
    "mend": ("mend orphaned.tbm o.tbm", GAP),
    "mend, joining": ("mend base.zt --join in.npz o.zt", ODD),
    "meta": ("meta set annotated.safetensors k v", {"fields": ["w: note"]}),
    "repack": ("repack orphaned.tbm o.tbm", GAP),
    "pack": ("pack biased o.ninfer --recipe bf16", BIASED),
    "pack, a plan": ("pack biased o.ninfer --recipe bf16 --dry-run", BIASED),
}


def biased(folder):
    """A checkpoint whose attention has a bias, which its architecture does not know."""
    tensors = synthetic.write_checkpoint(folder / "biased")
    tensors["model.layers.3.self_attn.q_proj.bias"] = np.ones(8, np.float32)
    synthetic.write_model(folder / "biased", tensors)


def held(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_verb_that_takes_drop_is_tried():
    context = click.Context(TARK)
    taking = {
        name
        for name in TARK.list_commands(context)
        if any("--drop" in each.opts for each in TARK.get_command(context, name).params)
    }
    assert taking == {words.split()[0] for words, _ in WORDS.values()}


@pytest.mark.parametrize("case", WORDS)
def test_what_is_left_out_is_named_and_told(case, tmp_path, monkeypatch, tark):
    monkeypatch.chdir(tmp_path)
    annotated(tmp_path)
    archive(tmp_path)
    orphaned(tmp_path)
    base(tmp_path)
    biased(tmp_path)
    words, lost = WORDS[case]
    before = held(tmp_path)
    ran = tark(*words.split())
    assert ran.code == 4, ran
    flags = [f"--drop {kind}" for kind in lost]
    assert " ".join(flags) in ran.err
    assert held(tmp_path) == before
    ran = tark(*words.split(), *" ".join(flags).split(), "--json")
    assert ran.code in ({1} if case == "diff" else {0}), ran
    document = json.loads(ran.out)
    if "mend" in document["schema"]:
        (document,) = document["written"]
    assert (document.get("emitted") or document)["dropped"] == lost
