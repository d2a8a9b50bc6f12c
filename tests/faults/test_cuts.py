"""A source that is cut, rewritten or replaced while it is read: an error of ours, or the old bytes.

Whatever writes, hashes for what it writes, loads or copies reads by calls, so that no page can be
gone; what it has begun is gone after the error. Each verb with some of the sources it takes, at
one of the calls that read; with all of them, at all calls, with ``-m long``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tensorark
from tests.faults.cuts import VERBS, cases

HERE = Path(__file__).parent
WAYS = ["cut", "emptied", "rewritten", "replaced"]


@pytest.fixture(scope="module")
def disturb(tmp_path_factory):
    """Run lines (verb, source, ways, fractions); return the answers to each."""
    folder = tmp_path_factory.mktemp("cuts")

    def run(lines):
        paths = (HERE.parents[1], Path(tensorark.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, HERE / "cuts.py", folder],
            input="".join(json.dumps(line) + "\n" for line in lines),
            env={
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",  # a process with threads is not forked safely
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def judge(verb, source, answers):
    whole, *points = answers
    assert whole["code"] == 0, (verb, source, whole)
    assert whole["made"], (verb, source, whole)
    assert whole["calls"], (verb, source, whole)
    assert points
    for facts in points:
        told = (verb, source, facts)
        assert facts["code"] in {0, 3, 5}, told
        assert facts["gone"] == [], told
        if facts["code"] == 0:
            assert facts["made"] == whole["made"], told
        else:
            assert facts["made"] == {}, told
            assert "error" in facts["said"] or callable(VERBS[verb][0]), told


@pytest.mark.parametrize("verb", VERBS)
def test_a_source_that_changes_meanwhile_is_an_error_of_ours(disturb, verb):
    _, sources = VERBS[verb]
    turn = list(VERBS).index(verb)
    lines = [
        (verb, source, [WAYS[(turn + number) % len(WAYS)]], [(turn + 3 * number) % 10 / 10])
        for number, source in enumerate(sources)
        if number % 4 == turn % min(4, len(sources))
    ]
    for (_, source, *_), answers in zip(lines, disturb(lines), strict=True):
        judge(verb, source, answers)


@pytest.mark.long
@pytest.mark.parametrize(("verb", "source"), cases())
def test_whatever_call_the_change_comes_before(disturb, verb, source):
    (answers,) = disturb([(verb, source, WAYS, None)])
    judge(verb, source, answers)
    ends = sorted({(each["way"], each["code"]) for each in answers[1:]})
    counted = {end: sum((e["way"], e["code"]) == end for e in answers[1:]) for end in ends}
    sys.stdout.write(f"{verb} {source}: {counted}\n")
