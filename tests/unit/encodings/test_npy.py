"""Ranges of arrays of an archive that are stored otherwise than they are given."""

from __future__ import annotations

import numpy as np
import pytest

import tensorark

ROWS, COLUMNS = 700, 1000  # 2.7 MiB: decoded in several pieces
VALUES = np.random.default_rng(5).integers(0, 1 << 31, (ROWS, COLUMNS), np.int32)
STORED = {
    "plain": VALUES,
    "swapped": VALUES.astype(">i4"),
    "transposed": np.asfortranarray(VALUES),
    "both": np.asfortranarray(VALUES.astype(">i4")),
}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("order", ["ascending", "descending", "any"])
def test_a_range_is_the_same_bytes_in_whatever_order_ranges_are_asked_for(tmp_path, stored, order):
    np.savez_compressed(tmp_path / "a.npz", w=STORED[stored])
    whole = VALUES.tobytes()
    rng = np.random.default_rng(9)
    starts = rng.integers(0, len(whole), 12)
    ranges = [(int(at), int(rng.integers(0, len(whole) - at + 1))) for at in starts]
    ranges += [(0, 1), (len(whole) - 1, 1), (len(whole), 0), ((1 << 20) - 1, 2), (1 << 20, 1 << 20)]
    if order != "any":
        ranges.sort(reverse=order == "descending")
    with tensorark.open(tmp_path / "a.npz") as file:
        part = file.catalog.tensors["w"].parts["data"]
        read = file.ranges(part, ("objects", "w", "parts", "data"))
        for start, length in ranges:
            assert bytes(read(start, length)) == whole[start : start + length], (start, length)
