"""`convert`: the command line of it; what is written is tested elsewhere."""

import json
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import tensorark
from tensorark.cli.parameters import size
from tensorark.numpy import load_file, save_file


def test_convert_says_that_as_much_came_out_as_went_in(tark, st, tmp_path):
    target = tmp_path / "out.zt"
    ran = tark("convert", st, target)
    assert ran.code == 0
    said, _, written = ran.out.partition("; written ")
    assert said == f"{st} → {target}: in 4 tensors, 80 B; out 4 tensors, 80 B"
    assert written.startswith("320.5 KiB")
    assert tark("diff", st, target).code == 0


def test_convert_takes_its_target_by_option_and_its_format_by_name(tark, st, tmp_path):
    target = tmp_path / "out.bin"
    ran = tark("convert", st, "-o", target, "--to", "zt", "-q")
    assert ran.out == f"{target}\n"
    with tensorark.open(target) as file:
        assert file.format.name == "zt"


def test_convert_to_shards(tark, zt, tmp_path):
    target = tmp_path / "set.safetensors"
    ran = tark("convert", zt, target, "--max-size", "440", "--json")
    document = json.loads(ran.out)
    assert document["schema"] == "tensorark.convert/1"
    assert document["in"] == document["out"] == {"tensors": 4, "nbytes": 80}
    assert len(document["files"]) == 3
    assert load_file(document["files"][-1])["norm"].tolist() == [1, 2, 0, -3]


def test_a_dry_run_writes_nothing_and_shows_the_plan(tark, zt, tmp_path):
    target = tmp_path / "out.safetensors"
    ran = tark("convert", zt, target, "--dry-run")
    assert ran.code == 0
    assert f"target   {target} (safetensors)" in ran.out.splitlines()
    assert "tensors  4 tensors, 22 elements, 80 B: f32 3 (72 B), i16 1 (8 B)" in ran.out
    assert not target.exists()


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_what_the_target_cannot_hold_is_refused_by_name(tark, tmp_path, words):
    source, target = tmp_path / "x.zt", tmp_path / "x.safetensors"
    with tensorark.Writer(source) as writer:
        writer.add_parts("odd one", (2,), "acme.secret/1", {"data": (("u8", None), [b"xy"])})
    ran = tark("convert", source, target, *words)
    assert ran.code == 4
    assert '"odd one"' in ran.err
    assert not target.exists()


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_target_that_exists_is_kept(tark, zt, st, words):
    before = st.read_bytes()
    ran = tark("convert", zt, st, *words)
    assert ran.code == 2
    assert "hint: --force replaces it" in ran.err
    assert st.read_bytes() == before
    assert tark("convert", zt, st, "--force", *words).code == 0


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a.zt", "-o", "b.zt"),
        ("a.unknown",),
        ("a.zt", "--to", "unknown"),
        ("a.zt", "--align", "5G"),
        ("a.zt", "--align", "100"),
        ("a.zt", "--max-size", "1GB"),
        ("a.safetensors", "--align", "4096"),
    ],
)
def test_wrong_words_end_with_two(tark, st, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    ran = tark("convert", st, *words)
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert sorted(tmp_path.iterdir()) == before


def test_an_input_is_never_written(tark, st):
    before = st.read_bytes()
    assert tark("convert", st, st, "--force").code == 2
    assert st.read_bytes() == before


def test_a_damaged_source_is_not_passed_on(tark, damaged, tmp_path):
    target = tmp_path / "out.safetensors"
    ran = tark("convert", damaged, target)
    assert ran.code == 3
    assert "objects.norm" in ran.err
    assert not target.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4096", 4096),
        ("4096B", 4096),
        ("64KiB", 65536),
        ("64 kib", 65536),
        ("1.5GB", 1_500_000_000),
        ("5GB", 5_000_000_000),
        ("5GiB", 5 * 2**30),
        ("0.5TiB", 2**39),
    ],
)
def test_sizes_are_decimal_or_binary_as_their_unit_says(text, expected):
    assert size(text) == expected


def test_an_interrupt_leaves_nothing_and_ends_with_130(process, tmp_path):
    source, folder = tmp_path / "big.safetensors", tmp_path / "out"
    folder.mkdir()
    sparse(source, 3 << 30)
    running = process("convert", source, folder / "big.zt")
    deadline = time.monotonic() + 30
    while not is_writing(running.pid, folder) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert running.poll() is None, "it ended before it could be interrupted"
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, b"", b"")
    assert list(folder.iterdir()) == []


def is_writing(pid, folder):
    """Whether a process has a file of this folder open, which has no name yet."""
    found = []
    with suppress(OSError):
        found = [each.readlink() for each in Path(f"/proc/{pid}/fd").iterdir()]
    return bool(list(folder.iterdir())) or any(folder in each.parents for each in found)


def sparse(path, nbytes):
    """Write a safetensors file whose one tensor is a hole of the disk."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [nbytes], "data_offsets": [0, nbytes]}})
    header += " " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode())
        file.truncate(8 + len(header) + nbytes)


def test_values_survive(tark, st, tmp_path):
    target = tmp_path / "out.zt"
    assert tark("convert", st, target).code == 0
    for name, array in load_file(st).items():
        assert np.array_equal(load_file(target)[name], array)


def test_files_of_the_model_that_stay_behind_are_named(tark, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    save_file({"w": np.ones((4, 8), "f4")}, here / "model.safetensors")
    for name in ("config.json", "tokenizer.json", "notes.txt"):
        (here / name).write_text("{}")
    said = "beside the model, and not taken along: config.json, tokenizer.json\n"
    for words in ([], ["--dry-run"]):
        ran = tark("convert", here, there / "out.zt", "--force", *words)
        assert (ran.code, ran.err) == (0, "note: " + said)
        ran = tark("convert", here, there / "out.zt", "--force", "--json", *words)
        assert json.loads(ran.out)["beside"] == ["config.json", "tokenizer.json"]
    (there / "config.json").write_text("{}")
    done = tensorark.convert(here, there / "out.zt", overwrite=True)
    assert done.beside == ("tokenizer.json",)  # the other one was brought along
    assert tark("convert", here, here / "out.zt").err == ""
