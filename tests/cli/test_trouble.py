"""What goes wrong: exit codes, files that are something else, hostile names, streams that end."""

import json
import os
import pty
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tensorark.cli
from tensorark.cli import progress
from tensorark.errors import Error
from tensorark.numpy import save_file

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n"
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"
GGUF = b"GGUF\3\0\0\0" + bytes(16)


def zipped(path, member):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, b"\x80\2.")
    return path.read_bytes()


# --------------------------------------------------------------------------- what a file is instead


@pytest.mark.parametrize(
    ("content", "sentence", "code"),
    [
        (LFS, "a Git-LFS pointer", "file.git-lfs-pointer"),
        (HTML, "an HTML page", "file.html"),
        (bytes(4096), "a file of zeros", "file.zeros"),
        (b"", "", "safetensors.file-size"),
        (b"\x1f\x8b\x08" + bytes(60), "a gzip archive", "file.gzip"),
    ],
)
def test_what_is_no_tensor_file_is_named_and_ends_with_three(
    tark, tmp_path, content, sentence, code
):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    for verb in ("ls", "verify", "id", "stat"):
        ran = tark(verb, path)
        assert ran.code == 3
        assert sentence in ran.err
        assert f"[{code}" in ran.err
    assert tark("validate", path).code == 3


def test_the_size_of_the_object_behind_a_pointer_is_told(tark, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(LFS)
    ran = tark("ls", path)
    assert "4.98 GB" in ran.err
    assert ran.err.splitlines()[1] == "hint: run `git lfs pull`"


def test_a_file_cut_short_ends_with_three_and_says_how_much_is_missing(tark, st, zt):
    for path in (st, zt):
        path.write_bytes(path.read_bytes()[:-7])
        ran = tark("ls", path)
        assert ran.code == 3
        assert "expected" in ran.err


def test_content_wins_over_the_name(tark, st, zt, tmp_path):
    for source, name in ((st, "model.ckpt"), (zt, "model2.safetensors")):
        renamed = tmp_path / name
        renamed.write_bytes(source.read_bytes())
        assert tark("ls", renamed).code == 0


@pytest.mark.parametrize("member", ["archive/data.pkl", "array.npy"])
def test_other_containers_are_told_by_content_and_never_called_malformed(tark, tmp_path, member):
    path = tmp_path / "model.safetensors"
    path.write_bytes(zipped(tmp_path / "x.zip", member))
    ran = tark("ls", path)
    assert ran.code in {0, 3, 4}
    assert "defect" not in ran.err
    assert "safetensors.header" not in ran.err


def test_gguf_is_told_by_content(tark, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(GGUF)
    ran = tark("ls", path)
    assert "safetensors.header" not in ran.err
    assert "defect" not in ran.err


# --------------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        ([], 2),
        (["lss"], 2),
        (["ls"], 2),
        (["ls", "--nonsense", "x"], 2),
        (["ls", "missing.zt"], 5),
        (["ls", "."], 2),
    ],
)
def test_exit_codes_of_words(tark, tmp_path, monkeypatch, words, code):
    monkeypatch.chdir(tmp_path)
    assert tark(*words).code == code


def test_a_verb_that_does_not_exist_is_answered_with_those_that_do(tark):
    assert "did you mean ls?" in tark("lss").err


def test_no_words_give_the_help_on_standard_error(tark):
    ran = tark()
    assert ran.out == ""
    assert "tark VERB --help" in ran.err


def test_a_missing_shard_ends_with_five_and_the_rest_can_be_listed(tark, zt, tmp_path):
    assert tark("convert", zt, tmp_path / "set.safetensors", "--max-size", 440).code == 0
    index, shards = tmp_path / "set.safetensors.index.json", sorted(tmp_path.glob("set-*"))
    names = tark("ls", shards[0], "-q").out.split()
    shards[0].unlink()
    ran = tark("ls", index)
    assert ran.code == 5
    assert shards[0].name in ran.err
    assert all(f'"{name}"' in ran.err for name in names)
    ran = tark("ls", index, "--keep-going", "-q")
    assert ran.code == 5
    assert set(ran.out.split()) == {
        "layers.0.weight",
        "layers.2.weight",
        "layers.10.weight",
        "norm",
    } - set(names)


def test_the_index_of_a_folder_is_used_and_strays_are_told(tark, zt, tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    assert tark("convert", zt, folder / "model.safetensors", "--max-size", 440).code == 0
    (folder / "consolidated.safetensors").write_bytes(
        (folder / "model-00001-of-00002.safetensors").read_bytes()
    )
    ran = tark("ls", folder)
    assert "4 tensors" in ran.out
    assert ran.err.startswith("warning: ")
    assert "consolidated.safetensors" in ran.err


def test_an_error_as_json_is_a_document_on_standard_output(tark, tmp_path):
    ran = tark("ls", tmp_path / "missing.zt", "--json")
    document = json.loads(ran.out)
    assert ran.err == ""
    assert document["schema"] == "tensorark.error/1"
    assert document["error"]["code"] == "missing-file"
    assert document["error"]["exit"] == ran.code == 5


def test_a_wrong_word_as_json(tark):
    document = json.loads(tark("ls", "--json").out)
    assert (document["error"]["code"], document["error"]["exit"]) == ("usage", 2)


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
        (MemoryError(), 5, "error: out of memory"),
        (ZeroDivisionError("x"), 70, "error: a defect of tark: ZeroDivisionError: x"),
    ],
)
def test_nothing_but_an_exit_code_leaves(tark, zt, monkeypatch, raised, code, said):
    def fail(*_words, **_options):
        raise raised

    monkeypatch.setattr("tensorark.files.open", fail)
    ran = tark("ls", zt)
    assert ran.code == code
    assert ran.err.startswith(said)
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_work_and_leaves_no_temporary_file(tark, zt, monkeypatch, number, code):
    target = zt.with_name("out.safetensors")
    before = sorted(zt.parent.iterdir())

    def ended(*_facts, **_options):
        assert signal.getsignal(number) is not signal.SIG_DFL
        signal.raise_signal(number)
        signal.raise_signal(number)  # another one while it is ended
        pytest.fail("goes on after the signal")

    monkeypatch.setattr("tensorark.writing.planned.revalidate", ended)
    ran = tark("convert", zt, target)
    assert (ran.code, ran.out) == (code, "")
    assert sorted(zt.parent.iterdir()) == before
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_signal_that_is_ignored_stays_so(tark, zt, monkeypatch):
    def ignored(*_facts, **_options):
        signal.raise_signal(signal.SIGHUP)

    monkeypatch.setattr("tensorark.writing.planned.revalidate", ignored)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert tark("convert", zt, zt.with_name("out.safetensors")).code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_defect_shows_its_traceback_when_asked(tark, zt, monkeypatch):
    monkeypatch.setattr("tensorark.files.open", lambda *_: 1 / 0)
    assert "Traceback" in tark("ls", zt, "-v").err


def test_every_class_of_errors_has_an_exit_code_of_the_table():
    assert {kind.exit_code for kind in Error.__subclasses__()} == {2, 3, 4, 5}


# ------------------------------------------------------------------------------------ hostile names

EVIL = 'a\x1b[2J\u202e\n\x9b31m\x7f"b\\'


def test_no_name_steers_the_terminal(tark, tmp_path):
    path = tmp_path / "evil\x1b]0;x\x07.zt"
    save_file({EVIL: np.ones(2, np.float32)}, path, {EVIL: EVIL})
    with tensorark.Writer(tmp_path / "other.zt") as writer:
        writer.add(EVIL, np.zeros(2, np.float32), attributes={EVIL: EVIL})
    for words in (
        ("ls", path),
        ("ls", "-l", path),
        ("ls", "-q", path),
        ("tree", path),
        ("show", path),
        ("show", tmp_path / "other.zt", EVIL),
        ("show", path, "nope" + EVIL),
        ("stat", path),
        ("validate", path),
        ("verify", path),
        ("id", path),
        ("diff", path, tmp_path / "other.zt"),
        ("convert", path, tmp_path / "evil.safetensors"),
        ("convert", path, tmp_path / f"\x1b.{EVIL}"),
        ("ls", tmp_path / "missing\x1b[31m"),
        (EVIL,),
    ):
        ran = tark(*words)
        text = ran.out + ran.err
        assert text
        assert all(each.isprintable() for each in text.replace("\n", "")), words
        plain = tark("--json", *words)
        assert json.loads(plain.out)["schema"].startswith("tensorark.")
        assert (plain.out + plain.err).isascii()
        assert all(each.isprintable() for each in (plain.out + plain.err).replace("\n", ""))
        assert plain.out.count("\n") == 1
        (tmp_path / "evil.safetensors").unlink(missing_ok=True)


def test_a_name_stays_on_one_line(tark, tmp_path):
    path = tmp_path / "x.zt"
    save_file({"a\nb": np.ones(2, np.float32)}, path)
    assert tark("ls", "-q", path).out == "a\\nb\n"


# ------------------------------------------------------------------------------------------ streams


def test_a_reader_that_goes_away_ends_it_quietly(process, tmp_path):
    path = tmp_path / "many.safetensors"
    save_file({f"tensor.{n}": np.zeros(1, np.int8) for n in range(20_000)}, path)
    with process("ls", path) as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 141


def test_closed_streams_are_no_trouble(zt):
    for closing in (">&-", "2>&-", ">&- 2>&-"):
        command = f"'{sys.executable}' -m tensorark ls '{zt}' {closing}"
        assert (
            subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0
        )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_ends_with_five(process, zt):
    with Path("/dev/full").open("wb") as full:
        running = process("ls", zt, stdout=full)
        err = running.communicate()[1]
    assert running.returncode == 5
    assert err.startswith(b"error: cannot write to standard output")


@pytest.mark.parametrize(
    ("environment", "words", "colored"),
    [
        ({}, (), False),
        ({"FORCE_COLOR": "1"}, (), True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False),
        ({"FORCE_COLOR": "0"}, (), False),
        ({}, ("--color",), True),
        ({"NO_COLOR": "1"}, ("--color",), True),
        ({"FORCE_COLOR": "1"}, ("--no-color",), False),
    ],
)
def test_color_follows_options_then_environment(tark, zt, monkeypatch, environment, words, colored):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in tark("ls", zt, *words).out) is colored


@pytest.mark.parametrize(("term", "colored"), [("xterm", True), ("dumb", False)])
def test_color_is_for_terminals_that_have_it(zt, term, colored):
    environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tensorark", "ls", str(zt)]
    running = subprocess.Popen(command, stdout=theirs, env={**environment, "TERM": term})
    assert running.wait() == 0
    text = os.read(ours, 65536)
    os.close(ours)
    os.close(theirs)
    assert (b"\x1b[1m" in text) is colored
    assert b"norm" in text


def test_bytes_are_not_written_to_a_terminal(zt):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tensorark", "cat", str(zt), "norm"]
    running = subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE)
    assert b"bytes are not for a terminal" in running.communicate()[1]
    os.close(ours)
    os.close(theirs)
    assert running.returncode == 2


def test_progress_is_drawn_on_a_terminal_with_rate_and_time(zt):
    script = (
        "import sys; from tensorark.cli import main, progress; progress.PATIENCE = -1;"
        "sys.exit(main(sys.argv[1:]))"
    )
    for words, shown in (((), True), (("--no-progress",), False), (("-q",), False)):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", script, "verify", str(zt), *words]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        running = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment
        )
        assert running.wait() == 0
        os.close(theirs)
        text = drained(ours)
        assert (b"verifying" in text and b"/s" in text) is shown


def drained(descriptor):
    """Read what was written to a terminal whose other end is closed."""
    text = b""
    try:
        while piece := os.read(descriptor, 65536):
            text += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(descriptor)
    return text


def test_progress_is_not_drawn_anywhere_else(tark, zt, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", -1)
    assert tark("verify", zt).err == ""


def test_quick_work_draws_nothing(capsys):
    with progress.Bar(10, "working") as bar:
        bar.advance(10)
    assert capsys.readouterr().err == ""


def test_the_module_is_the_command(process):
    out, _ = process("--version").communicate()
    assert out.decode().strip() == f"tark {tensorark.__version__}"
