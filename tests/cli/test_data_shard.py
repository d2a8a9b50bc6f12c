"""A data shard describes nothing (`.zt` §7.2), so no verb may take it for an empty model."""

from __future__ import annotations

import pytest

import tensorark
from tensorark.cli.group import VERBS
from tensorark.formats.zt.frame import MAGIC, encode_footer
from tensorark.numpy import load_file

WORDS = {
    "append": [["append", "{zt}", "{shard}"], ["append", "{shard}", "{zt}"]],
    "cat": [["cat", "{shard}", "a"]],
    "convert": [["convert", "{shard}", "{out}.safetensors"], ["convert", "{shard}", "{out}.zt"]],
    "diff": [["diff", "{shard}", "{shard}"], ["diff", "{zt}", "{shard}"]],
    "id": [["id", "{shard}"]],
    "ls": [["ls", "{shard}"]],
    "merge": [["merge", "{shard}", "{out}.zt"]],
    "overlay": [["overlay", "{zt}", "{shard}", "{out}.zt"]],
    "repack": [["repack", "{shard}", "{out}.zt"]],
    "seal": [["seal", "{shard}"]],
    "show": [["show", "{shard}"], ["show", "{shard}", "a"]],
    "split": [["split", "{shard}", "{out}.zt", "--max-size", "1MB"]],
    "sparsity": [["sparsity", "{shard}"]],
    "stat": [["stat", "{shard}"]],
    "tree": [["tree", "{shard}"]],
    "verify": [["verify", "{shard}"]],
    "prune": [["prune", "{shard}", "{out}.zt"], ["prune", "{shard}", "{out}.tbm"]],
    "meta": [["meta", "get", "{shard}"], ["meta", "set", "{shard}", "a", "b"]],
}
FINE = {"doctor", "validate"}  # of a data shard there is something to say
OTHERS = {
    "bindings",
    "completion",
    "explain",
    "formats",
    "keygen",
    "mend",
    "pack",
    "resources",
    "sign",
    "unpack",
    "verify-sig",
}
"""Verbs that take no `.zt`, or sign whole files."""


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "shard.zt"
    path.write_bytes(MAGIC.ljust(4096, b"\0") + b"A" * 100 + encode_footer(0, 0, 0))
    return path


def test_every_verb_was_thought_of():
    names = {name for section in VERBS.values() for name in section}
    assert names == WORDS.keys() | FINE | OTHERS


@pytest.mark.parametrize("words", [each for verb in WORDS.values() for each in verb], ids=" ".join)
def test_no_verb_takes_a_data_shard_for_an_empty_model(tark, tmp_path, zt, shard, words):
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    places = {"zt": zt, "shard": shard, "out": tmp_path / "out"}
    ran = tark(*[word.format(**places) for word in words])
    assert ran.code in {2, 4}
    assert "data shard" in ran.out + ran.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("verb", sorted(FINE))
def test_what_a_data_shard_is_can_be_asked(tark, shard, verb):
    assert tark(verb, shard).code == 0


def test_the_library_refuses_its_tensors_and_nothing_else(shard):
    with tensorark.open(shard) as file:
        assert not file.describes_tensors
        assert "a data shard" in repr(file)
        assert file.paths() == [shard]
        for ask in (len, list, bool, lambda f: "a" in f, lambda f: f["a"], lambda f: f.get("a")):
            with pytest.raises(tensorark.Unsupported) as caught:
                ask(file)
            assert (caught.value.code, caught.value.path) == ("data-shard", str(shard))
    with pytest.raises(tensorark.Unsupported):
        load_file(shard)
