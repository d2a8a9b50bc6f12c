"""torch tensors in and out: every type, shared memory, views, the public library's interface."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

import tensorark
import tensorark.numpy
import tensorark.torch as ark

TYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint64,
    torch.uint32,
    torch.uint16,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]


def filled(dtype, *shape):
    """A tensor of every kind of bytes that the type allows."""
    count = int(np.prod(shape)) * dtype.itemsize
    octets = torch.arange(count, dtype=torch.int64).mul_(37).remainder_(251).to(torch.uint8)
    if dtype == torch.bool:
        octets.remainder_(2)
    return octets.view(dtype).reshape(shape)


def octets(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("suffix", [".zt", ".safetensors"])
def test_every_type_comes_back(tmp_path, dtype, suffix):
    path = tmp_path / f"m{suffix}"
    tensors = {"a": filled(dtype, 3, 5), "scalar": filled(dtype, 1)[0], "none": filled(dtype, 0, 4)}
    tensors["view"] = tensors["a"].T
    if suffix == ".safetensors" and dtype == torch.complex128:
        with pytest.raises(tensorark.Unsupported, match="no counterpart"):
            ark.save_file(tensors, path)
        return
    ark.save_file(tensors, path)
    loaded = ark.load_file(path)
    with tensorark.open(path, io="mmap") as mapped, tensorark.open(path, io="pread") as read:
        for name, tensor in tensors.items():
            for found in (loaded[name], mapped[name].torch(), read[name].torch()):
                assert found.dtype == dtype
                assert found.shape == tensor.shape
                assert octets(found) == octets(tensor)


@pytest.mark.parametrize("dtype", [t for t in TYPES if t != torch.complex128], ids=str)
def test_the_public_library_reads_ours_and_we_read_its(tmp_path, dtype):
    tensors = {"a": filled(dtype, 3, 5), "scalar": filled(dtype, 1)[0], "none": filled(dtype, 0, 4)}
    ark.save_file(tensors, tmp_path / "ours.safetensors", {"k": "v"})
    theirs = safetensors.torch.load_file(tmp_path / "ours.safetensors")
    safetensors.torch.save_file(tensors, tmp_path / "theirs.safetensors")
    ours = ark.load_file(tmp_path / "theirs.safetensors")
    for name, tensor in tensors.items():
        for found in (theirs[name], ours[name]):
            assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
            assert octets(found) == octets(tensor)


def test_writing_to_a_mapped_tensor_never_reaches_the_file(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"a": torch.arange(10)}, path)
    before = path.read_bytes()
    with tensorark.open(path, io="mmap") as file:
        tensor = file["a"].torch()
        tensor += 1
        assert tensor.tolist() == list(range(1, 11))
        assert file["a"].numpy().tolist() == list(range(10))
    assert path.read_bytes() == before


def test_dlpack_gives_numpy_and_torch_the_values(tmp_path):
    path = tmp_path / "m.zt"
    ark.save_file({"a": torch.arange(6).reshape(2, 3), "flag": torch.tensor([True, False])}, path)
    for io in ("mmap", "pread"):
        with tensorark.open(path, io=io) as file:
            assert torch.from_dlpack(file["a"]).tolist() == [[0, 1, 2], [3, 4, 5]]
            assert np.from_dlpack(file["a"]).tolist() == [[0, 1, 2], [3, 4, 5]]
            assert torch.from_dlpack(file["flag"]).tolist() == [True, False]


def test_tied_weights_of_a_module_come_back_under_both_names(tmp_path):
    model = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7, bias=False))
    model[1].weight = model[0].weight
    path = tmp_path / "m.zt"
    ark.save_model(model, path)
    with tensorark.open(path) as file:
        assert set(file) == {"0.weight", "1.weight"}
        assert file["0.weight"].parts["data"].blob == file["1.weight"].parts["data"].blob
    other = torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7, bias=False))
    assert ark.load_model(other, path) == ([], [])
    assert torch.equal(other[1].weight, model[0].weight)


def test_sparse_and_quantised_tensors_are_refused(tmp_path):
    with pytest.raises(tensorark.InvalidInput, match="dense"):
        ark.save_file({"a": torch.eye(3).to_sparse()}, tmp_path / "m.zt")


@pytest.mark.parametrize(("module", "framework"), [(ark, "pt"), (tensorark.numpy, "np")])
def test_safe_open_answers_as_the_public_library_does(tmp_path, module, framework):
    path = tmp_path / "m.safetensors"
    tensors = {"b": torch.arange(12.0).reshape(3, 4), "a": torch.ones(2, dtype=torch.int32)}
    safetensors.torch.save_file(tensors, path, {"format": "pt"})
    with (
        safetensors.safe_open(path, framework) as theirs,
        module.safe_open(path, framework) as ours,
    ):
        assert ours.keys() == list(theirs.keys())
        assert ours.offset_keys() == list(theirs.offset_keys())
        assert ours.metadata() == theirs.metadata()
        for name in tensors:
            assert ours.get_tensor(name).tolist() == theirs.get_tensor(name).tolist()
            assert type(ours.get_tensor(name)) is type(theirs.get_tensor(name))
        a, b = theirs.get_slice("b"), ours.get_slice("b")
        assert b.get_shape() == list(a.get_shape())
        assert b.get_dtype() == a.get_dtype()
        assert b[1:, :2].tolist() == a[1:, :2].tolist()
        assert type(b[1:]) is type(a[1:])
