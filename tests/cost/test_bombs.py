"""No file of less than ten megabytes costs much, whatever it holds and whoever reads it.

Memory is bounded by 64 MiB, and by what SECURITY.md states for files that hold very many small
things which are legal, or nearly. Seconds are loose, so that a busy machine does not fail them;
what they catch is growth by a factor.
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
MANY = 38  # tensors or objects without values
OPEN = 54  # attributes, metadata and configurations of short entries
SOME = 32  # what is refused, or missing, but one by one
COSTLY = {
    "zt-plain-objects": MANY,
    "zt-other-objects": MANY,
    "safetensors-tensors": MANY,
    "zt-attribute-maps": OPEN,
    "safetensors-metadata": OPEN,
    "tbm-config": OPEN,
    "zt-missing-shards": SOME,
    "index-missing-shards": SOME,
    "ninfer-bindings": SOME,
    "npz-empty-arrays": SOME,
    "npz-ghosts": SOME,
    "npz-arrays": SOME,
    "zt-footers": SOME,
}
"""The most memory that some verb takes, as a multiple of the file: the table in SECURITY.md."""
QUICK = 6  # seconds, for what takes one on a machine that does nothing else
SLOW = 60  # for 30


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
        assert each["memory"] < max(FREE, COSTLY.get(name, 0) * each["size"]), each
        assert each["seconds"] < (SLOW if name in COSTLY else QUICK), each


@pytest.mark.parametrize("factor", sorted({*COSTLY.values()}))
def test_what_costs_more_is_documented(factor):
    assert f"| {factor} ×" in (ROOT / "SECURITY.md").read_text("utf-8")
