"""Arrays as the bytes of a file, cut into blocks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tensorark.layouts.numbers import dtypes as numbers


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 15, 16, 17, 31])
def test_codes_of_four_bits_are_packed_a_block_at_a_time(monkeypatch, count):
    monkeypatch.setattr(numbers, "BLOCK", 4)
    codes = np.random.default_rng(count).integers(0, 16, count, dtype=np.uint8)
    array = codes.view(ml_dtypes.float4_e2m1fn)
    pairs = [*codes.tolist(), 0]
    wanted = bytes(pairs[at] | pairs[at + 1] << 4 for at in range(0, count, 2))
    pieces = [bytes(piece) for piece in numbers.encode(array)]
    assert b"".join(pieces) == wanted
    assert max(map(len, pieces), default=0) <= 4
    assert numbers.nbytes_of(array) == len(wanted)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 4), (9,), (1, 40)])
def test_arrays_of_any_strides_are_written_a_few_bytes_at_a_time(monkeypatch, order, shape):
    monkeypatch.setattr(numbers, "BLOCK", 16)
    array = np.asarray(np.arange(np.prod(shape), dtype=">i4").reshape(shape), order=order)
    pieces = [bytes(piece) for piece in numbers.encode(array)]
    assert b"".join(pieces) == array.astype("<i4").tobytes("C")
    if not array.flags.c_contiguous:
        assert max(map(len, pieces)) <= 16
