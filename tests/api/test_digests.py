"""Digests of parts: kept when a file is written anew, replaced or left out only when asked."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import xxhash

import tensorark
from conformance.zt.build import image as build
from tensorark.conversion.pipeline import convert
from tensorark.edit.append import append
from tensorark.edit.merge import merge
from tensorark.edit.repack import repack
from tensorark.edit.split import split

DATA = bytes(range(8))
SHA256 = "sha256:" + hashlib.sha256(DATA).hexdigest()
XXH3 = "xxh3:" + xxhash.xxh3_64_hexdigest(DATA)


def model(path, digest=SHA256):
    part = {"dtype": "u8", "blob": [4096, 8]} | ({} if digest is None else {"digest": digest})
    tensor = {"shape": [8], "layout": "dense", "parts": {"data": part}}
    path.write_bytes(build.image({"objects": {"t": tensor}}, {4096: DATA}))
    return path


def facts(path, name="t"):
    """The digest of the part, and that of the content."""
    with tensorark.open(path) as file:
        digest = file[name].parts["data"].digest
        return digest, None if digest is None else tensorark.content_digest(file, "sha256")


@pytest.mark.parametrize(
    "options",
    [{"align": 4096}, {"align": 65536}, {"encoding": "zstd"}, {"compact": True},
     {"digest": "sha256"}],
)  # fmt: skip
def test_a_sha256_digest_and_the_content_digest_stay(tmp_path, options):
    source = model(tmp_path / "in.zt")
    convert(source, tmp_path / "out.zt", **options)
    assert facts(tmp_path / "out.zt") == facts(source)
    assert facts(source)[0] == SHA256


def test_they_stay_through_split_merge_and_append(tmp_path):
    source = model(tmp_path / "in.zt")
    split(source, tmp_path / "root.zt", max_size=1 << 20)
    assert facts(tmp_path / "root.zt") == facts(source)
    merge(tmp_path / "root.zt", tmp_path / "one.zt", align=4096)
    assert facts(tmp_path / "one.zt") == facts(source)
    tensorark.numpy.save_file({"z": np.zeros(1)}, tmp_path / "grown.zt")
    append(tmp_path / "grown.zt", source)
    assert facts(tmp_path / "grown.zt")[0] == SHA256


@pytest.mark.parametrize("write", [convert, repack, merge])
def test_canonical_form_asks_before_it_replaces_them(tmp_path, write):
    source = model(tmp_path / "in.zt")
    with pytest.raises(tensorark.InvalidInput) as refused:
        write(source, tmp_path / "out.zt")
    assert refused.value.code == "zt.canonical-digest"
    assert not (tmp_path / "out.zt").exists()
    convert(source, tmp_path / "out.zt", digest="xxh3")
    assert facts(tmp_path / "out.zt")[0] == XXH3
    assert tensorark.validate(tmp_path / "out.zt", canonical=True) == []


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [(SHA256, "xxh3", XXH3), (XXH3, "sha256", SHA256), (None, "sha256", SHA256),
     (SHA256, "none", None), (None, "none", None), (None, None, XXH3), (XXH3, None, XXH3)],
)  # fmt: skip
@pytest.mark.parametrize("encoding", [None, "zstd"])
def test_the_algorithm_is_a_choice(tmp_path, before, wanted, after, encoding):
    source = model(tmp_path / "in.zt", before)
    convert(source, tmp_path / "out.zt", align=4096, encoding=encoding, digest=wanted)
    assert facts(tmp_path / "out.zt")[0] == after


@pytest.mark.parametrize("wanted", ["xxh3", "sha256", None])
def test_a_wrong_digest_is_found_while_passing(tmp_path, wanted):
    source = model(tmp_path / "in.zt", "sha256:" + 64 * "0")
    with pytest.raises(tensorark.Rejected) as refused:
        convert(source, tmp_path / "out.zt", align=4096, digest=wanted)
    assert refused.value.code == "zt.digest"


@pytest.mark.parametrize(
    ("digest", "expected"), [("xxh3", XXH3), ("sha256", SHA256), ("none", None)]
)
@pytest.mark.parametrize("append_", [False, True])
def test_a_writer_digests_as_it_is_told(tmp_path, digest, expected, append_):
    path = tmp_path / "out.zt"
    if append_:
        tensorark.numpy.save_file({"z": np.zeros(1)}, path)
    with tensorark.Writer(path, digest=digest, append=append_) as writer:
        writer.add("t", np.arange(8, dtype=np.uint8))
        with writer.stream("s", (8,), "u8") as part:
            part.write(DATA)
    assert facts(path)[0] == facts(path, "s")[0] == expected
    is_canonical = tensorark.validate(path, canonical=True) == []
    assert is_canonical == (digest == "xxh3" and not append_)


def test_what_is_no_digest_is_refused(tmp_path):
    with pytest.raises(tensorark.InvalidInput):
        tensorark.Writer(tmp_path / "a.zt", digest="md5")
    with pytest.raises(tensorark.InvalidInput):
        convert(model(tmp_path / "in.zt"), tmp_path / "a.zt", digest="md5")
    with pytest.raises(tensorark.InvalidInput):
        convert(model(tmp_path / "in.zt"), tmp_path / "a.npz", digest="sha256")


def test_compact_is_the_smallest_alignment(tmp_path):
    arrays = {f"t{at}": np.full(8, at, np.float32) for at in range(20)}
    with tensorark.Writer(tmp_path / "a.zt", compact=True) as writer:
        for name, array in arrays.items():
            writer.add(name, array)
    tensorark.numpy.save_file(arrays, tmp_path / "b.zt")
    convert(tmp_path / "b.zt", tmp_path / "c.zt", compact=True)
    assert (tmp_path / "a.zt").stat().st_size < 24 * 4096 < (tmp_path / "b.zt").stat().st_size
    assert (tmp_path / "c.zt").stat().st_size < 24 * 4096
    for other in ({"align": 8192},):
        with pytest.raises(tensorark.InvalidInput):
            tensorark.Writer(tmp_path / "d.zt", compact=True, **other)
    with pytest.raises(tensorark.InvalidInput):
        convert(tmp_path / "b.zt", tmp_path / "d.tbm", compact=True)
