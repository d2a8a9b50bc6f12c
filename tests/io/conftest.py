"""Child processes for what may kill a process, and files with contents that can be checked."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import tensorark.errors


@pytest.fixture
def environment():
    """Let a child import the package under test, wherever it comes from."""
    package = Path(tensorark.errors.__file__).parents[1]
    return {**os.environ, "PYTHONPATH": str(package)}


@pytest.fixture
def child(tmp_path, environment):
    """Run a script in a process of its own and return what became of it."""

    def run(script, *arguments):
        path = tmp_path / "script.py"
        path.write_text(script)
        return subprocess.run(
            [sys.executable, path, *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def noise():
    """Return 16 MiB without repetition."""
    return random.Random(1).randbytes(16 << 20)
