"""What an archive of arrays may be, by archives made by hand; broken ones are a corpus."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorark
from conformance.npz.build.image import PLAIN, ZEROS, Member, archive, deflated, npy
from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.formats.npz import end_records, plan
from tensorark.wire.npy import HeaderFault, header_bytes, parse_header
from tensorark.wire.zip import End, ZipFault, parse_end, parse_entries, parse_local


@pytest.mark.parametrize(
    "made",
    [
        Member(),
        Member(method=8),
        Member(extra=bytes(64)),
        Member(data=npy("{'descr':\"<f4\",'fortran_order':False,'shape':(1L,)}")),
        Member(data=npy(" { 'shape' : ( 1 , ) ,\n'fortran_order' : True , 'descr' : '<f4' } ")),
        Member(data=npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", ZEROS, 3)),
        Member(data=npy("{'descr': '=f4', 'fortran_order': False, 'shape': (1,), }" + " " * 9000)),
        Member(
            method=8,
            data=npy("{'descr': '|f4', 'fortran_order': False, 'shape': (1,), }" + " " * 70000,
                     ZEROS, 2),
        ),
        Member(flags=8, local_crc=0),
    ],
)  # fmt: skip
def test_what_is_unusual_is_read(tmp_path, made):
    path = tmp_path / "m.npz"
    path.write_bytes(archive(Member(name=b"first.npy"), made))
    assert tensorark.validate(path) == []
    with tensorark.open(path) as file:
        assert file["a"].numpy().tolist() == [0]
        assert tensorark.verify(file).protected == 2


@given(
    descr=st.text("<>|=fiVu0248", max_size=4),
    order=st.booleans(),
    shape=st.lists(st.integers(0, 1 << 63), max_size=3).map(tuple),
    version=st.sampled_from([1, 2, 3]),
)
def test_the_short_way_to_a_usual_header_changes_nothing_but_speed(descr, order, shape, version):
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}   \n"
    quick, slow = (npy(each, b"", version) for each in (text, " " + text))
    try:
        expected = parse_header(slow)
    except HeaderFault:
        with pytest.raises(HeaderFault):
            parse_header(quick)
        return
    assert parse_header(quick) == replace(expected, length=expected.length - 1)
    assert (expected.descr, expected.fortran_order, expected.shape) == (descr, order, shape)


@pytest.mark.parametrize("nbytes", [4, (1 << 32) - 1, 5 << 30])
@pytest.mark.parametrize("offset", [0, 3, (1 << 32) - 2, (1 << 32) - 1, 1 << 40])
def test_what_is_written_of_large_members_is_read_again(nbytes, offset):
    part = Part(Raw((Span(0, nbytes),)), "u8")
    member = plan(Tensor("große", (nbytes,), "dense", {"data": part}))
    local, entry = member.local(offset), member.entry(offset, 7)
    assert (offset + len(local) + len(member.head)) % 64 == 0
    end = parse_end(tail := end_records(offset, len(entry), 1), offset + len(entry) + len(tail))
    (found,) = parse_entries(memoryview(entry), end)
    again = parse_local(memoryview(local), offset)
    assert (found.label, found.offset, found.crc) == ("große.npy", offset, 7)
    for each in (found, again):
        assert (each.size, each.compressed) == (member.size, member.size)
        assert (each.name, each.flags, each.method) == (member.name, 2048, 0)
    assert again.length == len(local)


def test_a_directory_above_the_limit_is_refused(tmp_path):
    path = tmp_path / "m.npz"
    path.write_bytes(archive(Member()))
    with pytest.raises(tensorark.LimitExceeded):
        tensorark.open(path, limits=tensorark.Limits(index_file=50))


def test_a_stream_may_keep_its_header_to_the_last(tmp_path):
    """Empty blocks first, so that the preamble is not in the first bytes that are read."""
    path = tmp_path / "m.npz"
    for blocks, rules in ((200, []), (30_000, ["npz.header"])):
        stored = b"\0\0\0\xff\xff" * blocks + deflated(PLAIN)
        path.write_bytes(archive(Member(method=8, stored=stored)))
        assert [each.rule for each in tensorark.validate(path)] == rules


def test_names_are_labels_and_need_not_be_those_of_files(tmp_path):
    path = tmp_path / "m.npz"
    names = [b"../x.npy", b"X.npy", b"x.npy", b"/etc/p.npy", b".npy", b"\x82.npy", b"d/", b"t.txt"]
    path.write_bytes(
        archive(*(Member(name=name, data=b"" if name == b"d/" else PLAIN) for name in names))
    )
    with tensorark.open(path) as file:
        assert list(file) == ["../x", "X", "x", "/etc/p", "", "é"]
        assert file.catalog.native.others == ("t.txt",)
    with pytest.raises(tensorark.Unsupported, match=r"t\.txt"):
        tensorark.convert(path, tmp_path / "m.zt")


@pytest.mark.parametrize("comment", [b"c", b"c" * 65_535], ids=["short", "longest"])
def test_a_comment_and_the_records_of_zip64_are_read(tmp_path, comment):
    path = tmp_path / "m.npz"
    path.write_bytes(archive(Member(), comment=comment))
    assert tensorark.validate(path) == []
    data = archive(Member())
    start, length = data.index(b"PK\1\2"), 51
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, length, start)
    wide += struct.pack("<4sLQL", b"PK\6\7", 0, start + length, 1)
    full = (65535, 65535, (1 << 32) - 1, (1 << 32) - 1, len(comment))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *full) + comment
    path.write_bytes(data[: start + length] + wide + end)
    assert tensorark.validate(path) == []
    for at in (start + length, start + length + 56):
        broken = bytearray(data[: start + length] + wide + end)
        broken[at + 3] = 9
        path.write_bytes(broken)
        assert [each.rule for each in tensorark.validate(path)] == ["npz.directory"]


def test_a_header_of_any_length_says_its_length_in_the_bytes_that_hold_it():
    """Two bytes up to about 65,535 of text, four beyond: a dimension adds three."""
    versions = set()
    for dimensions in range(21_790, 21_840):
        made = header_bytes("<f4", (1,) * dimensions)
        width = {1: 2, 2: 4}[made[6]]
        versions.add(made[6])
        assert len(made) % 64 == 0
        assert int.from_bytes(made[8 : 8 + width], "little") == len(made) - 8 - width
        assert made[8 + width :].rstrip().decode() == str(
            {"descr": "<f4", "fortran_order": False, "shape": (1,) * dimensions}
        ).replace(")}", "), }")
    assert versions == {1, 2}


def test_a_local_header_may_be_read_as_far_as_its_name():
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 45, 0, 0, 0, 0, 7, *[(1 << 32) - 1] * 2, 1, 20)
    wide = struct.pack("<2H2Q", 1, 16, 5 << 32, 6 << 32)
    for length, sizes in ((51, (5 << 32, 6 << 32)), (50, None), (31, None)):
        found = parse_local(memoryview((local + b"n" + wide)[:length]), 0)
        assert (found.name, found.crc, found.length) == (b"n", 7, 51)
        assert (found.size, found.compressed) == (sizes or ((1 << 32) - 1,) * 2)


@pytest.mark.parametrize(
    ("extra", "is_sound"),
    [
        (struct.pack("<2H4s", 0x9999, 4, b"data") + struct.pack("<2H", 0x7075, 0), False),
        (struct.pack("<2H3s", 0x9999, 3, b"odd") + struct.pack("<2H", 0x7075, 0), False),
        (struct.pack("<2H300s", 0x9999, 300, b"\xff" * 300) + struct.pack("<2H", 0x7075, 0), False),
        (struct.pack("<2H4s", 0x9999, 4, b"\x75\x70\0\0"), True),  # inside of another field
        (struct.pack("<2H8s", 0x9999, 8, b"1234\x75\x70\0\0"), True),
    ],
)
def test_another_name_in_an_extra_field_is_refused_wherever_it_stands(extra, is_sound):
    facts = (45, 45, 0, 0, 0, 0, 7, 3, 3, 1, len(extra), 2, 0, 0, 0, 9)
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", *facts) + b"n" + extra + b"up"
    end = End(offset=12, length=len(entry), count=1, limit=12 + len(entry))
    if is_sound:
        (found,) = parse_entries(memoryview(entry), end)
        assert (found.name, found.crc, found.size, found.offset) == (b"n", 7, 3, 9)
        return
    with pytest.raises(ZipFault) as caught:
        parse_entries(memoryview(entry), end)
    assert (caught.value.offset, caught.value.found) == (12, "the field 0x7075")
