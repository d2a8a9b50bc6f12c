"""Seals: what they hold, computed here by other means, and the damage that they find."""

from __future__ import annotations

import hashlib
import json
import struct

import cbor2
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorark
import tensorark.numpy as ark
from tensorark.errors import InvalidInput, ReadFailed, Rejected
from tensorark.integrity.seal import seal, seal_path
from tensorark.integrity.seal_check import check_seal
from tensorark.integrity.seal_document import read_seal
from tests.unit.formats.ninfer.sets import OBJECTS
from tests.unit.formats.ninfer.sets import model as ninfer

RNG = np.random.default_rng(7)
ARRAYS = {
    "big": RNG.integers(0, 1000, 5000, dtype="i4"),  # 20,000 bytes: five blocks of 4096
    "none": np.zeros(0, "f4"),
    "small": np.arange(3, dtype="i2"),
}
BLOCK = 4096


def codes(found):
    return [each.rule for each in found.findings]


def flip(path, offset, mask=1):
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


def payload_start(path):
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    return 8 + length


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.safetensors"
    ark.save_file(ARRAYS, path, {"origin": "a test"})
    return path


@pytest.fixture
def sealed(model):
    seal(model, block=BLOCK, algorithms=["xxh3", "sha256"])
    return model


def test_a_seal_holds_what_other_means_compute(sealed):
    document = json.loads(seal_path(sealed).read_text("ascii"))
    data = sealed.read_bytes()
    arrays = {name: array.tobytes() for name, array in ARRAYS.items()}
    assert [document[key] for key in ("schema", "format", "block", "algorithms")] == [
        "tensorark.seal/1",
        "safetensors",
        BLOCK,
        ["xxh3", "sha256"],
    ]
    (file,) = document["files"]
    assert file == {
        "name": "m.safetensors",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "rest": xxhash.xxh3_64_hexdigest(data[: payload_start(sealed)]),
    }
    objects = {algorithm: {} for algorithm in ("xxh3", "sha256")}
    assert [each["name"] for each in document["tensors"]] == list(tensorark.open(sealed))
    for each in document["tensors"]:
        (part,) = each["parts"]
        raw = arrays[each["name"]]
        assert each["shape"] == list(ARRAYS[each["name"]].shape)
        assert part["nbytes"] == len(raw)
        assert part["xxh3"] == xxhash.xxh3_64_hexdigest(raw)
        assert part["sha256"] == hashlib.sha256(raw).hexdigest()
        blocks = [raw[at : at + BLOCK] for at in range(0, len(raw), BLOCK)]
        expected = [xxhash.xxh3_64_hexdigest(block) for block in blocks] if len(blocks) > 1 else []
        assert part.get("blocks", []) == expected
        for algorithm, known in objects.items():
            digest = f"{algorithm}:{part[algorithm]}"
            known[each["name"]] = {
                "shape": each["shape"],
                "layout": "dense",
                "parts": {"data": {"dtype": part["dtype"], "digest": digest}},
            }
    value = {each: cbor2.dumps(["zt.content/1", objects[each]], canonical=True) for each in objects}
    assert document["content"] == {
        "xxh3": xxhash.xxh3_64_hexdigest(value["xxh3"]),
        "sha256": hashlib.sha256(value["sha256"]).hexdigest(),
    }


def test_the_same_model_gives_the_same_seal(sealed, tmp_path):
    seal(sealed, tmp_path / "again.json", block=BLOCK, algorithms=["xxh3", "sha256"], threads=3)
    assert (tmp_path / "again.json").read_bytes() == seal_path(sealed).read_bytes()


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("algorithms", [["xxh3"], ["sha256"], ["xxh3", "sha256"]])
def test_what_was_not_changed_is_as_sealed(model, algorithms, deep):
    seal(model, block=BLOCK, algorithms=algorithms)
    found = check_seal(model, deep=deep)
    assert found.ok
    assert (found.parts, found.files) == (3, int(deep))
    size = model.stat().st_size
    assert found.nbytes == size * (2 if deep else 1)


@pytest.mark.parametrize("algorithms", [["xxh3"], ["sha256"]])
def test_damage_is_told_by_tensor_and_by_block(model, algorithms):
    seal(model, block=BLOCK, algorithms=algorithms)
    with tensorark.open(model) as file:
        start = file.catalog.tensors["big"].parts["data"].blob.spans[0].offset
    flip(model, start + 4096)  # the first byte of the second block
    flip(model, start + 19_999)  # the last byte of the last, short one
    found = check_seal(model)
    where = ("objects", "big", "parts", "data")
    assert [(each.rule, each.where, each.offset) for each in found.findings] == [
        ("seal-payload", where, start + 4096),
        ("seal-payload", where, start + 16_384),
    ]
    assert f"m.safetensors bytes {start + 4096} to {start + 8192}" in found.findings[0].detail
    assert f"bytes {start + 16_384} to {start + 20_000}" in found.findings[1].detail


@settings(max_examples=80)
@given(data=st.data())
def test_a_flip_of_any_byte_is_found(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("flip")
    path = folder / "m.safetensors"
    ark.save_file({**ARRAYS, "big": ARRAYS["big"][:1500]}, path)
    seal(path, block=BLOCK)
    size = path.stat().st_size
    header = st.integers(0, payload_start(path) - 1)
    offset = data.draw(st.one_of(header, st.integers(0, size - 1)))
    flip(path, offset, data.draw(st.integers(1, 255)))
    assert not check_seal(path).ok


@pytest.mark.parametrize("compressed", [False, True])
def test_a_flip_in_any_region_of_a_zt_is_found(tmp_path, compressed):
    path = tmp_path / "m.zt"
    with tensorark.Writer(path, encoding="zstd" if compressed else "raw") as writer:
        for name, array in ARRAYS.items():
            writer.add(name, array)
    seal(path, block=BLOCK)
    assert check_seal(path, deep=True).ok
    whole = path.read_bytes()
    with tensorark.open(path) as file:
        (span,) = file.catalog.tensors["big"].parts["data"].blob.spans
        manifest = file.catalog.native.frame.manifest_offset
    regions = [0, 7, 8, 4000, span.offset, span.offset + 9, span.end - 1, span.end]
    for offset in [
        *regions,
        manifest - 1,
        manifest,
        manifest + 50,
        *range(len(whole) - 40, len(whole)),
    ]:
        flip(path, offset, 0x10)
        assert not check_seal(path).ok, offset
        path.write_bytes(whole)
    assert check_seal(path).ok


def test_every_file_of_a_split_model_is_covered(tmp_path):
    root = tmp_path / "m.zt"
    tensorark.split(_zt(tmp_path), root, max_size=9000, align=4096)
    shards = sorted(tmp_path.glob("m-*.zt"))
    assert len(shards) > 1
    made = seal(root, block=BLOCK)
    assert len(made.files) == 1 + len(shards)
    assert check_seal(root, deep=True).files == len(made.files)
    for shard in shards:
        whole = shard.read_bytes()
        for offset in (9, len(whole) // 2, len(whole) - 12):
            flip(shard, offset)
            assert not check_seal(root).ok, (shard.name, offset)
            shard.write_bytes(whole)
        shard.unlink()
        assert codes(check_seal(root)) == ["seal-file"]
        shard.write_bytes(whole)
    assert check_seal(root).ok


def test_damage_is_told_by_each_place_of_a_part_that_lies_in_two_files(tmp_path):
    (begin,) = (each["offset"] for each in OBJECTS if each["id"] == "w.bf16")  # 32 bytes
    root = ninfer(tmp_path, cuts=[begin + 10])
    seal(root)
    second = tmp_path / "model.ninfer.part-0001"
    size, start = root.stat().st_size, second.stat().st_size
    with tensorark.open(root) as file:
        first, rest = file.catalog.tensors["w.bf16"].parts["data"].blob.spans
    assert (first.length, first.end, rest.length, rest.end <= start) == (10, size, 22, True)
    flip(second, rest.offset)
    (found,) = check_seal(root).findings
    assert (found.rule, found.where[1], found.offset) == ("seal-payload", "w.bf16", size - 10)
    for span, name in ((first, "model.ninfer"), (rest, second.name)):
        assert f"{name} bytes {span.offset} to {span.end}" in found.detail


def _zt(folder):
    path = folder / "whole.zt"
    ark.save_file(
        {"a": ARRAYS["big"][:2000], "b": ARRAYS["big"][:2001], "c": ARRAYS["small"]}, path
    )
    return path


def test_structure_that_changed_is_named(model, tmp_path):
    seal(model, block=BLOCK)
    other = tmp_path / "other" / "m.safetensors"
    other.parent.mkdir()
    changed = {
        "big": ARRAYS["big"].reshape(50, 100),
        "small": ARRAYS["small"],
        "new": ARRAYS["none"],
    }
    ark.save_file(changed, other)
    found = check_seal(other, seal_path(model))
    details = {each.where: each.detail for each in found.findings if each.rule == "seal-tensor"}
    assert details == {
        ("objects", "big"): "differs from the seal in shape",
        ("objects", "new"): "the tensor is not sealed",
        ("objects", "none"): "the tensor is missing",
    }
    zt = _zt(tmp_path)
    (only,) = (each for each in check_seal(zt, seal_path(model)).findings if each.where == ())
    assert only.detail == "the seal is of a model in format safetensors, this is zt"


@pytest.mark.parametrize("place", ["content", "part"])
def test_a_seal_that_contradicts_itself_is_told(model, place):
    """Blocks prove a large part, so that the digest of the whole is not computed again."""
    seal(model, block=BLOCK)
    document = json.loads(seal_path(model).read_text("ascii"))
    (big,) = (each for each in document["tensors"] if each["name"] == "big")
    held = document["content"] if place == "content" else big["parts"][0]
    held["xxh3"] = held["xxh3"][::-1]
    seal_path(model).write_text(json.dumps(document), "ascii")
    found = check_seal(model)
    assert [(each.rule, each.where) for each in found.findings] == [
        ("seal-content", ("content", "xxh3"))
    ]


def test_attributes_of_a_tensor_are_sealed(tmp_path):
    for value in (1, 2):
        with tensorark.Writer(tmp_path / f"{value}.zt") as writer:
            writer.add("a", ARRAYS["small"], attributes={"scale": value})
    seal(tmp_path / "1.zt")
    found = check_seal(tmp_path / "2.zt", seal_path(tmp_path / "1.zt"))
    (only,) = (each for each in found.findings if each.rule == "seal-tensor")
    assert (only.where, only.detail) == (("objects", "a"), "differs from the seal in attributes")


def test_a_file_that_was_cut_or_overwritten_is_a_finding(sealed):
    data = sealed.read_bytes()
    for damaged in (data[:-1], data + b"\0", b"\0" * 100, b""):
        sealed.write_bytes(damaged)
        found = check_seal(sealed)
        assert codes(found) == ["seal-file"]
        assert (
            f"{len(damaged)} bytes and {len(data)} when it was sealed" in found.findings[0].detail
        )


def test_a_missing_model_or_seal_is_an_error(model, tmp_path):
    with pytest.raises(ReadFailed) as error:
        check_seal(model)
    assert error.value.code == "missing-file"
    seal(model)
    model.unlink()
    with pytest.raises(ReadFailed):
        check_seal(model)


def test_a_seal_is_not_replaced_unless_asked(sealed):
    before = seal_path(sealed).read_bytes()
    with pytest.raises(InvalidInput) as error:
        seal(sealed)
    assert error.value.code == "exists"
    assert seal_path(sealed).read_bytes() == before
    seal(sealed, overwrite=True)
    assert seal_path(sealed).read_bytes() != before


@pytest.mark.parametrize(
    "options",
    [
        {"algorithms": []},
        {"algorithms": ["md5"]},
        {"block": 0},
        {"block": (1 << 12) - 1},
        {"block": (1 << 30) + 1},
    ],
)
def test_options_that_make_no_seal_are_refused(model, options):
    with pytest.raises(InvalidInput) as error:
        seal(model, **options)
    assert error.value.code == "option"


@pytest.mark.parametrize(("block", "fits"), [(1 << 30, True), ((1 << 30) + 1, False)])
def test_a_block_has_at_most_a_gib(model, block, fits):
    seal(model, block=1 << 30)
    document = json.loads(seal_path(model).read_text())
    seal_path(model).write_text(json.dumps(document | {"block": block}))
    if fits:
        assert check_seal(model).ok
        return
    with pytest.raises(Rejected) as caught:
        read_seal(seal_path(model))
    assert caught.value.where == ("block",)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("schema"),
        lambda d: d.update(schema="tensorark.seal/2"),
        lambda d: d.update(block=0),
        lambda d: d.update(block=True),
        lambda d: d.update(block=1 << 50),
        lambda d: d.update(more=1),
        lambda d: d.update(algorithms=[]),
        lambda d: d.update(algorithms=["xxh3", "xxh3"]),
        lambda d: d.update(algorithms=["md5"]),
        lambda d: d["content"].update(md5="0"),
        lambda d: d["content"].update(xxh3="0" * 15),
        lambda d: d.update(files=[]),
        lambda d: d.update(files={}),
        lambda d: d["files"][0].update(size=-1),
        lambda d: d["files"][0].update(size=1.0),
        lambda d: d["files"][0].update(sha256="G" * 64),
        lambda d: d["tensors"].append(d["tensors"][0]),
        lambda d: d["tensors"][0].update(shape=[-1]),
        lambda d: d["tensors"][0].update(parts=5),
        lambda d: d["tensors"][0]["parts"].append(d["tensors"][0]["parts"][0]),
        lambda d: d["tensors"][0]["parts"][0].update(nbytes=1 << 62),
        lambda d: d["tensors"][0]["parts"][0].update(blocks=["0" * 16]),
        lambda d: d["tensors"][0]["parts"][0].pop("xxh3"),
    ],
)
def test_what_is_no_seal_is_refused(sealed, change):
    path = seal_path(sealed)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(Rejected) as error:
        read_seal(path)
    assert error.value.code == "document"


@pytest.mark.parametrize("names", [[], ["xxh3", "xxh3"], ["sha256", "xxh3", "sha256"]])
def test_a_seal_without_digests_proves_nothing(sealed, names):
    """Told of the algorithms, even where all that is said with them agrees."""
    path = seal_path(sealed)
    document = json.loads(path.read_text())
    holders = [document["content"], *(each["parts"][0] for each in document["tensors"])]
    for unnamed in {"xxh3", "sha256"} - {*names}:
        for each in holders:
            del each[unnamed]
    path.write_text(json.dumps(document | {"algorithms": names}))
    with pytest.raises(Rejected) as caught:
        read_seal(path)
    assert (caught.value.code, caught.value.where) == ("document", ("algorithms",))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"schema":"a","schema":"b"}', b"\xff"])
def test_what_is_no_strict_json_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(Rejected) as error:
        read_seal(path)
    assert error.value.code == "document"


def test_names_in_a_seal_are_no_paths(sealed, tmp_path):
    """What a seal calls a file changes nothing about which file is read."""
    path = seal_path(sealed)
    document = json.loads(path.read_text())
    document["files"][0]["name"] = "../../../etc/passwd"
    path.write_text(json.dumps(document))
    assert check_seal(sealed).ok
    document["files"].append({**document["files"][0], "name": "/etc/passwd"})
    path.write_text(json.dumps(document))
    assert codes(check_seal(sealed)) == ["seal-file"]


@pytest.mark.parametrize(
    ("nbytes", "blocks"), [(0, 0), (1, 0), (4095, 0), (4096, 0), (4097, 2), (8192, 2), (8193, 3)]
)
def test_a_part_above_one_block_has_a_digest_for_each(tmp_path, nbytes, blocks):
    path = tmp_path / "m.safetensors"
    ark.save_file({"a": np.zeros(nbytes, "u1")}, path)
    seal(path, block=BLOCK)
    document = json.loads(seal_path(path).read_text())
    (part,) = document["tensors"][0]["parts"]
    assert len(part.get("blocks", [])) == blocks
    assert check_seal(path).ok
    for count in {blocks - 1, blocks + 1} - {-1}:
        part["blocks"] = ["0" * 16] * count
        seal_path(path).write_text(json.dumps(document))
        with pytest.raises(Rejected) as caught:
            read_seal(seal_path(path))
        assert caught.value.where[-1] == "blocks"


@pytest.mark.parametrize("change", ["more", "fewer", "others", "order"])
def test_a_seal_of_other_files_is_told_as_such(tmp_path, change):
    for shard in "ab":
        ark.save_file({shard: np.ones(3, "f4")}, tmp_path / f"{shard}.safetensors")
    path = tmp_path / "m.safetensors.index.json"
    weights = {each: f"{each}.safetensors" for each in "ab"}
    path.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": weights}))
    seal(path)
    assert check_seal(path).ok
    document = json.loads(seal_path(path).read_text())
    first, a, b = document["files"]
    document["files"] = {
        "more": [first, a, b, {**b, "name": "c.safetensors"}],
        "fewer": [first, a],
        "others": [first, a, {**b, "name": "c.safetensors"}],
        "order": [first, b, a],
    }[change]
    seal_path(path).write_text(json.dumps(document))
    (found,) = check_seal(path).findings
    assert (found.rule, found.where, found.found) == (
        "seal-file",
        ("files",),
        "a.safetensors, b.safetensors",
    )
    assert found.expected == ", ".join(each["name"] for each in document["files"][1:])


def test_other_values_of_a_compressed_part_have_no_place_in_the_file(tmp_path):
    for name, value in (("a.zt", 0), ("b.zt", 1)):
        values = np.arange(3000, dtype="u1").repeat(3)
        values[5000] += value
        with tensorark.Writer(tmp_path / name, encoding="zstd") as writer:
            writer.add("w", values)
    seal(tmp_path / "a.zt", block=BLOCK)
    path = tmp_path / "b.zt"
    found = [each for each in check_seal(path, seal_path(tmp_path / "a.zt")).findings if each.where]
    (payload,) = (each for each in found if each.rule == "seal-payload")
    assert payload.where == ("objects", "w", "parts", "data")
    assert (payload.offset, payload.detail) == (
        None,
        "bytes 4096 to 8192 of 9000 of the part differ",
    )


@pytest.mark.parametrize("code", ["forbidden", "not-a-file", "missing-shard"])
def test_what_cannot_be_read_is_an_error_and_what_is_broken_a_finding(sealed, monkeypatch, code):
    def refuse(_path):
        raise ReadFailed("no", code=code)

    monkeypatch.setattr("tensorark.integrity.seal_check.files.open", refuse)
    if code == "forbidden":
        with pytest.raises(ReadFailed):
            check_seal(sealed)
        return
    (found,) = check_seal(sealed).findings
    assert (found.rule, found.where) == ("seal-file", ("files", "m.safetensors"))
