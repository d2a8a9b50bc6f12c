"""Canonical form (§6.3) where it takes bytes to tell: padding, sharing, digests, empty maps."""

from __future__ import annotations

import itertools

import pytest
import xxhash
import zstandard

import tensorark
from tensorark.core.model import Encoded, Part, Raw, Shard, Span, Tensor
from tensorark.formats.zt.encode import encode_manifest, encode_tail
from tensorark.formats.zt.frame import MAGIC, encode_footer

SLOT = 1 << 16


def xxh3(data):
    return f"xxh3:{xxhash.xxh3_64_hexdigest(data)}"


def part(data, offset, label=None, digest=None):
    return Part(Raw((Span(offset, len(data), label),)), "u8", None, digest or xxh3(data))


def tensor(name, held, attributes=None):
    return Tensor(name, (held.nbytes,), "dense", {"data": held}, attributes)


def write(path, tensors, blobs, at, attributes=None, shards=None):
    """Lay blobs at their offsets and the manifest at `at`."""
    data = bytearray(MAGIC.ljust(at, b"\0"))
    for offset, blob in blobs.items():
        data[offset : offset + len(blob)] = blob
    path.write_bytes(bytes(data) + encode_tail(encode_manifest(tensors, attributes, shards), at))
    return path


def rules(path):
    return {each.rule.removeprefix("zt.canonical-") for each in judged(path)}


def judged(path):
    return tensorark.validate(path, canonical=True)


def test_an_unused_slot_is_no_padding_whatever_lies_in_it(tmp_path):
    one, two = b"one", b"two"
    tensors = [tensor("a", part(one, SLOT)), tensor("b", part(two, 3 * SLOT))]
    blobs = {SLOT: one, 2 * SLOT: b"nobody's", 3 * SLOT: two}
    assert rules(write(tmp_path / "m.zt", tensors, blobs, 4 * SLOT)) == {"blobs"}
    blobs[2 * SLOT - 1] = b"\1"
    assert rules(write(tmp_path / "m.zt", tensors, blobs, 4 * SLOT)) == {"blobs", "padding"}


@pytest.mark.parametrize("order", list(itertools.permutations("ab")))
@pytest.mark.parametrize("place", [4096, SLOT])
def test_parts_in_other_files_are_not_compared_by_offsets_of_this_one(tmp_path, order, place):
    data = bytes(8)  # as padding, and as whatever lies there in this file
    here, there = order
    shard = MAGIC.ljust(place, b"\0") + data.ljust(4096, b"\0") + b"more" + encode_footer(0, 0, 0)
    (tmp_path / "m-s.zt").write_bytes(shard)
    tensors = [tensor(here, part(data, SLOT)), tensor(there, part(data, place, "s"))]
    tensors.append(tensor("c", part(b"more", place + 4096, "s")))
    table = {"s": Shard(len(shard), xxh3(shard))}
    path = write(tmp_path / "m.zt", tensors, {SLOT: data}, 2 * SLOT, shards=table)
    assert rules(path) == {"shards"}


def test_equal_parts_of_one_file_share_a_blob(tmp_path):
    data = b"the same"
    tensors = [tensor("a", part(data, SLOT)), tensor("b", part(data, 2 * SLOT))]
    path = write(tmp_path / "m.zt", tensors, {SLOT: data, 2 * SLOT: data}, 3 * SLOT)
    assert rules(path) == {"sharing"}


def test_parts_without_digests_are_not_compared(tmp_path):
    tensors = [
        tensor(name, Part(Raw((Span(place, 4),)), "u8"))
        for name, place in (("a", SLOT), ("b", 2 * SLOT))
    ]
    path = write(tmp_path / "m.zt", tensors, {SLOT: b"same", 2 * SLOT: b"same"}, 3 * SLOT)
    assert rules(path) == {"digest"}


@pytest.mark.parametrize("encoded", ["a", "b", "ab"])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_what_is_stored_of_encoded_parts_is_not_compared(tmp_path, encoded, order):
    """Its few bytes are followed by fewer than it decodes to."""
    data = bytes(1 << 20)
    frame = zstandard.compress(data)
    stored = {name: frame if name in encoded else data for name in order}
    places = dict(zip(order, (SLOT, 17 * SLOT), strict=True))
    tensors = []
    for name in "ab":
        spans = (Span(places[name], len(stored[name])),)
        blob = Encoded(spans, "zstd", len(data)) if name in encoded else Raw(spans)
        tensors.append(tensor(name, Part(blob, "u8", None, xxh3(data))))
    blobs = {places[name]: stored[name] for name in order}
    at = 18 * SLOT if order[1] in encoded else 33 * SLOT
    found = judged(write(tmp_path / "m.zt", tensors, blobs, at))
    assert [each.where[1] for each in found if each.rule == "zt.canonical-raw"] == [*encoded]
    assert {each.rule for each in found} <= {
        "zt.canonical-raw",
        "zt.canonical-order",
        "zt.canonical-blobs",
    }


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_digests_are_computed_and_not_believed(tmp_path, size):
    data = bytes(each % 251 for each in range(size))
    at = (-(-size // SLOT) + 1) * SLOT
    for digest, wanted in ((xxh3(data), set()), (xxh3(data + b"x"), {"digest"})):
        tensors = [tensor("a", part(data, SLOT)), tensor("b", part(data, SLOT, None, digest))]
        path = write(tmp_path / "m.zt", tensors, {SLOT: data}, at)
        assert rules(path) == wanted
        for fault in judged(path):
            assert fault.where == ("objects", "b", "parts", "data", "digest")
            assert (fault.expected, fault.found) == (xxh3(data), digest)


@pytest.mark.parametrize("mine", [None, {}, {"a": {}}])
@pytest.mark.parametrize("its", [None, {}, {"a": {}}])
def test_a_map_of_attributes_without_any_is_left_out(tmp_path, mine, its):
    data = b"data"
    path = tmp_path / "m.zt"
    write(path, [tensor("a", part(data, SLOT), its)], {SLOT: data}, 2 * SLOT, mine)
    assert rules(path) == ({"manifest"} if {} in (mine, its) else set())
    with tensorark.open(path) as file:  # read as it is
        assert file.catalog.attributes == mine
        assert file.catalog.tensors["a"].attributes == its
    tensorark.convert(path, tmp_path / "again.zt")
    assert rules(tmp_path / "again.zt") == set()
    with tensorark.open(tmp_path / "again.zt") as file:
        assert file.catalog.attributes == (mine or None)
        assert file.catalog.tensors["a"].attributes == (its or None)


@pytest.mark.parametrize("attributes", [None, {}, {"a": 1}])
def test_our_writer_makes_the_files_of_the_public_one(tmp_path, attributes):
    ztensor = pytest.importorskip("ztensor")
    data = b"12345678"
    writer = ztensor.Writer(str(tmp_path / "public.zt"))
    held = {"data": {"dtype": "u8", "data": data}}
    writer.add_object("a", [8], held, "dense", attributes)
    writer.finish()
    with tensorark.Writer(tmp_path / "ours.zt", attributes=None if attributes else {}) as ours:
        ours.add_parts("a", (8,), "dense", {"data": (("u8", None), [data])}, attributes=attributes)
    assert (tmp_path / "ours.zt").read_bytes() == (tmp_path / "public.zt").read_bytes()


def test_metadata_without_entries_is_none_as_the_public_converter_has_it(tmp_path):
    ztensor = pytest.importorskip("ztensor")
    header = b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"__metadata__":{}}'
    source = tmp_path / "m.safetensors"
    source.write_bytes(len(header).to_bytes(8, "little") + header + b"12345678")
    ztensor.convert(str(source), str(tmp_path / "public.zt"))
    tensorark.convert(source, tmp_path / "ours.zt")
    assert (tmp_path / "ours.zt").read_bytes() == (tmp_path / "public.zt").read_bytes()


@pytest.mark.parametrize("place", [4096, SLOT])
def test_an_empty_part_of_another_file_has_no_place_in_this_one(tmp_path, place):
    """Nor does it stand in for the first empty part of this file, which is judged."""
    shard = MAGIC.ljust(place, b"\0") + b"more" + encode_footer(0, 0, 0)
    (tmp_path / "m-s.zt").write_bytes(shard)
    data = b"data"
    tensors = [
        tensor("a", part(b"", place, "s")),
        tensor("b", part(data, SLOT)),
        tensor("c", part(b"", 3 * SLOT)),  # the next free place is 2 * SLOT
        tensor("d", part(b"more", place, "s")),
    ]
    table = {"s": Shard(len(shard), xxh3(shard))}
    path = write(tmp_path / "m.zt", tensors, {SLOT: data}, 3 * SLOT, shards=table)
    places = [each.where for each in judged(path) if each.rule == "zt.canonical-placement"]
    assert ("objects", "c", "parts", "data", "blob", 0) in places
    assert not [where for where in places if where[1:2] == ("a",)]
