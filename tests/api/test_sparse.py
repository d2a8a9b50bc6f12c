"""Sparse tensors to and from scipy, torch and plain arrays: indices and values as they were."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorark
from tensorark import sparse

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")

VALUES = ["f8", "f4", "i8", "i4", "i2", "i1", "u8", "u1", "?", "c8", "c16"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    numbers = itertools.count()
    folder = tmp_path_factory.mktemp("sparse")

    def store(laid):
        path = folder / f"{next(numbers)}.zt"
        with tensorark.Writer(path) as writer:
            writer.add_laid("m", laid)
        return tensorark.open(path)["m"]

    return store


@st.composite
def matrices(draw, dtypes=VALUES, dims=2):
    """A mostly empty array, whose values are taken as bytes and so may be anything."""
    shape = draw(hnp.array_shapes(min_dims=dims, max_dims=dims, min_side=0, max_side=6))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    full = rng.integers(-100, 100, shape).astype(dtype)
    full[rng.random(shape) < draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]))] = 0
    return full


@given(full=matrices(), index=st.sampled_from(["i4", "i8"]))
def test_csr_of_scipy_comes_back_with_its_indices(stored, full, index):
    matrix = scipy.sparse.csr_array(full)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    view = stored(sparse.from_scipy(matrix))
    assert view.parts["indices"].dtype == {"i4": "u32", "i8": "u64"}[index]
    values, indices, indptr = sparse.read_csr(view)
    assert values.dtype == matrix.dtype
    assert values.tobytes() == matrix.data.tobytes()
    assert indices.tolist() == matrix.indices.tolist()
    assert indptr.tolist() == matrix.indptr.tolist()
    back = sparse.to_scipy(view)
    assert isinstance(back, scipy.sparse.csr_array)
    assert back.shape == matrix.shape
    assert back.data.tobytes() == matrix.data.tobytes()
    assert np.array_equal(back.toarray(), full)
    assert np.array_equal(view.numpy(), full)


@given(full=st.integers(1, 3).flatmap(lambda dims: matrices(dims=dims)), seed=st.integers(0, 99))
def test_coo_of_scipy_of_any_rank_comes_back_in_its_order(stored, full, seed):
    matrix = scipy.sparse.coo_array(full)
    order = np.random.default_rng(seed).permutation(matrix.nnz)
    coords = tuple(each[order] for each in matrix.coords)
    matrix = scipy.sparse.coo_array((matrix.data[order], coords), full.shape)
    view = stored(sparse.from_scipy(matrix))
    back = sparse.to_scipy(view)
    assert isinstance(back, scipy.sparse.coo_array)
    assert back.data.tobytes() == matrix.data.tobytes()
    assert [each.tolist() for each in back.coords] == [each.tolist() for each in coords]
    assert np.array_equal(view.numpy(), full)
    assert tensorark.verify(view._file).ok


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8])
@pytest.mark.parametrize("shape", [(4, 5), (3, 0), (0, 3), (1, 1)])
def test_both_layouts_of_torch_come_back(stored, dtype, shape):
    torch.manual_seed(7)
    full = (torch.randn(shape) * 4).relu().to(dtype)
    for made in (full.to_sparse_csr(), full.to_sparse_coo()):
        view = stored(sparse.from_torch(made))
        back = sparse.to_torch(view)
        assert (back.layout, back.dtype, back.shape) == (made.layout, dtype, made.shape)
        assert torch.equal(back.to_dense(), full)
        assert torch.equal(view.torch(), full)
    assert torch.equal(back.coalesce().indices(), made.coalesce().indices())


def test_indices_of_torch_keep_their_width(stored):
    made = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2], dtype=torch.int32),
        torch.tensor([1, 0], dtype=torch.int32),
        torch.tensor([5.0, 6.0]),
        (2, 2),
        check_invariants=True,
    )
    back = sparse.to_torch(stored(sparse.from_torch(made)))
    assert back.col_indices().dtype == torch.int32
    assert back.crow_indices().tolist() == [0, 1, 2]


def test_torch_takes_what_it_is_given_by_its_own_rules(stored):
    """torch checks the invariants of a CSR tensor only when asked; ours pass."""
    made = (torch.arange(20.0).reshape(4, 5) % 3).to_sparse_csr()
    back = sparse.to_torch(stored(sparse.from_torch(made)))
    parts = (back.crow_indices(), back.col_indices(), back.values(), back.shape)
    torch.sparse_csr_tensor(*parts, check_invariants=True)


def test_uncoalesced_torch_tensors_without_repeated_cells_keep_their_order(stored):
    where = torch.tensor([[1, 0], [0, 1]])
    made = torch.sparse_coo_tensor(where, torch.tensor([1.0, 2.0]), (2, 2), check_invariants=True)
    assert not made.is_coalesced()
    view = stored(sparse.from_torch(made))
    values, coords = sparse.read_coo(view)
    assert (values.tolist(), coords.tolist()) == ([1, 2], where.tolist())


@pytest.mark.parametrize("small", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, "f2"])
def test_values_that_scipy_does_not_have_are_stored_and_refused_to_it(stored, small):
    values = np.array([1, 2, 3]).astype(small)
    view = stored(sparse.csr(values, [0, 2, 1], [0, 2, 3], (2, 3)))
    assert view.numpy().astype("f4").tolist() == [[1, 0, 2], [0, 3, 0]]
    with pytest.raises(tensorark.Unsupported, match="scipy holds no such tensor"):
        sparse.to_scipy(view)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: sparse.csr([1.0], [3], [0, 1], (1, 3)), "zt.csr-column-bound"),
        (lambda: sparse.csr([1.0, 2.0], [1, 1], [0, 2], (1, 3)), "zt.csr-column-order"),
        (lambda: sparse.csr([1.0], [0], [0, 1], (2, 3)), "zt.csr-indptr-count"),
        (lambda: sparse.csr([1.0], [-1], [0, 1], (1, 3)), "indices"),
        (lambda: sparse.csr([1.0], [0.5], [0, 1], (1, 3)), "indices"),
        (lambda: sparse.csr([1.0], [0], [0, 1], (1, 3, 1)), "zt.csr-rank"),
        (lambda: sparse.csr([1.0, 2.0], [0], [0, 1], (1, 3)), "zt.csr-values-size"),
        (lambda: sparse.coo([1.0, 2.0], [[0, 0], [1, 1]], (2, 2)), "zt.coo-cell-unique"),
        (lambda: sparse.coo([1.0], [[2], [0]], (2, 2)), "zt.coo-coord-bound"),
        (lambda: sparse.coo([1.0], [[0]], (2, 2)), "coords"),
        (lambda: sparse.coo([1.0], [[0], [0, 1]], (2, 2)), "coords"),
        (lambda: sparse.coo([1.0], [], ()), "zt.coo-rank"),
        (lambda: sparse.from_scipy(scipy.sparse.csc_array(np.eye(2))), "scipy-format"),
        (lambda: sparse.from_scipy(np.eye(2)), "scipy-format"),
        (lambda: sparse.from_torch(torch.eye(2)), "torch-layout"),
        (lambda: sparse.from_torch(torch.eye(2).to_sparse_csc()), "torch-layout"),
        (lambda: sparse.from_torch(torch.eye(2).to_sparse(1)), "torch-layout"),
        (lambda: sparse.from_torch(torch.ones(2, 2, 2).to_sparse_csr()), "torch-layout"),
    ],
)
def test_what_cannot_be_stored_exactly_is_refused(make, code):
    with pytest.raises(tensorark.InvalidInput) as caught:
        make()
    assert caught.value.code == code


def test_repeated_entries_are_not_added_up():
    twice = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), (2, 2))
    for matrix in (twice, scipy.sparse.csr_array(([1.0, 2.0], [1, 1], [0, 2]), (1, 2))):
        with pytest.raises(tensorark.InvalidInput, match="cannot be stored") as caught:
            sparse.from_scipy(matrix)
        assert "add up entries" in caught.value.hint


def test_a_dense_tensor_is_not_read_as_a_sparse_one(tmp_path):
    with tensorark.Writer(tmp_path / "d.zt") as writer:
        writer.add("m", np.eye(2))
    with tensorark.open(tmp_path / "d.zt") as file:
        for read in (sparse.read_csr, sparse.read_coo, sparse.to_scipy, sparse.to_torch):
            with pytest.raises(tensorark.InvalidInput, match="not stored so"):
                read(file["m"])


def test_a_matrix_of_many_entries_is_the_one_that_scipy_sees(stored):
    """More entries than are handled at a time, in rows of every length, with 64-bit indices."""
    rng = np.random.default_rng(3)
    full = np.where(rng.random((2000, 1500)) < 0.5, rng.standard_normal((2000, 1500)), 0)
    full[::7] = 0
    matrix = scipy.sparse.csr_array(full)
    assert matrix.nnz > 1 << 20
    csr = stored(sparse.from_scipy(matrix))
    assert np.array_equal(csr.numpy(), full)
    coo = stored(sparse.from_scipy(matrix.tocoo()))
    assert np.array_equal(coo.numpy(), full)
    broken = matrix.copy()
    last = int(broken.indptr[-2])
    broken.indices[last : last + 2] = broken.indices[last : last + 2][::-1]
    with pytest.raises(tensorark.InvalidInput) as caught:
        sparse.csr(broken.data, broken.indices, broken.indptr, broken.shape)
    assert (caught.value.code, caught.value.where[-1]) == ("zt.csr-column-order", last + 1)
