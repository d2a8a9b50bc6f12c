"""The indices of sparse matrices and tensors: each fault at the entry that a slow reading finds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.layouts.coo import content as coordinates
from tensorark.layouts.coo.content import Coo
from tensorark.layouts.csr import content as rows
from tensorark.layouts.csr.content import Csr

WHERE = ("objects", "m")


def found(rules, judged):
    return [
        (rule.id, *fault.where[2:], fault.expected, fault.found)
        for rule in rules
        for fault in rule(judged)
    ]


def first(test, values):
    return next((index for index, value in enumerate(values) if test(value)), None)


def csr_faults(columns, indptr, indices):
    """Read the profile an entry at a time."""
    if indptr[0] != 0:
        yield "zt.csr-indptr-start", "parts", "indptr", 0, 0, indptr[0]
    fall = first(lambda pair: pair[1] < pair[0], pairwise(indptr))
    if fall is not None:
        least = f"at least {indptr[fall]}"
        yield "zt.csr-indptr-order", "parts", "indptr", fall + 1, least, indptr[fall + 1]
    if indptr[-1] != len(indices):
        last = len(indptr) - 1
        yield "zt.csr-indptr-end", "parts", "indptr", last, len(indices), indptr[-1]
    past = first(lambda index: index >= columns, indices)
    if past is not None:
        most = f"below {columns}"
        yield "zt.csr-column-bound", "parts", "indices", past, most, indices[past]
    if fall is None:
        for at in range(1, len(indices)):
            if indices[at] <= indices[at - 1] and at not in indptr:
                least = f"above {indices[at - 1]}"
                yield "zt.csr-column-order", "parts", "indices", at, least, indices[at]
                return


SMALL = st.integers(0, 6)


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
@given(
    columns=SMALL,
    indptr=st.lists(SMALL, min_size=1, max_size=6) | st.lists(SMALL, min_size=1).map(sorted),
    indices=st.lists(SMALL, max_size=8),
)
def test_each_fault_of_a_matrix_is_at_its_entry(block, columns, indptr, indices):
    held = [np.array(each, np.uint64) for each in (indptr, indices)]
    csr = Csr(where=WHERE, columns=columns, indptr=held[0], indices=held[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_BLOCK", block)
        assert found(rows.CONTENT_RULES, csr) == list(csr_faults(columns, indptr, indices))


def coo_faults(shape, cells):
    """Read the profile an entry at a time; of cells that come twice the first in the tensor."""
    is_inside = True
    for dimension, extent in enumerate(shape):
        past = first(lambda cell: cell[dimension] >= extent, cells)  # noqa: B023 - asked at once
        if past is not None:
            is_inside = False
            place = dimension * len(cells) + past
            most = f"below {extent}"
            yield "zt.coo-coord-bound", "parts", "coords", place, most, cells[past][dimension]
    twice = sorted(cell for cell in {*cells} if cells.count(cell) > 1)
    if is_inside and twice:
        again = [index for index, cell in enumerate(cells) if cell == twice[0]][1]
        named = "(" + ", ".join(map(str, twice[0])) + ")"
        yield "zt.coo-cell-unique", "parts", "coords", again, "another cell", named


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
@given(
    data=st.data(),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple),
    in_order=st.booleans(),
)
def test_each_fault_of_coordinates_is_at_its_entry(block, data, shape, in_order):
    cell = st.tuples(*[st.integers(0, extent) for extent in shape])
    inside = st.tuples(*[st.integers(0, extent - 1) for extent in shape])
    cells = data.draw(st.lists(cell, max_size=7) | st.lists(inside, max_size=7))
    if in_order:
        cells.sort()
    coords = np.array(cells, np.uint64).reshape(len(cells), len(shape)).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinates, "_BLOCK", block)
        faults = found(coordinates.CONTENT_RULES, Coo(where=WHERE, shape=shape, coords=coords))
    assert faults == list(coo_faults(shape, cells))
