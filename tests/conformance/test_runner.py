"""The runner tells agreement from disagreement, and a verdict from a crash."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conformance import run

from .corpus_files import CORPUS

REFERENCE = [sys.executable, str(CORPUS / "reference/ztread.py")]


def runner(*options, command):
    """Return the exit code and the output lines of the runner."""
    started = [sys.executable, str(CORPUS / "run.py"), *options, "--", *command]
    done = subprocess.run(started, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def always(code, printed=""):
    """Return a decoder that gives one answer."""
    return [sys.executable, "-c", f"import sys; print({printed!r}); sys.exit({code})"]


def test_the_reference_reader_passes():
    code, lines = runner("--strict", "--only", "m[ai]*.zt", command=REFERENCE)
    assert code == 0
    assert lines[-1].endswith("passed, 0 failed")
    assert not lines[-1].startswith("0 ")


def test_a_sparse_file_is_made_for_the_decoder():
    code, lines = runner("--only", "*.sparse.json", command=REFERENCE)
    assert (code, lines) == (0, ["3 passed, 0 failed"])


def test_a_profile_can_be_left_out():
    code, _ = runner("--only", "zt/accept/csr.zt", command=REFERENCE)
    assert code == 1
    code, _ = runner(
        "--only", "zt/accept/csr.zt", "--without", "zt.sparse_csr/1", command=REFERENCE
    )
    assert code == 2  # nothing is left to run


@pytest.mark.parametrize(
    ("only", "answer", "code"),
    [
        ("zt/accept/minimal.zt", always(1), 1),
        ("zt/reject/version.zt", always(0), 1),
        ("zt/reject/version.zt", always(2), 1),
        ("zt/reject/version.zt", always(1), 0),
        ("zt/reject/version.zt", always(1, '{"rules": ["zt.version"]}'), 0),
        ("zt/reject/version.zt", always(1, '{"rules": ["zt.digest"]}'), 1),
        ("zt/reject/version.zt", always(1, '{"rules": ["zt.version", "zt.digest"]}'), 1),
        ("zt/reject/version.zt", always(1, "no JSON"), 0),
        ("zt/accept/minimal.zt", always(0), 1),  # it is not canonical
        ("zt/reject/digest.zt", always(1), 1),  # it must open first
        ("zt/refuse/unknown-type.zt", always(0), 1),
        ("zt/either/shape-zero-last.zt", always(0), 0),
        ("zt/either/shape-zero-last.zt", always(70), 3),
        ("zt/reject/version.zt", always(70), 3),
    ],
)
def test_an_answer_is_judged(only, answer, code):
    assert runner("--only", only, command=answer)[0] == code


def test_our_choices_are_demanded_when_asked_for():
    assert runner("--strict", "--only", "shape-zero-last.zt", command=always(0))[0] == 1


def test_a_signal_and_a_timeout_are_crashes():
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    assert runner("--only", "version.zt", command=killed)[0] == 3
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    code, lines = runner("--only", "version.zt", "--timeout", "0.2", command=slow)
    assert code == 3
    assert "no answer in 0.2 s" in lines[1]


def contents():
    """Return the expected contents of a file with attributes of every kind."""
    return json.loads((CORPUS / "zt/accept/attributes.json").read_bytes())


def test_what_is_left_out_is_not_compared():
    assert run.compare({}, contents(), "$") == ""
    assert run.compare(contents(), contents(), "$") == ""


def wrong_integer(printed):
    printed["attributes"]["1.0"] = 1


def wrong_zero(printed):
    printed["attributes"]["-0.0"] = 0.0


def wrong_boolean(printed):
    printed["attributes"]["true"] = 1


def missing_attribute(printed):
    del printed["attributes"]["nan"]


def missing_tensor(printed):
    del printed["tensors"]["t"]


def extra_part(printed):
    printed["tensors"]["t"]["parts"]["more"] = {}


def wrong_shape(printed):
    printed["tensors"]["t"]["shape"] = [4, 2]


def wrong_bytes(printed):
    printed["tensors"]["t"]["parts"]["data"]["sha256"] = "0" * 64


def wrong_verdict(printed):
    printed["canonical"] = True


def unknown_field(printed):
    printed["surprise"] = None


@pytest.mark.parametrize(
    "change",
    [
        wrong_integer,
        wrong_zero,
        wrong_boolean,
        missing_attribute,
        missing_tensor,
        extra_part,
        wrong_shape,
        wrong_bytes,
        wrong_verdict,
        unknown_field,
    ],
)
def test_a_printed_difference_is_found(change):
    printed = contents()
    change(printed)
    assert run.compare(printed, contents(), "$") != ""
