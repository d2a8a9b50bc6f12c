"""Every verb, every kind of trouble, one exit code: the table that the help of each verb prints."""

import json
import struct

import numpy as np
import pytest

import tensorark
from tensorark.cli.group import VERBS
from tensorark.integrity.keys import make_key
from tensorark.numpy import save_file
from tests.unit.formats.ninfer.sets import model as write_artifact

# Words after the verb: M is the model in trouble, T a target, K a key.
READING = {
    "ls": "M",
    "show": "M",
    "tree": "M",
    "cat": "M a.x -o T",
    "stat": "M",
    "sparsity": "M",
    "validate": "M",
    "verify": "M",
    "seal": "M -o T",
    "sign": "M --key K -o T",
    "id": "M",
    "diff": "M M",
    "doctor": "M",
    "convert": "M T.zt",
    "split": "M T.zt --by layer",
    "merge": "M T.zt",
    "overlay": "M M T.zt",
    "append": "M M",
    "meta": "get M",
    "repack": "M T.zt",
    "prune": "M T.zt",
    "mend": "M T.tbm",
    "bindings": "M",
    "resources": "M",
    "unpack": "M T",
}
ELSEWHERE = {"keygen", "pack", "verify-sig", "formats", "explain", "completion"}
"""Verbs that open no model, or two documents before one."""


def truncated(folder):
    path = folder / "model.zt"
    save_file({"a.x": np.ones(4, np.float32)}, path)
    path.write_bytes(path.read_bytes()[:-5])
    return path


def gguf(folder):
    path = folder / "model.bin"
    path.write_bytes(b"GGUF\3\0\0\0" + bytes(64))
    return path


def junk(folder):
    path = folder / "model.bin"
    path.write_bytes(b"no tensor file at all" * 9)
    return path


def missing_index_shard(folder):
    save_file({"a.x": np.ones(64, np.float32), "b.x": np.ones(64, np.float32)}, folder / "m.zt")
    tensorark.convert(folder / "m.zt", folder / "s.safetensors", max_shard_size=500)
    min(folder.glob("s-*")).unlink()
    return folder / "s.safetensors.index.json"


def missing_continuation(folder):
    path = write_artifact(folder, (300, 600, 1100))
    min(folder.glob("*.part-*")).unlink()
    return path


TROUBLES = {
    "gone": (lambda folder: folder / "gone.zt", 5),
    "truncated": (truncated, 3),
    "junk": (junk, 3),
    "gguf": (gguf, 4),
    "missing shard": (missing_index_shard, 5),
}
OTHERWISE = {
    ("missing shard", "append"): {2, 5},  # only a .zt takes an append, and that is seen first
    ("missing shard", "meta"): {0, 5},
}


@pytest.fixture
def key(tmp_path):
    make_key(tmp_path / "key.pem", None)
    return tmp_path / "key.pem"


def run(tark, verb, words, model, folder, key):
    values = {"M": model, "T": folder / "out", "K": key}
    spelled = []
    for word in words.split():
        head, dot, suffix = word.partition(".")
        spelled.append(f"{values[head]}{dot}{suffix}" if head in values else word)
    return tark(verb, *spelled)


def test_every_verb_is_in_the_table():
    assert READING.keys() | ELSEWHERE == {verb for each in VERBS.values() for verb in each}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("verb", READING)
def test_trouble_with_a_model_has_one_code_in_all_verbs(tark, tmp_path, key, verb, trouble):
    folder = tmp_path / "model"
    folder.mkdir()
    make, code = TROUBLES[trouble]
    ran = run(tark, verb, READING[verb], make(folder), tmp_path, key)
    assert ran.code in OTHERWISE.get((trouble, verb), {code}), ran
    assert "defect" not in ran.err
    assert "standard output" not in ran.err
    assert ran.code == 0 or ran.err or ran.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", ["verify", "doctor", "convert", "id"])
def test_an_artifact_without_a_continuation_ends_with_five(tark, tmp_path, key, verb):
    ran = run(tark, verb, READING[verb], missing_continuation(tmp_path), tmp_path, key)
    assert ran.code == 5
    assert "part-0001" in ran.err + ran.out


WRITING = [verb for verb, words in READING.items() if "T" in words and verb != "unpack"]


@pytest.mark.parametrize("verb", WRITING)
def test_a_name_that_no_disk_can_hold_ends_with_five(tark, tmp_path, key, verb):
    model = tmp_path / "model.tbm" if verb == "mend" else tmp_path / "model.zt"
    save_file({"a.x": np.ones((4, 8), np.float32)}, tmp_path / "model.zt")
    if verb == "mend":
        tensorark.convert(tmp_path / "model.zt", model)
    words = READING[verb].replace("T", "LONG")
    spelled = [f"{tmp_path}/{'x' * 300}.zt" if "LONG" in word else word for word in words.split()]
    ran = tark(verb, *(str({"M": model, "K": key}.get(word, word)) for word in spelled))
    assert ran.code == 5, ran
    assert "too long" in ran.err
    assert "standard output" not in ran.err


NAMES = {
    "": {"zt": 4, "npz": 0, "tbm": 4, "safetensors": 0},
    "a\0b": {"zt": 4, "npz": 4, "tbm": 0, "safetensors": 0},
    "x" * 1025: {"zt": 4, "npz": 0, "tbm": 0, "safetensors": 0},
    "e\u0301": {"zt": 4, "npz": 0, "tbm": 0, "safetensors": 0},
}


@pytest.mark.parametrize("name", NAMES, ids=["empty", "NUL", "long", "NFD"])
@pytest.mark.parametrize("target", ["zt", "npz", "tbm", "safetensors"])
def test_a_name_that_the_target_cannot_hold_ends_with_four(tark, tmp_path, name, target):
    header = {name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    source = tmp_path / "odd.safetensors"
    source.write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
    ran = tark("convert", source, tmp_path / f"out.{target}")
    assert ran.code == NAMES[name][target], ran
    assert (tmp_path / f"out.{target}").exists() == (ran.code == 0)
    if ran.code and target == "zt" and name != "e\u0301":
        assert tark("convert", source, tmp_path / "out.zt", "--dry-run").code == 4
        assert tark("split", source, tmp_path / "out.zt", "--by", "layer").code == 4


def test_a_file_name_may_be_as_long_as_the_disk_takes_and_its_seal_not(tark, tmp_path):
    path = tmp_path / ("a" * 250 + ".zt")
    save_file({"a": np.ones(2, np.float32)}, path)
    ran = tark("seal", path)
    assert ran.code == 5
    assert "too long" in ran.err
    assert "standard output" not in ran.err


def test_what_was_judged_is_said_where_nothing_carries_a_digest(tark, tmp_path):
    path = tmp_path / "s.npz"
    np.savez(path, x=np.ones(3), label=np.array(["cat", "dog"]))
    ran = tark("verify", path)
    assert (ran.code, ran.out.splitlines()[0]) == (0, f"{path}: verified in part")
    assert "2 of 2 parts match their CRC-32" in ran.out
    assert "not judged" in ran.out
