"""Large parts are judged piece by piece, whatever their encoding and however they are read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tensorark
from tensorark.edit.repack import repack
from tensorark.edit.split import split
from tensorark.integrity.diff import diff
from tensorark.integrity.identity import digest_tensors
from tensorark.integrity.verify import verify

MIB = 1 << 20


def large(path, **options):
    rng = np.random.default_rng(1)
    values = np.tile(rng.integers(0, 256, MIB, dtype=np.uint8), 20)
    with tensorark.Writer(path, **options) as writer:
        writer.add("mask", values & 1 == 1)
        writer.add("w", values.view("<f4"))
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return large(tmp_path_factory.mktemp("large") / "plain.zt")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return large(tmp_path_factory.mktemp("large") / "packed.zt", encoding="zstd")


@pytest.mark.parametrize("frame_size", [1 << 10, 1 << 16, (1 << 20) + 1, 16 << 20])
def test_an_encoded_part_is_whole_whatever_its_frames(tmp_path, plain, frame_size):
    path = large(tmp_path / "a.zt", encoding="zstd", frame_size=frame_size)
    with tensorark.open(path) as file, tensorark.open(plain) as other:
        found = verify(file)
        assert found.complete
        assert (found.protected, found.nbytes) == (2, 40 * MIB)
        assert diff(file, other).is_equal
        assert [each.parts["data"].digest for each in digest_tensors(file)] == [
            other[name].parts["data"].digest for name in file
        ]


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_every_broken_frame_of_a_large_part_is_named(tmp_path, packed, io):
    with tensorark.open(packed) as file:
        (span,) = file["w"].parts["data"].blob.spans
    data = bytearray(packed.read_bytes())
    for share in (0.25, 0.75):
        data[span.offset + int(span.length * share)] ^= 1
    (tmp_path / "a.zt").write_bytes(data)
    with tensorark.open(tmp_path / "a.zt", io=io) as file:
        found = verify(file).findings
    frames = [each.where[-1] for each in found]
    assert len(found) == 2
    assert frames == sorted({*frames})
    assert all(each.where[:2] == ("objects", "w") for each in found)


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_a_flipped_byte_of_a_large_part_is_found(tmp_path, plain, io):
    data = bytearray(plain.read_bytes())
    with tensorark.open(plain) as file:
        offsets = {name: file[name].parts["data"].blob.spans[0].offset for name in file}
    data[offsets["mask"] + 15 * MIB] = 7
    data[offsets["w"] + 17 * MIB] ^= 1
    (tmp_path / "a.zt").write_bytes(data)
    with tensorark.open(tmp_path / "a.zt", io=io) as file, tensorark.open(plain, io=io) as other:
        rules = sorted((each.where[1], each.rule) for each in verify(file).findings)
        assert [each for each in rules if each[1] == "zt.digest"] == [
            ("mask", "zt.digest"), ("w", "zt.digest")
        ]  # fmt: skip
        assert io == "mmap" or ("mask", "zt.bool-byte") in rules
        changes = {each.name: (each.elements, each.first) for each in diff(file, other).changes}
    assert changes == {"mask": (1, 15 * MIB), "w": (1, 17 * MIB // 4)}


WATCHED = """
import resource, sys
import tensorark
from tensorark.integrity.diff import diff
from tensorark.integrity.identity import digest_tensors
from tensorark.integrity.verify import verify
tensorark.open(sys.argv[2]).close()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with tensorark.open(sys.argv[1], io="pread") as file, tensorark.open(sys.argv[2], io="pread") as b:
    assert verify(file).complete and verify(b).complete
    assert diff(file, b).is_equal and diff(b, file).is_equal
    digest_tensors(file)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_stays_near_a_few_frames(tmp_path):
    values = np.tile(np.random.default_rng(2).integers(0, 256, MIB, dtype=np.uint8), 256)
    with tensorark.Writer(tmp_path / "a.zt", encoding="zstd") as writer:
        writer.add("w", values)
    repack(tmp_path / "a.zt", tmp_path / "b.zt")
    command = [sys.executable, "-c", WATCHED, str(tmp_path / "a.zt"), str(tmp_path / "b.zt")]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown * 1024 < 128 * MIB


def test_a_missing_shard_does_not_end_a_verification(tmp_path):
    with tensorark.Writer(tmp_path / "one.zt") as writer:
        for at in range(4):
            writer.add(f"l.{at}.w", np.full(1000, at, np.float32))
    plan = split(tmp_path / "one.zt", tmp_path / "m.zt", by="layer")
    shards = [each.path for each in plan.shards]
    (tmp_path / shards[1]).unlink()
    damaged = bytearray((tmp_path / shards[2]).read_bytes())
    for deep in (False, True):
        with tensorark.open(tmp_path / "m.zt") as file:
            found = verify(file, deep=deep)
        assert [*found.missing.values()] == [("l.1.w",)]
        assert (found.parts, found.checked) == (3, 3)
        assert found.ok
        assert not found.complete
    damaged[65536] ^= 1
    (tmp_path / shards[2]).write_bytes(damaged)
    with tensorark.open(tmp_path / "m.zt") as file:
        found = verify(file)
    assert [each.rule for each in found.findings] == ["zt.digest"]
    assert [*found.missing.values()] == [("l.1.w",)]
