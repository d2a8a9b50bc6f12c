"""A part without a digest is what its shard is: nothing that passes it on takes another file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import xxhash

import tensorark
import tensorark.numpy as ark
from tensorark.core.model import Part, Raw, Shard, Span, Tensor
from tensorark.files.shards import Shards
from tensorark.formats.zt.encode import encode_manifest, encode_tail
from tensorark.formats.zt.frame import MAGIC, encode_footer
from tensorark.report.sparsity import counts

ONES, TWOS = (np.full(100, value, "f4").tobytes() for value in (1, 2))


def heap(data):
    """Return a data shard that holds one blob (§7.2)."""
    return MAGIC + bytes(4096 - len(MAGIC)) + data + encode_footer(0, 0, 0)


def digest_of(data, algorithm):
    if algorithm == "xxh3":
        return f"xxh3:{xxhash.xxh3_64_hexdigest(data)}"
    return f"{algorithm}:{hashlib.sha256(data).hexdigest()}"


def model(folder, *, algorithm="sha256", swapped=False, digested=False):
    """Write a root and two shards of one size; `swapped` exchanges their files."""
    heaps = {"1": heap(ONES), "2": heap(TWOS)}
    tensors = []
    for name, label, data in (("a", "1", ONES), ("b", "2", TWOS)):
        digest = digest_of(data, "xxh3") if digested else None
        part = Part(Raw((Span(4096, len(data), label),)), "f32", None, digest)
        tensors.append(Tensor(name, (100,), "dense", {"data": part}))
    table = {label: Shard(len(data), digest_of(data, algorithm)) for label, data in heaps.items()}
    manifest = encode_manifest(tensors, None, table)
    folder.mkdir(exist_ok=True)
    path = folder / "m.zt"
    path.write_bytes(MAGIC.ljust(4096, b"\0") + encode_tail(manifest, 4096))
    order = ("2", "1") if swapped else ("1", "2")
    for label, other in zip(("1", "2"), order, strict=True):
        (folder / f"m-{label}.zt").write_bytes(heaps[other])
    return path


def signed(path):
    """Sign the content of the right model, and check the one at `path` against that."""
    right = model(path.parent / "right")
    tensorark.make_key(path.with_name("k"))
    tensorark.sign(right, path.with_name("k"), path.with_name("s"), over="content")
    found = tensorark.verify_signature(path, path.with_name("k.pub"), path.with_name("s"))
    return None if found.ok else found.findings[0].rule


def sign(path):
    tensorark.make_key(path.with_name("k"))
    tensorark.sign(path, path.with_name("k"), over="content")


def sign_trusting(path):
    tensorark.make_key(path.with_name("k"))
    tensorark.sign(path, path.with_name("k"), over="content", trust_digests=True)


def append(path):
    ark.save_file({"c": np.ones(3)}, path.with_name("base.zt"))
    tensorark.append(path.with_name("base.zt"), path)


def overlay(path):
    ark.save_file({"c": np.ones(3)}, path.with_name("base.zt"))
    tensorark.overlay(path.with_name("base.zt"), path, path.with_name("o.zt"))


def into(name, **options):
    return lambda path: tensorark.convert(path, path.with_name(name), **options)


PASSING_ON = {
    "merge": lambda path: tensorark.merge(path, path.with_name("o.zt")),
    "zt": into("o.zt"),
    "aligned": into("o.zt", align=4096),
    "encoded": into("o.zt", encoding="zstd"),
    "safetensors": into("o.safetensors"),
    "npz": into("o.npz"),
    "tbm": into("o.tbm", cast="bf16"),
    "cast": into("o.zt", cast="f16"),
    "split": lambda path: tensorark.split(path, path.with_name("o.zt"), max_size=20_000),
    "append": append,
    "overlay": overlay,
    "seal": tensorark.seal,
    "sign": sign,
    "sign-trusting": sign_trusting,
}


@pytest.mark.parametrize("algorithm", ["sha256", "xxh3"])
@pytest.mark.parametrize("way", PASSING_ON)
def test_shards_that_are_swapped_are_not_passed_on(way, algorithm, tmp_path):
    PASSING_ON[way](model(tmp_path / "right", algorithm=algorithm))
    path = model(tmp_path / "wrong", algorithm=algorithm, swapped=True)
    before = {each.name for each in path.parent.iterdir()}
    with pytest.raises((tensorark.ReadFailed, tensorark.Rejected)) as caught:
        PASSING_ON[way](path)
    assert caught.value.code == "wrong-shard"
    made = {each.name for each in path.parent.iterdir()} - before
    assert made <= {"base.zt", "k", "k.pub"}
    if way == "append":
        assert list(ark.load_file(path.with_name("base.zt"))) == ["c"]


READING_WHOLE = {
    "diff": lambda path: tensorark.diff(path, other(path)),
    "diff-values": lambda path: tensorark.diff(path, other(path), values=True),
    "sparsity": lambda path: list(counts(path)),
}


def other(path):
    """Return a model that is equal to the one whose shards are swapped."""
    path = Path(os.fspath(path))
    ones, twos = (np.frombuffer(each, "f4") for each in (ONES, TWOS))
    ark.save_file({"a": twos, "b": ones}, path.with_name("other.zt"))
    return path.with_name("other.zt")


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("way", READING_WHOLE)
def test_what_reads_shards_whole_takes_no_other_file_for_them(way, io, tmp_path):
    with tensorark.open(model(tmp_path / "right"), io=io) as file:
        READING_WHOLE[way](file)
    with tensorark.open(model(tmp_path / "wrong", swapped=True), io=io) as file:
        with pytest.raises(tensorark.ReadFailed) as caught:
            READING_WHOLE[way](file)
        assert caught.value.code == "wrong-shard"


@pytest.mark.parametrize("deep", [False, True])
def test_verifying_hashes_the_shards_whose_parts_carry_no_digest(tmp_path, deep):
    with tensorark.open(model(tmp_path / "right")) as file:
        found = tensorark.verify(file, deep=deep)
        assert (found.ok, found.shards) == (True, 2)
    with tensorark.open(model(tmp_path / "wrong", swapped=True)) as file:
        found = tensorark.verify(file, deep=deep)
        assert {each.rule for each in found.findings} == {"wrong-shard"}


def test_a_signature_over_content_does_not_hold_for_swapped_shards(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert signed(model(tmp_path / "a")) is None
    assert signed(model(tmp_path / "b", swapped=True)) == "signature-differs"


def test_an_algorithm_that_is_not_known_proves_nothing(tmp_path):
    path = model(tmp_path, algorithm="blake3")
    with pytest.raises(tensorark.Unsupported) as caught:
        tensorark.convert(path, tmp_path / "o.zt")
    assert caught.value.code == "unknown-algorithm"
    with tensorark.open(path) as file:  # looking at it is allowed
        assert file["a"].numpy()[0] == 1


@pytest.mark.parametrize("way", PASSING_ON)
def test_parts_with_digests_protect_themselves_and_cost_no_more(way, tmp_path, monkeypatch):
    hashed = []
    monkeypatch.setattr(Shards, "prove", lambda *_: hashed.append(1))
    PASSING_ON[way](model(tmp_path, digested=True))
    assert not hashed


def test_each_shard_is_hashed_once(tmp_path, monkeypatch):
    original, hashed = Shards.prove, []
    monkeypatch.setattr(Shards, "prove", lambda *each: hashed.append(each) or original(*each))
    tensorark.split(model(tmp_path), tmp_path / "o.zt", max_size=20_000)
    assert len(hashed) == 2


def test_shards_of_which_nothing_is_there_are_not_searched_one_by_one(tmp_path, monkeypatch):
    """A manifest of ten megabytes names 60,000."""
    path = model(tmp_path)
    for label in ("1", "2"):
        (tmp_path / f"m-{label}.zt").unlink()
    with tensorark.open(path) as file, monkeypatch.context() as patch:
        patch.setattr(Shards, "__call__", None)
        assert file.missing() == {"1": ("a",), "2": ("b",)}
        assert tensorark.verify(file).missing == {"1": ("a",), "2": ("b",)}


@pytest.mark.parametrize("name", ["m-1.zt", "M-1.ZT", "1.zt", "another name", "store"])
def test_a_shard_that_is_there_by_any_convention_is_not_missing(tmp_path, name):
    path = model(tmp_path)
    shard, other = tmp_path / "m-1.zt", tmp_path / name
    if name == "store":
        other = tmp_path / "blobs/sha256" / hashlib.sha256(heap(ONES)).hexdigest()
        other.parent.mkdir(parents=True)
    shard.rename(other)
    (tmp_path / "m-2.zt").unlink()
    with tensorark.open(path) as file:
        assert file.missing() == {"2": ("b",)}
