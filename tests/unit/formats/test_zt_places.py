"""Where a fault of a `.zt` is said to lie: a field of the footer (§2.3), the part at fault."""

from __future__ import annotations

import struct

import pytest

import tensorark
from conformance.zt.build import image as build

MAGIC = bytes.fromhex("895a54320d0a1a0a")
OTHER = bytes.fromhex("895a54330d0a1a0a")
SIZE = 4096 + 100 + 40


def footer(offset=4096, length=100, version=2, magic=MAGIC):
    return struct.pack("<QQQII", offset, length, 0, version, 0) + magic


@pytest.mark.parametrize(
    ("head", "tail", "rule", "offset", "found"),
    [
        (OTHER, footer(), "header-magic", 0, "89 5a 54 33 0d 0a 1a 0a"),
        (MAGIC, footer(magic=OTHER), "footer-magic", SIZE - 8, "89 5a 54 33 0d 0a 1a 0a"),
        (MAGIC, footer(version=3), "version", SIZE - 16, 3),
        (MAGIC, footer(length=(1 << 30) + 1), "manifest-size", SIZE - 32, (1 << 30) + 1),
        (MAGIC, footer(offset=4095), "manifest-align", SIZE - 40, 4095),
        (MAGIC, footer(length=101), "manifest-bounds", SIZE - 40, 4197),
        (MAGIC, footer(length=0), "data-shard", SIZE - 40, "offset 4096, hash 0x0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_of_the_frame_lies_in_its_field(tmp_path, head, tail, rule, offset, found):
    path = tmp_path / "m.zt"
    path.write_bytes(head.ljust(SIZE - 40, b"\0") + tail)
    (fault,) = tensorark.validate(path)
    assert (fault.rule, fault.offset, fault.found) == (f"zt.{rule}", offset, found)


@pytest.mark.parametrize(
    ("root", "place"), [({}, 0), ({"objects": 5}, 9), (7, 0)], ids=["empty", "number", "no map"]
)
def test_what_a_manifest_lacks_is_missing_where_it_begins(tmp_path, root, place):
    """A number in the place of the objects stands behind the head of a map and eight bytes."""
    path = tmp_path / "m.zt"
    path.write_bytes(build.image(root, {4096: bytes(8)}))
    assert {fault.offset for fault in tensorark.validate(path)} == {8192 + place}


def test_the_part_that_begins_inside_of_another_is_named(tmp_path):
    """The first of those that refer to the blob: it is at fault, not the one that it cuts."""
    blobs = {"c": [8192, 8], "b": [8192, 8], "a": [4096, 5000]}
    objects = {
        name: {
            "shape": [blob[1]],
            "layout": "dense",
            "parts": {"data": {"dtype": "u8", "blob": blob}},
        }
        for name, blob in blobs.items()
    }
    path = tmp_path / "m.zt"
    path.write_bytes(build.image({"objects": objects}, {4096: bytes(5000)}))
    (fault,) = tensorark.validate(path)
    assert (fault.rule, fault.where) == (
        "zt.blob-overlap",
        ("objects", "b", "parts", "data", "blob"),
    )
    assert (fault.expected, fault.found) == ("an offset of at least 9096", 8192)


@pytest.mark.parametrize(
    ("name", "rule"), [("", "name-empty"), ("a\0b", "name-nul"), ("x" * 1025, "name-length")]
)
def test_names_beside_one_that_is_no_text_are_judged_too(tmp_path, name, rule):
    path = tmp_path / "m.zt"
    path.write_bytes(build.image({"objects": {}, "attributes": {5: 0, name: 0}}, {}))
    found = {each.rule for each in tensorark.validate(path)}
    assert found >= {"zt.name-text", f"zt.{rule}"}
