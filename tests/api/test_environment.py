"""The library without its extras, and on a system without what only some systems have."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
for name in {blocked!r}:
    sys.modules[name] = None
for name in {gone!r}:
    if hasattr(os, name):
        delattr(os, name)
import numpy as np
import tensorark
from tensorark.cli import main
tensorark.save_file({{"a": np.arange(9.0)}}, "a.zt")
tensorark.save_file({{"a": np.arange(9.0)}}, "a.safetensors")
tensorark.convert("a.zt", "b.safetensors")
tensorark.convert("a.safetensors", "b.zt")
assert tensorark.verify("b.zt").complete
assert tensorark.open("b.zt")["a"][8] == 8
for words in (["ls", "a.zt"], ["convert", "a.zt", "c.npz"], ["verify", "a.zt"]):
    assert main(words) == 0, words
for use in (lambda: tensorark.torch, lambda: tensorark.make_key("k")):
    try:
        use()
    except (ImportError, tensorark.Error) as error:
        print("HINT", error)
"""


def run(folder, blocked: list[str], gone: list[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(blocked=blocked, gone=gone)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("HINT")]


def test_without_extras_files_are_read_written_and_verified(tmp_path):
    hints = run(tmp_path, ["torch", "cryptography", "model_signing", "scipy"], [])
    assert ["tensorark[torch]" in hints[0], "tensorark[sign]" in hints[1]] == [True, True]


@pytest.mark.skipif(sys.platform == "win32", reason="nothing to take away there")
def test_without_what_is_posix_only_files_are_read_written_and_verified(tmp_path):
    gone = ["preadv", "posix_fadvise", "posix_fallocate", "sched_getaffinity", "O_TMPFILE"]
    assert run(tmp_path, ["fcntl", "resource"], gone) == []
