"""The names of the package: loaded when they are used, and missed when they are not there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tensorark


def test_every_name_is_there():
    for name in tensorark.__all__:
        assert getattr(tensorark, name) is not None
    assert {"load_file", "numpy", "torch", "Verification"} <= set(dir(tensorark))


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_one_import_is_enough(tmp_path):
    program = f"""
import sys, tensorark
assert "numpy" not in sys.modules
path = r"{tmp_path / "a.zt"}"
import numpy
tensorark.save_file({{"a": numpy.ones(3)}}, path)
assert "torch" not in sys.modules
print(tensorark.load_file(path, keys=["a"])["a"].sum(), tensorark.numpy.load_file(path).keys())
with tensorark.safe_open(path) as file:
    print(file.keys())
print(tensorark.torch.load_file(path)["a"].sum().item())
"""
    assert run(program).split() == ["3.0", "dict_keys(['a'])", "['a']", "3.0"]


def test_a_slip_is_told_at_once():
    with pytest.raises(AttributeError, match='did you mean "save_file"'):
        tensorark.sav_file  # noqa: B018 - it raises
    with pytest.raises(AttributeError, match=r"no attribute 'zzzzzz'$"):
        tensorark.zzzzzz  # noqa: B018 - it raises
    assert not hasattr(tensorark, "zzzzzz.zzzzzz")


def test_types_and_run_time_have_the_same_names():
    """The stub is the one list; run time reads it by a pattern, and here it is parsed."""
    tree = ast.parse(Path(tensorark.__file__).with_suffix(".pyi").read_text())
    typed = [each for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names]
    names = [each.asname for each in typed if each.name == each.asname]
    modules = {name for name in names if isinstance(getattr(tensorark, name), ModuleType)}
    assert names == sorted({*names}, key=names.index)
    assert {*names} - {"Final"} == {*tensorark.__all__} | modules
    assert modules == {"numpy", "quantize", "sparse", "torch"}
