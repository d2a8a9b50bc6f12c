"""An overlay costs what changed, is the whole model when opened, and knows its base."""

from __future__ import annotations

import hashlib
import itertools
import shutil

import numpy as np
import pytest
import ztensor
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorark
import tensorark.numpy as ark
from tensorark.edit.append import append
from tensorark.edit.merge import merge
from tensorark.edit.overlay import delta, overlay
from tensorark.edit.split import split
from tests.test_public_vectors import MADE


@pytest.fixture
def base(tmp_path):
    """A hundred tensors of 40 kB."""
    rng = np.random.default_rng(3)
    arrays = {f"l.{at}.w": rng.integers(0, 256, 40_000, "u1") for at in range(100)}
    ark.save_file(arrays, tmp_path / "base.zt", {"version": 1})
    return tmp_path / "base.zt", arrays


def tuned(arrays):
    """One tensor changed in one byte, one added, one gone."""
    changed = dict(arrays)
    changed["l.7.w"] = arrays["l.7.w"].copy()
    changed["l.7.w"][12_345] ^= 1
    changed["new"] = np.ones(3, "f4")
    del changed["l.9.w"]
    return changed


def assert_same_model(path, other):
    with tensorark.open(path) as file, tensorark.open(other) as wanted:
        assert tensorark.diff(file, wanted).is_equal
        assert tensorark.content_digest(file) == tensorark.content_digest(wanted)
        assert file.attributes == wanted.attributes
        assert tensorark.verify(file, deep=True).complete


@pytest.mark.parametrize("suffix", [".zt", ".safetensors"])
def test_a_fine_tune_of_one_tensor_in_a_hundred_costs_one_hundredth(base, tmp_path, suffix):
    path, arrays = base
    ark.save_file(tuned(arrays), tmp_path / f"new{suffix}", {"version": 2})
    ark.save_file(tuned(arrays), tmp_path / "whole.zt", {"version": 2})
    done = delta(path, tmp_path / f"new{suffix}", tmp_path / "delta.zt")
    assert done.stored == ("l.7.w", "new")
    assert done.removed == ("l.9.w",)
    assert done.nbytes == 40_012
    with tensorark.open(tmp_path / "delta.zt") as file:
        manifest = len(file.catalog.native.text)
    assert (tmp_path / "delta.zt").stat().st_size < 40_012 + manifest + 4 * 4096
    assert_same_model(tmp_path / "delta.zt", tmp_path / "whole.zt")


def test_an_overlay_opens_in_the_public_reader(base, tmp_path):
    path, arrays = base
    path = path.rename(tmp_path / "delta-base.zt")  # where the public convention looks for `base`
    ark.save_file(tuned(arrays), tmp_path / "new.zt")
    done = delta(path, tmp_path / "new.zt", tmp_path / "delta.zt")
    assert done.shards == ("base",)
    theirs = ztensor.open(str(tmp_path / "delta.zt"))
    assert {name: theirs[name].tobytes() for name in theirs} == {
        name: array.tobytes() for name, array in tuned(arrays).items()
    }
    theirs.close()


def test_a_base_is_found_by_its_own_name_without_reading_it(base, tmp_path, monkeypatch):
    path, arrays = base
    ark.save_file(tuned(arrays), tmp_path / "new.zt")
    done = delta(path, tmp_path / "new.zt", tmp_path / "delta.zt")
    assert done.shards == ("base",)
    monkeypatch.setattr("tensorark.files.shards.digest_of_file", None)
    with tensorark.open(tmp_path / "delta.zt") as file:
        assert file["l.0.w"].numpy().tobytes() == arrays["l.0.w"].tobytes()


@pytest.mark.parametrize("name", ["моя модель.zt", ".hidden.zt", "a b.zt", "x" * 70 + ".zt"])
def test_a_base_whose_name_is_no_shard_name_is_found_by_identity(base, tmp_path, name):
    path, arrays = base
    path = path.rename(tmp_path / name)
    ark.save_file(tuned(arrays), tmp_path / "new.zt")
    done = delta(path, tmp_path / "new.zt", tmp_path / "delta.zt")
    assert done.shards == ("base",)
    assert_same_model(tmp_path / "delta.zt", tmp_path / "new.zt")


def test_the_identity_of_the_base_is_its_size_and_its_digest(base, tmp_path):
    path, arrays = base
    ark.save_file(tuned(arrays), tmp_path / "new.zt")
    delta(path, tmp_path / "new.zt", tmp_path / "delta.zt")
    with tensorark.open(tmp_path / "delta.zt") as file:
        (shard,) = file.catalog.native.shards.values()
    data = path.read_bytes()
    assert (shard.size, shard.digest) == (len(data), "sha256:" + hashlib.sha256(data).hexdigest())

    append(path, {"more": np.zeros(1)})
    with tensorark.open(tmp_path / "delta.zt") as file:
        assert file["new"].numpy().tolist() == [1, 1, 1]
        with pytest.raises(tensorark.ReadFailed) as caught:
            file["l.0.w"].numpy()
        assert caught.value.code == "wrong-shard"
    changed = bytearray(data)
    changed[100] ^= 1
    path.write_bytes(changed)
    with tensorark.open(tmp_path / "delta.zt") as file:
        assert [each.rule for each in tensorark.verify(file, deep=True).findings] == ["wrong-shard"]


def test_a_split_base_gives_its_own_shards(base, tmp_path):
    path, arrays = base
    split(path, tmp_path / "s.zt", max_size=1 << 20)
    ark.save_file(tuned(arrays), tmp_path / "new.zt")
    done = delta(tmp_path / "s.zt", tmp_path / "new.zt", tmp_path / "delta.zt")
    assert len(done.shards) == 7
    assert "s" not in done.shards  # the root holds no blob
    path.unlink()
    (tmp_path / "s.zt").unlink()
    assert_same_model(tmp_path / "delta.zt", tmp_path / "new.zt")


def test_an_overlay_of_an_overlay_needs_both(base, tmp_path):
    path, arrays = base
    ark.save_file(tuned(arrays), tmp_path / "new.zt")
    delta(path, tmp_path / "new.zt", tmp_path / "one.zt")
    ark.save_file({"l.3.w": np.zeros(40_000, "u1")}, tmp_path / "more.zt")
    done = overlay(tmp_path / "one.zt", tmp_path / "more.zt", tmp_path / "two.zt")
    assert set(done.shards) == {"one", "base"}
    merge(tmp_path / "two.zt", tmp_path / "merged.zt")
    ark.save_file(tuned(arrays) | {"l.3.w": np.zeros(40_000, "u1")}, tmp_path / "wanted.zt")
    with tensorark.open(tmp_path / "merged.zt") as a, tensorark.open(tmp_path / "wanted.zt") as b:
        assert tensorark.diff(a, b).is_equal


def test_an_overlay_keeps_the_rest_and_merges_attributes(base, tmp_path):
    path, arrays = base
    with tensorark.Writer(tmp_path / "lora.zt", attributes={"rank": 4}) as writer:
        writer.add("l.0.w.lora_a", np.ones((4, 2), "f4"), attributes={"alpha": 1.5})
        writer.add("l.1.w", arrays["l.1.w"])  # the same bytes: nothing to store
    done = overlay(path, tmp_path / "lora.zt", tmp_path / "o.zt", remove=["l.2.w"])
    assert (done.stored, done.removed) == (("l.0.w.lora_a",), ("l.2.w",))
    with tensorark.open(tmp_path / "o.zt") as file:
        assert len(file) == 100
        assert file.attributes == {"version": 1, "rank": 4}
        assert file["l.0.w.lora_a"].attributes == {"alpha": 1.5}
        assert file["l.1.w"].parts["data"].blob.spans[0].file == "base"
    with pytest.raises(tensorark.NotFound):
        overlay(path, tmp_path / "lora.zt", tmp_path / "p.zt", remove=["l.2"])


def test_bytes_decide_and_not_digests(tmp_path):
    """Two parts whose digests claim to be equal, and whose bytes are not."""
    for name, value in (("base.zt", 1), ("new.zt", 2)):
        ark.save_file({"a": np.full(9, value, "u1")}, tmp_path / name)
    claims = (tmp_path / "base.zt").read_bytes()
    with tensorark.open(tmp_path / "base.zt") as file:
        digest = file["a"].parts["data"].digest.encode()
    lying = bytearray(claims)
    lying[65536:65545] = bytes([2] * 9)  # other bytes under the digest of the old ones
    (tmp_path / "new.zt").write_bytes(lying)
    assert digest in lying
    with pytest.raises(tensorark.Rejected) as caught:
        delta(tmp_path / "base.zt", tmp_path / "new.zt", tmp_path / "d.zt")
    assert caught.value.code == "zt.digest"
    assert not (tmp_path / "d.zt").exists()


@pytest.mark.parametrize("level", [1, 19])
def test_an_encoded_part_of_the_same_bytes_is_the_bases(tmp_path, level):
    values = np.arange(100_000) % 1000
    with tensorark.Writer(tmp_path / "base.zt", encoding="zstd") as writer:
        writer.add("a", values)
        writer.add("b", values + 1)
    with tensorark.Writer(tmp_path / "new.zt", encoding="zstd", level=level) as writer:
        writer.add("a", values)
        writer.add("b", values + 2)
    ark.save_file({"a": values, "b": values + 2}, tmp_path / "plain.zt")
    with tensorark.open(tmp_path / "new.zt") as file:
        stored = bytes(file["b"].raw())
    for name in ("new.zt", "plain.zt"):
        done = delta(tmp_path / "base.zt", tmp_path / name, tmp_path / f"delta-{name}")
        assert done.stored == ("b",)
        assert_same_model(tmp_path / f"delta-{name}", tmp_path / "plain.zt")
    with tensorark.open(tmp_path / "delta-new.zt") as file:
        assert bytes(file["b"].raw()) == stored


def test_shared_blobs_stay_shared(tmp_path):
    tied = np.arange(40_000, dtype="f4")
    ark.save_file({"embed": tied, "w": tied + 1, "head": tied}, tmp_path / "base.zt")
    ark.save_file({"embed": tied + 5, "w": tied + 1, "head": tied + 5}, tmp_path / "new.zt")
    done = delta(tmp_path / "base.zt", tmp_path / "new.zt", tmp_path / "d.zt")
    assert done.nbytes == 160_000
    with tensorark.open(tmp_path / "d.zt") as file:
        assert file["embed"].parts["data"].blob == file["head"].parts["data"].blob
    ark.save_file({"w": tied}, tmp_path / "w.zt")
    overlay(tmp_path / "base.zt", tmp_path / "w.zt", tmp_path / "o.zt")
    with tensorark.open(tmp_path / "o.zt") as file:
        assert file["embed"].parts["data"].blob == file["head"].parts["data"].blob


@pytest.mark.parametrize("what", ["safetensors base", "data shard", "target", "same", "exists"])
def test_what_makes_no_overlay_is_refused(base, tmp_path, what):
    path, arrays = base
    new, target, code = tmp_path / "new.zt", tmp_path / "d.zt", "base"
    ark.save_file(tuned(arrays), new)
    if what == "safetensors base":
        path = tmp_path / "b.safetensors"
        ark.save_file(arrays, path)
    elif what == "data shard":
        plan = split(path, tmp_path / "s.zt", max_size=1 << 20)
        path = plan.shards[0].path
    elif what == "target":
        target, code = tmp_path / "d.safetensors", "target"
    elif what == "same":
        target, code = path, "same-file"
    elif what == "exists":
        target.write_bytes(b"precious")
        code = "exists"
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(tensorark.Error) as caught:
        delta(path, new, target)
    assert caught.value.code == code
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_label_that_would_lead_to_another_file_is_not_used(base, tmp_path):
    path, arrays = base
    ark.save_file({"x": np.zeros(1)}, tmp_path / "delta-base.zt")  # not the base
    ark.save_file(tuned(arrays), tmp_path / "new.zt")
    done = delta(path, tmp_path / "new.zt", tmp_path / "delta.zt")
    assert done.shards != ("base",)
    assert_same_model(tmp_path / "delta.zt", tmp_path / "new.zt")


@st.composite
def changes(draw):
    """Two models that have something in common."""
    values = st.integers(0, 2).map(lambda value: np.full(3000 * value, value, "u1"))
    names = st.sampled_from(["a", "b", "c", "d"])
    old = draw(st.dictionaries(names, values))
    return old, {**old, **draw(st.dictionaries(names, values))}, draw(st.sets(names))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base, numbers = tmp_path_factory.mktemp("overlays"), itertools.count()

    def make():
        path = base / str(next(numbers))
        path.mkdir()
        return path

    return make


@settings(max_examples=40)
@given(changes())
def test_any_difference_makes_the_new_model_again(folders, models):
    old, new, gone = models
    for name in gone:
        new.pop(name, None)
    folder = folders()
    ark.save_file(old, folder / "old.zt")
    ark.save_file(new, folder / "new.zt")
    done = delta(folder / "old.zt", folder / "new.zt", folder / "delta.zt")
    changed = {
        name for name in new if name not in old or old[name].tobytes() != new[name].tobytes()
    }
    assert set(done.stored) == changed
    assert set(done.removed) == set(old) - set(new)
    assert_same_model(folder / "delta.zt", folder / "new.zt")
    merge(folder / "delta.zt", folder / "merged.zt")
    assert (folder / "merged.zt").read_bytes() == (folder / "new.zt").read_bytes()
    shutil.rmtree(folder)


@pytest.mark.skipif(not (MADE / "lora.zt").exists(), reason="published files are not here")
def test_the_public_overlay_is_one_of_ours(tmp_path):
    """The deltas of the public overlay, put over its base, make the same model."""
    for name in ("lora.zt", "lora-base.zt"):
        shutil.copy(MADE / name, tmp_path)
    with tensorark.open(tmp_path / "lora.zt") as theirs:
        kept = [n for n in theirs if theirs[n].parts["data"].blob.spans[0].file == "base"]
        ark.save_file({n: theirs[n].numpy() for n in theirs if n not in kept}, tmp_path / "ab.zt")
        with tensorark.open(tmp_path / "lora-base.zt") as below:
            gone = [name for name in below if name not in theirs]
        done = overlay(
            tmp_path / "lora-base.zt", tmp_path / "ab.zt", tmp_path / "ours.zt", remove=gone
        )
        with tensorark.open(tmp_path / "ours.zt") as ours:
            assert tensorark.diff(theirs, ours).is_equal
            assert tensorark.content_digest(theirs) == tensorark.content_digest(ours)
            assert ours.catalog.native.shards["lora-base"] == theirs.catalog.native.shards["base"]
    assert done.removed == tuple(gone)
