"""A model in several files: found, missing, wrong, and proven to be the ones that are meant."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import xxhash

import tensorark
import tensorark.numpy as ark
from tensorark.edit.split import split
from tests.test_public_vectors import MADE

ARRAYS = {f"l.{i}.w": np.arange(i, i + 500, dtype="f4") for i in range(4)}
SHARDS = [f"m-0000{i}-of-00004.zt" for i in range(1, 5)]


@pytest.fixture
def root(tmp_path):
    """A model of four shards of one size each, one tensor in each."""
    ark.save_file(ARRAYS, tmp_path / "whole.zt")
    split(tmp_path / "whole.zt", tmp_path / "m.zt", max_size=6200, align=4096)
    (tmp_path / "whole.zt").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == [*SHARDS, "m.zt"]
    return tmp_path / "m.zt"


def assert_whole(path, **options):
    with tensorark.open(path, **options) as file:
        assert file.missing() == {}
        for name, array in ARRAYS.items():
            assert file[name].numpy().tobytes() == array.tobytes()
        assert tensorark.verify(file, deep=True).shards == 4


def digest_name(path: Path, algorithm: str) -> str:
    state = hashlib.sha256() if algorithm == "sha256" else xxhash.xxh3_64()
    state.update(path.read_bytes())
    return state.hexdigest()


def swap(a: Path, b: Path) -> None:
    a.rename(a.with_name("between"))
    b.rename(a)
    a.with_name("between").rename(b)


def test_the_folder_is_not_listed_once_for_each_missing_shard(tmp_path, monkeypatch):
    ark.save_file({f"l.{i:03}.w": np.array([i]) for i in range(150)}, tmp_path / "whole.zt")
    split(tmp_path / "whole.zt", tmp_path / "m.zt", by="layer", align=4096)
    for path in tmp_path.glob("m-*.zt"):
        path.unlink()
    time.sleep(0.15)  # a folder that has just changed is listed anew
    listed, real = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or real(path))
    with tensorark.open(tmp_path / "m.zt") as file:
        assert len(file.missing()) == 150
        assert 1 <= len(listed) < 20  # once a second at most
        split(tmp_path / "whole.zt", tmp_path / "m.zt", by="layer", align=4096, overwrite=True)
    with tensorark.open(tmp_path / "m.zt") as file:
        assert file.missing() == {}


def test_a_link_to_itself_is_no_shard(root):
    shard = root.with_name(SHARDS[1])
    shard.unlink()
    shard.symlink_to(shard)
    with tensorark.open(root) as file:
        assert file.missing() == {"00002-of-00004": ("l.1.w",)}
        with pytest.raises(tensorark.ReadFailed) as caught:
            file["l.1.w"].numpy()
    assert caught.value.code == "missing-shard"


def test_a_shard_that_appears_is_found_at_once(root):
    """Listing the folder seldom must not hide what changes in it."""
    shard = root.with_name(SHARDS[1])
    shard.rename(root.with_name("elsewhere"))
    root.with_name("elsewhere").rename(root.parent.parent / "away")
    with tensorark.open(root) as file:
        assert list(file.missing()) == ["00002-of-00004"]
        (root.parent.parent / "away").rename(root.with_name("under another name"))
        assert file.missing() == {}


def test_a_root_opens_and_lists_without_its_shards(root):
    for name in SHARDS:
        root.with_name(name).unlink()
    assert tensorark.validate(root) == []
    with tensorark.open(root) as file:
        assert {name: view.shape for name, view in file.items()} == dict.fromkeys(ARRAYS, (500,))
        assert tensorark.content_digest(file).startswith("xxh3:")
        assert file.missing() == {f"0000{i + 1}-of-00004": (f"l.{i}.w",) for i in range(4)}
        assert file.paths() == [root]


def test_a_missing_shard_is_named_with_the_tensor_that_needs_it(root):
    root.with_name(SHARDS[1]).unlink()
    with tensorark.open(root) as file:
        assert file["l.0.w"].numpy()[1] == 1
        for read in (file["l.1.w"].numpy, file["l.1.w"].raw, lambda: file["l.1.w"][3:5]):
            with pytest.raises(tensorark.ReadFailed) as caught:
                read()
            assert caught.value.code == "missing-shard"
            assert caught.value.where == ("objects", "l.1.w", "parts", "data")
            assert '"00002-of-00004"' in caught.value.detail
        assert file.missing() == {"00002-of-00004": ("l.1.w",)}


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_shards_are_found_after_any_renaming(root, io):
    root.rename(root.with_name("llama.zt"))
    for number, name in enumerate(SHARDS):
        root.with_name(name).rename(root.with_name(f"x{number}.bin"))
    assert_whole(root.with_name("llama.zt"), io=io)


def test_renaming_the_family_together_keeps_the_names(root):
    for name in [*SHARDS, "m.zt"]:
        root.with_name(name).rename(root.with_name("llama" + name[1:]))
    assert_whole(root.with_name("llama.zt"))
    with tensorark.open(root.with_name("llama.zt")) as file:
        assert [path.name for path in file.paths()][1] == "llama-00001-of-00004.zt"


@pytest.mark.parametrize("where", ["beside", "elsewhere"])
def test_shards_are_found_by_content_in_a_store(root, tmp_path, where):
    store = tmp_path / "blobs" if where == "beside" else tmp_path / "far" / "store"
    (store / "sha256").mkdir(parents=True)
    for name in SHARDS:
        path = root.with_name(name)
        path.rename(store / "sha256" / digest_name(path, "sha256"))
    assert_whole(root, store=None if where == "beside" else store)
    with tensorark.open(root, store=store) as file:
        again = pickle.loads(pickle.dumps(file))
        assert again["l.3.w"].numpy()[0] == 3


def test_normal_names_are_found_without_reading_a_shard_whole(root, monkeypatch):
    def never(*_arguments):
        raise AssertionError("a shard was read whole")

    monkeypatch.setattr("tensorark.files.shards.digest_of_file", never)
    with tensorark.open(root) as file:
        assert file.missing() == {}
        root.with_name(SHARDS[0]).unlink()
    with tensorark.open(root) as file, pytest.raises(AssertionError, match="read whole"):
        file.missing()  # the three that are left have the right size


def test_a_search_reads_no_file_of_another_size(root, monkeypatch):
    root.with_name(SHARDS[0]).unlink()
    for name in SHARDS[1:]:
        with root.with_name(name).open("ab") as out:
            out.write(b"longer")

    def never(*_arguments):
        raise AssertionError("a file was read whole")

    monkeypatch.setattr("tensorark.files.shards.digest_of_file", never)
    with tensorark.open(root) as file:
        assert file.missing().keys() >= {"00001-of-00004"}


def test_each_candidate_is_read_once_however_many_shards_are_looked_for(root, monkeypatch):
    from tensorark.files import shards as module

    read = []
    real = module.digest_of_file

    def counted(path, algorithm):
        read.append(path)
        return real(path, algorithm)

    monkeypatch.setattr(module, "digest_of_file", counted)
    for number, name in enumerate(SHARDS):
        root.with_name(name).rename(root.with_name(f"x{number}"))
    with tensorark.open(root) as file:
        assert file.missing() == {}
    assert len(read) == len(set(read)) == 4


def test_swapped_names_of_one_size_are_caught_by_a_deep_verify(root):
    swap(root.with_name(SHARDS[0]), root.with_name(SHARDS[2]))
    with tensorark.open(root) as file:
        found = tensorark.verify(file, deep=True)
        assert not found.ok
        assert [each.where for each in found.findings] == [
            ("shards", "00001-of-00004"),
            ("shards", "00003-of-00004"),
        ]
        assert {each.rule for each in found.findings} == {"wrong-shard"}
        # Here the parts carry digests as well; a root without them would show nothing.
        assert {each.rule for each in tensorark.verify(file).findings} == {"zt.digest"}


def test_swapped_names_of_other_sizes_are_caught_at_first_use(tmp_path):
    ark.save_file({"a": np.zeros(10, "u1"), "b": np.ones(9000, "u1")}, tmp_path / "whole.zt")
    plan = split(tmp_path / "whole.zt", tmp_path / "m.zt", max_size=13200, align=4096)
    first, second = (Path(shard.path) for shard in plan.shards)
    swap(first, second)
    with tensorark.open(tmp_path / "m.zt") as file:
        with pytest.raises(tensorark.ReadFailed) as caught:
            file["b"].numpy()
        assert caught.value.code == "wrong-shard"
        assert '"00002-of-00002"' in caught.value.detail
        assert caught.value.where == ("objects", "b", "parts", "data")
        assert first.name in caught.value.hint
        assert {each.rule for each in tensorark.verify(file, deep=True).findings} == {"wrong-shard"}


@pytest.mark.parametrize(
    ("at", "what"), [(3, "does not begin"), (-3, "does not end"), (-16, "of version")]
)
def test_the_frame_of_a_shard_is_checked_when_it_is_first_used(root, at, what):
    path = root.with_name(SHARDS[0])
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with tensorark.open(root) as file, pytest.raises(tensorark.ReadFailed, match=what) as caught:
        file["l.0.w"].numpy()
    assert caught.value.code == "wrong-shard"


def test_the_manifest_of_a_shard_is_never_looked_at(tmp_path):
    ark.save_file(ARRAYS, tmp_path / "whole.zt")
    plan = split(tmp_path / "whole.zt", tmp_path / "m.zt", max_size=8000, align=4096, full=True)
    path = Path(plan.shards[0].path)
    data = bytearray(path.read_bytes())
    data[-50] ^= 1  # the end of its manifest
    path.write_bytes(data)
    with pytest.raises(tensorark.Rejected):
        tensorark.open(path)
    with tensorark.open(tmp_path / "m.zt") as file:
        assert tensorark.verify(file).complete
        assert [each.rule for each in tensorark.verify(file, deep=True).findings] == ["wrong-shard"]


def test_a_shard_name_cannot_lead_out_of_the_folder(root, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.zt"
    root.with_name(SHARDS[0]).rename(outside)
    root.with_name(SHARDS[0]).symlink_to(outside)
    with tensorark.open(root) as file, pytest.raises(tensorark.ReadFailed) as caught:
        file["l.0.w"].numpy()
    assert caught.value.code == "unsafe-link"
    root.with_name(SHARDS[0]).rename(root.with_name("link"))
    with tensorark.open(root) as file:  # nor does the search follow such a link
        assert file.missing() == {"00001-of-00004": ("l.0.w",)}


def test_a_pipe_or_a_folder_under_the_name_of_a_shard_is_no_shard(root):
    root.with_name(SHARDS[0]).unlink()
    os.mkfifo(root.with_name(SHARDS[0]))
    root.with_name(SHARDS[1]).unlink()
    root.with_name(SHARDS[1]).mkdir()
    with tensorark.open(root) as file:
        assert file.missing().keys() == {"00001-of-00004", "00002-of-00004"}


# Files of the public implementation, when they lie beside the repository.

INDEX = MADE / "index.json"
ROOTS = (
    {
        name: entry
        for name, entry in json.loads(INDEX.read_bytes())["files"].items()
        if entry.get("shards")
    }
    if INDEX.exists()
    else {}
)


@pytest.mark.parametrize("name", ROOTS)
def test_public_roots_pass_a_deep_verify_and_fail_it_when_a_shard_changes(name, tmp_path):
    for path in MADE.glob(f"{Path(name).stem}*.zt"):
        shutil.copy(path, tmp_path)
    with tensorark.open(tmp_path / name) as file:
        found = tensorark.verify(file, deep=True)
        assert found.ok
        assert found.shards == len(ROOTS[name]["shards"])
        changed = file.paths()[-1]
    data = bytearray(changed.read_bytes())
    data[100] ^= 1  # padding, which no part covers
    changed.chmod(0o644)
    changed.write_bytes(data)
    with tensorark.open(tmp_path / name) as file:
        parts = [part for each in file.values() for part in each.parts.values()]
        # Where parts have no digest, that of their shard is what proves them (§7.1).
        assert tensorark.verify(file).ok is all(part.digest is not None for part in parts)
        assert [each.rule for each in tensorark.verify(file, deep=True).findings] == ["wrong-shard"]
