"""What the doctor says of files that are broken, joined, cut up, or merely have a history."""

from __future__ import annotations

import json

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

import tensorark
import tensorark.numpy as ark
from conformance.zt.build.cbor import encode
from conformance.zt.build.image import MAGIC, Footer, data_shard, footer_for, image
from tensorark.edit.append import append
from tensorark.report import zt_history
from tensorark.report.diagnosis import diagnose
from tests.test_public_vectors import MADE
from tests.unit.formats.ninfer.sets import model


@pytest.fixture
def grown(tmp_path):
    """A file of three generations, and their lengths."""
    path = tmp_path / "m.zt"
    with tensorark.Writer(path, align=4096) as writer:
        writer.add("a", np.arange(9))
        writer.add("b", np.arange(5))
    lengths = [path.stat().st_size]
    append(path, {"b": np.zeros(3)}, replace=True)
    lengths.append(path.stat().st_size)
    append(path, {"c": np.arange(5)})  # the bytes that `b` had
    lengths.append(path.stat().st_size)
    return path, lengths


def said(path):
    return " ".join(diagnose(path).words)


def test_the_generations_of_a_file_are_told(grown):
    path, lengths = grown
    found = diagnose(path)
    assert found.is_healthy
    assert [
        (each.number, each.length, each.tensors, each.added, each.superseded, each.removed)
        for each in found.generations
    ] == [
        (1, lengths[0], 2, ("a", "b"), (), ()),
        (2, lengths[1], 2, (), ("b",), ()),
        (3, lengths[2], 3, ("c",), (), ()),
    ]
    assert str(lengths[1]) in said(path)


@pytest.mark.parametrize("left", [1, 7, 40, 41, 2000])
def test_a_file_that_was_cut_has_the_generations_that_are_left(grown, left):
    path, lengths = grown
    data = path.read_bytes()[:-left]
    path.write_bytes(data)
    found = diagnose(path)
    assert [each.rule for each in found.findings] == ["zt.footer-magic"]
    assert [each.length for each in found.generations] == lengths[:2]
    assert f"truncate -s {lengths[1]}" in said(path)
    assert path.read_bytes() == data


def test_a_footer_whose_manifest_is_damaged_is_not_a_good_one(grown):
    path, lengths = grown
    data = bytearray(path.read_bytes())
    data[lengths[1] - 41] ^= 1  # in the manifest of the second generation
    data[-41] ^= 1  # and of the third
    path.write_bytes(data)
    assert diagnose(path).last_good.length == lengths[0]


def test_footers_inside_payload_do_not_mislead(tmp_path):
    """A tensor may hold the bytes of a whole `.zt`, of a data shard, or nothing but footers."""
    inner = image(encode({"objects": {}}), {})
    footers = footer_for(encode({"objects": {}}), 4096).pack() * 100
    path = tmp_path / "m.zt"
    with tensorark.Writer(path) as writer:
        for name, data in (("a", inner), ("b", data_shard()), ("c", footers), ("d", MAGIC * 99)):
            writer.add(name, np.frombuffer(data, "u1"))
    size = path.stat().st_size
    assert [each.length for each in diagnose(path).generations] == [size]
    path.write_bytes(path.read_bytes() + inner[:-8])
    assert diagnose(path).last_good.length == size
    path.write_bytes(path.read_bytes()[: size - 1])
    found = diagnose(path)
    assert found.last_good is None
    assert "No valid footer is left" in said(path)


def test_a_search_ends_in_a_file_that_consists_of_footers(tmp_path, monkeypatch):
    monkeypatch.setattr("tensorark.report.zt_history._MOST_CANDIDATES", 50)
    path = tmp_path / "m.zt"
    footer = footer_for(encode({"objects": {}}), 4096).pack()
    path.write_bytes(MAGIC + footer * 2000 + b"end")
    assert diagnose(path).last_good is None


@pytest.mark.parametrize("first", ["model", "data shard"])
def test_joined_files_are_recognized(tmp_path, first):
    ark.save_file({"a": np.arange(3)}, tmp_path / "a.zt")
    ark.save_file({"b": np.arange(7000), "c": np.arange(7)}, tmp_path / "b.zt")
    head = (tmp_path / "a.zt").read_bytes() if first == "model" else data_shard({4096: b"x"})
    joined = tmp_path / "j.zt"
    joined.write_bytes(head + (tmp_path / "b.zt").read_bytes())
    found = diagnose(joined)
    assert not found.is_healthy
    assert f"first {len(head)} bytes" in said(joined)
    assert "files were joined" in said(joined)
    assert "truncate" not in said(joined)


def test_a_file_joined_to_itself_is_valid_and_strange(grown):
    path, lengths = grown
    path.write_bytes(path.read_bytes() * 2)
    found = diagnose(path)
    assert found.is_healthy
    assert [each.length for each in found.generations] == [*lengths[:2], 2 * lengths[2]]
    assert f"{lengths[2]} bytes between its manifest and its footer" in said(path)


def test_damage_on_the_way_is_named(grown, tmp_path):
    path, _ = grown
    data = path.read_bytes()
    broken = tmp_path / "broken.zt"
    for made, words in (
        (data.replace(b"\r\n", b"\n"), "copied as text"),
        (bytes(byte & 0x7F for byte in data), "highest bit"),
        (b"\0" * 8 + data[8:], "beginning is missing"),
        (data[:-1000] + bytes(1000), "bytes are zeros: room was made"),
        (bytes(500), "zeros"),
        (b"", "empty"),
        (data[:20], "too small"),
        (b"<!DOCTYPE html><html>", "HTML page"),
    ):
        broken.write_bytes(made)
        assert words in said(broken)
        assert not diagnose(broken).is_healthy


@pytest.mark.parametrize(
    "name", ["m.zt.part1of2", "m.zt.001", "m.zt.partab", "m.safetensors.part2of3"]
)
def test_pieces_of_a_file_that_was_cut_up_are_recognized_by_name(grown, tmp_path, name):
    path, _ = grown
    (tmp_path / name).write_bytes(path.read_bytes()[:9000])
    assert "join the pieces" in said(tmp_path / name)


def test_missing_shards_are_told_with_what_they_hold(tmp_path):
    from tensorark.edit.split import split

    ark.save_file({"a": np.arange(9), "b": np.arange(7)}, tmp_path / "in.zt")
    plan = split(tmp_path / "in.zt", tmp_path / "m.zt", max_size=4300, align=4096)
    (tmp_path / plan.shards[1].path).unlink()
    found = diagnose(tmp_path / "m.zt")
    assert not found.is_healthy
    assert found.missing == {"00002-of-00002": ("b",)}
    assert '00002-of-00002" is missing' in said(tmp_path / "m.zt")
    assert "data shard" in said(plan.shards[0].path)


def test_other_formats_are_explained_too(tmp_path):
    path = tmp_path / "m.safetensors"
    ark.save_file({"a": np.arange(9)}, path)
    assert diagnose(path).is_healthy
    assert diagnose(path).format == "safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    found = diagnose(path)
    assert found.findings
    assert not found.generations
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    assert "Git-LFS pointer" in said(path)
    with pytest.raises(tensorark.ReadFailed):
        diagnose(tmp_path / "gone.zt")


@pytest.mark.skipif(not (MADE / "append-gen3.zt").exists(), reason="published files are not here")
def test_the_generations_of_a_public_file_are_those_of_its_index(tmp_path):
    entry = json.loads((MADE / "index.json").read_bytes())["files"]["append-gen3.zt"]
    data = (MADE / "append-gen3.zt").read_bytes()
    path = tmp_path / "m.zt"
    path.write_bytes(data)
    lengths = entry["generations"]
    assert [each.length for each in diagnose(path).generations] == lengths
    for number, length in enumerate(lengths):
        path.write_bytes(data[: length - 1])
        assert [each.length for each in diagnose(path).generations] == lengths[:number]


def test_more_footers_than_anybody_wrote_cost_no_more_than_one(tmp_path, monkeypatch):
    """Footers on one manifest, or on manifests that overlap: each would be read and judged."""
    body = encode({"attributes": {"a": [1]}})
    footer = footer_for(body, 4096).pack()
    (tmp_path / "m.zt").write_bytes(MAGIC.ljust(4096, b"\0") + body + footer * 500 + b"tail")
    judged = []
    was = zt_history.read
    monkeypatch.setattr(zt_history, "read", lambda *words: judged.append(1) or was(*words))
    assert not diagnose(tmp_path / "m.zt").is_healthy
    assert len(judged) == 1
    monkeypatch.setattr(zt_history, "_FREE_HASHED", 0)
    overlapping = [encode({"attributes": {"a": n, "b": "x" * 4000}}) for n in range(500)]
    image = MAGIC.ljust(4096, b"\0") + b"".join(each.ljust(4096, b"\0") for each in overlapping)
    ends = b"".join(
        Footer(offset=4096, length=len(image) - 4096 - n, hash=0).pack() for n in range(500)
    )
    (tmp_path / "m.zt").write_bytes(image + ends + b"tail")
    judged.clear()
    diagnose(tmp_path / "m.zt")
    assert len(judged) <= 2


def test_a_footer_of_another_version_is_told(tmp_path):
    body = encode({"objects": {}})
    footer = Footer(offset=4096, length=len(body), hash=xxh3_64_intdigest(body), version=3)
    (tmp_path / "m.zt").write_bytes(MAGIC.ljust(4096, b"\0") + body + footer.pack())
    assert "version 3" in said(tmp_path / "m.zt")


@pytest.mark.parametrize("damage", ["missing", "foreign", "short"])
def test_an_incomplete_artifact_is_not_healthy(tmp_path, damage):
    path = model(tmp_path, cuts=(512,))
    part = tmp_path / "model.ninfer.part-0001"
    data = bytearray(part.read_bytes())
    data[16] ^= damage == "foreign"
    part.write_bytes(data[:-1] if damage == "short" else data)
    if damage == "missing":
        part.unlink()
    found = diagnose(path)
    assert not found.is_healthy
    assert set(found.missing) == {part.name}
    assert "is missing, or another file has its name" in said(path)


def test_a_folder_is_the_model_in_it(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    ark.save_file({"a": np.zeros(3, np.float32)}, folder / "m.safetensors")
    assert diagnose(folder).is_healthy
    shards = {"a": "m-00001-of-00002.safetensors", "b": "m-00002-of-00002.safetensors"}
    (folder / "m.safetensors").unlink()
    index = folder / "m.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    found = diagnose(folder)
    assert (found.is_healthy, found.error.exit_code) == (False, 5)
    index.write_text(json.dumps({"weight_map": shards})[:-9])
    assert [each.rule for each in diagnose(folder).findings] == ["safetensors.json-syntax"]


def test_what_needs_more_than_a_limit_is_told_and_not_raised(tmp_path):
    path = tmp_path / "m.safetensors"
    text = b'{"a":' + b"[" + b"[]," * 200_000 + b"0]}"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    assert isinstance(diagnose(path).error, tensorark.LimitExceeded)
