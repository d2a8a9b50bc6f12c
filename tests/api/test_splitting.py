"""Splitting keeps to the plan and the plan to the cap; merging gives back what was split."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import ztensor
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorark
import tensorark.numpy as ark
from tensorark.edit.merge import merge
from tensorark.edit.split import split
from tests.test_public_vectors import MADE

MIB = 1 << 20


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def digest_of(path: Path) -> str:
    with tensorark.open(path) as file:
        return tensorark.content_digest(file)


def plain(folder: Path, sizes: dict[str, int]) -> Path:
    """A canonical model of tensors of these sizes, no two of which are equal."""
    path = folder / "in.zt"
    rng = np.random.default_rng(7)
    arrays = {name: rng.integers(0, 256, size, "u1") for name, size in sizes.items()}
    ark.save_file(arrays, path, {"made": 1})
    return path


def test_shards_are_filled_in_order_up_to_the_cap(tmp_path):
    """The sizes of llama.cpp#6634: small, small, huge, small."""
    source = plain(tmp_path, {"a": 1000, "b": 1000, "c": 528_000, "d": 1000, "e": 1000})
    plan = split(source, tmp_path / "m.zt", max_size=20_000, align=4096)
    assert [(shard.tensors, shard.exceeds) for shard in plan.shards] == [
        (("a", "b"), False),
        (("c",), True),
        (("d", "e"), False),
    ]
    assert [shard.size for shard in plan.shards] == [
        8192 + 1000 + 40,
        4096 + 528_000 + 40,
        8192 + 1000 + 40,
    ]
    assert [Path(shard.path).name for shard in plan.shards] == [
        f"m-0000{number}-of-00003.zt" for number in (1, 2, 3)
    ]
    assert all(Path(shard.path).stat().st_size == shard.size for shard in plan.shards)
    assert digest_of(tmp_path / "m.zt") == digest_of(source)


@pytest.mark.parametrize("full", [False, True])
def test_the_cap_holds_to_the_byte(tmp_path, full):
    source = plain(tmp_path, {"a": 5000, "b": 5000})
    both = split(source, tmp_path / "m.zt", max_size=MIB, align=4096, full=full, dry_run=True)
    (whole,) = both.shards
    for cap, count in ((whole.size, 1), (whole.size - 1, 2)):
        folder = tmp_path / str(cap)
        folder.mkdir()
        plan = split(source, folder / "m.zt", max_size=cap, align=4096, full=full)
        assert len(plan.shards) == count
        assert all(Path(shard.path).stat().st_size == shard.size <= cap for shard in plan.shards)


def test_layers_get_shards_of_their_own_in_the_order_of_their_numbers(tmp_path):
    layers = {f"model.layers.{at}.{part}": 10 for at in (0, 2, 10) for part in ("q", "experts.1")}
    source = plain(tmp_path, {"embed": 10, "norm.weight": 10, **layers})
    plan = split(source, tmp_path / "m.zt", by="layer")
    assert [shard.tensors for shard in plan.shards] == [
        ("embed", "norm.weight"),
        *((f"model.layers.{at}.experts.1", f"model.layers.{at}.q") for at in (0, 2, 10)),
    ]


def test_a_dry_run_writes_nothing_and_says_what_a_run_makes(tmp_path):
    source = plain(tmp_path, {"a": 5000, "b": 5000, "c": 9000})
    before = contents(tmp_path)
    planned = split(source, tmp_path / "m.zt", max_size=12_000, align=4096, dry_run=True)
    assert contents(tmp_path) == before
    assert split(source, tmp_path / "m.zt", max_size=12_000, align=4096) == planned
    before = contents(tmp_path)
    merged = merge(tmp_path / "m.zt", tmp_path / "one.zt", dry_run=True)
    assert contents(tmp_path) == before
    assert merge(tmp_path / "m.zt", tmp_path / "one.zt") == merged


def test_a_merge_of_a_split_is_the_canonical_file_again(tmp_path):
    source = plain(tmp_path, {"a": 5000, "b": 0, "c": 9000})
    split(source, tmp_path / "m.zt", max_size=12_000, align=4096)
    merge(tmp_path / "m.zt", tmp_path / "one.zt")
    assert (tmp_path / "one.zt").read_bytes() == source.read_bytes()


def test_the_same_model_makes_the_same_files(tmp_path):
    source = plain(tmp_path, {f"t{at}": 5000 + at for at in range(20)})
    made = []
    for folder in (tmp_path / "1", tmp_path / "2"):
        folder.mkdir()
        split(source, folder / "m.zt", max_size=30_000, align=4096)
        made.append(contents(folder))
    assert made[0] == made[1]


def test_data_shards_are_what_the_specification_draws(tmp_path):
    source = plain(tmp_path, {"a": 100})
    plan = split(source, tmp_path / "m.zt", max_size=MIB)
    data = Path(plan.shards[0].path).read_bytes()
    magic = bytes.fromhex("89 5A 54 32 0D 0A 1A 0A")
    with tensorark.open(source) as file:
        payload = bytes(file["a"].raw())
    footer = bytes(24) + (2).to_bytes(4, "little") + bytes(4) + magic
    assert data == magic + bytes(65536 - 8) + payload + footer


def test_a_split_of_safetensors_gives_the_digest_of_its_conversion(tmp_path):
    ark.save_file(
        {"a": np.ones(9, "f4"), "b": np.zeros(9, "f4")}, tmp_path / "in.safetensors", {"step": 3}
    )
    split(tmp_path / "in.safetensors", tmp_path / "m.zt", max_size=4200, align=4096)
    tensorark.convert(tmp_path / "in.safetensors", tmp_path / "c.zt")
    assert digest_of(tmp_path / "m.zt") == digest_of(tmp_path / "c.zt")
    with tensorark.open(tmp_path / "m.zt") as file:
        assert file.attributes == {"step": 3}


def test_encoded_parts_are_copied_as_they_are_stored(tmp_path):
    values = np.zeros(100_000, "u1")
    with tensorark.Writer(tmp_path / "in.zt", encoding="zstd") as writer:
        writer.add("a", values)
        writer.add("b", values + 1)
    with tensorark.open(tmp_path / "in.zt") as file:
        stored = bytes(file["a"].raw())
    split(tmp_path / "in.zt", tmp_path / "m.zt", max_size=4096 + len(stored) + 40, align=4096)
    merge(tmp_path / "m.zt", tmp_path / "verbatim.zt", align=4096)
    merge(tmp_path / "m.zt", tmp_path / "canonical.zt")
    for name in ("m.zt", "verbatim.zt"):
        with tensorark.open(tmp_path / name) as file:
            assert bytes(file["a"].raw()) == stored
            assert tensorark.verify(file, deep=True).complete
    assert tensorark.validate(tmp_path / "canonical.zt", canonical=True) == []
    assert {digest_of(path) for path in tmp_path.glob("*.zt") if "-of-" not in path.name} == {
        digest_of(tmp_path / "in.zt")
    }


def test_shared_blobs_stay_shared(tmp_path):
    tied = np.arange(50_000, dtype="f4")
    ark.save_file({"embed": tied, "layers.0.w": tied + 1, "lm_head": tied}, tmp_path / "in.zt")
    plan = split(tmp_path / "in.zt", tmp_path / "m.zt", by="layer")
    assert sum(Path(shard.path).stat().st_size for shard in plan.shards) < 2 * 300_000
    with tensorark.open(tmp_path / "m.zt") as file:
        spans = {name: file[name].parts["data"].blob.spans for name in file}
        assert spans["embed"] == spans["lm_head"] != spans["layers.0.w"]
    for align, name in ((None, "one.zt"), (4096, "two.zt")):
        merge(tmp_path / "m.zt", tmp_path / name, align=align)
        with tensorark.open(tmp_path / name) as file:
            spans = {name: file[name].parts["data"].blob.spans for name in file}
            assert spans["embed"] == spans["lm_head"] != spans["layers.0.w"]


def test_a_split_can_be_split_again_and_merged_from_there(tmp_path):
    source = plain(tmp_path, {f"t{at}": 5000 for at in range(6)})
    split(source, tmp_path / "m.zt", max_size=20_000, align=4096)
    split(tmp_path / "m.zt", tmp_path / "n.zt", max_size=13_000, align=8192, algorithm="xxh3")
    merge(tmp_path / "n.zt", tmp_path / "one.zt")
    assert (tmp_path / "one.zt").read_bytes() == source.read_bytes()


# What is refused, and that nothing is harmed by it


def test_a_merge_takes_no_shard_for_the_model_and_no_input_for_the_target(tmp_path):
    """As llama.cpp#9498: a pattern of the shell named shard 2 as the target of a merge."""
    source = plain(tmp_path, {"a": 5000, "b": 5000})
    plan = split(source, tmp_path / "m.zt", max_size=10_000, align=4096)
    first, second = (Path(shard.path) for shard in plan.shards)
    before = contents(tmp_path)
    for root, target in (
        (first, second),
        (first, tmp_path / "out.zt"),
        (tmp_path / "m.zt", second),
    ):
        with pytest.raises((tensorark.InvalidInput, tensorark.Unsupported)) as caught:
            merge(root, target, overwrite=True)
        assert caught.value.code in {"data-shard", "same-file"}
    with pytest.raises(tensorark.InvalidInput) as caught:
        merge(tmp_path / "m.zt", source)
    assert caught.value.code == "exists"
    assert contents(tmp_path) == before


def test_a_split_writes_to_no_input(tmp_path):
    source = plain(tmp_path, {"a": 5000, "b": 5000})
    shutil.copy(source, tmp_path / "m.zt")
    split(tmp_path / "m.zt", tmp_path / "n.zt", max_size=10_000, align=4096)
    before = contents(tmp_path)
    for root, target in (("m.zt", "m.zt"), ("n.zt", "n.zt")):
        with pytest.raises(tensorark.InvalidInput, match="inputs are never written"):
            split(tmp_path / root, tmp_path / target, max_size=10_000, align=4096, overwrite=True)
    with pytest.raises(tensorark.InvalidInput) as caught:
        split(tmp_path / "m.zt", tmp_path / "n.zt", max_size=10_000, align=4096)
    assert caught.value.code == "exists"
    assert contents(tmp_path) == before


def test_a_merge_needs_every_shard_before_it_writes(tmp_path):
    source = plain(tmp_path, {"a": 5000, "b": 5000, "c": 5000})
    plan = split(source, tmp_path / "m.zt", max_size=10_000, align=4096)
    Path(plan.shards[1].path).unlink()
    before = names_in(tmp_path)
    with pytest.raises(tensorark.ReadFailed, match="1 of 3 shards") as caught:
        merge(tmp_path / "m.zt", tmp_path / "one.zt")
    assert caught.value.code == "missing-shard"
    assert "00002-of-00003 (1 tensors)" in caught.value.detail
    assert names_in(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "option"),
        ({"max_size": 4136}, "option"),
        ({"max_size": MIB, "algorithm": "md5"}, "option"),
        ({"by": "moon"}, "option"),
        ({"max_size": MIB, "align": 5000}, "align"),
        ({"max_size": MIB, "root": "m.safetensors"}, "target"),
    ],
)
def test_options_that_make_no_split_are_refused(tmp_path, options, code):
    source = plain(tmp_path, {"a": 5})
    with pytest.raises(tensorark.InvalidInput) as caught:
        split(source, tmp_path / options.pop("root", "m.zt"), **options)
    assert caught.value.code == code
    assert names_in(tmp_path) == ["in.zt"]


def test_more_shards_than_may_be_open_are_refused_before_the_first_byte(tmp_path, monkeypatch):
    source = plain(tmp_path, {f"t{at:03}": 10 for at in range(100)})
    monkeypatch.setattr("resource.getrlimit", lambda _which: (128, 128))
    with pytest.raises(tensorark.InvalidInput) as caught:
        split(source, tmp_path / "m.zt", max_size=4200, align=4096)
    assert caught.value.code == "too-many-shards"
    assert names_in(tmp_path) == ["in.zt"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_damaged_payload_is_not_passed_on_and_nothing_appears(tmp_path, overwrite):
    source = plain(tmp_path, {"a": 5000, "b": 5000, "c": 5000})
    data = bytearray(source.read_bytes())
    data[3 * 65536 + 7] ^= 1  # in c
    source.write_bytes(data)
    before = names_in(tmp_path)
    with pytest.raises(tensorark.Rejected) as caught:
        split(source, tmp_path / "m.zt", max_size=10_000, align=4096, overwrite=overwrite)
    assert caught.value.code == "zt.digest"
    assert caught.value.where == ("objects", "c", "parts", "data")
    assert names_in(tmp_path) == before


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    source = plain(tmp_path, {"a": 5000, "b": 3 * MIB, "c": 5000})
    real = os.pwrite

    def full(descriptor, data, offset):
        if offset > MIB:
            raise OSError(errno.ENOSPC, "no space left on device")
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(tensorark.ReadFailed) as caught:
        split(source, tmp_path / "m.zt", max_size=4 * MIB)
    assert caught.value.code == "no-space"
    assert names_in(tmp_path) == ["in.zt"]


def test_a_failure_while_names_appear_takes_back_those_that_did(tmp_path, monkeypatch):
    source = plain(tmp_path, {"a": 5000, "b": 5000, "c": 5000})
    real, calls = os.link, itertools.count(1)

    def link(*arguments, **options):
        if next(calls) == 2:
            raise OSError(errno.EIO, "input/output error")
        return real(*arguments, **options)

    def claim(*_arguments):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr("tensorark.io.publish._claim", claim)
    with pytest.raises(tensorark.ReadFailed):
        split(source, tmp_path / "m.zt", max_size=10_000, align=4096)
    assert names_in(tmp_path) == ["in.zt"]


# Any model


@st.composite
def models(draw):
    """Arrays by name, some equal, some empty; options of a split."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 3, 4096, 4097, 9000]), max_size=8))
    arrays = {
        f"{draw(st.sampled_from(['a', 'l.0', 'l.1', 'l.10']))}.{at}": np.full(
            size, draw(st.integers(0, 2)), "u1"
        )
        for at, size in enumerate(sizes)
    }
    options = {
        "max_size": draw(st.sampled_from([None, 4137, 8300, 13_000, 30_000])),
        "by": draw(st.sampled_from([None, "layer"])),
        "full": draw(st.booleans()),
        "align": draw(st.sampled_from([4096, 12_288, 65_536])),
        "algorithm": draw(st.sampled_from(["sha256", "xxh3"])),
    }
    if options["max_size"] is None and options["by"] is None:
        options["by"] = "layer"
    return arrays, options


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base, numbers = tmp_path_factory.mktemp("split"), itertools.count()

    def make() -> Path:
        path = base / str(next(numbers))
        path.mkdir()
        return path

    return make


@settings(max_examples=60)
@given(models())
def test_any_model_splits_within_its_cap_and_merges_to_itself(folders, model):
    arrays, options = model
    folder = folders()
    ark.save_file(arrays, folder / "in.zt", {"n": len(arrays)})
    plan = split(folder / "in.zt", folder / "m.zt", **options)
    for shard in plan.shards:
        assert Path(shard.path).stat().st_size == shard.size
        assert shard.exceeds or shard.size <= (options["max_size"] or shard.size)
        assert not shard.exceeds or len(shard.tensors) == 1
        assert tensorark.validate(shard.path) == []
    assert sorted(name for shard in plan.shards for name in shard.tensors) == sorted(arrays)
    with tensorark.open(folder / "m.zt") as file:
        assert tensorark.verify(file, deep=True).shards == len(plan.shards)
        assert {name: file[name].numpy().tobytes() for name in file} == {
            name: array.tobytes() for name, array in arrays.items()
        }
    assert digest_of(folder / "m.zt") == digest_of(folder / "in.zt")
    theirs = ztensor.open(str(folder / "m.zt"))
    assert {name: theirs[name].tobytes() for name in theirs} == {
        name: array.tobytes() for name, array in arrays.items()
    }
    theirs.verify(True)
    theirs.close()
    merge(folder / "m.zt", folder / "one.zt")
    assert (folder / "one.zt").read_bytes() == (folder / "in.zt").read_bytes()
    shutil.rmtree(folder)


# Files of the public implementation, when they lie beside the repository.

SINGLE = "model-single.zt"
SPLIT = sorted(path.name for path in MADE.glob("model-*.zt") if "-of-" not in path.name)


@pytest.mark.parametrize("name", [name for name in SPLIT if name != SINGLE])
def test_a_public_split_model_merges_to_the_public_single_one(name, tmp_path):
    merge(MADE / name, tmp_path / "merged.zt")
    assert tensorark.validate(tmp_path / "merged.zt", canonical=True) == []
    with tensorark.open(tmp_path / "merged.zt") as a, tensorark.open(MADE / SINGLE) as b:
        assert tensorark.diff(a, b).is_equal
        assert tensorark.content_digest(a) == tensorark.content_digest(b)
