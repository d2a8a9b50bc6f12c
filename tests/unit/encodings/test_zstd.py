"""Decoding and encoding `zt.zstd-seekable/1` without a file around it."""

from __future__ import annotations

import io
import random
import struct
import time

import pytest
import zstandard

import tensorark
from conformance.zt.build import seekable as by_hand
from tensorark.core.rules import Finding, Reading
from tensorark.encodings import compression, find
from tensorark.encodings.encoding import StoredBytes
from tensorark.encodings.zstd import codec as zstd
from tensorark.encodings.zstd.rules import (
    FOOTER_RULES,
    HEAD_RULES,
    ID,
    MOST_FAULTS,
    TABLE_RULES,
    Table,
    survey,
)
from tests.conformance.zstd_judge import decode, is_one_frame

# Bytes of the public writer, from its fact sheet.
HELLO = bytes.fromhex(
    "28b52ffd 04 58 290000 68656c6c6f a36d9f88"
    "5e2a4d18 11000000 12000000 05000000 01000000 00 b1ea928f"
)
EMPTY = bytes.fromhex("5e2a4d18 09000000 00000000 00 b1ea928f")

OFFSET = 4096  # where the parts of these tests pretend to lie


class Recorder:
    """Stored bytes that remember what was read of them, and memory that remembers its requests."""

    def __init__(self, data):
        self.data = data
        self.reads = []
        self.allocations = []

    def read(self, start, length):
        assert 0 <= start <= start + length <= len(self.data)
        self.reads.append((start, length))
        return memoryview(self.data)[start : start + length]

    def allocate(self, nbytes):
        self.allocations.append(nbytes)
        return memoryview(bytearray(nbytes))

    def open(self, nbytes, **reading):
        where = ("objects", "t", "parts", "data")
        stored = StoredBytes(
            nbytes=len(self.data), read=self.read, where=where, path="m.zt", offset=OFFSET
        )
        return find(ID).open(stored, nbytes, Reading(**reading), self.allocate)


def opened(data, nbytes, **reading):
    return Recorder(data).open(nbytes, **reading)


def encoded(content, step=1 << 20, **options):
    encoder = compression("zstd", **options).encoder()
    view, out = memoryview(content), []
    for start in range(0, len(content), step):
        out += encoder.write(view[start : start + step])
    return b"".join([*out, *encoder.finish()])


def noise(count, seed=0):
    return random.Random(seed).randbytes(count)


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"], autouse=True)
def threads(request, monkeypatch):
    monkeypatch.setattr(zstd, "_threads", lambda: request.param)
    return request.param


def test_the_golden_streams_decode():
    assert bytes(opened(HELLO, 5).read(0, 5)) == b"hello"
    assert bytes(opened(EMPTY, 0).read(0, 0)) == b""
    assert list(opened(EMPTY, 0).pieces()) == []


def test_nothing_is_encoded_as_a_table_alone():
    assert encoded(b"") == EMPTY


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 5000, 12_345])
@pytest.mark.parametrize("step", [1, 777, 1 << 20])
def test_what_is_encoded_is_what_the_text_asks_for(count, step):
    """Judged by the text, and decompressed by a plain zstd decoder that knows nothing of tables."""
    content = noise(count // 2) + bytes(count - count // 2)
    stored = encoded(content, step, frame_size=1000)
    assert decode(stored, count) == content
    with zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(stored), read_across_frames=True
    ) as reader:
        assert reader.read() == content
    frames, descriptor, _ = struct.unpack("<IBI", stored[-9:])
    assert (frames, descriptor) == (-(-count // 1000), 0)
    header = zstandard.get_frame_parameters(stored)
    assert header.has_checksum
    assert header.content_size == min(count, 1000)


@pytest.mark.parametrize(
    ("frame_size", "count"), [(1, 50), (7, 250), (1000, 2500), (1 << 20, 2500)]
)
def test_every_range_is_that_of_the_content(frame_size, count):
    content = noise(count) + bytes(count + 1)
    part = opened(encoded(content, frame_size=frame_size), len(content))
    assert bytes(part.read(0, len(content))) == content
    assert b"".join(part.pieces()) == content
    pick = random.Random(frame_size)
    for _ in range(100):
        start = pick.randint(0, len(content))
        length = pick.randint(0, len(content) - start)
        assert bytes(part.read(start, length)) == content[start : start + length]


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 6), (5, 1), (6, 0)])
def test_a_range_outside_the_part_is_refused(start, length):
    with pytest.raises(tensorark.InvalidInput):
        opened(HELLO, 5).read(start, length)


def test_a_range_reads_the_table_and_the_frames_that_hold_it():
    content = noise(100_000)
    stored = encoded(content, frame_size=10_000)
    entries = list(struct.iter_unpack("<II", stored[-9 - 80 : -9]))
    starts = [sum(size for size, _ in entries[:n]) for n in range(11)]
    source = Recorder(stored)
    part = source.open(len(content))
    assert source.reads == [(len(stored) - 4096, 4096)]  # the table lies in it
    source.reads.clear()
    part.read(35_000, 30_000)  # a piece of 3, all of 4 and 5, a piece of 6
    assert sum(length for _, length in source.reads) == starts[7] - starts[3]
    source.reads.clear()
    part.read(66_000, 1000)  # frame 6 is kept, because only a piece of it was wanted
    part.read(64_000, 10)
    assert source.reads == []
    part.read(20_000, 10_000)
    assert source.reads == [(starts[2], starts[3] - starts[2])]


def test_a_large_table_is_read_once_more_and_whole():
    content = bytes(3000)
    source = Recorder(encoded(content, frame_size=1))
    assert bytes(source.open(3000).read(0, 3000)) == content
    assert source.reads[1] == (len(source.data) - 17 - 8 * 3000, 17 + 8 * 3000)


def test_whole_parts_are_memory_of_the_callers_own():
    part = opened(HELLO, 5)
    first, second = part.read(0, 5), part.read(0, 5)
    first[0] = 0
    assert bytes(second) == b"hello"
    assert part.read(1, 2).readonly


def test_few_frames_are_in_flight_while_encoding(threads):
    content = noise(100 * 1000)
    encoder = compression("zstd", frame_size=1000).encoder()
    done = 0
    for n in range(100):
        done += len(encoder.write(memoryview(content)[1000 * n : 1000 * (n + 1)]))
        assert n - done <= threads + 1
    assert done + len(encoder.finish()) == 101


def test_data_that_was_fed_may_change_afterwards():
    buffer = bytearray(1000)
    encoder = compression("zstd", frame_size=700).encoder()
    out = []
    for n in range(20):
        buffer[:] = bytes([n]) * 1000
        out += encoder.write(memoryview(buffer))
    stored = b"".join([*out, *encoder.finish()])
    assert decode(stored, 20_000) == b"".join(bytes([n]) * 1000 for n in range(20))


def test_ranges_behind_frames_without_content():
    nothing = by_hand.frame(b"")
    stored = by_hand.stream((nothing, 0), (nothing, 0), (by_hand.frame(b"hello"), 5))
    part = opened(stored, 5)
    assert bytes(part.read(1, 3)) == b"ell"
    assert bytes(part.read(0, 5)) == b"hello"
    assert bytes(part.read(2, 0)) == b""


def test_pieces_may_be_left_early_and_come_in_order():
    content = noise(50_000)
    part = opened(encoded(content, frame_size=1000), len(content))
    pieces = part.pieces()
    first = bytes(next(pieces))
    assert first
    assert content.startswith(first)
    pieces.close()


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("gzip", {}, "encoding"),
        ("zt.zstd-seekable/2", {}, "encoding"),
        ("raw", {"level": 3}, "encoding"),
        (None, {"frame_size": 3}, "encoding"),
        ("zstd", {"level": 23}, "level"),
        ("zstd", {"level": -51}, "level"),
        ("zstd", {"frame_size": 0}, "frame-size"),
        ("zstd", {"frame_size": (16 << 20) + 1}, "frame-size"),
    ],
)
def test_a_compression_that_is_none_is_refused(name, options, code):
    with pytest.raises(tensorark.InvalidInput) as caught:
        compression(name, **options)
    assert caught.value.code == code


def test_an_encoding_goes_by_its_name_and_by_its_id():
    assert compression("zstd") == compression(ID, level=3, frame_size=1 << 20)
    assert compression("raw") is None
    assert compression(None) is None


# --- hostile and damaged parts --------------------------------------------------------------------


def test_promises_that_stored_bytes_cannot_keep_cost_no_memory():
    """10,000 entries of 19 bytes promise 16 MiB each: refused by their headers."""
    frame = by_hand.frame(b"hello")
    stored = by_hand.stream(*[(frame, 16 << 20)] * 10_000)
    source = Recorder(stored)
    part = source.open(10_000 * (16 << 20))
    with pytest.raises(tensorark.Rejected) as caught:
        part.read(0, 10_000 * (16 << 20))
    assert caught.value.code == "zt.zstd-frame-size"
    with pytest.raises(tensorark.Rejected, match="cannot decode to as many bytes"):
        next(part.pieces())
    assert source.allocations == []


def test_a_decoded_length_beyond_the_table_costs_no_memory():
    source = Recorder(by_hand.stream((by_hand.frame(b"hello"), 5)))
    with pytest.raises(tensorark.Rejected) as caught:
        source.open(1 << 62)
    assert caught.value.code == "zt.zstd-decoded-length"
    assert source.allocations == []


def test_a_window_that_is_asked_for_costs_no_memory():
    """Every frame asks for 1.75 GiB; decompressed in one piece it needs none."""
    frame = by_hand.frame(b"hello", window=b"\xa6")
    stored = by_hand.stream(*[(frame, 5)] * 50)
    assert bytes(opened(stored, 250).read(0, 250)) == b"hello" * 50


def damaged(content, frame_size, *frames):
    """Return a stream with one byte changed in the content of each of the frames given."""
    stored = bytearray(encoded(content, frame_size=frame_size, level=1))
    count = -(-len(content) // frame_size)
    sizes = [size for size, _ in struct.iter_unpack("<II", stored[-9 - 8 * count : -9])]
    for index in frames:
        end = sum(sizes[: index + 1])
        assert is_one_frame(bytes(stored[end - sizes[index] : end]))
        stored[end - 5] ^= 1  # the last byte before the checksum: noise is stored in raw blocks
    return bytes(stored), sizes


def test_a_damaged_frame_is_named_with_its_bytes():
    stored, sizes = damaged(noise(5000), 1000, 2)
    part = opened(stored, 5000)
    with pytest.raises(tensorark.Rejected) as caught:
        part.read(0, 5000)
    start = OFFSET + sum(sizes[:2])
    error = caught.value
    assert (error.code, error.path, error.offset) == ("zt.zstd-checksum", "m.zt", start)
    assert error.where == ("objects", "t", "parts", "data", "frames", 2)
    assert f"frame 2 (bytes {start} to {start + sizes[2]})" in str(error)
    assert bytes(part.read(0, 2000)) == noise(5000)[:2000]  # the others are as good as ever
    assert bytes(part.read(3500, 100)) == noise(5000)[3500:3600]


def test_the_first_of_several_damaged_frames_is_named():
    stored, _ = damaged(noise(50_000), 1000, 7, 8, 9, 30)
    with pytest.raises(tensorark.Rejected, match="frame 7 "):
        opened(stored, 50_000).read(0, 50_000)


def test_all_damaged_frames_are_gathered():
    stored, _ = damaged(noise(50_000), 1000, 7, 8, 30)
    gathered = []
    with pytest.raises(tensorark.Rejected, match="frame 7 "):
        opened(stored, 50_000, gathered=gathered).read(0, 50_000)
    assert [finding.where[-1] for finding in gathered] == [7, 8, 30]
    assert {finding.rule for finding in gathered} == {"zt.zstd-checksum"}


def test_a_report_of_damage_is_bounded(threads):
    stored, _ = damaged(noise(50_000), 100, *range(500))
    gathered = []
    with pytest.raises(tensorark.Rejected):
        opened(stored, 50_000, gathered=gathered).read(0, 50_000)
    assert MOST_FAULTS <= len(gathered) <= MOST_FAULTS + threads


def test_damage_that_a_checksum_in_the_table_sees_alone_is_named():
    frame = by_hand.frame(b"hello")
    stored = by_hand.stream(
        (frame, 5), (frame, 5), checksums=[by_hand.low_half(b"hello"), 7], descriptor=0x80
    )
    part = opened(stored, 10)
    assert bytes(part.read(0, 5)) == b"hello"
    with pytest.raises(tensorark.Rejected) as caught:
        part.read(5, 5)
    assert caught.value.code == "zt.zstd-table-checksum"


def table(**changes):
    """A table of two frames with 5 bytes each, stored in 14 and 13, that fills 33 of 60 bytes."""
    sound = {
        "where": ("objects", "t"),
        "offset": 4096,
        "stored": 60,
        "nbytes": 10,
        "count": 2,
        "descriptor": 0,
        "magic": 0x8F92EAB1,
        "head": (0x184D2A5E, 25),
        "compressed": (14, 13),
        "decompressed": (5, 5),
    }
    return Table(**sound | changes)


TABLES = [
    ({"magic": 1, "head": None}, "footer-magic", 60 - 4, "8f92eab1", "00000001"),
    ({"stored": 16, "head": None}, "table-size", 0, "at least 17", 16),
    ({"count": 100, "head": None}, "table-size", 60 - 9, "at most 60 bytes", 817),
    ({"head": (0x184D2A5E, 24)}, "table-size", 60 - 33 + 4, 25, 24),
    ({"descriptor": 0x41, "head": None}, "descriptor", 60 - 5, "00 or 80", "41"),
    ({"head": (0x184D2A50, 25)}, "table-magic", 60 - 33, "184d2a5e", "184d2a50"),
    ({"compressed": (14, 14)}, "compressed-sizes", 60 - 33, 27, 28),
    ({"nbytes": 11}, "decoded-length", 60 - 33, 11, 10),
]


@pytest.mark.parametrize(("changes", "rule", "offset", "expected", "found"), TABLES)
def test_a_fault_of_a_table_lies_in_its_field(changes, rule, offset, expected, found):
    judged = table(**changes)
    rules = FOOTER_RULES if judged.head is None else (*HEAD_RULES, *TABLE_RULES)
    assert [fault for each in rules for fault in each(table())] == []
    ((id_, fault),) = [(each.id, fault) for each in rules for fault in each(judged)]
    assert (id_, fault.offset) == (f"zt.zstd-{rule}", 4096 + offset)
    assert (fault.expected, fault.found) == (expected, found)


@pytest.mark.parametrize("run", [1 << 20, 2000], ids=["one run", "many runs"])
@pytest.mark.parametrize(
    "take",
    [lambda part: part.read(0, 50_000), lambda part: [*part.pieces()]],
    ids=["read", "pieces"],
)
def test_faults_are_gathered_in_the_order_of_their_bytes(monkeypatch, take, run):
    """Behind those of earlier parts, however the threads come to find them."""
    monkeypatch.setattr(zstd, "_RUN", run)
    stored, sizes = damaged(noise(50_000), 1000, 3, 7, 8, 30)
    earlier = Finding(
        rule="zt.digest", section="3.4", stage="content", where=(), detail="before", offset=1 << 40
    )
    gathered = [earlier]
    part = opened(stored, 50_000, gathered=gathered)
    real = zstd._diagnose

    def slow(frame, data, reason):
        time.sleep(0.05 if frame.index == 3 else 0)
        return real(frame, data, reason)

    monkeypatch.setattr(zstd, "_diagnose", slow)
    with pytest.raises(tensorark.Rejected):
        take(part)
    assert gathered[0] is earlier
    places = [OFFSET + sum(sizes[:index]) for index in (3, 7, 8, 30)]
    assert [each.offset for each in gathered[1:]] == places


# --- what public readers accept -------------------------------------------------------------------

FRAME = by_hand.frame(b"hello")
BARE = by_hand.frame(b"hello", flags=0)
SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"
STATED = by_hand.frame(b"hello", flags=0xC4, stated=struct.pack("<Q", 5))
FOREIGN = [
    pytest.param(BARE, 1, False, id="no checksum"),
    pytest.param(FRAME + FRAME, 2, True, id="two frames"),
    pytest.param(STATED + FRAME + STATED, 3, True, id="three frames, some with sizes"),
    pytest.param(FRAME + BARE, 2, False, id="two frames, the second without a checksum"),
    pytest.param(SKIPPABLE + FRAME, 1, True, id="skippable frame before"),
    pytest.param(FRAME + SKIPPABLE, 1, True, id="skippable frame behind"),
    pytest.param(SKIPPABLE, 0, True, id="skippable frame alone"),
    pytest.param(b"", 0, True, id="no bytes"),
]


@pytest.mark.parametrize(("entry", "times", "checked"), FOREIGN)
def test_lenient_reading_takes_what_public_readers_take(entry, times, checked):
    content = b"hello" * times
    stored = by_hand.stream((entry, len(content)), (FRAME, 5))
    with pytest.raises(tensorark.Rejected):
        opened(stored, len(content) + 5).read(0, len(content) + 5)
    part = opened(stored, len(content) + 5, lenient=True)
    assert bytes(part.read(0, len(content) + 5)) == content + b"hello"
    assert part.is_checked == checked
    assert b"".join(part.pieces()) == content + b"hello"


def test_lenient_reading_does_not_look_at_checksums_in_the_table():
    stored = by_hand.stream((FRAME, 5), checksums=[7], descriptor=0x80)
    assert bytes(opened(stored, 5, lenient=True).read(0, 5)) == b"hello"


WRONG = by_hand.frame(b"hello", checksum=1)


@pytest.mark.parametrize(
    ("entry", "size"),
    [
        (WRONG, 5),
        (FRAME + WRONG, 10),
        (WRONG + FRAME, 10),
        (FRAME + FRAME, 9),
        (FRAME + FRAME, 11),
        (FRAME + FRAME + b"x", 10),
        (FRAME + FRAME[:-1], 10),
        (FRAME + SKIPPABLE[:-1], 5),
        (SKIPPABLE[:-1], 0),
        (SKIPPABLE, 1),
        (WRONG + SKIPPABLE, 5),
        (by_hand.frame(b"", checksum=1) + FRAME, 5),
        (FRAME + by_hand.frame(b"", checksum=1), 5),
        (by_hand.frame(b"hello", flags=5, dictionary=b"\1") + FRAME, 10),
    ],
)
def test_lenient_reading_takes_nothing_that_is_damaged(entry, size):
    with pytest.raises(tensorark.Rejected):
        opened(by_hand.stream((entry, size)), size, lenient=True).read(0, size)


def test_a_frame_that_is_cut_anywhere_has_a_problem():
    """A raw block of three bytes and a last RLE block; with a window, a dictionary and a size."""
    header = struct.pack("<IBBIQ", 0xFD2FB528, 0xC7, 0, 7, 10)
    blocks = (3 << 3).to_bytes(3, "little") + b"abc" + (7 << 3 | 2 | 1).to_bytes(3, "little") + b"d"
    whole = header + blocks + b"sum."
    found = survey(memoryview(whole))
    assert (found.problem, found.frames, found.most, found.largest) == (None, 1, 10, 7)
    assert found.checksum == int.from_bytes(b"sum.", "little")
    for length in range(1, len(whole)):
        assert survey(memoryview(whole[:length])).problem, length
    assert survey(memoryview(whole + b"x")).problem
