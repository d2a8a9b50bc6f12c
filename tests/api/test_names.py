"""The names of the package: loaded when they are used, and missed when they are not there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

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


def test_types_and_run_time_have_the_same_names():
    tree = ast.parse(Path(tensorark.__file__).read_text())
    tests = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {alias.name for each in tests[0].body for alias in each.names}
    assert ast.unparse(tests[0].test) == "TYPE_CHECKING"
    assert typed == {*tensorark.__all__, *tensorark._MODULES}
    # A `__getattr__` that types can see would make every slip an `Any`.
    assert ast.unparse(tests[1].test) == "not TYPE_CHECKING"
    assert "__getattr__" not in {getattr(node, "name", "") for node in tree.body}


@pytest.mark.long
def test_a_slip_is_seen_by_who_checks_types(tmp_path):
    program = tmp_path / "slip.py"
    program.write_text(
        "import numpy as np\nimport tensorark\n"
        'with tensorark.Writer("x.zt") as writer, writer.stream("w", (4,), "f32") as part:\n'
        '    part.write(np.ones(4, "f4"))\n'
        'tensorark.load_file("x.zt")["w"].sum()\ntensorark.torch.load_file("x.zt")\n'
        'tensorark.sav_file({}, "x")\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "slip.py:7: error: Module has no attribute" in done.stdout
    assert "Found 1 error" in done.stdout, done.stdout
