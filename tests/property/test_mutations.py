"""Any change to a valid file is accepted or refused by one of our errors, and by nothing else."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import tensorark
from tensorark.core.conversation import drive
from tensorark.core.model import Part, Raw, Shard, Span, Tensor
from tensorark.core.rules import Reading
from tensorark.formats.zt import plain
from tensorark.formats.zt.encode import encode_manifest, encode_tail
from tensorark.formats.zt.frame import FOOTER, FOOTER_SIZE, MAGIC
from tensorark.formats.zt.read import read
from tests.unit.sources import Memory

READING = sys.modules["tensorark.formats.zt.read"]  # the module; the package names its function


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A small file with a bit of everything."""
    path = tmp_path_factory.mktemp("mutated") / "m.zt"
    with tensorark.Writer(path, align=4096, attributes={"a": [1, 2.5, None, {"b": b"x"}]}) as w:
        w.add("floats", np.arange(6, dtype="f4").reshape(2, 3), attributes={"k": True})
        w.add("flags", np.array([True, False]))
        w.add("scalar", np.float16(1.5))
        w.add_parts("sparse", (2, 3), "zt.sparse_csr/1", csr_parts())
        w.add_parts("odd", (4,), "x.custom/1", {"p": (("u8", None), [b"\x01\x02"])})
    return Image(path.read_bytes())


@pytest.fixture(scope="module")
def rooted():
    """A root whose tensors lie in shards, with names of all sizes of a head."""
    labels = ["s", "s1", "e" * 23, "f" * 24, "-" * 64]
    tensors = [
        Tensor(f"t{n}", (8,), "dense", {"data": Part(Raw((Span(4096, 8, label),)), "u8")})
        for n, label in enumerate(labels)
    ]
    digest = "xxh3:0123456789abcdef"
    tensors += [replace(t, name=f"d{t.name}", parts=digested(t, digest)) for t in tensors]
    table = {label: Shard(8192, digest) for label in labels}
    manifest = encode_manifest(tensors, None, table)
    return Image(MAGIC.ljust(4096, b"\0") + encode_tail(manifest, 4096))


def digested(tensor, digest):
    return {role: replace(part, digest=digest) for role, part in tensor.parts.items()}


class Image:
    """Bytes that are not shown when a test fails."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def csr_parts():
    def words(*values):
        return (("u32", None), [np.array(values, "<u4").tobytes()])

    values = (("f32", None), [np.arange(3, dtype="<f4").tobytes()])
    return {"indptr": words(0, 2, 3), "indices": words(0, 2, 1), "values": values}


def rehash(data: bytearray) -> bytes:
    """Give the footer the hash of the manifest, so that mutations get past it."""
    offset, length, _, version, reserved, magic = FOOTER.unpack(data[-FOOTER_SIZE:])
    if offset + length <= len(data):
        digest = xxhash.xxh3_64_intdigest(bytes(data[offset : offset + length]))
        data[-FOOTER_SIZE:] = FOOTER.pack(offset, length, digest, version, reserved, magic)
    return bytes(data)


edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4
)


@given(edits=edits, in_manifest=st.booleans(), cut=st.integers(0, 60))
def test_a_mutated_file_is_accepted_or_refused_by_our_errors(
    image, tmp_path_factory, edits, in_manifest, cut
):
    data = bytearray(image.data)
    offset, length, *_ = FOOTER.unpack(data[-FOOTER_SIZE:])
    first, count = (offset, length) if in_manifest else (0, len(data))
    for place, value in edits:
        data[first + int(place * count)] = value
    mutated = rehash(data)[: len(data) - (cut if cut > 50 else 0)]
    path = tmp_path_factory.getbasetemp() / "mutated.zt"
    path.write_bytes(mutated)
    try:
        with tensorark.open(path) as file:
            for name in file:
                with suppress(tensorark.Error):
                    file[name].numpy()
            tensorark.verify(file)
        refused = None
    except tensorark.Error as error:
        refused = error.code
    assert [finding.rule for finding in tensorark.validate(path)][:1] == (
        [] if refused is None else [refused]
    )


def opened(data: bytes):
    """The catalog, or the rule and place of the error."""
    source = Memory(data)
    try:
        catalog = drive(read(source.size, Reading()), source)
    except tensorark.Error as error:
        return error.code, error.where, error.offset, str(error)
    return dict(catalog.tensors), catalog.attributes


@given(edits=edits)
def test_the_short_way_to_plain_objects_changes_nothing_but_speed(image, edits):
    """`recognize` and full decoding agree: same tensors, same error, same place."""
    agree(image, edits)


@given(edits=edits)
def test_the_short_way_to_parts_in_shards_changes_nothing_but_speed(rooted, edits):
    agree(rooted, edits)


def agree(image, edits):
    data = bytearray(image.data)
    offset, length, *_ = FOOTER.unpack(data[-FOOTER_SIZE:])
    for place, value in edits:
        data[offset + int(place * length)] = value
    mutated = rehash(data)
    fast = opened(mutated)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(READING, "recognize", lambda _data, _pos: None)
        assert opened(mutated) == fast


def test_the_short_way_is_taken(image):
    """Else the property above would compare one way with itself."""
    offset = image.data.index(b"\xa3\x65parts\xa1\x64data\xa4\x64blob")
    assert plain.recognize(image.data, offset) is not None


def test_the_short_way_is_taken_for_shards(rooted, monkeypatch):
    taken = opened(rooted.data)
    assert len(taken[0]) == 10
    monkeypatch.setattr(READING, "recognize", lambda _data, _pos: None)
    assert opened(rooted.data) == taken
    starts = [found.start() for found in re.finditer(rb"\xa3\x65parts", rooted.data)]
    found = [plain.recognize(rooted.data, start) for start in starts]
    assert [each[0].shard for each in found] == ["s", "s1", "e" * 23, "f" * 24, "-" * 64] * 2
    assert [each[0].digest is None for each in found] == [True] * 5 + [False] * 5


@pytest.mark.parametrize("head", [b"\x61", b"\x63", b"\x78\x02"])
def test_a_shard_name_of_another_length_than_its_head_says_is_not_recognized(rooted, head):
    start = rooted.data.index(b"\xa3\x65parts", rooted.data.index(b"\x62t1"))
    text = rooted.data[start:].replace(b"\x62s1", head + b"s1", 1)
    assert plain.recognize(rooted.data, start)[0].shard == "s1"
    assert plain.recognize(text, 0) is None


def test_opening_takes_two_round_trips_and_reads_no_payload(image):
    source = Memory(image.data)
    drive(read(source.size, Reading()), source)
    assert source.round_trips == 2
    _, length, *_ = FOOTER.unpack(image.data[-FOOTER_SIZE:])
    assert source.bytes_read == len(MAGIC) + FOOTER_SIZE + length
