"""How many calls of Python stand between a tensor and its array: a count, which no machine shifts.

A model has thousands of tensors, and most of them are small.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import tensorark
from tensorark.numpy import save_file

MOST = 15


def calls(task: Callable[[], object]) -> list[str]:
    """The functions that a task calls, itself included, in order."""
    found: list[str] = []

    def note(frame, event, _argument):
        if event == "call":
            found.append(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("suffix", ["zt", "safetensors"])
def test_few_calls_give_a_dense_tensor(tmp_path, suffix):
    path = tmp_path / f"model.{suffix}"
    save_file({"first": np.zeros((2, 3), "f4"), "second": np.ones((4, 5), "f4")}, path)
    with tensorark.open(path) as file:
        file["first"].numpy()  # loads what is loaded once
        view = file["second"]
        found = calls(view.numpy)
        assert len(found) <= MOST, found
        assert found[0] == "tensorark.files.view.numpy"
        assert np.array_equal(view.numpy(), np.ones((4, 5), "f4"))
