"""No file of less than ten megabytes costs much, whatever it holds and whoever reads it.

Bounds are loose here, so that a busy machine does not fail them; what they catch is growth by a
factor. What a text turns into objects takes up to 26 times its length: so do those of real models.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cost.bombs import BOMBS

ROOT = Path(__file__).resolve().parents[2]
FREE = 64 << 20
FACTOR = 26


def answers(folder, size, *verbs):
    """Return what each bomb of about `size` bytes cost, by its name."""
    command = [sys.executable, ROOT / "tests/cost/measure.py", folder, str(size), ".*", *verbs]
    places = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": places}
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    return {name: [each for each in told if each["bomb"] == name] for name in BOMBS}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return answers(tmp_path_factory.mktemp("small"), 500_000, "open", "validate")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return answers(tmp_path_factory.mktemp("large"), 9_500_000)


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system tells no peak of memory"
)


@pytest.mark.parametrize("name", BOMBS)
def test_half_a_megabyte_costs_little(small, name):
    assert len(small[name]) == 2
    for each in small[name]:
        assert not each["outcome"].startswith("!"), each
        assert each["memory"] < FREE // 2, each
        assert each["seconds"] < 3, each


@pytest.mark.long
@pytest.mark.parametrize("name", BOMBS)
def test_ten_megabytes_cost_little(large, name):
    assert len(large[name]) == 11
    for each in large[name]:
        assert not each["outcome"].startswith("!"), each
        assert each["memory"] < max(FREE, FACTOR * each["size"]), each
        assert each["seconds"] < 6, each
