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


def test_sparse_and_quantized_tensors_are_refused(tmp_path):
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


# ------------------------------------------------------------------------- models and their ties


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.norm = torch.nn.Parameter(torch.rand(3))


@pytest.mark.parametrize("name", ["m.safetensors", "m.zt"])
def test_tied_weights_come_back_whatever_name_was_kept(tmp_path, name):
    first, second = Tied(), Tied()
    ark.save_model(first, tmp_path / name)
    assert ark.load_model(second, tmp_path / name) == ([], [])
    assert torch.equal(first.head.weight, second.embed.weight)
    assert second.head.weight is second.embed.weight


def test_the_public_library_and_ours_load_each_other_s_models(tmp_path):
    first, second, third = Tied(), Tied(), Tied()
    ark.save_model(first, tmp_path / "ours.safetensors", {"k": "v"})
    safetensors.torch.save_model(first, str(tmp_path / "theirs.safetensors"), {"k": "v"})
    with (
        safetensors.safe_open(tmp_path / "ours.safetensors", "pt") as ours,
        safetensors.safe_open(tmp_path / "theirs.safetensors", "pt") as theirs,
    ):
        assert ours.metadata() == theirs.metadata()
        assert sorted(ours.keys()) == sorted(theirs.keys())
    safetensors.torch.load_model(second, tmp_path / "ours.safetensors")
    ark.load_model(third, tmp_path / "theirs.safetensors")
    for each in (second, third):
        assert torch.equal(each.head.weight, first.head.weight)
        assert torch.equal(each.norm, first.norm)


def test_a_state_that_is_no_tensor_is_refused_by_name(tmp_path):
    class Extra(torch.nn.Linear):
        def get_extra_state(self):
            return {"amax": [1.0]}

        def set_extra_state(self, state):
            pass

    with pytest.raises(tensorark.InvalidInput, match="_extra_state"):
        ark.save_model(torch.nn.Sequential(Extra(2, 2)), tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


REFUSED = {
    "meta": lambda: torch.empty(2, device="meta"),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "complex32": lambda: torch.ones(2, dtype=torch.complex32),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "subclass": lambda: torch.ones(2).as_subclass(type("Odd", (torch.Tensor,), {})),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "number": lambda: 3,
    "list": lambda: [1.0],
    "nested dict": lambda: {"a": torch.ones(1)},
    "none": lambda: None,
    "array": lambda: np.ones(2),
}


@pytest.mark.filterwarnings("ignore")  # torch warns of prototypes
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("name", ["m.safetensors", "m.zt"])
def test_what_is_no_plain_tensor_is_refused_by_name(tmp_path, kind, name):
    tensors = {"fine": torch.ones(1), "layer.7.weight": REFUSED[kind]()}
    with pytest.raises(tensorark.InvalidInput, match=r"layer\.7\.weight"):
        ark.save_file(tensors, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_pairs_of_f4_are_exchanged_with_the_public_library(tmp_path):
    pairs = torch.arange(12, dtype=torch.uint8).reshape(3, 4).view(torch.float4_e2m1fn_x2)
    safetensors.torch.save_file({"t": pairs}, tmp_path / "theirs.safetensors")
    ark.save_file({"t": pairs}, tmp_path / "ours.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (
        tmp_path / "theirs.safetensors"
    ).read_bytes()
    found = ark.load_file(tmp_path / "theirs.safetensors")["t"]
    assert found.dtype == torch.float4_e2m1fn_x2
    assert torch.equal(found.view(torch.uint8), pairs.view(torch.uint8))
