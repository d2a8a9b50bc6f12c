"""What an archive of arrays must fulfil: each rule is broken alone, by an archive made by hand."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorark
from tensorark.codecs.npy import RULES
from tensorark.formats.npz import NPZ, end_records, plan
from tensorark.model import Part, Raw, Span, Tensor
from tensorark.wire.npyheader import HeaderFault, parse_header
from tensorark.wire.zipdir import parse_end, parse_entries, parse_local

ZEROS = bytes(4)


def npy(text: str, data: bytes = ZEROS, version: bytes = b"\x01\x00") -> bytes:
    """An array with this text as its header."""
    width = 2 if version[0] == 1 else 4
    return b"\x93NUMPY" + version + len(text).to_bytes(width, "little") + text.encode() + data


PLAIN = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }")


@dataclass(frozen=True)
class Made:
    """One member; what is None is what it should be."""

    name: bytes = b"a.npy"
    data: bytes = PLAIN
    method: int = 0
    flags: int = 0
    stored: bytes | None = None
    size: int | None = None
    crc: int | None = None
    offset: int | None = None
    local: bytes | None = None
    local_crc: int | None = None
    extra: bytes = b""
    is_ghost: bool = False  # only the directory knows it

    @property
    def body(self) -> bytes:
        if self.stored is not None:
            return self.stored
        return deflated(self.data) if self.method == 8 else self.data

    @property
    def sizes(self) -> tuple[int, int, int]:
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        return crc, len(self.body), len(self.data) if self.size is None else self.size


def deflated(data: bytes) -> bytes:
    engine = zlib.compressobj(9, wbits=-15)
    return engine.compress(data) + engine.flush()


def archive(*members: Made, end: bytes | None = None, comment: bytes = b"") -> bytes:
    file = directory = b""
    for each in members:
        crc, compressed, size = each.sizes
        offset = len(file) if each.offset is None else each.offset
        local = each.name if each.local is None else each.local
        head = struct.pack("<4s5H", b"PK\3\4", 20, each.flags, each.method, 0, 33)
        shown = crc if each.local_crc is None else each.local_crc
        head += struct.pack("<3L2H", shown, compressed, size, len(local), len(each.extra))
        file += b"" if each.is_ghost else head + local + each.extra + each.body
        entry = struct.pack("<4s6H", b"PK\1\2", 20, 20, each.flags, each.method, 0, 33)
        entry += struct.pack("<3L5H2L", crc, compressed, size, len(each.name), *[0] * 5, offset)
        directory += entry + each.name
    count = len(members)
    if end is None:
        sizes = (0, 0, count, count, len(directory), len(file), len(comment))
        end = struct.pack("<4s4H2LH", b"PK\5\6", *sizes) + comment
    return file + directory + end


def header(text: str) -> Made:
    return Made(data=npy(text))


DEFLATED = Made(method=8)
BROKEN = {
    "npz.directory": [
        archive(Made())[:-1],
        archive(Made())[:-30],
        archive(Made()) + b"x",
        archive(Made(), end=struct.pack("<4s4H2LH", b"PK\5\6", 1, 0, 1, 1, 51, 103, 0)),
        archive(Made(), end=struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 50, 103, 0)),
        archive(Made(), end=struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, 51, 120, 0)),
        archive(Made(), end=struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, (1 << 32) - 1, 0, 0)),
        archive(Made(), Made(b"b.npy", offset=1)),
        archive(Made()).replace(b"PK\1\2", b"PK\1\3"),
        archive(Made(size=(1 << 32) - 1)),
        archive(Made()).replace(b"\5\0\0\0\0\0\0\0\0", b"\5\0\xff\0\0\0\0\0\0"),
        archive(Made()).replace(b"\5\0\0\0\0\0\0\0\0", b"\4\0\0\0\0\0\0\0\0"),
    ],
    "npz.name": [archive(Made(), Made(b"\xff.npy", flags=2048))],
    "npz.duplicate-name": [archive(Made(), Made()), archive(Made(), Made(flags=2048))],
    "npz.ambiguous-name": [
        archive(Made(), Made(b"a.npy.npy")),
        archive(Made(), Made(b"a")),
        archive(Made(b"a\0.npy")),
    ],
    "npz.encrypted": [archive(Made(flags=1)), archive(Made(flags=64)), archive(Made(flags=8192))],
    "npz.method": [archive(Made(method=12)), archive(Made(method=9))],
    "npz.stored-size": [
        archive(Made(size=5)),
        archive(Made(method=8, stored=b"\3\0", size=3000)),
        archive(Made(method=8, stored=b"", size=1)),
    ],
    "npz.entry-bounds": [archive(Made(offset=1 << 20)), archive(Made(offset=(1 << 32) - 2))],
    "npz.local-header": [archive(Made(local=b"b.npy")), archive(Made(local_crc=1))],
    "npz.overlap": [],
    "npz.data-bounds": [],
    "npz.header": [
        archive(Made(data=b"")),
        archive(Made(data=b"\x93NUMPY\x01")),
        archive(Made(data=b"\x93NUMPZ" + PLAIN[6:])),
        archive(Made(data=PLAIN[:6] + b"\x04" + PLAIN[7:])),
        archive(Made(data=PLAIN[:8] + b"\xff\xff" + PLAIN[10:])),
        archive(Made(data=npy("{}", version=b"\x02\x00")[:8] + b"\xff\xff\xff\xff")),
        archive(Made(method=8, data=bytes(200))),
        archive(Made(method=8, data=b"\x93NUMPY\x01")),
        archive(Made(data=PLAIN[:8] + b"\xff\0" + PLAIN[10:])),
        archive(Made(data=npy("{'descr': '\xff'}", version=b"\3\0").replace(b"\xc3", b"\xff"))),
        archive(header("{'descr': '<f4' 'fortran_order': False}")),
        archive(Made(method=8, stored=deflated(PLAIN)[:2] + b"\xff" * 90)),
        archive(Made(method=8, stored=b"\xff" * 40, size=60)),
        archive(header("{}")),
        archive(header("[]")),
        archive(header("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}")),
        archive(header("{'descr': '<f4', 'fortran_order': False, 'shape': [1]}")),
        archive(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1)}")),
        archive(header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}")),
        archive(header("{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}")),
        archive(
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}")
        ),
        archive(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}")),
        archive(header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}")),
        archive(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x")),
        archive(header("{'descr': open('x'), 'fortran_order': False, 'shape': (1,)}")),
        archive(header("{'descr': " + "(" * 5000 + ", 'fortran_order': False, 'shape': (1,)}")),
        archive(header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",)}")),
    ],
    "npz.data-size": [
        archive(header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}")),
        archive(
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}")
        ),
        archive(header("{'descr': '<U2', 'fortran_order': False, 'shape': (1,)}")),
    ],
    "npz.crc": [archive(Made(crc=1))],
    "npz.stored-crc": [
        archive(replace(DEFLATED, crc=1)),
        archive(replace(header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}"), crc=1)),
    ],
    "npz.stream": [
        archive(replace(DEFLATED, stored=deflated(PLAIN)[:-4] + b"\xff" * 4)),
        archive(replace(DEFLATED, stored=deflated(PLAIN)[:-1])),
        archive(replace(DEFLATED, stored=deflated(PLAIN) + b"x")),
        archive(replace(DEFLATED, stored=deflated(PLAIN + b"x"))),
        archive(replace(DEFLATED, stored=deflated(PLAIN[:-1]))),
    ],
}
# A whole member lies in the data of another one.
_INNER = archive(Made(b"b.npy"))[: 35 + len(PLAIN)]
_OUTER = Made(b"a.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (106,)}", _INNER))
BROKEN["npz.overlap"] = [
    archive(_OUTER, Made(b"b.npy", offset=35 + len(_OUTER.data) - len(_INNER), is_ghost=True)),
]
_REACHING = Made(b"b.npy", extra=bytes(8))
# The local header is longer than the bounds of the entry allow for.
_FILE = archive(Made(), _REACHING)
BROKEN["npz.data-bounds"] = [
    _FILE.replace(struct.pack("<2H", 5, 8) + b"b", struct.pack("<2H", 5, 20) + b"b", 1)
]


@pytest.mark.parametrize(
    ("rule", "data"), [(rule, each) for rule, files in BROKEN.items() for each in files]
)
def test_a_broken_rule_is_the_only_finding(tmp_path, rule, data):
    path = tmp_path / "m.npz"
    path.write_bytes(data)
    found = {each.rule for each in tensorark.validate(path)}
    if not found:
        with tensorark.open(path) as file:
            found = {each.rule for each in tensorark.verify(file).findings}
        with pytest.raises(tensorark.Rejected) as caught:
            tensorark.convert(path, tmp_path / "m.zt")
        assert caught.value.code == rule
        assert not (tmp_path / "m.zt").exists()
    else:
        with pytest.raises(tensorark.Rejected) as caught:
            tensorark.open(path)
        assert caught.value.code == rule
    assert found == {rule}


def test_every_rule_is_broken_by_some_file():
    assert {each.id for each in (*NPZ.rules, *RULES)} == set(BROKEN)
    assert all(BROKEN.values())


@pytest.mark.parametrize(
    "made",
    [
        Made(),
        DEFLATED,
        Made(extra=bytes(64)),
        Made(data=npy("{'descr':\"<f4\",'fortran_order':False,'shape':(1L,)}")),
        Made(data=npy(" { 'shape' : ( 1 , ) ,\n'fortran_order' : True , 'descr' : '<f4' } ")),
        Made(data=npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", ZEROS, b"\3\0")),
        Made(data=npy("{'descr': '=f4', 'fortran_order': False, 'shape': (1,), }" + " " * 9000)),
        Made(
            method=8,
            data=npy("{'descr': '|f4', 'fortran_order': False, 'shape': (1,), }" + " " * 70000,
                     ZEROS, b"\2\0"),
        ),
        Made(flags=8, local_crc=0),
    ],
)  # fmt: skip
def test_what_is_unusual_is_read(tmp_path, made):
    path = tmp_path / "m.npz"
    path.write_bytes(archive(Made(b"first.npy"), made))
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
    quick, slow = (npy(each, b"", bytes((version, 0))) for each in (text, " " + text))
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
    path.write_bytes(archive(Made()))
    with pytest.raises(tensorark.LimitExceeded):
        tensorark.open(path, limits=tensorark.Limits(index_file=50))


def test_a_stream_may_keep_its_header_to_the_last(tmp_path):
    """Empty blocks first, so that the preamble is not in the first bytes that are read."""
    path = tmp_path / "m.npz"
    for blocks, rules in ((200, []), (30_000, ["npz.header"])):
        stored = b"\0\0\0\xff\xff" * blocks + deflated(PLAIN)
        path.write_bytes(archive(Made(method=8, stored=stored)))
        assert [each.rule for each in tensorark.validate(path)] == rules


def test_names_are_labels_and_need_not_be_those_of_files(tmp_path):
    path = tmp_path / "m.npz"
    names = [b"../x.npy", b"X.npy", b"x.npy", b"/etc/p.npy", b".npy", b"\x82.npy", b"d/", b"t.txt"]
    path.write_bytes(archive(*(Made(name, b"" if name == b"d/" else PLAIN) for name in names)))
    with tensorark.open(path) as file:
        assert list(file) == ["../x", "X", "x", "/etc/p", "", "é"]
        assert file.catalog.native.others == ("t.txt",)
    with pytest.raises(tensorark.Unsupported, match=r"t\.txt"):
        tensorark.convert(path, tmp_path / "m.zt")


def test_a_comment_and_the_records_of_zip64_are_read(tmp_path):
    path = tmp_path / "m.npz"
    path.write_bytes(archive(Made(), comment=b"made by hand"))
    assert tensorark.validate(path) == []
    data = archive(Made())
    start, length = data.index(b"PK\1\2"), 51
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, length, start)
    wide += struct.pack("<4sLQL", b"PK\6\7", 0, start + length, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, (1 << 32) - 1, (1 << 32) - 1, 0)
    path.write_bytes(data[: start + length] + wide + end)
    assert tensorark.validate(path) == []
    for at in (start + length, start + length + 56):
        broken = bytearray(data[: start + length] + wide + end)
        broken[at + 3] = 9
        path.write_bytes(broken)
        assert [each.rule for each in tensorark.validate(path)] == ["npz.directory"]
