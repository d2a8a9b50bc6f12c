"""Runs `tark`: in this process, or as a process of its own where pipes and signals matter."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tensorark
from tensorark.cli import main
from tensorark.numpy import save_file


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def tark(capsys, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: object) -> Ran:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def process():
    """Start `tark` as a process; `stdin` is empty, output is captured as bytes."""

    def start(*words: object, **facts):
        environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
        command = [sys.executable, "-m", "tensorark", *map(str, words)]
        facts = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **facts}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, **facts)

    return start


ARRAYS = {
    "layers.0.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "layers.2.weight": np.ones((2, 3), np.float32),
    "layers.10.weight": np.full((2, 3), -1, np.float32),
    "norm": np.array([1, 2, 0, -3], np.int16),
}


@pytest.fixture
def zt(tmp_path) -> Path:
    path = tmp_path / "model.zt"
    save_file(ARRAYS, path, {"origin": "a test"})
    return path


@pytest.fixture
def st(tmp_path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file(ARRAYS, path, {"origin": "a test"})
    return path


@pytest.fixture
def damaged(zt) -> Path:
    """A `.zt` whose tensor `norm` has a byte that its digest does not know."""
    with tensorark.open(zt) as file:
        offset = file.catalog.tensors["norm"].parts["data"].blob.spans[0].offset
    data = bytearray(zt.read_bytes())
    data[offset] ^= 1
    path = zt.with_name("damaged.zt")
    path.write_bytes(data)
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with two models in it."""
    path = tmp_path / "models"
    path.mkdir()
    save_file(ARRAYS, path / "a.zt")
    save_file({"w": np.zeros(2, np.float32)}, path / "b.safetensors")
    return path
