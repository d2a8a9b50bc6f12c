"""`split`, `merge`, `overlay`, `append`, `meta`, `repack`, `doctor`: what they print and answer."""

import json
from pathlib import Path

import numpy as np
import pytest

import tensorark
from tensorark.numpy import load_file, save_file


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def other(tmp_path):
    """A model with one tensor of `zt` changed, and one more."""
    path = tmp_path / "other.zt"
    save_file({"norm": np.zeros(4, np.int16), "bias": np.ones(2, np.float32)}, path)
    return path


def test_split_shows_its_plan_and_keeps_to_it(tark, zt, tmp_path):
    target = tmp_path / "s.zt"
    before = names_in(tmp_path)
    words = ("split", zt, target, "--max-size", "9KiB", "--align", "4096")
    planned = tark(*words, "--dry-run")
    assert planned.code == 0
    assert names_in(tmp_path) == before
    assert "planned, nothing written" in planned.out
    done = tark(*words)
    assert done.code == 0
    assert done.out == planned.out.replace("planned, nothing written", "written")
    document = json.loads(tark(*words, "--force", "--json").out)
    assert document["schema"] == "tensorark.split/1"
    assert [each["tensors"] for each in document["shards"]] == [
        ["layers.0.weight", "layers.10.weight"],
        ["layers.2.weight", "norm"],
    ]
    for each in document["shards"]:
        # What replaces a set has other names, so that both can lie there until the root changes.
        former = each["path"].replace("s-r1-", "s-")
        assert f"{former}  {each['size']:,}  2 tensors\n" in done.out
        assert not Path(former).exists()
        assert (tmp_path / each["path"]).stat().st_size == each["size"] <= 9216
    assert tark("diff", zt, target).code == 0
    assert tark("verify", target, "--deep").code == 0


def test_split_by_layer_counts_layers_as_numbers(tark, zt, tmp_path):
    ran = tark("split", zt, tmp_path / "s.zt", "--by", "layer", "--json", "--digest", "xxh3")
    shards = json.loads(ran.out)["shards"]
    assert [each["tensors"] for each in shards] == [
        ["norm"],
        ["layers.0.weight"],
        ["layers.2.weight"],
        ["layers.10.weight"],
    ]


def test_a_tensor_larger_than_the_cap_is_said_in_the_plan(tark, tmp_path):
    save_file({"a": np.zeros(9000, np.uint8), "b": np.zeros(5, np.uint8)}, tmp_path / "in.zt")
    ran = tark(
        "split", tmp_path / "in.zt", tmp_path / "s.zt", "--max-size", "5KB", "--align", "4096"
    )
    assert ran.code == 0
    assert ran.out.count("one tensor is larger than the limit") == 1


def test_merge_takes_the_root_and_nothing_else(tark, zt, tmp_path):
    tark("split", zt, tmp_path / "s.zt", "--max-size", "9KiB", "--align", "4096")
    first, second = sorted(tmp_path.glob("s-*.zt"))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert tark("merge", first, second, tmp_path / "out.zt").code == 2  # a pattern of the shell
    assert tark("merge", first, second, "--force").code == 4
    assert tark("merge", tmp_path / "s.zt", second, "--force").code == 2
    assert tark("merge", tmp_path / "s.zt", zt).code == 2
    assert tark("merge", tmp_path / "s.zt", tmp_path / "o.zt", "--dry-run").code == 0
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    done = tark("merge", tmp_path / "s.zt", tmp_path / "o.zt", "-v")
    assert done.code == 0
    assert str(second) in done.out
    assert (tmp_path / "o.zt").read_bytes() == zt.read_bytes()


def test_a_missing_shard_is_5_and_named_with_what_it_holds(tark, zt, tmp_path):
    tark("split", zt, tmp_path / "s.zt", "--max-size", "9KiB", "--align", "4096")
    (tmp_path / "s-00002-of-00002.zt").unlink()
    ran = tark("merge", tmp_path / "s.zt", tmp_path / "o.zt")
    assert ran.code == 5
    assert "00002-of-00002 (2 tensors)" in ran.err
    assert tark("ls", tmp_path / "s.zt").code == 0
    ran = tark("cat", tmp_path / "s.zt", "norm")
    assert ran.code == 5
    assert '"00002-of-00002" is missing' in ran.err
    assert "norm" in ran.err
    ran = tark("doctor", tmp_path / "s.zt")
    assert ran.code == 5
    assert '"00002-of-00002" is missing' in ran.out
    assert tark("verify", tmp_path / "s.zt").code == 5


def test_append_refuses_names_and_replaces_on_request(tark, zt, other):
    old = zt.read_bytes()
    ran = tark("append", zt, other)
    assert ran.code == 2
    assert "--replace" in ran.err or "replace" in ran.err
    assert zt.read_bytes() == old
    ran = tark("append", zt, other, "--replace")
    assert ran.code == 0
    assert "2 tensors appended, 1 of them superseding" in ran.out
    assert zt.read_bytes().startswith(old)
    assert load_file(zt)["norm"].tolist() == [0, 0, 0, 0]


def test_repack_drops_what_is_not_used(tark, zt, other, tmp_path):
    tark("append", zt, other, "--replace")
    ran = tark("repack", zt, tmp_path / "r.zt", "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["tensors"]) == (0, 5)
    assert document["after"] < document["before"]
    assert tark("validate", tmp_path / "r.zt", "--canonical").code == 0
    assert tark("repack", zt, tmp_path / "r.zt").code == 2


def test_overlay_and_diff_emit_make_the_model_they_show(tark, zt, other, st, tmp_path):
    ran = tark("overlay", zt, other, tmp_path / "o.zt", "--exclude", "layers.2.weight")
    assert ran.code == 0
    assert "4 tensors, of which 2 stored (16 B)" in ran.out
    assert "1 removed" in ran.out
    assert tark("overlay", st, other, tmp_path / "x.zt").code == 4
    assert tark("overlay", zt, other, "-o", tmp_path / "x.zt").code == 0
    assert tark("overlay", zt, other).code == 2
    assert tark("overlay", zt, other, tmp_path / "y.zt", "-o", tmp_path / "y.zt").code == 2

    ran = tark("diff", zt, tmp_path / "o.zt", "-o", tmp_path / "d.zt", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["emitted"]["stored"] == ["bias", "norm"]
    assert tark("diff", tmp_path / "d.zt", tmp_path / "o.zt").code == 0
    assert tark("diff", zt, tmp_path / "o.zt", "-o", tmp_path / "d.zt").code == 2
    assert tark("diff", zt, tmp_path / "o.zt", "-o", tmp_path / "d.zt", "-f").code == 1
    assert tark("verify", tmp_path / "d.zt", "--deep").code == 0


def test_meta_reads_words_as_json_where_they_are(tark, zt):
    for word, value in (
        ("3", 3),
        ("[1, null]", [1, None]),
        ("true", True),
        ("plain text", "plain text"),
        ("NaN", "NaN"),
        ('"3"', "3"),
    ):
        assert tark("meta", "set", zt, "k", word).code == 0
        with tensorark.open(zt) as file:
            assert file.attributes == {"origin": "a test", "k": value}
            assert type(file.attributes["k"]) is type(value)
    assert tark("meta", "set", zt, "k", "3", "--text").code == 0
    assert tark("meta", "get", zt, "k").out == "3\n"
    assert json.loads(tark("meta", "get", zt, "--json").out)["attributes"]["k"] == "3"
    assert tark("meta", "get", zt).out.splitlines() == ["k       3", "origin  a test"]
    assert tark("meta", "rm", zt, "k", "origin").code == 0
    assert tark("meta", "get", zt).out == ""


def test_meta_of_a_tensor_and_its_refusals(tark, zt):
    assert tark("meta", "set", zt, "scale", "0.5", "--tensor", "norm").code == 0
    assert tark("meta", "get", zt, "scale", "--tensor", "norm").out == "0.5\n"
    before = zt.read_bytes()
    for words in (
        ("get", zt, "gone"),
        ("get", zt, "a", "b"),
        ("rm", zt, "gone"),
        ("rm", zt),
        ("set", zt, "k"),
        ("set", zt, "k", "1", "--tensor", "gone"),
        ("put", zt, "k", "1"),
    ):
        assert tark("meta", *words).code == 2
    assert zt.read_bytes() == before
    assert tark("meta", "set", zt, "k", "1", "--repack", "-q").code == 0
    assert tark("validate", zt, "--canonical").code == 0


def test_doctor_explains_and_changes_nothing(tark, zt, other, st, tmp_path):
    assert tark("doctor", zt).code == 0
    assert tark("doctor", st).code == 0
    old = zt.read_bytes()
    tark("append", zt, other, "--replace")
    ran = tark("doctor", zt)
    assert ran.code == 0
    assert ran.out.splitlines()[-1].split() == [
        "2",
        f"{zt.stat().st_size:,}",
        "5",
        "+1",
        "~1",
        "-0",
    ]
    zt.write_bytes(zt.read_bytes()[:-9])
    broken = zt.read_bytes()
    ran = tark("doctor", zt)
    assert ran.code == 3
    assert f"The first {len(old)} bytes are a valid `.zt` of 4 tensors." in ran.out
    document = json.loads(tark("doctor", zt, "--json").out)
    assert [each["length"] for each in document["generations"]] == [len(old)]
    assert [each["rule"] for each in document["findings"]] == ["zt.footer-magic"]
    assert zt.read_bytes() == broken
    (tmp_path / "x.gguf").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert tark("doctor", tmp_path / "x.gguf").code in {3, 4}
    assert tark("doctor", tmp_path / "gone.zt").code == 5


def test_names_from_a_file_cannot_steer_the_terminal(tark, tmp_path):
    save_file({"a\x1b[2J": np.zeros(2), "b": np.zeros(3)}, tmp_path / "m.zt", {"k\x1b[1m": "\x07"})
    for words in (
        ("split", tmp_path / "m.zt", tmp_path / "s.zt", "--max-size", "1MB"),
        ("meta", "get", tmp_path / "m.zt"),
        ("append", tmp_path / "m.zt", tmp_path / "s.zt"),
        ("doctor", tmp_path / "m.zt"),
    ):
        ran = tark(*words)
        assert "\x1b" not in ran.out + ran.err
        assert "\x07" not in ran.out + ran.err
