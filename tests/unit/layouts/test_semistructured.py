"""The packed form of 2:4 matrices, against torch's own conversion and the published bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorark import files
from tensorark.errors import InvalidInput
from tensorark.layouts.nm import semistructured
from tests.conformance.corpus_files import shared

CASES = {"f16": "f16", "bf16": "bf16", "i8": "i8", "f32_1of2": "f32"}

# By hand, from the published table: which of four places are not zero, and the code.
CODES = {
    "1100": 0x4,
    "1010": 0x8,
    "0110": 0x9,
    "1001": 0xC,
    "0101": 0xD,
    "0011": 0xE,
    "0000": 0xE,
    "0001": 0xE,
    "0010": 0xE,
    "0100": 0x9,
    "1000": 0x8,
}


@pytest.mark.parametrize(("places", "code"), CODES.items())
def test_the_code_of_a_group_says_which_two_places_are_kept(places, code):
    row = np.array([[float(place) * (at + 1) for at, place in enumerate(map(int, places))]])
    group = row.astype(np.float16)
    form = semistructured.FORMS["f16"]
    codes = semistructured.codes_of(group, form)
    assert codes.tolist() == [code]
    kept = semistructured.kept_of(group, codes, form)
    assert kept.tolist() == [[group[0, code & 3], group[0, code >> 2]]]


def two_of_four(rng, rows, columns, element):
    keep = np.zeros((rows * columns // 4, 4), bool)
    for group in keep:
        group[rng.permutation(4)[: rng.integers(0, 3)]] = True
    values = rng.integers(1, 100, (rows, columns)) * keep.reshape(rows, columns)
    return values.astype(element)


def pack(matrix, dtype):
    form = semistructured.form_of(matrix.shape, dtype)
    codes = semistructured.codes_of(matrix, form)
    meta = semistructured.meta_of([codes], len(matrix), form)
    return semistructured.kept_of(matrix, codes, form), meta


@pytest.mark.parametrize(("rows", "columns"), [(32, 128), (64, 128), (96, 384), (128, 256)])
@pytest.mark.parametrize(("element", "dtype"), [(np.float16, "f16"), (np.int8, "i8")])
def test_packs_as_torch_does(rows, columns, element, dtype):
    torch = pytest.importorskip("torch")
    from torch.sparse import _semi_structured_conversions as conversions

    matrix = two_of_four(np.random.default_rng(rows), rows, columns, element)
    packed, meta = pack(matrix, dtype)
    wanted = conversions.sparse_semi_structured_from_dense_cutlass(torch.from_numpy(matrix))
    assert np.array_equal(packed, wanted[0].numpy())
    assert np.array_equal(meta, wanted[1].numpy())
    back = conversions.sparse_semi_structured_to_dense_cutlass(
        torch.from_numpy(packed), torch.from_numpy(meta)
    )
    assert np.array_equal(back.numpy(), matrix)


if shared():

    @pytest.mark.parametrize(("case", "dtype"), CASES.items())
    def test_packs_to_the_published_bytes(case, dtype):
        path = shared() / "vectors/tensorbit/convert/sparse_formats.safetensors"
        with files.open(path) as file:
            packed, meta = pack(file[f"{case}.dense"].numpy(), dtype)
            assert packed.tobytes() == bytes(file[f"{case}.torch_cutlass.packed"].raw())
            assert meta.tobytes() == bytes(file[f"{case}.torch_cutlass.meta"].raw())


def test_what_no_kernel_takes_is_refused():
    zeros = np.zeros((32, 64), np.float16)
    for matrix, dtype in ((zeros[:31], "f16"), (zeros[:, :63], "f16"), (zeros, "i32")):
        with pytest.raises(InvalidInput):
            pack(matrix, dtype)
    full = zeros.copy()
    full[3, 4:7] = 1
    with pytest.raises(InvalidInput) as caught:
        pack(full, "f16")
    assert caught.value.where == (3, 4)
    halves = np.zeros((32, 32), np.float32)
    halves[0, 0:2] = 1
    with pytest.raises(InvalidInput):
        pack(halves, "f32")
