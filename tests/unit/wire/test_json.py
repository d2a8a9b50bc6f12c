from __future__ import annotations

import gc
import json
import math
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.errors import LimitExceeded
from tensorark.wire.gc_pause import pause_gc
from tensorark.wire.json import Malformed, Real, parse
from tensorark.wire.json_places import Places

MALFORMED = [
    # text, slug, byte offset, where
    (b"\xef\xbb\xbf{}", "bom", 0, ()),
    (b'{"a":"\xff"}', "utf8", 6, ()),
    (b'"\xed\xa0\x80"', "utf8", 1, ()),  # a surrogate in UTF-8 clothes
    (b'"\xc0\x80"', "utf8", 1, ()),  # an overlong NUL
    (b'["\\ud800"]', "surrogate", 2, ()),
    (b'["\\uDFFF"]', "surrogate", 2, ()),
    (b'["\\udc00\\ud800"]', "surrogate", 2, ()),
    (b'{"\\ud83d\\ude00\\ud83d":1}', "surrogate", 14, ()),
    (b'["\\\\\\ud800"]', "surrogate", 4, ()),
    (b"[" * 65 + b"]" * 65, "depth", 64, ()),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "depth", 64 * 5, ()),
    (b"[" * 1_000_000, "depth", 64, ()),
    (b'{"["' + b':{"]"' * 70, "depth", 3 + 64 * 5 - 3, ()),
    (b"", "syntax", 0, ()),
    (b"  ", "syntax", 2, ()),
    (b"{", "syntax", 1, ()),
    (b'{"a" 1}', "syntax", 5, ()),
    (b"{'a':1}", "syntax", 1, ()),
    (b'["\xc3\xa9", tru]', "syntax", 7, ()),
    (b'["a\tb"]', "syntax", 3, ()),
    (b'["\\x"]', "syntax", 2, ()),
    (b"[01]", "syntax", 2, ()),
    (b"[1.]", "syntax", 2, ()),
    (b"[+1]", "syntax", 1, ()),
    (b"[1] x", "trailing", 4, ()),
    (b"{}{}", "trailing", 2, ()),
    (b"{}\0", "trailing", 2, ()),
    ("{}\u00a0".encode(), "trailing", 2, ()),  # a space, but not JSON's
    (b'["NaN", NaN]', "constant", 8, ()),
    (b"[Infinity]", "constant", 1, ()),
    (b'{"\xc3\xa9":-Infinity}', "constant", 6, ()),
    (b'["1e999", 1e999]', "number", 10, ()),
    (b"[-1.0e400]", "number", 1, ()),
    (b"[1, " + b"9" * 5000 + b"]", "number", 4, ()),
    (b"[-0, 1e999]", "number", 5, ()),
    (b"[" + b"9" * 400 + b", 1e999]", "number", 403, ()),  # an integer of any size is exact
    (b'{"a":1,"a":2}', "duplicate", 7, ("a",)),
    (b'{"a":1,"\\u0061":2}', "duplicate", 7, ("a",)),
    (b'{"\xc3\xa9":{"x":[0,{"q":1, "q" :2}]}}', "duplicate", 22, ("é", "x", "q")),
    (b'{"a":{"a":1},"b":[{"a":1},{"a":2}],"b":0}', "duplicate", 35, ("b",)),
    (b'{"a]":{"b":0},"c\\"":{"d":1,"d":2}}', "duplicate", 27, ('c"', "d")),
]


@pytest.mark.parametrize(("text", "slug", "offset", "where"), MALFORMED)
def test_malformed_text_is_refused_with_its_reason_and_its_place(text, slug, offset, where):
    with pytest.raises(Malformed) as caught:
        parse(text)
    error = caught.value
    assert (error.slug, error.offset, error.where) == (slug, offset, where)
    assert error.expected
    assert error.found
    assert error.__cause__ is None


def test_a_trailing_comma_is_a_syntax_error():
    # Where the fault lies differs between interpreters.
    for text in (b"[1,]", b'{"a":1,}'):
        with pytest.raises(Malformed) as caught:
            parse(text)
        assert caught.value.slug == "syntax"


def test_integers_are_exact_and_told_apart():
    values = parse(b"[0, 18446744073709551616, -1, 1.0, 1e3, -0, true, null, 10]")
    kinds = [int, int, int, float, float, float, bool, type(None), int]
    assert values == [0, 1 << 64, -1, 1.0, 1000.0, 0.0, True, None, 10]
    assert list(map(type, values)) == kinds
    assert math.copysign(1, values[5]) == -1


def test_real_numbers_keep_their_spelling_on_request():
    values = parse(b"[1.50, 1E+3, -0, 12, -7, 1e999]", float_text=True)
    assert values == ["1.50", "1E+3", "-0", 12, -7, "1e999"]
    assert [type(value) for value in values] == [Real, Real, Real, int, int, Real]


def test_a_long_integer_is_found_behind_a_kept_real_number():
    with pytest.raises(Malformed) as caught:
        parse(b"[1e999, " + b"9" * 5000 + b"]", float_text=True)
    assert (caught.value.slug, caught.value.offset) == ("number", 8)


def test_depth_is_counted_outside_strings_only():
    assert parse(b'["[[[[{{{{\\"[[[", "]"]', depth=2) == ['[[[[{{{{"[[[', "]"]
    assert parse(b'{"a]":["}{"],"b":[[]]}', depth=3) == {"a]": ["}{"], "b": [[]]}
    # Brackets in strings that would make deep text look flat.
    with pytest.raises(Malformed, match="depth"):
        parse(b'["]",["]",["]",["]",["[","[","[","["]]]]]', depth=4)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 9, 10, 64])
def test_the_limit_of_depth_is_exact(limit):
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        inner = b"1" if opening != b"[" else b""
        parse(opening * limit + inner + closing * limit, depth=limit)
        with pytest.raises(Malformed, match="depth"):
            parse(opening * (limit + 1) + inner + closing * (limit + 1), depth=limit)


@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"":', b"}")], ids=["arrays", "maps"])
def test_what_is_closed_again_does_not_count_for_the_depth(pair):
    opening, closing = pair
    for depth, fits in ((64, True), (65, False)):
        deep = opening * (depth - 1) + b"1" + closing * (depth - 1)
        text = b"[" + b"[[]]," * 40 + deep + b",[]" * 40 + b"," + deep + b"]"
        if fits:
            assert len(parse(text)) == 82
        else:
            with pytest.raises(Malformed) as caught:
                parse(text)
            assert caught.value.slug == "depth"
            assert caught.value.offset == 1 + 5 * 40 + 63 * len(opening)


@pytest.mark.parametrize("before", range(4))
def test_values_are_counted_outside_of_strings_however_long_the_text_is(before):
    """It is taken apart a megabyte at a time: a string that goes on beyond one stays a string."""
    commas = "," * 1_500_000
    text = json.dumps(["a,"] * before + [commas, "\\", '"', commas, *range(5)], indent=1)
    assert len(parse(text.encode(), free=20)) == before + 9
    crowd = [commas, *[0] * 2_000_000, commas]
    text = json.dumps(crowd, separators=(",", ":")).encode()
    with pytest.raises(LimitExceeded) as caught:
        parse(text, free=0)
    assert caught.value.expected == len(text) // 6
    assert caught.value.found == 2_000_002  # an array, and a comma before all but the first


def test_no_recursion_error_leaves_even_without_stack():
    def deeper(left: int) -> object:
        return deeper(left - 1) if left else parse(b"[" * 60 + b"]" * 60)

    limit = sys.getrecursionlimit()
    seen = set()
    for left in range(limit - 160, limit - 40, 4):
        try:
            deeper(left)
            seen.add("parsed")
        except Malformed as error:
            seen.add(error.slug)
        except RecursionError:  # the call itself did not get that deep
            break
    assert "parsed" in seen


@pytest.mark.parametrize(
    "text",
    [
        b'{"' + b'\\"' * 500_000,
        b'"' * 1_000_001,
        b'{"a":"' + b"\\" * 1_000_001,
        b"[" + b'{"":' * 200_000,
        b"[" + b"-" * 1_000_000,
        b'["' + b"\\ud83d\\ude00" * 100_000 + b"\\ud83d",
    ],
)
def test_hostile_text_is_refused_in_linear_time(text):
    start = time.process_time()
    with pytest.raises(Malformed):
        parse(text)
    assert time.process_time() - start < 1


def test_views_are_read_like_bytes():
    assert parse(memoryview(b'x{"a":[1]} ')[1:]) == {"a": [1]}


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text('ab[]{}"\\/:,\n\0\x7fé€😀\u2028'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('ab[]{}"\\:,é'), inner),
        max_leaves=20,
    ),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_whatever_the_standard_library_writes_is_read_back(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    again = parse(text)
    assert json.dumps(again) == json.dumps(value)


@given(st.binary(max_size=40) | st.text('[]{},:"\\u0d8e1-.N \n', max_size=30).map(str.encode))
def test_verdicts_are_those_of_the_standard_library_or_stricter(text):
    try:
        value = parse(text)
    except Malformed as error:
        if error.slug in {"syntax", "trailing", "utf8"}:
            with pytest.raises(ValueError):  # noqa: PT011  any of its errors
                json.loads(text.decode("utf-8"))
        return
    assert json.dumps(json.loads(text)) == json.dumps(value) or b"-0" in text


def test_places_are_bytes_of_keys_and_elements():
    text = '{ "é" : [10, {"k": 1}], "b": {"c": null} }'.encode()
    places = Places(text, start=100)
    for where, mark in [
        ((), b"{"),
        (("é",), '"é"'.encode()),
        (("é", 0), b"10"),
        (("é", 1), b'{"k"'),
        (("é", 1, "k"), b'"k"'),
        (("b", "c"), b'"c"'),
        (("b", "missing", "more"), b'"b"'),
        (("b", "c", "deeper"), b'"c"'),
    ]:
        assert places.offset(where) == 100 + text.index(mark), where


def test_places_stay_exact_far_into_a_large_text():
    names = [f"é{n}" for n in range(30_000)]
    text = json.dumps(dict.fromkeys(names, 1), ensure_ascii=False).encode()
    places = Places(text)
    for name in names[:: len(names) // 7]:
        assert places.offset((name,)) == text.index(f'"{name}"'.encode())


def test_the_collector_is_paused_and_restored():
    assert gc.isenabled()
    with pause_gc():
        assert not gc.isenabled()
        with pause_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), pause_gc():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with pause_gc():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_parsing_restores_the_collector_after_a_refusal():
    with pytest.raises(Malformed):
        parse(b"[")
    assert gc.isenabled()
