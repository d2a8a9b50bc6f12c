"""Tensorbit in and out: round trips, directories, attributes, casting, imports of masks."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct

import ml_dtypes
import numpy as np
import pytest

import tensorark
from conformance.tensorbit.build.corpus import CORPUS
from conformance.tensorbit.build.image import Blob, container, dense, entry, index, sparse, usual
from tensorark import files
from tensorark.conversion.pipeline import convert
from tensorark.core.ledger import KINDS
from tensorark.core.model import Span
from tensorark.errors import InvalidInput, ReadFailed, Rejected, Unsupported
from tensorark.formats.tensorbit.runtime import remarks
from tensorark.integrity.verify import verify
from tensorark.numpy import save_file
from tensorark.writing.writer import Writer
from tests.conformance.corpus_files import shared

VALID = sorted(
    each["path"]
    for each in json.loads((CORPUS.home / "index.json").read_bytes())["files"]
    if each["expect"]["open"] == "accept" and not each["path"].endswith(".zt")
)


def facts(path):
    """Everything a model is, with the bytes of its parts as digests."""
    with files.open(path) as file:
        tensors = {
            name: (
                view.shape,
                view.layout,
                view.dtype,
                {role: hashlib.sha256(view.raw(role)).hexdigest() for role in view.parts},
                dict(view.attributes),
            )
            for name, view in file.items()
        }
        return list(file), tensors, dict(file.attributes)


def broken(path):
    """Return the rules that the payload of a file breaks."""
    with files.open(CORPUS.home / path) as file:
        return {each.rule for each in verify(file).findings}


@pytest.mark.parametrize("path", [each for each in VALID if broken(each)])
def test_what_the_payload_breaks_is_not_passed_on(path, tmp_path):
    for name, form in (("a.zt", None), ("b.tbm", None), ("d", "tensorbit-directory")):
        with pytest.raises(Rejected) as caught:
            convert(CORPUS.home / path, tmp_path / name, format=form)
        assert caught.value.code in broken(path)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", [each for each in VALID if not broken(each)])
def test_a_model_goes_through_zt_and_through_a_directory_without_loss(path, tmp_path):
    source = CORPUS.home / path
    convert(source, tmp_path / "a.zt", drop=["gaps"])
    convert(tmp_path / "a.zt", tmp_path / "b.tbm")
    convert(source, tmp_path / "c.tbm", drop=["gaps"])
    convert(tmp_path / "c.tbm", tmp_path / "d", format="tensorbit-directory")
    convert(tmp_path / "d", tmp_path / "e.tbm")
    names, tensors, attributes = facts(source)
    for made in ("b.tbm", "c.tbm", "d", "e.tbm"):
        assert facts(tmp_path / made) == (names, tensors, attributes)
    assert facts(tmp_path / "a.zt")[1:] == (tensors, attributes)
    assert (tmp_path / "b.tbm").read_bytes() == (tmp_path / "c.tbm").read_bytes()
    assert (tmp_path / "c.tbm").read_bytes() == (tmp_path / "e.tbm").read_bytes()


def test_a_container_is_laid_out_as_the_specification_says(tmp_path):
    (tmp_path / "in.tbm").write_bytes(usual())
    convert(tmp_path / "in.tbm", tmp_path / "out.tbm")
    data = (tmp_path / "out.tbm").read_bytes()
    length = struct.unpack("<I", data[-4:])[0]
    document = json.loads(data[-4 - length : -4])
    assert list(document) == ["config", "architecture", "tensors"]  # as the runtime needs them
    assert [each["offset"] for each in document["tensors"]] == [0, 4096 + 128 + 8]
    assert data[: 4096 + 128 + 8] == sparse().data
    assert data[4232 : -4 - length] == dense().data
    assert document["tensors"][1]["shape"] == [16, 1]
    assert b": " not in data[-4 - length : -4]


def test_blobs_are_padded_to_where_mapped_weights_are_aligned(tmp_path):
    (tmp_path / "in.tbm").write_bytes(usual())
    convert(tmp_path / "in.tbm", tmp_path / "out.tbm", align=4096)
    with files.open(tmp_path / "out.tbm") as file:
        offsets = [blob.offset for blob in file.catalog.native.blobs]
        assert offsets == [0, 8192]
        assert file["b.weight"].numpy().ctypes.data % 4096 == 0
    names, tensors, attributes = facts(tmp_path / "in.tbm")
    assert facts(tmp_path / "out.tbm") == (names, tensors, attributes)


def test_tied_weights_are_written_once(tmp_path):
    held = [entry(), entry(name="alias.weight")]
    (tmp_path / "in.tbm").write_bytes(container([sparse().data], index(held)))
    convert(tmp_path / "in.tbm", tmp_path / "a.zt")
    convert(tmp_path / "a.zt", tmp_path / "out.tbm")
    with files.open(tmp_path / "out.tbm") as file:
        assert [blob.offset for blob in file.catalog.native.blobs] == [0, 0]
        assert file.source.size() < 2 * 4096


def test_equal_weights_that_are_not_tied_stay_apart(tmp_path):
    (tmp_path / "in.tbm").write_bytes(
        container([sparse().data, sparse().data], index([entry(), entry(name="b", offset=4232)]))
    )
    convert(tmp_path / "in.tbm", tmp_path / "a.zt")
    convert(tmp_path / "a.zt", tmp_path / "out.tbm")
    assert (tmp_path / "out.tbm").read_bytes() == (tmp_path / "in.tbm").read_bytes()


def test_shapes_that_two_dimensions_cannot_say_are_kept(tmp_path):
    arrays = {
        "scalar": np.array(2.5, np.float32),
        "row": np.arange(5, dtype=np.float16),
        "column": np.arange(5, dtype=np.float64).reshape(5, 1),
        "cube": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "none": np.empty((0, 3), np.float32),
        "codes": np.arange(6, dtype=np.int8).reshape(2, 3),
        "half": np.arange(6).astype(ml_dtypes.bfloat16).reshape(3, 2),
    }
    save_file(arrays, tmp_path / "in.zt")
    convert(tmp_path / "in.zt", tmp_path / "out.tbm")
    with files.open(tmp_path / "out.tbm") as file:
        assert set(file) == set(arrays)
        for name, values in arrays.items():
            found = file[name].numpy()
            assert (found.shape, found.dtype) == (values.shape, values.dtype)
            assert found.tobytes() == values.tobytes()
    data = (tmp_path / "out.tbm").read_bytes()
    document = json.loads(data[-4 - struct.unpack("<I", data[-4:])[0] : -4])
    assert all(len(each["shape"]) == 2 for each in document["tensors"])


def test_attributes_of_other_formats_are_carried_there_and_back(tmp_path):
    with Writer(tmp_path / "in.zt", attributes={"step": 7, "note": "x"}) as writer:
        writer.add("w", np.ones((2, 2), np.float32), attributes={"scale": 0.5})
    convert(tmp_path / "in.zt", tmp_path / "a.tbm")
    convert(tmp_path / "a.tbm", tmp_path / "b.safetensors")
    convert(tmp_path / "b.safetensors", tmp_path / "c.tbm")
    convert(tmp_path / "c.tbm", tmp_path / "out.zt")
    assert (tmp_path / "out.zt").read_bytes() == (tmp_path / "in.zt").read_bytes()


def test_what_tensorbit_cannot_hold_is_refused_by_name(tmp_path):
    save_file(
        {"good": np.ones(2), "ids": np.arange(3), "flag": np.ones(2, bool)}, tmp_path / "a.zt"
    )
    with pytest.raises(Unsupported) as caught:
        convert(tmp_path / "a.zt", tmp_path / "a.tbm")
    assert '"ids"' in caught.value.detail
    assert '"flag"' in caught.value.detail
    assert '"good"' not in caught.value.detail
    assert not (tmp_path / "a.tbm").exists()


def test_a_single_blob_holds_one_tensor_that_needs_no_index(tmp_path):
    (tmp_path / "in.tbm").write_bytes(container([sparse().data], index([entry()])))
    with pytest.raises(Unsupported, match="keeps not all"):
        convert(tmp_path / "in.tbm", tmp_path / "w.tb")
    convert(tmp_path / "in.tbm", tmp_path / "w.tb", drop=["names", "shapes", "attributes"])
    assert (tmp_path / "w.tb").read_bytes() == sparse().data
    (tmp_path / "two.tbm").write_bytes(usual())
    with pytest.raises(Unsupported):
        convert(tmp_path / "two.tbm", tmp_path / "two.tb")
    blob = dense(weights=bytes(16), scales=struct.pack("<f", 1))
    claim = entry(shape=[16], nm_n=0, nm_m=0, dtype="int8", num_weights=16, num_mask_bytes=0)
    claim |= {"scale_count": 1, "group_size": 0}
    (tmp_path / "q.tbm").write_bytes(container([blob.data], index([claim])))
    with pytest.raises(InvalidInput):
        convert(tmp_path / "q.tbm", tmp_path / "q.tb", drop=KINDS)


# -------------------------------------------------------------------------------------- directories


def test_a_folder_is_opened_as_what_it_holds(tmp_path):
    (tmp_path / "a.tb").write_bytes(sparse().data)
    (tmp_path / "b.c.tb").write_bytes(dense().data)
    with files.open(tmp_path) as file:
        assert (file.format.name, list(file)) == ("tensorbit-folder", ["a", "b.c"])
        again = pickle.loads(pickle.dumps(file))
        assert again["b.c"].numpy().tolist() == file["b.c"].numpy().tolist()
        again.close()
    (tmp_path / "model.tbm").write_bytes(usual())  # what the public pruning tool leaves beside
    with files.open(tmp_path) as file:
        assert (file.format.name, len(file)) == ("tbm", 2)
    (tmp_path / "manifest.json").write_text("{}")  # somebody else's
    with files.open(tmp_path) as file:
        assert file.format.name == "tbm"


def test_a_directory_is_replaced_only_if_nothing_else_is_lost(tmp_path):
    (tmp_path / "in.tbm").write_bytes(usual())
    goal = tmp_path / "out"
    convert(tmp_path / "in.tbm", goal, format="tensorbit-directory")
    with pytest.raises(InvalidInput):
        convert(tmp_path / "in.tbm", goal, format="tensorbit-directory")
    convert(tmp_path / "in.tbm", goal, format="tensorbit-directory", overwrite=True)
    (goal / "notes.txt").write_text("keep me")
    with pytest.raises(InvalidInput):
        convert(tmp_path / "in.tbm", goal, format="tensorbit-directory", overwrite=True)
    assert (goal / "notes.txt").read_text() == "keep me"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.tbm", "out"]


def test_names_that_are_no_file_names_get_files_of_their_own(tmp_path):
    arrays = {
        name: np.ones(2, np.float32) for name in ("a/b", "a\\b", "a_b", "A_B", "..", "ü" * 300)
    }
    save_file(arrays, tmp_path / "in.zt")
    convert(tmp_path / "in.zt", tmp_path / "out", format="tensorbit-directory")
    names = sorted(each.name.lower() for each in (tmp_path / "out").glob("*.tb"))
    assert len(set(names)) == len(arrays)
    with files.open(tmp_path / "out") as file:
        assert set(file) == set(arrays)


def test_a_missing_file_and_a_link_out_of_the_directory_are_named(tmp_path):
    (tmp_path / "in.tbm").write_bytes(usual())
    goal = tmp_path / "out"
    convert(tmp_path / "in.tbm", goal, format="tensorbit-directory")
    (goal / "b.weight.tb").rename(tmp_path / "elsewhere.tb")
    with pytest.raises(ReadFailed) as caught:
        files.open(goal)
    assert caught.value.code == "missing-shard"
    (goal / "b.weight.tb").symlink_to(tmp_path / "elsewhere.tb")
    with pytest.raises(ReadFailed) as caught:
        files.open(goal)
    assert caught.value.code == "unsafe-link"


# ------------------------------------------------------------------------------------ densify, cast


def mock(tmp_path):
    """A file whose masks and weights contradict, as the public runtime's mock model."""
    values = np.arange(1, 33, dtype="<f4")
    blob = sparse(weights=values.tobytes(), mask=b"\3" * 8)
    (tmp_path / "mock.tbm").write_bytes(container([blob.data], index([entry()])))
    return tmp_path / "mock.tbm", values.reshape(4, 8)


def test_a_mask_that_changes_weights_is_applied_only_when_asked(tmp_path):
    source, values = mock(tmp_path)
    with pytest.raises(Unsupported) as caught:
        convert(source, tmp_path / "a.safetensors")
    assert caught.value.code == "mask-disagrees"
    assert not (tmp_path / "a.safetensors").exists()
    convert(source, tmp_path / "m.safetensors", masking="masked")
    convert(source, tmp_path / "s.safetensors", masking="stored")
    kept = np.tile([True, True, False, False], 8).reshape(4, 8)
    with (
        files.open(tmp_path / "m.safetensors") as masked,
        files.open(tmp_path / "s.safetensors") as raw,
    ):
        assert np.array_equal(masked["a.weight"].numpy(), np.where(kept, values, 0))
        assert np.array_equal(raw["a.weight"].numpy(), values)


def test_a_mask_that_changes_nothing_is_dropped_and_found_again(tmp_path):
    (tmp_path / "in.tbm").write_bytes(usual())
    convert(tmp_path / "in.tbm", tmp_path / "a.safetensors")
    with files.open(tmp_path / "a.safetensors") as file:
        config = file.attributes["tensorbit"]
        assert config["architecture"] == "llama"
        assert config["config"]["hidden_size"] == 8
    done = convert(tmp_path / "a.safetensors", tmp_path / "out.tbm", sparse="detect")
    assert done.sparse.made == ("a.weight",)
    assert facts(tmp_path / "out.tbm") == facts(tmp_path / "in.tbm")
    assert (tmp_path / "out.tbm").read_bytes() == (tmp_path / "in.tbm").read_bytes()


@pytest.mark.parametrize("target", ["zt", "tbm", "safetensors", "npz"])
def test_a_conversion_tells_which_masks_the_target_does_not_know(tmp_path, target):
    source, goal = tmp_path / "in.tbm", tmp_path / f"out.{target}"
    source.write_bytes(usual())
    plan = convert(source, goal, dry_run=True)
    done = convert(source, goal)
    changed = [each.name for each in tensorark.diff(source, goal).changes if each.what == "layout"]
    assert changed == ([] if target in {"zt", "tbm"} else ["a.weight"])
    assert list(done.densified) == list(plan.densified) == changed


def test_a_quantized_tensor_becomes_floats_only_when_asked(tmp_path):
    codes = np.arange(-8, 8, dtype=np.int8)
    blob = dense(weights=codes.tobytes(), scales=struct.pack("<2f", 0.5, 2))
    claim = entry(shape=[4, 4], nm_n=0, nm_m=0, dtype="int8", num_weights=16, num_mask_bytes=0)
    claim |= {"scale_count": 2, "group_size": 8}
    (tmp_path / "q.tbm").write_bytes(container([blob.data], index([claim])))
    with pytest.raises(Unsupported):
        convert(tmp_path / "q.tbm", tmp_path / "q.safetensors")
    convert(tmp_path / "q.tbm", tmp_path / "q.safetensors", masking="masked")
    with files.open(tmp_path / "q.safetensors") as file:
        wanted = codes * np.repeat(np.float32([0.5, 2]), 8)
        assert file["a.weight"].numpy().reshape(-1).tolist() == wanted.tolist()
        assert file["a.weight"].dtype == "f32"
    with files.open(tmp_path / "q.tbm") as file:
        torch = pytest.importorskip("torch")
        assert file["a.weight"].dtype == "f32"
        assert torch.equal(file["a.weight"].torch(), torch.from_numpy(wanted.reshape(4, 4)))


def test_casting_rounds_to_nearest_and_says_what_it_changed(tmp_path):
    values = np.array([1, 1 + 2**-9, 1 + 2**-7, 3e38, np.nan, np.inf, -0.0, 1e-45], np.float32)
    save_file({"w": values, "ids": np.arange(2)}, tmp_path / "in.zt")
    done = convert(tmp_path / "in.zt", tmp_path / "out.zt", cast="f16")
    with files.open(tmp_path / "out.zt") as file, np.errstate(over="ignore"):
        assert file["w"].numpy().tobytes() == values.astype(np.float16).tobytes()
        assert file["ids"].dtype == "i64"
    report = done.cast
    assert report.names == ["w"]
    assert (report.values, report.changed, report.overflowed) == (8, 2, 1)
    assert report.max_error == float(np.float32(1e-45))
    with pytest.raises(InvalidInput):
        convert(tmp_path / "in.zt", tmp_path / "out2.zt", cast="i8")


def test_casting_keeps_masks(tmp_path):
    (tmp_path / "in.tbm").write_bytes(usual())
    convert(tmp_path / "in.tbm", tmp_path / "out.tbm", cast="bf16")
    with files.open(tmp_path / "in.tbm") as before, files.open(tmp_path / "out.tbm") as after:
        assert after["a.weight"].dtype == "bf16"
        assert after["a.weight"].raw("mask") == before["a.weight"].raw("mask")
        assert (
            after["a.weight"].numpy().astype(float).tolist() == before["a.weight"].numpy().tolist()
        )
        assert not verify(after).findings


# ----------------------------------------------------------------------------------- masks imported


def bitmask_of(matrix):
    return np.packbits(matrix != 0, axis=1, bitorder="little")


def test_sparse_bitmask_checkpoints_become_their_matrices(tmp_path):
    rng = np.random.default_rng(0)
    regular = np.where(np.tile([1, 1, 0, 0, 1, 0, 1, 0], (6, 2)), rng.standard_normal((6, 16)), 0)
    ragged = np.where(rng.random((5, 13)) < 0.5, rng.standard_normal((5, 13)), 0)
    arrays = {}
    for stem, matrix in (("x.q", regular), ("x.r", ragged)):
        counts = (matrix != 0).sum(axis=1)
        arrays |= {
            f"{stem}.compressed": matrix[matrix != 0].astype(np.float16),
            f"{stem}.bitmask": bitmask_of(matrix),
            f"{stem}.row_offsets": np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64),
            f"{stem}.shape": np.array(matrix.shape, np.int64),
        }
    save_file(arrays, tmp_path / "in.safetensors")
    done = convert(tmp_path / "in.safetensors", tmp_path / "out.zt", sparse="import")
    assert set(done.sparse.made) == {"x.q.weight", "x.r.weight"}
    with files.open(tmp_path / "out.zt") as file:
        assert set(file) == {"x.q.weight", "x.r.weight"}
        assert file["x.q.weight"].layout == "tensorbit.nm/1"
        assert file["x.q.weight"].attributes["tensorbit"] == {"n": 2, "m": 4}
        assert file["x.r.weight"].layout == "dense"
        assert np.array_equal(file["x.q.weight"].numpy(), regular.astype(np.float16))
        assert np.array_equal(file["x.r.weight"].numpy(), ragged.astype(np.float16))
        assert not verify(file).findings


BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def compressed(stem, values, *, quarters):
    """The tensors of a layer in compressed-tensors' words: 2:4, or any pattern with row offsets."""
    keep = values.view(BITS[values.itemsize]) != 0
    kept = values[keep]
    counts = np.asarray(keep.sum(axis=-1))
    return {
        f"{stem}.compressed": kept.reshape(len(values), -1) if quarters else kept,
        f"{stem}.bitmask": np.packbits(keep, axis=-1, bitorder="little"),
        f"{stem}.shape": np.array(values.shape, np.int64),
    } | (
        {}
        if quarters
        else {f"{stem}.row_offsets": np.cumsum(counts.reshape(-1)).reshape(counts.shape) - counts}
    )


@pytest.mark.parametrize("target", ["zt", "tbm", "safetensors", "npz"])
@pytest.mark.parametrize("quarters", [True, False], ids=["2:4", "any"])
@pytest.mark.parametrize("full", [True, False], ids=["parameter", "layer"])
@pytest.mark.parametrize(
    "element", ["f4", "f2", "f8", "i1", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
def test_a_bitmask_names_its_layer_or_the_full_parameter(tmp_path, element, full, quarters, target):
    rng = np.random.default_rng(4)
    wide = np.where(np.tile([1, 0, 0, 1], (6, 4)), rng.integers(1, 100, (6, 16)), 0)
    values = wide.astype(element)
    arrays = compressed("x.weight" if full else "x", values, quarters=quarters)
    save_file({**arrays, "x.weight_scale": np.ones(6, np.float32)}, tmp_path / "in.safetensors")
    goal = tmp_path / f"out.{target}"
    options = {"sparse": "import", "drop": ["tensors"]}
    done = convert(tmp_path / "in.safetensors", goal, **options)
    assert done.sparse.made == ("x.weight",)
    is_quarter = element is ml_dtypes.float8_e4m3fn
    gone = ["x.weight"] if is_quarter and target == "tbm" else []
    assert [each.name for each in done.dropped] == gone
    with files.open(goal) as file:
        assert {*file} == {"x.weight", "x.weight_scale"} - {*gone}
        if not gone:
            assert file["x.weight"].numpy().tobytes() == values.tobytes()
            is_sparse = target in {"zt", "tbm"} and not is_quarter
            assert file["x.weight"].layout == ("tensorbit.nm/1" if is_sparse else "dense")


def test_a_bitmask_of_a_vector_is_one_row(tmp_path):
    """The first releases compressed every parameter, norms and biases too."""
    arrays = {"n.weight": np.array([0.0, 2, 0, 4, 5], "f4"), "n.bias": np.ones(3, "f4")}
    held = {}
    for name, values in arrays.items():
        held |= compressed(name, values, quarters=False)
    save_file(held, tmp_path / "in.safetensors")
    convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", sparse="import")
    with files.open(tmp_path / "out.safetensors") as file:
        assert {name: view.numpy().tolist() for name, view in file.items()} == {
            name: values.tolist() for name, values in arrays.items()
        }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"bitmask": np.zeros((4, 2), np.uint8)}, "left"),
        ({"shape": np.array([4.0, 8.0])}, "left"),
        ({"shape": np.array([-4, 8])}, "left"),
        ({"compressed": np.zeros((4, 3), np.float16)}, "left"),
        ({"bitmask": np.zeros((4, 1), np.uint8)}, "rejected"),
        ({"bitmask": np.full((4, 1), 255, np.uint8)}, "rejected"),
    ],
)
def test_bitmasks_that_contradict_are_left_or_rejected(change, reason, tmp_path):
    arrays = {
        "compressed": np.ones((4, 4), np.float16),
        "bitmask": np.full((4, 1), 0b00110011, np.uint8),
        "shape": np.array([[4], [8]]),
    } | change
    save_file({f"x.{role}": held for role, held in arrays.items()}, tmp_path / "in.safetensors")
    if reason == "rejected":
        with pytest.raises(Rejected):
            convert(tmp_path / "in.safetensors", tmp_path / "out.zt", sparse="import")
        assert not (tmp_path / "out.zt").exists()
    else:
        done = convert(tmp_path / "in.safetensors", tmp_path / "out.zt", sparse="import")
        assert list(done.sparse.left) == ["x.compressed"]
        with files.open(tmp_path / "out.zt") as file:
            assert set(file) == {"x.compressed", "x.bitmask", "x.shape"}


def test_pruned_pairs_of_torch_become_the_weight_they_mean(tmp_path):
    torch = pytest.importorskip("torch")
    from torch.nn.utils import prune

    torch.manual_seed(0)
    layer = torch.nn.Linear(16, 4)
    prune.random_unstructured(layer, "bias", amount=0.5)
    mask = torch.tensor([1.0, 1.0, 0.0, 0.0]).repeat(4, 4)
    prune.custom_from_mask(layer, "weight", mask)
    save_file(
        {f"l.{name}": held.numpy() for name, held in layer.state_dict().items()},
        tmp_path / "in.safetensors",
    )
    convert(tmp_path / "in.safetensors", tmp_path / "out.tbm", sparse="import")
    with files.open(tmp_path / "out.tbm") as file:
        assert set(file) == {"l.weight", "l.bias"}
        assert file["l.weight"].attributes["tensorbit"]["m"] == 4
        assert np.array_equal(file["l.weight"].numpy(), layer.weight.detach().numpy())
        assert np.array_equal(file["l.bias"].numpy(), layer.bias.detach().numpy())
        assert not verify(file).findings


def test_masks_of_asp_join_their_weights_and_weights_stay_as_they_are(tmp_path):
    weight = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    mask = np.tile([True, True, False, False], (4, 2))
    arrays = {
        "m.weight": np.where(mask, weight, 0).astype(np.float32),
        "m.__weight_mma_mask": mask,
        "n.weight": weight,
        "n.__weight_mma_mask": np.ones((4, 8), bool),
    }
    save_file(arrays, tmp_path / "in.safetensors")
    done = convert(tmp_path / "in.safetensors", tmp_path / "out.zt", sparse="import")
    assert done.sparse.made == ("m.weight", "n.weight")
    assert not done.sparse.left
    with files.open(tmp_path / "out.zt") as file:
        assert bytes(file["m.weight"].raw("mask")) == b"\x03" * 8
        assert file["m.weight"].raw("weights") == arrays["m.weight"].tobytes()
        assert set(file) == {"m.weight", "n.weight"}
        assert file["n.weight"].layout == "dense"  # its mask follows no N:M
        assert file["n.weight"].tobytes() == weight.tobytes()


def test_masks_of_asp_for_convolutions_join_their_weights(tmp_path):
    """ASP prunes 2:4 along the input channels of [out, in, height, width]."""
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((4, 8, 3, 3)).astype(np.float32)
    channels = np.tile([True, True, False, False], 2)[None, :, None, None]
    mask = np.broadcast_to(channels, wide.shape)
    point = np.where(mask, wide, 0)[:, :, :1, :1]
    arrays = {
        "a.weight": wide,  # not zeroed yet: the mask counts
        "a.__weight_mma_mask": np.ascontiguousarray(mask),
        "b.weight": np.ascontiguousarray(point),
        "b.__weight_mma_mask": np.ascontiguousarray(mask[:, :, :1, :1]),
    }
    save_file(arrays, tmp_path / "in.safetensors")
    done = convert(tmp_path / "in.safetensors", tmp_path / "out.zt", sparse="import")
    assert not done.sparse.left
    with files.open(tmp_path / "out.zt") as file:
        assert (file["a.weight"].layout, file["b.weight"].layout) == ("dense", "tensorbit.nm/1")
        assert file["b.weight"].attributes["tensorbit"] == {"n": 2, "m": 4}
        assert (file["a.weight"].numpy() == np.where(mask, wide, 0)).all()
        assert (file["b.weight"].numpy() == point).all()
        assert not verify(file).findings


@pytest.mark.parametrize("type_", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("regular", [True, False])
def test_sparse_layers_of_fp8_become_dense_beside_their_scales(tmp_path, type_, regular):
    element = np.dtype(getattr(ml_dtypes, type_))
    rng = np.random.default_rng(2)
    keep = np.tile([1, 0, 0, 1], (6, 4)) if regular else rng.random((6, 16)) < 0.3
    matrix = np.where(keep, rng.integers(1, 100, (6, 16)), 0).astype(np.uint8)
    scale = rng.random((6, 1)).astype(np.float32)
    arrays = {
        "x.compressed": matrix[matrix != 0].view(element),
        "x.bitmask": bitmask_of(matrix),
        "x.shape": np.array([[6], [16]]),
        "x.weight_scale": scale,
    }
    if regular:
        arrays["x.compressed"] = arrays["x.compressed"].reshape(6, 8)
    else:
        counts = (matrix != 0).sum(axis=1)
        arrays["x.row_offsets"] = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    save_file(arrays, tmp_path / "in.safetensors")
    done = convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", sparse="import")
    assert done.sparse.made == ("x.weight",)
    with files.open(tmp_path / "out.safetensors") as file:
        assert set(file) == {"x.weight", "x.weight_scale"}
        assert file["x.weight"].numpy().dtype == element
        assert file["x.weight"].tobytes() == matrix.tobytes()
        assert not verify(file).findings


if shared():

    def test_published_bitmasks_give_the_published_masks_back(tmp_path):
        path = shared() / "vectors/tensorbit/convert/sparse_formats.safetensors"
        with files.open(path) as file:
            held = {name: view.numpy() for name, view in file.items()}
        for case in ("f16", "bf16", "f32", "i8", "f16_4of8", "f16_8of16"):
            # the published file leaves this one out
            held[f"{case}.ctbm.shape"] = np.array(held[f"{case}.dense"].shape)
        save_file(held, tmp_path / "in.safetensors")
        done = convert(tmp_path / "in.safetensors", tmp_path / "out.zt", sparse="import")
        assert not done.sparse.left
        with files.open(tmp_path / "out.zt") as file:
            for case in ("f16", "bf16", "f32", "i8"):
                for way in ("ct24", "ctbm"):
                    view = file[f"{case}.{way}.weight"]
                    assert bytes(view.raw("mask")) == held[f"{case}.tb_mask"].tobytes()
                    assert view.numpy().tobytes() == held[f"{case}.dense"].tobytes()
            for case, pattern in (("f16_4of8", (4, 8)), ("f16_8of16", (8, 16))):
                view = file[f"{case}.ctbm.weight"]
                found = view.attributes["tensorbit"]
                assert (found["n"], found["m"]) == pattern
                assert bytes(view.raw("mask")) == held[f"{case}.tb_mask"].tobytes()

    def test_exported_pairs_are_the_published_ones(tmp_path):
        path = shared() / "vectors/tensorbit/convert/sparse_formats.safetensors"
        with files.open(path) as file:
            held = {name: view.numpy() for name, view in file.items()}
        dense_ = {case: held[f"{case}.dense"] for case in ("f16", "bf16")}
        save_file(dense_, tmp_path / "in.safetensors")
        convert(tmp_path / "in.safetensors", tmp_path / "a.tbm", sparse="detect")
        done = convert(tmp_path / "a.tbm", tmp_path / "b.safetensors", sparse="export")
        assert not done.sparse.left
        with files.open(tmp_path / "b.safetensors") as file:
            for case in dense_:
                for part in ("packed", "meta"):
                    wanted = held[f"{case}.torch_cutlass.{part}"]
                    assert bytes(file[f"{case}.{part}"].raw()) == wanted.tobytes()


# ------------------------------------------------------------------------------------------- others


def test_opening_reads_headers_and_no_weight(tmp_path, monkeypatch):
    (tmp_path / "in.tbm").write_bytes(usual())
    spans: list[Span] = []
    from tensorark.io.local import LocalSource

    read = LocalSource.read

    def counted(self, wanted):
        spans.append(list(wanted))
        return read(self, wanted)

    monkeypatch.setattr(LocalSource, "read", counted)
    files.open(tmp_path / "in.tbm").close()
    asked = spans[1:]  # the first is recognition
    assert len(asked) == 2
    assert [(span.offset, span.length) for span in asked[1]] == [(0, 49), (4232, 49)]


def test_remarks_say_what_the_public_runtime_makes_of_a_model(tmp_path):
    document = {
        "architecture": "x",
        "config": {"num_layers": 9},
        "tensors": [
            entry(name="model.layers.0.self_attn.q_proj.weight", nm_n=1, nm_m=4),
        ],
    }
    (tmp_path / "in.tbm").write_bytes(container([sparse(n=1).data], document))
    with files.open(tmp_path / "in.tbm") as file:
        codes = {each.code for each in remarks(file.catalog.native)}
    assert codes == {"member-order", "num-layers", "not-2-4"}
    del document["config"]
    (tmp_path / "in.tbm").write_bytes(container([sparse(n=1).data], document))
    with files.open(tmp_path / "in.tbm") as file:
        assert "config-missing" in {each.code for each in remarks(file.catalog.native)}


def test_six_hundred_tensors_open_and_are_remarked_upon():
    with tensorark.open(CORPUS.home / "accept/six-hundred-tensors.tbm") as file:
        assert len(file) == 600
        codes = [each.code for each in remarks(file.catalog.native)]
    assert codes.count("tensor-count") == 1


def test_a_view_says_what_numpy_gives(tmp_path):
    for path in VALID:
        with files.open(CORPUS.home / path) as file:
            for view in file.values():
                values = view.numpy()
                names = {"float32": "f32", "float16": "f16", "float64": "f64", "int8": "i8"}
                assert view.dtype == names.get(values.dtype.name, "bf16")
                if values.ndim == 2 and values.size:
                    assert view[0].tobytes() == values[0].tobytes()
                    assert view[1:, 1:2].tobytes() == values[1:, 1:2].tobytes()


def test_the_blob_builder_of_these_tests_is_independent():
    assert len(Blob(weights=b"").data) == 4096


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"w_orig": np.ones(4), "w_mask": np.ones(5)}, "different shapes"),
        ({"w_orig": np.arange(4), "w_mask": np.ones(4)}, "not floats"),
        ({"w_orig": np.ones(4), "w_mask": np.ones(4), "w": np.ones(4)}, "there is a tensor"),
        ({"w_orig": np.ones(4, np.complex64), "w_mask": np.ones(4)}, "not floats"),
        (
            {"m.__weight_mma_mask": np.ones(4, bool), "m.weight": np.ones(4, np.complex64)},
            "not floats",
        ),
        ({"m.__weight_mma_mask": np.ones(4, bool)}, "no tensor"),
        ({"m.__weight_mma_mask": np.ones(4, bool), "m.weight": np.ones(5)}, "different shapes"),
        ({"x.compressed": np.ones(4), "x.bitmask": np.ones((1, 1), np.uint8)}, "x.shape"),
    ],
)
def test_pairs_that_do_not_fit_stay_as_they_are_and_say_why(arrays, reason, tmp_path):
    save_file(arrays, tmp_path / "in.zt")
    done = convert(tmp_path / "in.zt", tmp_path / "out.zt", sparse="import")
    assert not done.sparse.made
    assert any(reason in each for each in done.sparse.left.values())
    assert (tmp_path / "out.zt").read_bytes() == (tmp_path / "in.zt").read_bytes()


def test_a_mask_of_other_numbers_than_0_and_1_stays_and_the_others_are_imported(tmp_path):
    arrays = {
        "w_orig": np.ones((2, 4)),
        "w_mask": np.full((2, 4), 0.5),
        "x_orig": np.ones((2, 4)),
        "x_mask": np.array([[1, 0, 0, 1]] * 2, np.float64),
    }
    save_file(arrays, tmp_path / "in.zt")
    done = convert(tmp_path / "in.zt", tmp_path / "out.safetensors", sparse="import").sparse
    assert done.made == ("x",)
    assert done.left == {"w_orig": "a mask holds something else than 0 and 1"}
    with files.open(tmp_path / "out.safetensors") as file:
        assert set(file) == {"w_orig", "w_mask", "x"}
        assert file["x"].numpy().tolist() == [[1, 0, 0, 1]] * 2


@pytest.mark.parametrize("masking", ["checked", "masked", "stored"])
def test_int8_without_scales_becomes_dense_as_its_own_numbers(tmp_path, masking):
    codes = np.array([[1, 0, -128, 0, 0, 127, 0, -1]] * 2, np.int8)
    arrays = {
        "l.compressed": codes[codes != 0].reshape(2, 4),
        "l.bitmask": np.packbits(codes != 0, axis=1, bitorder="little"),
        "l.shape": np.array([2, 8], np.int64),
    }
    save_file(arrays, tmp_path / "in.safetensors")
    target = tmp_path / "out.safetensors"
    done = convert(tmp_path / "in.safetensors", target, sparse="import", masking=masking)
    assert done.sparse.made == ("l.weight",)
    with files.open(target) as file:
        assert file["l.weight"].numpy().dtype == np.int8
        assert file["l.weight"].numpy().tolist() == codes.tolist()


def test_int8_with_weights_under_clear_bits_is_refused_unless_it_is_said_what_becomes_of_them(
    tmp_path,
):
    blob = sparse(weights=bytes(range(1, 33)), mask=b"\5" * 8, masks_offset=4096 + 32)
    image = container([blob.data], index([entry(dtype="int8")]))
    (tmp_path / "in.tbm").write_bytes(image)
    with pytest.raises(Unsupported) as caught:
        convert(tmp_path / "in.tbm", tmp_path / "out.safetensors")
    assert caught.value.code == "mask-disagrees"


def test_exporting_where_nothing_is_to_export_makes_nothing(tmp_path):
    save_file({"w": np.ones((4, 4), np.float32)}, tmp_path / "in.zt")
    done = convert(tmp_path / "in.zt", tmp_path / "out.zt", sparse="export")
    assert done.sparse.made == ()


def test_a_detected_pattern_may_be_the_one_that_attributes_name(tmp_path):
    """Four dimensions have no rows to look along, but our own export names the pattern."""
    values = np.tile(np.array([1, 0, 0, 2], np.float32), 8).reshape(4, 2, 2, 2)
    with Writer(tmp_path / "in.zt") as writer:
        writer.add("named", values, attributes={"tensorbit": {"n": 2, "m": 4}})
        writer.add("plain", values)
        writer.add("wrong", values, attributes={"tensorbit": {"n": 1, "m": 4}})
    done = convert(tmp_path / "in.zt", tmp_path / "out.tbm", sparse="detect")
    assert done.sparse.made == ("named",)
    with files.open(tmp_path / "out.tbm") as file:
        assert file["named"].shape == (4, 2, 2, 2)
        assert bytes(file["named"].raw("mask")) == b"\x09" * 8


def test_what_no_kernel_takes_is_left_and_says_why(tmp_path):
    (tmp_path / "in.tbm").write_bytes(usual())
    done = convert(tmp_path / "in.tbm", tmp_path / "out.zt", sparse="export")
    assert list(done.sparse.left) == ["a.weight"]
    with pytest.raises(InvalidInput):
        convert(tmp_path / "in.tbm", tmp_path / "x.zt", sparse="shrink")
    with pytest.raises(InvalidInput):
        convert(tmp_path / "in.tbm", tmp_path / "x.safetensors", masking="guess")


def test_attributes_that_json_cannot_hold_are_refused(tmp_path):
    with Writer(
        tmp_path / "in.zt", attributes={"tensorbit": {"config": {"x": b"bytes"}}}
    ) as writer:
        writer.add("w", np.ones(4, np.float32))
    with pytest.raises(InvalidInput):
        convert(tmp_path / "in.zt", tmp_path / "out.tbm")
    with Writer(
        tmp_path / "nan.zt", attributes={"tensorbit": {"config": {"x": float("nan")}}}
    ) as w:
        w.add("w", np.ones(4, np.float32))
    with pytest.raises(InvalidInput):
        convert(tmp_path / "nan.zt", tmp_path / "out.tbm")
    with Writer(tmp_path / "arch.zt", attributes={"tensorbit": {"architecture": 7}}) as writer:
        writer.add("w", np.ones(4, np.float32))
    with pytest.raises(InvalidInput) as caught:
        convert(tmp_path / "arch.zt", tmp_path / "out.tbm")
    assert caught.value.code == "tb.architecture"
    assert [each.name for each in tmp_path.glob("*.tbm")] == []


def test_every_limit_of_the_public_runtime_is_remarked_upon(tmp_path):
    document = {
        "note": [0.5],
        "config": {},
        "architecture": "x" * 64,
        "tensors": [
            entry(name="n" * 128, shape=[2, 2, 8], extra={"f": 0.5}),
            entry(name="model.layers.0.mlp.up_proj.weight", nm_n=0, nm_m=0, num_mask_bytes=0,
                  offset=4232, dtype="fp16"),
            entry(name="rows", offset=4096 + 4232 + 64, shape=[2, 6], num_weights=12,
                  num_mask_bytes=3),
        ],
    }  # fmt: skip
    half = dense(weights=bytes(64), count=32, precision=1)
    rows = sparse(weights=bytes(48), count=12, mask=b"\3\3\3")
    image = container([sparse().data, half.data, rows.data], document)
    (tmp_path / "in.tbm").write_bytes(image)
    with files.open(tmp_path / "in.tbm") as file:
        codes = {each.code for each in remarks(file.catalog.native)}
    assert codes == {
        "config-empty", "architecture-length", "fraction", "name-length", "shape-rank",
        "rows-cut-groups", "dense-projection", "precision",
    }  # fmt: skip
    convert(tmp_path / "in.tbm", tmp_path / "d", format="tensorbit-directory")
    with files.open(tmp_path / "d") as file:
        assert "directory" in {each.code for each in remarks(file.catalog.native)}
