"""Whatever call fails or kills: a reader finds the old model or the new one, never a mixture.

A sample of the product (kind, what is in place, fault, call) runs always, all of it with
``-m long``.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tensorark
from tests.faults.drive import ACTIONS
from tests.faults.kinds import KINDS

HERE = Path(__file__).parent
FAULTS = ACTIONS[1:]
STEP = 13
"""Each how many calls have a fault in the sample."""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("interposing takes a C compiler and Linux")
    made = tmp_path_factory.mktemp("faults") / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", made, HERE / "faults.c"]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return made


@pytest.fixture
def drive(library, tmp_path):
    """Run lines (kind, stage, action, first, step); return the answers to each line."""

    def run(lines):
        paths = (HERE.parents[1], Path(tensorark.__file__).parents[1])
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "OPENBLAS_NUM_THREADS": "1",  # a process with threads is not forked safely
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        }
        done = subprocess.run(
            [sys.executable, HERE / "drive.py", library, tmp_path / "scenes"],
            input="".join(json.dumps(line) + "\n" for line in lines),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers = iter(json.loads(line) for line in done.stdout.splitlines())
        for line in lines:
            points = list(itertools.takewhile(lambda each: "at" in each, answers))
            yield line, points

    return run


def stages(kind):
    if KINDS[kind].amends:
        return ["same"]
    if not KINDS[kind].replaces:
        return ["new"]
    return ["new", "same", *(["resized"] if KINDS[kind].few else [])]


def judge(line, facts):
    """Require what holds whatever happens."""
    kind, stage, action = line[:3]
    told = f"{kind} {stage} {action} {facts}"
    code, found = facts["code"], facts["found"].split(":")[0]
    allowed = {"old", "new"}
    if KINDS[kind].appends and (code < 0 or action.endswith("-ever")):
        allowed.add("told")  # the bytes behind the old ones are not whole: readers refuse them
    assert found in allowed, told
    assert facts["early"] == 0, told
    if action in {"kill", "torn"}:
        assert code == -9, told
    elif action == "term":
        assert code == 143, told
    else:
        assert code in {0, 5}, told
        assert code == 5 or found == "new", told
        # With one fault and the process alive nothing is left behind.
        assert facts["same"] or found != "old" or action.endswith("-ever"), told
    if not KINDS[kind].replaces and found == "new":
        assert (facts["again"], facts["then"]) == (2, "new"), told
        assert facts["foreign"], told
    elif not KINDS[kind].amends:
        assert (facts["again"], facts["then"], facts["left"]) == (0, "new", 0), told
        assert facts["hidden"] == [], told
        assert facts["foreign"], told


@pytest.mark.parametrize("kind", KINDS)
def test_some_faults_leave_the_old_or_the_new(drive, kind):
    turn = list(KINDS).index(kind)
    lines = []
    for number, stage in enumerate(stages(kind)):
        for more in (0, 1):
            at = 3 * turn + 2 * number + more
            lines.append((kind, stage, FAULTS[at % len(FAULTS)], at % STEP, STEP))
    for line, points in drive(lines):
        assert points or line[3] > 4
        for facts in points:
            judge(line, facts)


@pytest.mark.long
@pytest.mark.parametrize("action", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_leaves_the_old_or_the_new(drive, kind, action):
    seen = []
    for line, points in drive([(kind, stage, action, 0, 1) for stage in stages(kind)]):
        for facts in points:
            judge(line, facts)
            seen.append((line[1], action, facts["found"].split(":")[0]))
    for key in sorted(set(seen)):
        sys.stdout.write(f"{kind} {' '.join(key)}: {seen.count(key)}\n")
