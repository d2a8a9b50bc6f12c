"""Encoded parts under arbitrary content and arbitrary damage."""

from __future__ import annotations

import resource
import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

import tensorark
import tensorark.numpy as ark
from conformance.zt.build import seekable as by_hand
from tensorark.core.rules import Reading
from tensorark.encodings import compression, find
from tensorark.encodings.encoding import StoredBytes
from tensorark.encodings.zstd.rules import ID
from tests.conformance.zstd_judge import Broken, decode
from tests.property.strategies import arrays, names

contents = st.one_of(
    st.binary(max_size=3000),
    st.builds(lambda data, times: data * times, st.binary(max_size=40), st.integers(0, 100)),
)


def encoded(content, **options):
    encoder = compression("zstd", **options).encoder()
    return b"".join([*encoder.write(memoryview(content)), *encoder.finish()])


def opened(stored, nbytes, **reading):
    """Open a part whose memory is no more than it asks for with good reason."""

    def read(start, length):
        assert 0 <= start <= start + length <= len(stored)
        return memoryview(stored)[start : start + length]

    def allocate(count):
        assert count <= nbytes
        return memoryview(bytearray(count))

    part = StoredBytes(nbytes=len(stored), read=read)
    return find(ID).open(part, nbytes, Reading(**reading), allocate)


def answer(stored, nbytes, **reading):
    """Return what our decoder gives: bytes, or None where it refuses by a rule of the encoding."""
    try:
        part = opened(stored, nbytes, **reading)
        whole = bytes(part.read(0, nbytes))
    except tensorark.Rejected as error:
        caught = error
    else:
        assert b"".join(part.pieces()) == whole
        return whole
    assert caught.code.startswith("zt.zstd-")
    assert str(caught)
    return None


def judged(stored, nbytes):
    try:
        return decode(stored, nbytes)
    except Broken:
        return None


@given(
    content=contents,
    frame_size=st.integers(1, 4000),
    level=st.integers(-5, 19),
    cuts=st.lists(st.integers(0, 3000), max_size=5),
    data=st.data(),
)
def test_any_content_survives(content, frame_size, level, cuts, data):
    encoder = compression("zstd", level=level, frame_size=frame_size).encoder()
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    out = []
    for start, end in pairwise(places):
        out += encoder.write(memoryview(content)[start:end])
    stored = b"".join([*out, *encoder.finish()])
    assert judged(stored, len(content)) == content
    assert answer(stored, len(content)) == content
    start = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, len(content) - start))
    part = opened(stored, len(content))
    assert bytes(part.read(start, length)) == content[start : start + length]


streams = st.sampled_from(
    [
        (encoded(bytes(range(256)) * 3, frame_size=200), 768),
        (encoded(b"abcd" * 500, frame_size=900), 2000),
        (by_hand.stream((by_hand.frame(b"hello"), 5), (by_hand.frame(b"!"), 1)), 6),
        (
            by_hand.stream(
                (by_hand.frame(bytes(9), by_hand.zeros(9)), 9),
                checksums=[by_hand.low_half(bytes(9))],
                descriptor=0x80,
            ),
            9,
        ),
        (by_hand.table(()), 0),
    ]
)
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 0x80, 0xFF])),
    ),
    max_size=4,
)


@given(stream=streams, edits=edits, cut=st.integers(-60, 30), extra=st.integers(-40, 5))
def test_damage_is_judged_as_the_text_judges_it(stream, edits, cut, extra):
    """Accepted or rejected by both, with the same bytes; lenient reading accepts no less."""
    data, nbytes = bytearray(stream[0]), max(0, stream[1] + max(extra, 0))
    for place, value in edits:
        data[int(place * len(data))] = value
    if cut > 0:
        del data[-cut:]
    stored = bytes(data)
    found = answer(stored, nbytes)
    assert found == judged(stored, nbytes)
    loose = answer(stored, nbytes, lenient=True)
    assert loose == found or found is None


@given(
    entries=st.lists(
        st.tuples(
            st.one_of(st.integers(0, 40), st.integers(0, (1 << 32) - 1)),
            st.one_of(st.integers(0, 9), st.integers(0, 1 << 24)),
        ),
        max_size=6,
    ),
    frames=st.lists(
        st.sampled_from(
            [
                by_hand.frame(b"hello"),
                by_hand.frame(b""),
                by_hand.frame(bytes(300_000), by_hand.zeros(300_000)),
                struct.pack("<II", 0x184D2A51, 2) + b"ab",
                b"\x28\xb5\x2f\xfd",
            ]
        ),
        max_size=6,
    ),
    honest=st.booleans(),
    lenient=st.booleans(),
)
def test_tables_may_claim_what_they_like(entries, frames, honest, lenient):
    if honest:
        sizes = [size for _, size in entries]
        entries = [(len(f), s) for f, s in zip(frames, [*sizes, *[5] * 6], strict=False)]
    stored = b"".join(frames) + by_hand.table(entries)
    nbytes = sum(size for _, size in entries)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = answer(stored, nbytes, lenient=lenient)
    assert found is None or len(found) == nbytes
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 << 10  # KiB: what 16 MiB of claims, decompressed and compared, may take
    if not lenient:
        assert found == judged(stored, nbytes)


@given(
    tensors=st.dictionaries(names, arrays(), max_size=4),
    frame_size=st.integers(1, 300),
    level=st.integers(1, 6),
)
def test_encoding_changes_no_digest(tmp_path_factory, tensors, frame_size, level):
    folder = tmp_path_factory.mktemp("there-and-back")
    first, coded, back = (folder / name for name in ("first.zt", "coded.zt", "back.zt"))
    ark.save_file(tensors, first)
    tensorark.convert(first, coded, encoding="zstd", frame_size=frame_size, level=level)
    tensorark.convert(coded, back)
    with tensorark.open(first) as a, tensorark.open(coded) as b, tensorark.open(back) as c:
        for name in a:
            digests = {file[name].parts["data"].digest for file in (a, b, c)}
            assert len(digests) == 1
        assert (
            tensorark.content_digest(a)
            == tensorark.content_digest(b)
            == tensorark.content_digest(c)
        )
        assert tensorark.verify(b).complete
    assert back.read_bytes() == first.read_bytes()
