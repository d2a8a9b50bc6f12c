"""Typed attributes through metadata that is text only."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tensorark.errors import InvalidInput
from tensorark.wire.attributes import ENTRY, from_text, restore_types, to_text
from tensorark.wire.cbor import Pairs, encode
from tests.property.strategies import attributes, names

by_name = st.dictionaries(names, attributes, max_size=3)


@given(file=attributes, held=by_name)
def test_there_and_back(file, held):
    given_ones = {name: each for name, each in held.items() if each is not None}
    metadata = to_text(file, given_ones)
    if metadata is None:
        assert (file, given_ones) == (None, {})
        return
    assert all(isinstance(each, str) for pair in metadata.items() for each in pair)
    home = from_text(metadata)
    assert encode(home.file) == encode(file)
    assert encode(home.tensors) == encode(given_ones)


@given(file=st.dictionaries(names, st.text(st.characters(codec="utf-8")), max_size=4))
def test_text_alone_stays_as_it_is(file):
    assume(ENTRY not in file)
    assert to_text(file) == file
    assert from_text(file).file == file


def test_other_values_can_be_read_by_people_too():
    metadata = to_text(
        {"n": 3, "x": 1.5, "l": [1, None, True], "m": {"b": 1, "a": "ü"}, "t": "text"}
    )
    assert metadata is not None
    shown = {key: value for key, value in metadata.items() if key != ENTRY}
    assert shown == {
        "n": "3",
        "x": "1.5",
        "l": "[1, null, true]",
        "m": '{"a": "ü", "b": 1}',
        "t": "text",
    }
    assert (
        metadata[ENTRY]
        == encode(
            {
                "file": {"n": 3, "x": 1.5, "l": [1, None, True], "m": {"b": 1, "a": "ü"}},
                "tensors": {},
            }
        ).hex()
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, b"\x00", [b""], Pairs(((1, 2),))])
def test_what_json_has_no_word_for_is_shown_in_hexadecimal(value):
    metadata = to_text({"a": value})
    assert metadata is not None
    assert metadata["a"] == "cbor:" + encode(value).hex()
    assert encode(from_text(metadata).file) == encode({"a": value})


@pytest.mark.parametrize(("given_one", "back"), [((1, (2,)), [1, [2]]), ({1: 2}, Pairs(((1, 2),)))])
def test_what_python_has_more_kinds_of_comes_back_as_what_was_stored(given_one, back):
    metadata = to_text({"a": given_one})
    assert from_text(metadata).file == {"a": back}


def test_an_edit_in_between_wins():
    metadata = to_text({"n": 3, "gone": 4, "t": "text", "kept": [1]}, {"w": {"k": 1}})
    assert metadata is not None
    metadata["n"] = "5"
    metadata["new"] = "x"
    metadata["t"] = "changed"
    del metadata["gone"]
    home = from_text(metadata)
    assert home.file == {"n": "5", "new": "x", "t": "changed", "kept": [1]}
    assert home.tensors == {"w": {"k": 1}}


def test_no_attributes_differ_from_an_empty_map():
    assert to_text(None) is None
    assert to_text({}) == {}
    assert to_text(None, {}) is None
    for file in (None, {}):
        home = from_text(to_text(file, {"w": {}}))
        assert (home.file, home.tensors) == (file, {"w": {}})


def test_an_attribute_under_the_key_of_our_entry_is_not_lost():
    file = {ENTRY: "a00", "n": 1}
    metadata = to_text(file)
    assert metadata is not None
    assert metadata[ENTRY] != "a00"
    assert from_text(metadata).file == file


FORGED = [
    "",
    "zz",
    "a",
    "é",
    "00",
    "a0",
    "ff" * 1000,
    "9b7fffffffffffffff",
    (b"\x81" * 40).hex(),
    encode({"file": {}}).hex(),
    encode({"file": {}, "tensors": {}, "more": 1}).hex(),
    encode({"file": [], "tensors": {}}).hex(),
    encode({"file": {}, "tensors": []}).hex(),
    encode({"file": {}, "tensors": {"w": 1}}).hex(),
    encode({"file": {1: 2}, "tensors": {}}).hex(),
    encode({"file": {}, "tensors": {"w": {1: 2}}}).hex(),
    encode({"file": {}, "tensors": {1: {}}}).hex(),
    encode({"file": {}, "tensors": {}}).hex() + "00",
    "0" * 20_001,
]


@pytest.mark.parametrize("entry", FORGED, ids=range(len(FORGED)))
def test_an_entry_that_we_would_not_write_is_text_like_any_other(entry):
    metadata = {"a": "1", ENTRY: entry}
    home = from_text(metadata)
    assert (home.file, home.tensors) == (metadata, {})


def test_a_forged_entry_cannot_change_what_others_read():
    """Its values count only where the readable text says the same."""
    entry = encode({"file": {"a": 2, "b": [1], "c": "x"}, "tensors": {"none": {"k": 1}}}).hex()
    home = from_text({"a": "1", "b": "[1]", ENTRY: entry})
    assert home.file == {"a": "1", "b": [1]}
    assert home.tensors == {"none": {"k": 1}}  # found by nobody who asks for a tensor


@given(
    st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3), st.binary(max_size=40)
)
def test_any_entry_is_read_without_an_error(metadata, data):
    for entry in (data.hex(), data.decode("latin-1")):
        home = from_text({**metadata, ENTRY: entry})
        assert home.file is not None


@pytest.mark.parametrize(
    ("file", "held", "where"),
    [
        ({"a": 2**64}, None, ("attributes", "a")),
        ({"a": [0, object()]}, None, ("attributes", "a", 1)),
        ({1: 2}, None, ("attributes", "1")),
        (None, {"k": {"x": 1j}}, ("objects", "w", "attributes", "k", "x")),
        (None, {1: 2}, ("objects", "w", "attributes", "1")),
    ],
)
def test_what_cannot_be_stored_is_refused_by_our_error(file, held, where):
    with pytest.raises(InvalidInput) as caught:
        to_text(file, {} if held is None else {"w": held})
    assert caught.value.where == where


def test_nesting_without_end_is_refused():
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    loop: list[object] = []
    loop.append(loop)
    for value in (deep, loop):
        with pytest.raises(InvalidInput, match="deeper"):
            to_text({"a": value})


def test_formats_of_text_bring_their_attributes_home():
    home = restore_types(to_text({"n": 1}, {"w": {"k": [1.5]}}))
    assert home.file == {"n": 1}
    assert home.tensors == {"w": {"k": [1.5]}}


def test_what_a_format_says_itself_has_its_type():
    """It stands beside what was carried, and goes before it."""
    text = to_text({"n": 1}, {"w": {"k": 1, "l": 2}, "v": {"m": 3}})
    home = restore_types({**text, "own": {"deep": 1}}, {"w": {"k": 5}})
    assert home.file == {"n": 1, "own": {"deep": 1}}
    assert home.tensors == {"w": {"k": 5, "l": 2}, "v": {"m": 3}}
