"""The strict CBOR profile: RFC 8949 by hand, and the `cbor2` package, in both directions."""

from __future__ import annotations

import contextlib
import math
import struct
import time

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tensorark.errors import LimitExceeded
from tensorark.formats.zt.rules import CBOR_RULES
from tensorark.wire import cbor
from tensorark.wire.cbor import CborFault, Pairs, Unencodable, decode, encode, locate


def h(text: str) -> bytes:
    return bytes.fromhex(text)


def exact(value):
    """Write a value so that 1, 1.0 and true differ, NaN equals itself, and −0.0 is not 0.0."""
    if isinstance(value, Pairs):
        return "pairs", [(exact(key), exact(item)) for key, item in value.items]
    if isinstance(value, dict):
        return "map", sorted((exact(key), exact(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "array", [exact(item) for item in value]
    if isinstance(value, float):
        return "float", "nan" if math.isnan(value) else struct.pack(">d", value).hex()
    return type(value).__name__, repr(value)


# RFC 8949, Appendix A: what lies within the profile, as its table writes it.

APPENDIX_A = [
    ("00", 0),
    ("01", 1),
    ("0a", 10),
    ("17", 23),
    ("1818", 24),
    ("1819", 25),
    ("1864", 100),
    ("1903e8", 1000),
    ("1a000f4240", 1000000),
    ("1b000000e8d4a51000", 1000000000000),
    ("1bffffffffffffffff", 18446744073709551615),
    ("3bffffffffffffffff", -18446744073709551616),
    ("20", -1),
    ("29", -10),
    ("3863", -100),
    ("3903e7", -1000),
    ("f90000", 0.0),
    ("f98000", -0.0),
    ("f93c00", 1.0),
    ("fb3ff199999999999a", 1.1),
    ("f93e00", 1.5),
    ("f97bff", 65504.0),
    ("fa47c35000", 100000.0),
    ("fa7f7fffff", 3.4028234663852886e38),
    ("fb7e37e43c8800759c", 1.0e300),
    ("f90001", 5.960464477539063e-8),
    ("f90400", 0.00006103515625),
    ("f9c400", -4.0),
    ("fbc010666666666666", -4.1),
    ("f97c00", math.inf),
    ("f97e00", math.nan),
    ("f9fc00", -math.inf),
    ("f4", False),
    ("f5", True),
    ("f6", None),
    ("40", b""),
    ("4401020304", b"\x01\x02\x03\x04"),
    ("60", ""),
    ("6161", "a"),
    ("6449455446", "IETF"),
    ("62225c", '"\\'),
    ("62c3bc", "\u00fc"),
    ("63e6b0b4", "\u6c34"),
    ("64f0908591", "\U00010151"),
    ("80", []),
    ("83010203", [1, 2, 3]),
    ("8301820203820405", [1, [2, 3], [4, 5]]),
    (
        "98190102030405060708090a0b0c0d0e0f101112131415161718181819",
        list(range(1, 26)),
    ),
    ("a0", {}),
    ("a201020304", Pairs(((1, 2), (3, 4)))),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("826161a161626163", ["a", {"b": "c"}]),
    ("a56161614161626142616361436164614461656145", dict(zip("abcde", "ABCDE", strict=True))),
]


@pytest.mark.parametrize(("text", "value"), APPENDIX_A)
def test_values_of_the_rfc_both_ways(text, value):
    assert exact(decode(h(text))) == exact(value)
    assert encode(value) == h(text)


# The table in the fact sheet, and its neighbors: bytes that are refused, with rule and byte.

TOO_DEEP = 33 * b"\x81" + b"\x00"

REFUSED = [
    # heads
    ("1817", "cbor-shortest", 0),
    ("1805", "cbor-shortest", 0),
    ("190017", "cbor-shortest", 0),
    ("1900ff", "cbor-shortest", 0),
    ("1a0000ffff", "cbor-shortest", 0),
    ("1b00000000ffffffff", "cbor-shortest", 0),
    ("3817", "cbor-shortest", 0),
    ("7807" + "61" * 7, "cbor-shortest", 0),
    ("5803010203", "cbor-shortest", 0),
    ("980100", "cbor-shortest", 0),
    ("b801616100", "cbor-shortest", 0),
    ("8200" + "1800", "cbor-shortest", 2),
    # indefinite lengths and breaks
    ("9fff", "cbor-indefinite", 0),
    ("bfff", "cbor-indefinite", 0),
    ("7fff", "cbor-indefinite", 0),
    ("5fff", "cbor-indefinite", 0),
    ("ff", "cbor-indefinite", 0),
    ("1f", "cbor-indefinite", 0),
    ("3f", "cbor-indefinite", 0),
    ("81ff", "cbor-indefinite", 1),
    ("df", "cbor-indefinite", 0),
    # reserved additional information, in every major type
    *[
        (f"{major << 5 | low:02x}", "cbor-reserved", 0)
        for major in range(8)
        for low in (28, 29, 30)
    ],
    # tags
    ("c000", "cbor-tag", 0),
    ("c249010000000000000000", "cbor-tag", 0),
    ("c349010000000000000000", "cbor-tag", 0),
    ("d9d9f700", "cbor-tag", 0),
    ("d8", "cbor-tag", 0),
    ("d800", "cbor-tag", 0),
    ("a16178c000", "cbor-tag", 3),
    # simple values
    ("f7", "cbor-simple", 0),
    ("f0", "cbor-simple", 0),
    ("e0", "cbor-simple", 0),
    ("f3", "cbor-simple", 0),
    ("f820", "cbor-simple", 0),
    ("f814", "cbor-simple", 0),
    ("a16161f7", "cbor-simple", 3),
    # text
    ("61ff", "cbor-utf8", 1),
    ("63eda080", "cbor-utf8", 1),
    ("62c080", "cbor-utf8", 1),
    ("6361e228", "cbor-utf8", 2),
    ("64f4908080", "cbor-utf8", 1),
    ("a161ff00", "cbor-utf8", 2),
    ("7818" + "61" * 23 + "80", "cbor-utf8", 25),
    # the order of keys
    ("a2616200616100", "cbor-key-order", 4),
    ("a262626200617a00", "cbor-key-order", 5),
    ("a2616100616100", "cbor-key-unique", 4),
    ("a201000100", "cbor-key-unique", 3),
    ("a220000a00", "cbor-key-order", 3),
    ("a2f4008000", "cbor-key-order", 3),
    ("a2616100" + "0a00", "cbor-key-order", 4),
    ("a3616100" + "8000" + "616200", "cbor-key-order", 6),
    ("a2616100" + "7801" + "6200", "cbor-shortest", 4),
    # floats
    ("fa3f800000", "cbor-float-shortest", 0),
    ("fb3ff0000000000000", "cbor-float-shortest", 0),
    ("fa7f800000", "cbor-float-shortest", 0),
    ("fb7ff0000000000000", "cbor-float-shortest", 0),
    ("fa80000000", "cbor-float-shortest", 0),
    ("fa33800000", "cbor-float-shortest", 0),
    ("fa477fe000", "cbor-float-shortest", 0),
    ("fb47efffffe0000000", "cbor-float-shortest", 0),
    ("fb36a0000000000000", "cbor-float-shortest", 0),
    ("f97e01", "cbor-nan", 0),
    ("f9fe00", "cbor-nan", 0),
    ("f97c01", "cbor-nan", 0),
    ("fa7fc00000", "cbor-nan", 0),
    ("fb7ff8000000000000", "cbor-nan", 0),
    ("fb7ff8000000000001", "cbor-nan", 0),
    ("81fa7fc00000", "cbor-nan", 1),
    # ends
    ("", "cbor-truncated", 0),
    ("18", "cbor-truncated", 0),
    ("19ff", "cbor-truncated", 0),
    ("62", "cbor-truncated", 1),
    ("6261", "cbor-truncated", 1),
    ("4201", "cbor-truncated", 1),
    ("81", "cbor-truncated", 1),
    ("a1", "cbor-truncated", 1),
    ("a16161", "cbor-truncated", 3),
    ("a16161" + "61", "cbor-truncated", 4),
    ("f93c", "cbor-truncated", 0),
    ("fa3f80", "cbor-truncated", 0),
    ("9b7fffffffffffffff", "cbor-truncated", 9),
    ("bb7fffffffffffffff", "cbor-truncated", 9),
    ("7b7fffffffffffffff", "cbor-truncated", 9),
    ("5bffffffffffffffff", "cbor-truncated", 9),
    ("9bffffffffffffffff", "cbor-truncated", 9),
    ("82" + "00", "cbor-truncated", 1),
    ("a000", "cbor-trailing", 1),
    ("0000", "cbor-trailing", 1),
    ("a0f7", "cbor-trailing", 1),
    # depth: the 34th item lies at level 33
    (TOO_DEEP.hex(), "cbor-depth", 33),
    ((32 * b"\x81" + b"\xa1\x60\x00").hex(), "cbor-depth", 33),
    ((32 * b"\xa1\x60" + b"\x81\x00").hex(), "cbor-depth", 65),
    ((32 * b"\x81" + b"\xa1\x00\x00").hex(), "cbor-depth", 33),
    ((200 * b"\x81" + b"\x00").hex(), "cbor-depth", 33),
    ((32 * b"\xa1\x60" + b"\xa1\x60\x00").hex(), "cbor-depth", 65),
]


@pytest.mark.parametrize(("text", "slug", "offset"), REFUSED)
def test_each_reason_names_its_rule_and_its_byte(text, slug, offset):
    with pytest.raises(CborFault) as caught:
        decode(h(text))
    assert (caught.value.slug, caught.value.offset) == (slug, offset)


ACCEPTED = [
    "fa33000000",  # 2^-25, below what a half holds
    "fa477ff000",  # 65520, rounds up to infinity in a half
    "fb3fb999999999999a",  # 0.1
    "f98000",
    "f90001",
    "f94800",  # 8.0 stays a float
    "f97e00",
    (32 * b"\x81" + b"\x00").hex(),
    (32 * b"\x81" + b"\x80").hex(),
    (32 * b"\x81" + b"\xa0").hex(),
    (31 * b"\x81" + b"\xa1\x60\x00").hex(),
    "a2617a00626262" + "00",  # shorter first
    "a80a00186400200040006000800" + "0a000f400",  # by major type, one key of each kind
    "a2" + "6161" + "00" + "8000",
    "3bffffffffffffffff",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_lies_at_the_edge_is_accepted_and_written_back(text):
    assert encode(decode(h(text))) == h(text)


def test_a_map_with_odd_keys_keeps_each_of_them():
    """1, 1.0 and true would be one key of a dict."""
    data = h("a3" + "01" + "00" + "f5" + "01" + "f93c00" + "02")
    assert exact(decode(data)) == exact(Pairs(((1, 0), (True, 1), (1.0, 2))))
    assert encode(decode(data)) == data


def test_claims_cost_no_memory():
    """An array of 2^60 elements must not be allocated before it is refused."""
    nested = b"".join(b"\x9b" + (1 << 59).to_bytes(8, "big") for _ in range(20))
    with pytest.raises(CborFault, match="runs past the end"):
        decode(nested)


def test_the_table_breaks_every_rule():
    assert {rule.id for rule in CBOR_RULES} == {"zt." + slug for slug in SLUGS}


# Against cbor2.

keys = st.text(st.characters(codec="utf-8"), max_size=30)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64 - 1),
    st.integers(-300, 300),
    st.floats(),
    st.floats(width=32),
    st.floats(width=16),
    st.text(st.characters(codec="utf-8"), max_size=300),
    st.binary(max_size=300),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=30), st.dictionaries(keys, inner, max_size=30)
    ),
    max_leaves=40,
)
odd_keys = st.one_of(scalars.filter(lambda key: not isinstance(key, float)), st.tuples(scalars))
odd_maps = st.dictionaries(odd_keys, scalars, max_size=6)


@given(values)
def test_what_cbor2_writes_canonically_is_accepted_and_equal(value):
    data = cbor2.dumps(value, canonical=True)
    assert exact(decode(data)) == exact(value)
    assert encode(value) == data


@given(values)
def test_what_is_written_means_the_same_to_cbor2(value):
    assert exact(cbor2.loads(encode(value))) == exact(value)


@given(odd_maps)
def test_keys_of_any_kind_are_ordered_as_cbor2_orders_them(value):
    encoded = [cbor2.dumps(key, canonical=True) for key in value]
    if len(set(encoded)) == len(encoded):  # −0 and 0 and the like
        # cbor2 sorts shorter encodings first (RFC 7049); RFC 8949 sorts bytewise.
        pairs = sorted(zip(encoded, value.values(), strict=True))
        expected = b"".join(key + cbor2.dumps(item, canonical=True) for key, item in pairs)
        data = encode(value)
        assert data == cbor.encode_head(5, len(pairs)) + expected
        assert encode(decode(data)) == data


streams = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=3),
            st.sampled_from([h(text) for text, _, _ in REFUSED] + [h(text) for text in ACCEPTED]),
            st.integers(0, 255).map(lambda byte: bytes((byte,))),
        ),
        max_size=12,
    ).map(b"".join),
    values.flatmap(
        lambda value: st.tuples(
            st.integers(0, 255), st.floats(0, 1, exclude_max=True), st.just(encode(value))
        ).map(lambda edit: altered(*edit))
    ),
)


def altered(byte: int, place: float, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[int(place * len(data))] = byte
    return bytes(changed)


@given(streams)
def test_bytes_are_refused_by_our_fault_alone_or_written_back_as_they_were(data):
    try:
        value = decode(data)
    except CborFault as error:
        fault = error
    else:
        fault = None
    if fault is not None:
        assert 0 <= fault.offset <= len(data)
        assert fault.slug in SLUGS
        return
    assert encode(value) == data
    assert comparable(cbor2.loads(data)) == comparable(value)


SLUGS = {slug for _, slug, _ in REFUSED}
"""Every slug there is: the table above breaks each rule."""


def comparable(value):
    """Write a value as cbor2 sees it: maps with keys that Python takes for one hold fewer."""
    if isinstance(value, Pairs):
        return "odd map"
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return "odd map"
    if isinstance(value, dict) or type(value).__name__ == "FrozenDict":
        return sorted((key, comparable(item)) for key, item in value.items())
    return [comparable(item) for item in value] if isinstance(value, list) else exact(value)


@pytest.mark.parametrize(
    "data",
    [
        b"\x9a\x00\x01\x00\x00" + b"\x80" * (1 << 16),
        b"\xba\x00\x01\x00\x00" + b"".join(b"\x63%3x\x00" % n for n in range(1 << 12)) + b"\x00",
        b"\x81" * (1 << 20),
        b"\xa1\x80" * (1 << 19),
        b"\x5a\x00\x10\x00\x00" + bytes(1 << 20),
        (b"\x9b" + bytes(8)) * (1 << 16),
        32 * b"\xa1" + b"\x5a\x00\x10\x00\x00" + bytes(1 << 20) + 32 * b"\x00",
    ],
    ids=["wide", "map", "deep", "deep-keys", "bytes", "claims", "nested-keys"],
)
def test_a_megabyte_takes_a_moment(data):
    start = time.perf_counter()
    with contextlib.suppress(CborFault):
        assert encode(decode(data)) == data
    assert time.perf_counter() - start < 3


# Writing.


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (2**64, ()),
        (-(2**64) - 1, ()),
        ({"a": [0, 10**5000]}, ("a", 1)),
        ({"a": {10**5000: 0}}, ("a", "int")),
        ({"a": object()}, ("a",)),
        ({"a": {1, 2}}, ("a",)),
        ("\ud800", ()),
        ({"\udfff": 0}, ("\udfff",)),
        (Pairs((("a", 0), ("a", 1))), ("a",)),
        (1j, ()),
    ],
)
def test_what_has_no_place_is_refused_and_its_path_told(value, where):
    with pytest.raises(Unencodable) as caught:
        encode(value)
    assert caught.value.where == where


def test_nesting_is_written_as_deep_as_it_is_read():
    value: object = 0
    for _ in range(32):
        value = [value]
    assert decode(encode(value)) == value
    with pytest.raises(Unencodable):
        encode([value])
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(Unencodable):
        encode(loop)


def test_a_view_is_written_by_its_bytes():
    view = memoryview(b"abcdefgh").cast("H")
    assert encode(view) == b"\x48abcdefgh"
    assert encode(memoryview(b"abcdef")[::2]) == b"\x43ace"


# Places.


def places(value, where=()):
    """Every path into a value, with the value there."""
    yield where, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*where, key))
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*where, index))


@given(values)
def test_every_path_leads_to_its_item(value):
    data = encode(value)
    known: cbor.Places = {}
    for where, item in places(value):
        for offset in (locate(data, where), locate(data, where, known)):
            assert offset is not None
            encoded = encode(item)
            assert data[offset : offset + len(encoded)] == encoded


@pytest.mark.parametrize(
    ("text", "where", "offset"),
    [
        ("a26161820001616202", ("a",), 3),
        ("a26161820001616202", ("a", 1), 5),
        ("a26161820001616202", ("b",), 8),
        ("a26161820001616202", ("c",), None),
        ("a26161820001616202", ("a", 2), None),
        ("a26161820001616202", ("a", "0"), None),
        ("a26161820001616202", ("b", 0), None),
        ("a26161820001616202", (0,), None),
        ("a2010061610a", ("a",), 5),
        ("a2010061610a", ("1",), None),
        ("00", (), 0),
    ],
)
def test_a_path_by_hand(text, where, offset):
    assert locate(h(text), where) == offset


def test_many_places_in_one_container_take_one_pass():
    data = encode([[index] * 4 for index in range(20_000)])
    known: cbor.Places = {}
    start = time.perf_counter()
    for index in range(20_000):
        assert locate(data, (index, 3), known) is not None
    assert time.perf_counter() - start < 2


# The shortcut.


def test_the_shortcut_sees_the_values_in_its_member_and_nothing_else():
    asked = []

    def recognize(data, pos):
        asked.append(pos)
        return ("known", pos + 1) if data[pos] == 0xA0 else None

    inner = {"x": {}, "y": {"z": {}}}
    data = encode({"a": inner, "b": inner, "c": [inner]})
    expected = {"a": inner, "b": {"x": "known", "y": {"z": {}}}, "c": [inner]}
    assert decode(data, ("b", recognize, bool)) == expected
    assert asked == [locate(data, ("b", "x")), locate(data, ("b", "y"))]
    assert decode(data, ("none", recognize, bool)) == {"a": inner, "b": inner, "c": [inner]}


JUNK = st.lists(
    st.sampled_from([*range(256), 0xA0, 0x80, 0x18, 0x19, 0x81, 0xA1, 0x61]), max_size=12
)


@example(field=b"\x9b\0\0\0\1\0\0\0\0" + b"\0" * 9, items=24)  # as many elements as fit nowhere
@example(field=b"\x98\x30" + b"\0" * 9, items=0)
@example(field=b"\xb8\x18" + b"\x61a\0" * 9, items=0)
@given(field=st.one_of(st.builds(bytes, JUNK), values.map(encode)), items=st.integers(0, 40))
def test_what_is_not_built_is_judged_all_the_same(field, items):
    """A member of the root that is unknown: the same fault at the same byte, or none."""
    for value in (field, bytes([0x98, items]) + field * items if items > 23 else field):
        data = b"\xa2\x61a" + value + b"\x61b\x01"
        answers = []
        for known in (None, {"b"}):
            try:
                found = decode(data, None, known)
                answers.append(found["b"] if isinstance(found, dict) else "odd keys")
            except CborFault as fault:
                answers.append((fault.slug, fault.offset))
        assert answers[0] == answers[1]


def test_a_text_of_hardly_anything_but_items_is_refused_before_they_are_built():
    count = 200_000
    crowd = b"\x9a" + count.to_bytes(4, "big") + b"\xa0" * count
    with pytest.raises(LimitExceeded):
        decode(crowd)
    assert decode(b"\xa1\x61a" + crowd, None, {"b"}) == {"a": None}
    deep = b"\x81" * 31
    for known in (None, ()):
        with pytest.raises(CborFault) as caught:
            decode(b"\xa1\x61a" + deep + b"\x81\x00", None, known)
        assert caught.value.slug == "cbor-depth"


@pytest.mark.parametrize("excess", [0, 1])
def test_so_many_items_are_skipped_of_one_member_and_no_more(monkeypatch, excess):
    """Those that are no run of small ones: texts of one letter. The array is an item as well."""
    monkeypatch.setattr("tensorark.wire.cbor._MOST_STEPS", 1000)
    count = 999 + excess
    data = b"\xa1\x61a\x99" + count.to_bytes(2, "big") + b"\x61x" * count
    if not excess:
        assert decode(data, None, {"b"}) == {"a": None}
        return
    with pytest.raises(LimitExceeded):
        decode(data, None, {"b"})
