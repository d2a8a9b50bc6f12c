from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time

import pytest

from tensorark.core.conversation import drive
from tensorark.core.limits import Limits
from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import Error, LimitExceeded, Rejected
from tensorark.formats.safetensors import SAFETENSORS
from tests.unit.sources import Memory


def file_of(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: object, shape: object, begin: int, end: int, **more: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end], **more}


def opened(data: bytes, **limits: int):
    return drive(SAFETENSORS.read(Memory(data).size, Reading(Limits(**limits))), Memory(data))


def faults(data: bytes) -> list[tuple[str, tuple[str | int, ...]]]:
    """Every finding as rule and place; what was raised must be the first of them."""
    gathered: list = []
    source = Memory(data)
    with pytest.raises(Rejected) as first:
        drive(SAFETENSORS.read(source.size, Reading()), Memory(data))
    with pytest.raises(Rejected):
        drive(SAFETENSORS.read(source.size, Reading(gathered=gathered)), source)
    assert (first.value.code, first.value.where) == (gathered[0].rule, gathered[0].where)
    assert first.value.exit_code == 3
    for each in gathered:
        assert each.offset is not None, each
        assert 0 <= each.offset <= len(data), each
        assert each.expected is not None, each
        assert each.found is not None, each
        assert each.detail, each
    return [(each.rule.removeprefix("safetensors."), each.where) for each in gathered]


A = entry("F32", [1], 0, 4)
LONG = (1 << 40).to_bytes(8, "little")
BIG = 1 << 64

BAD = [
    # frame
    (b"", ["file-size"], ()),
    (b"\2\0\0\0\0\0\0", ["file-size"], ()),
    (file_of(b""), ["header-begin"], ()),
    (file_of(b" {}"), ["header-begin"], ()),
    (file_of(b"\xef\xbb\xbf{}"), ["header-begin"], ()),
    (file_of(b"[]"), ["header-begin"], ()),
    (bytes(64), ["header-begin"], ()),
    (file_of(b"{}", length=3), ["header-bounds"], ()),
    (LONG + b"{}", ["header-bounds"], ()),
    (b"\xff" * 8 + b"{}", ["header-bounds"], ()),
    (file_of(b"", length=2), ["header-bounds"], ()),
    (b"version https://git-lfs.github.com/spec/v1\n", ["header-begin", "header-bounds"], ()),
    # syntax
    (file_of(b'{"\xff":1}'), ["json-utf8"], ()),
    (file_of(b'{"\\ud800":1}'), ["json-surrogate"], ()),
    (file_of(b'{"a":' + b"[" * 127 + b"]" * 127 + b"}"), ["json-depth"], ()),
    (file_of(b'{"a":1'), ["json-syntax"], ()),
    (file_of(b"{}{}"), ["json-trailing"], ()),
    (file_of(b"{}\0"), ["json-trailing"], ()),
    (file_of(b'{"a":NaN}'), ["json-constant"], ()),
    (file_of(b'{"a":1e999}'), ["json-number"], ()),
    (file_of(b'{"a":' + b"9" * 5000 + b"}"), ["json-number"], ()),
    (file_of(b'{"__metadata__":{"k":"1","k":"1"}}'), ["json-duplicate"], ("__metadata__", "k")),
    (file_of(b'{"__metadata__":{},"__metadata__":{}}'), ["json-duplicate"], ("__metadata__",)),
    (file_of(b'{"a":{"shape":[],"shape":[]}}'), ["json-duplicate"], ("a", "shape")),
    (file_of(b'{"a":{},"b":{},"a":{}}'), ["duplicate-name"], ("a",)),
    # schema
    (file_of({"__metadata__": []}), ["metadata-map"], ("__metadata__",)),
    (file_of({"__metadata__": {"a": "1", "k": 1}}), ["metadata-text"], ("__metadata__", "k")),
    (file_of({"a": ["F32", [1], [0, 4]]}, b"1234"), ["tensor-map"], ("a",)),
    (file_of({"a": None}), ["tensor-map"], ("a",)),
    (file_of({"a": {"shape": [], "data_offsets": [0, 1]}}, b"1"), ["dtype"], ("a",)),
    (file_of({"a": entry(1, [], 0, 1)}, b"1"), ["dtype"], ("a", "dtype")),
    (file_of({"a": entry(None, [], 0, 1)}, b"1"), ["dtype"], ("a", "dtype")),
    (file_of({"a": entry({"U8": None}, [], 0, 1)}, b"1"), ["dtype"], ("a", "dtype")),
    (file_of({"a": {"dtype": "U8", "data_offsets": [0, 1]}}, b"1"), ["shape"], ("a",)),
    (file_of({"a": entry("U8", None, 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", 1, 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", "1", 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", {}, 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", [1.0], 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", [True], 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", [-1], 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", [[1]], 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", [BIG], 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (file_of({"a": entry("U8", [10**99], 0, 1)}, b"1"), ["shape"], ("a", "shape")),
    (
        file_of(b'{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}'),
        ["shape"],
        ("a", "shape"),
    ),
    (file_of({"a": {"dtype": "U8", "shape": [1]}}, b"1"), ["data-offsets"], ("a",)),
    (file_of({"a": {**A, "data_offsets": [0]}}), ["data-offsets"], ("a", "data_offsets")),
    (file_of({"a": {**A, "data_offsets": [0, 4, 4]}}), ["data-offsets"], ("a", "data_offsets")),
    (file_of({"a": {**A, "data_offsets": [0, 4.0]}}), ["data-offsets"], ("a", "data_offsets")),
    (file_of({"a": {**A, "data_offsets": [0, BIG]}}), ["data-offsets"], ("a", "data_offsets")),
    (file_of({"a": {**A, "data_offsets": [False, 4]}}), ["data-offsets"], ("a", "data_offsets")),
    (file_of({"a": {**A, "data_offsets": {"0": 4}}}), ["data-offsets"], ("a", "data_offsets")),
    # open
    (file_of({"a": entry("F32", [1], 4, 0)}, b"1234"), ["offset-order"], ("a", "data_offsets")),
    (file_of({"a": entry("XX", [1], 4, 0)}, b"1234"), ["offset-order"], ("a", "data_offsets")),
    (
        file_of({"b": A, "a": entry("U8", [], 4, 3)}, bytes(4)),
        ["offset-order"],
        ("a", "data_offsets"),
    ),
    (file_of({"a": entry("U8", [BIG - 1, 2], 0, 0)}), ["shape-product"], ("a", "shape")),
    (file_of({"a": entry("U8", [BIG - 1, BIG - 1, 0], 0, 0)}), ["shape-product"], ("a", "shape")),
    (file_of({"a": entry("XX", [BIG >> 1] * 99, 0, 0)}), ["shape-product"], ("a", "shape")),
    (file_of({"a": entry("F4", [3], 0, 1)}, b"1"), ["bit-align"], ("a", "shape")),
    (file_of({"a": entry("F4", [3], 0, 2)}, b"12"), ["bit-align"], ("a", "shape")),
    (file_of({"a": entry("F6_E2M3", [2], 0, 2)}, b"12"), ["bit-align"], ("a", "shape")),
    (file_of({"a": entry("F6_E3M2", [3, 1], 0, 3)}, b"123"), ["bit-align"], ("a", "shape")),
    (file_of({"a": entry("F32", [2], 0, 4)}, b"1234"), ["byte-length"], ("a", "data_offsets")),
    (file_of({"a": entry("F32", [], 0, 0)}), ["byte-length"], ("a", "data_offsets")),
    (file_of({"a": entry("F32", [0], 0, 4)}, b"1234"), ["byte-length"], ("a", "data_offsets")),
    (file_of({"a": entry("F4", [4], 0, 4)}, b"1234"), ["byte-length"], ("a", "data_offsets")),
    (file_of({"a": A}, b"123"), ["truncated"], ("a",)),
    (file_of({"a": entry("XX", [1], 0, BIG - 1)}, b"123"), ["truncated"], ("a",)),
    (file_of({"a": A}, b"1234junk"), ["trailing-bytes"], ()),
    (file_of({}, b"1"), ["trailing-bytes"], ()),
    (file_of({"a": entry("F32", [1], 4, 8)}, b"12345678"), ["leading-hole"], ("a", "data_offsets")),
    (file_of({"z": entry("U8", [0], 9, 9)}, b"123456789"), ["leading-hole"], ("z", "data_offsets")),
    (
        file_of({"b": entry("F32", [1], 8, 12), "a": A}, bytes(12)),
        ["hole"],
        ("b", "data_offsets"),
    ),
    (
        file_of({"a": A, "z": entry("U8", [0], 5, 5), "b": entry("U8", [3], 5, 8)}, bytes(8)),
        ["hole"],
        ("z", "data_offsets"),
    ),
    (file_of({"a": A, "b": A}, b"1234"), ["overlap"], ("b", "data_offsets")),
    (
        file_of({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, bytes(12)),
        ["overlap"],
        ("b", "data_offsets"),
    ),
    (
        file_of({"a": entry("U8", [8], 0, 8), "b": entry("U8", [2], 2, 4)}, bytes(8)),
        ["overlap"],
        ("b", "data_offsets"),
    ),
    (
        file_of({"z": entry("U8", [0], 2, 2), "a": A}, bytes(4)),
        ["overlap"],
        ("z", "data_offsets"),
    ),
    (
        file_of({"a": A, "b": entry("XX", [9], 3, 5)}, bytes(5)),
        ["overlap"],
        ("b", "data_offsets"),
    ),
]


@pytest.mark.parametrize(("data", "rules", "where"), BAD)
def test_a_broken_file_breaks_exactly_these_rules(data, rules, where):
    found = faults(data)
    assert [rule for rule, _ in found] == rules
    assert found[0][1] == where


@pytest.mark.parametrize(
    ("shape", "told"),
    [([-1], "[-1]"), ([True], "[a boolean]"), ([2**128], "[a huge number]"), ([2**128 - 1], None)],
)
def test_a_number_is_told_as_it_is_unless_it_fills_the_line(shape, told):
    error = rejection(file_of({"a": entry("U8", shape, 0, 1)}, b"1"))
    assert (error.code, error.where) == ("safetensors.shape", ("a", "shape"))
    assert error.found == (told or f"[{2**128 - 1}]")


@pytest.mark.parametrize("header", [b" {}", b"[]", b""])
def test_what_is_no_object_is_told_at_the_first_byte_of_the_header(header):
    error = rejection(file_of(header))
    assert (error.code, error.offset) == ("safetensors.header-begin", 8)


def test_every_rule_of_a_file_has_a_broken_file():
    covered = {rule for _, rules, _ in BAD for rule in rules}
    # A byte order mark in front of a header is no brace, which is noticed first.
    assert covered | {"json-bom"} == {
        each.id.removeprefix("safetensors.") for each in SAFETENSORS.rules
    }
    assert len({each.id for each in SAFETENSORS.rules}) == len(SAFETENSORS.rules)
    assert all(each.requirement.endswith(".") for each in SAFETENSORS.rules)


def test_all_faults_of_a_stage_are_gathered():
    header = {
        "__metadata__": {"k": 1, "l": None},
        "a": {"dtype": 1, "shape": [True]},
        "b": 3,
        "c": entry("F32", [1], 9, 1),
    }
    assert faults(file_of(header)) == [
        ("metadata-text", ("__metadata__", "k")),
        ("metadata-text", ("__metadata__", "l")),
        ("tensor-map", ("b",)),
        ("dtype", ("a", "dtype")),
        ("shape", ("a", "shape")),
        ("data-offsets", ("a",)),
    ]
    header = {
        "a": entry("F32", [2], 0, 4),
        "b": entry("F4", [3], 2, 6),
        "c": entry("U8", [2], 8, 10),
        "d": entry("U8", [1], 9, 10),
    }
    assert faults(file_of(header, bytes(9))) == [
        ("bit-align", ("b", "shape")),
        ("byte-length", ("a", "data_offsets")),
        ("truncated", ("c",)),
        ("overlap", ("b", "data_offsets")),
        ("overlap", ("d", "data_offsets")),
        ("hole", ("c", "data_offsets")),
    ]


def rejection(data: bytes) -> Rejected:
    with pytest.raises(Rejected) as caught:
        opened(data)
    return caught.value


def test_offsets_point_at_the_member_in_the_file():
    data = file_of(
        '{"é":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'.encode() + b'"b":{"dtype":0}}'
    )
    error = rejection(data)
    assert (error.where, error.offset) == (("b", "dtype"), data.index(b'"dtype":0'))
    data = file_of(b'{"a":{}, "a":{}}')
    assert rejection(data).offset == data.rindex(b'"a"')
    data = file_of(b'{"a":\x00}')
    assert rejection(data).offset == data.index(b"\x00}")


# ------------------------------------------------------------------- reports of users, replayed


def test_s4_a_file_cut_short_says_how_much_is_there_and_what_is_missing():
    header = {"a": entry("U8", [80], 0, 80), "b": entry("U8", [90], 80, 170)}
    data = file_of(header, bytes(170))
    error = rejection(data[:-4])
    assert error.code == "safetensors.truncated"
    assert (error.expected, error.found) == (len(data), len(data) - 4)
    assert error.offset == len(data) - 4
    assert error.where == ("b",)
    percent = (len(data) - 4) * 100 // len(data)
    assert f"{percent} %" in str(error)
    assert '"b"' in str(error)
    assert str(len(data)) in str(error)
    assert rejection(data[:-91]).where == ("a",)
    assert rejection(data[:-90]).where == ("b",)


def test_s5_bytes_after_the_last_tensor_are_counted():
    error = rejection(file_of({"a": A}, b"1234junk"))
    assert error.detail == "4 trailing bytes"
    assert error.offset == len(file_of({"a": A}, b"1234"))


def test_s7_a_repeated_tensor_name_is_the_stated_reason():
    one = '"a":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    for second in ((0, 4), (4, 8)):
        text = "{" + one % (0, 4) + "," + one % second + "}"
        error = rejection(file_of(text.encode(), bytes(second[1])))
        assert error.code == "safetensors.duplicate-name"
        assert 'duplicate key "a"' in str(error)


def test_s8_holes_aliases_and_overlaps_are_told_apart_and_name_both():
    def message(*ranges: tuple[int, int]) -> str:
        header = {n: entry("U8", [e - b], b, e) for n, (b, e) in zip("abc", ranges, strict=False)}
        return rejection(file_of(header, bytes(max(e for _, e in ranges)))).detail

    assert message((0, 4), (8, 12)) == '4 bytes lie between "a" and "b"'
    assert message((4, 8)) == '4 bytes lie before "a", the first tensor'
    assert message((0, 4), (0, 4)) == '"b" has the same bytes as "a"'
    assert message((0, 8), (4, 12)) == '"b" overlaps "a"'
    assert message((0, 4), (2, 2)) == '"b" lies inside "a"'
    assert message((0, 8), (2, 4), (5, 8)) == '"b" overlaps "a"'


def test_s9_a_shape_that_needs_more_than_its_range_is_rejected():
    error = rejection(file_of({"a": entry("F32", [1000, 1000], 0, 4)}, b"1234"))
    assert (error.expected, error.found) == ("4000000 bytes", 4)


def test_s10_s11_misaligned_data_is_read():
    text = b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},'
    text += b'"b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}}'
    for padded in (text, text + b" " * (-len(text) % 8)):
        catalog = opened(file_of(padded, b"abc1234"))
        span = catalog.tensors["b"].parts["data"].blob.spans[0]
        assert span == Span(8 + len(padded) + 3, 4)


def test_s12_s13_metadata_may_be_empty_or_absent():
    assert opened(file_of({"a": A}, b"1234")).attributes is None
    assert opened(file_of({"__metadata__": {}, "a": A}, b"1234")).attributes == {}
    assert opened(file_of({"__metadata__": None, "a": A}, b"1234")).attributes is None
    assert opened(file_of({"a": A, "__metadata__": {"k": "v"}}, b"1234")).attributes == {"k": "v"}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "a number"),
        (1.5, "a number"),
        (True, "a boolean"),
        (None, "null"),
        ([], "a list"),
        ({}, "a map"),
    ],
)
def test_s14_metadata_that_is_no_text_is_named_with_its_kind(value, kind):
    error = rejection(file_of({"__metadata__": {"k": value}}))
    assert error.detail == f'metadata value of "k" is {kind}'
    assert error.where == ("__metadata__", "k")


def test_s15_small_floats_are_listed_with_logical_shapes():
    header = {"a": entry("F4", [2, 4], 0, 4), "b": entry("F8_E8M0", [4], 4, 8)}
    tensors = opened(file_of(header, bytes(8))).tensors
    assert (tensors["a"].shape, tensors["a"].parts["data"].type) == ((2, 4), "f4_e2m1")
    assert (tensors["b"].shape, tensors["b"].parts["data"].type) == ((4,), "f8_e8m0")


@pytest.mark.parametrize("length", [1, 2])
def test_s16_an_odd_count_of_nibbles_is_not_byte_aligned(length):
    error = rejection(file_of({"a": entry("F4", [3], 0, length)}, bytes(length)))
    assert error.detail == '"a" is not byte aligned'


def test_s17_tensors_without_bytes_keep_shape_and_type():
    header = {"a": entry("F64", [0], 0, 0), "b": entry("BOOL", [2, 0], 0, 0)}
    catalog = opened(file_of(header))
    assert {name: (t.shape, t.nbytes) for name, t in catalog.tensors.items()} == {
        "a": ((0,), 0),
        "b": ((2, 0), 0),
    }
    # Between, before and after others, listed in any order.
    header = {
        "z": entry("U8", [0], 4, 4),
        "b": entry("U8", [4], 4, 8),
        "y": entry("U8", [0], 8, 8),
        "a": A,
        "x": entry("U8", [0], 0, 0),
    }
    assert list(opened(file_of(header, bytes(8))).tensors) == ["z", "b", "y", "a", "x"]


def test_s29_a_length_that_looks_like_pickle_changes_nothing():
    data = file_of(json.dumps({"a": A}).encode().ljust(0x2E93), b"1234")
    assert data[:2] == b"\x93\x2e"
    assert SAFETENSORS.sniff(data[:64], data[-64:], len(data))
    assert list(opened(data).tensors) == ["a"]


# ------------------------------------------------------------------------------------ what is read


def test_a_catalog_lists_tensors_in_header_order():
    header = {
        "b": entry("BF16", [2, 1], 4, 8),
        "__metadata__": {"format": "pt"},
        "": entry("U8", [], 8, 9),
        "a": A,
    }
    data = file_of(header, bytes(9))
    catalog = opened(data)
    start = len(data) - 9
    assert catalog.format == "safetensors"
    assert catalog.files == ()
    assert catalog.tensors == {
        "b": Tensor("b", (2, 1), "dense", {"data": Part(Raw((Span(start + 4, 4),)), "bf16")}),
        "": Tensor("", (), "dense", {"data": Part(Raw((Span(start + 8, 1),)), "u8")}),
        "a": Tensor("a", (1,), "dense", {"data": Part(Raw((Span(start, 4),)), "f32")}),
    }
    assert list(catalog.tensors) == ["b", "", "a"]
    assert "a" in catalog.tensors
    assert "c" not in catalog.tensors
    with pytest.raises(KeyError):
        catalog.tensors["c"]
    native = catalog.native
    assert (native.length, native.data_start) == (start - 8, start)
    assert native.members == ("b", "__metadata__", "", "a")
    assert native.metadata == {"format": "pt"}


def test_an_unknown_element_type_is_listed_and_bounded():
    header = {"a": entry("X\u00c9", [3], 0, 7), "b": entry("F6_E3M2", [4], 7, 10)}
    tensors = opened(file_of(header, bytes(10))).tensors
    assert tensors["a"].parts["data"] == Part(
        Raw((Span(tensors["a"].parts["data"].blob.spans[0].offset, 7),)), "u8", "safetensors.xé"
    )
    assert tensors["b"].parts["data"].type == "safetensors.f6_e3m2"


def test_unknown_members_of_an_entry_are_ignored():
    assert list(opened(file_of({"a": {**A, "more": [{}, 1.5, None]}}, b"1234")).tensors) == ["a"]


def test_padding_after_the_header_may_be_any_white_space():
    text = json.dumps({"a": A}).encode() + b" \t\r\n "
    assert list(opened(file_of(text, b"1234")).tensors) == ["a"]


def test_small_headers_cost_one_round_trip_and_large_ones_two():
    source = Memory(file_of({"a": A}, bytes(4)))
    drive(SAFETENSORS.read(source.size, Reading()), source)
    assert source.round_trips == 1
    count = 2000
    header = {f"tensor.{n}": entry("U8", [1], n, n + 1) for n in range(count)}
    data = file_of(header, bytes(count))
    assert len(data) > 1 << 16
    source = Memory(data + b"")
    drive(SAFETENSORS.read(source.size, Reading()), source)
    assert source.round_trips == 2
    # No payload beyond the guess.
    assert max(span.end for span in source.spans) == len(data) - count


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_a_header_around_the_size_of_the_guess_is_read(shift):
    length = (1 << 16) - 8 + shift
    text = json.dumps({"a": A}).encode().ljust(length)
    source = Memory(file_of(text, b"1234"))
    catalog = drive(SAFETENSORS.read(source.size, Reading()), source)
    assert catalog.tensors["a"].parts["data"].blob.spans == (Span(8 + length, 4),)
    assert source.round_trips == (1 if shift <= 0 else 2)


def test_our_limit_on_headers_is_not_a_rule():
    data = file_of({"a": A}, b"1234")
    length = int.from_bytes(data[:8], "little")
    with pytest.raises(LimitExceeded) as caught:
        opened(data, safetensors_header=length - 1)
    assert (caught.value.expected, caught.value.found) == (length - 1, length)
    assert opened(data, safetensors_header=length).format == "safetensors"


def test_rejections_survive_pickling():
    error = rejection(file_of({"a": A}, b"123"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.where, again.offset) == (str(error), error.where, error.offset)


def test_names_from_files_are_escaped_in_messages():
    error = rejection(file_of({"\x1b[31m\u202e": A}, b"123"))
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (file_of({"a": A}, b"1234"), True),
        (file_of({"a": A})[:30], True),  # cut short inside the header
        (file_of(b"{}"), True),
        (file_of(b" {}"), True),  # broken, but meant to be one
        (file_of(b"{", length=2), True),
        (file_of(b"{", length=1), False),  # too short for an object
        (file_of(b"{", length=(1 << 40) - 1), True),
        (file_of(b"{", length=1 << 40), False),
        (file_of(b"{", length=1 << 56 | 2), False),  # of eight bytes each counts
        (b"", False),
        (b"\2\0\0\0\0\0\0\0", False),
        (bytes(64), False),
        (b'{"metadata": {"total_size": 1}, "weight_map": {}}', False),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", False),
        (b"<!DOCTYPE html><html>{}", False),
        (b"PK\3\4" + bytes(60), False),
        (b"GGUF\3\0\0\0{\0\0\0", False),
        (file_of(b"{a"), False),
    ],
)
def test_recognition_needs_a_length_and_an_object(data, verdict):
    assert SAFETENSORS.sniff(data[:64], data[-64:], len(data)) is verdict


# -------------------------------------------------------------------------------- cost of hostility


def hostile() -> dict[str, bytes]:
    many = b",".join(
        b'"%d":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}' % n for n in range(9000)
    )
    wide = entry("U8", [BIG - 1] * 20_000, 0, 1)
    # Dimensions whose tuples all hash alike: a number and a number plus 2^61 - 1.
    twins = [n * ((1 << 61) - 1) for n in range(8)]
    alike = {
        f"{n}": entry("U8", [0, *(twins[n >> 3 * bit & 7] for bit in range(5))], 0, 0)
        for n in range(8000)
    }
    return {
        "many aliases": file_of(b"{" + many + b"}", b"1"),
        "many dimensions": file_of({"a": wide}, b"1"),
        "shapes that hash alike": file_of(alike, b"1"),
        "deep": file_of(b'{"a":' * 200_000),
        "quotes": file_of(b'{"' + b'\\"' * 500_000),
        "claims": (1 << 62).to_bytes(8, "little") + b"{}",
        "far": file_of({"a": entry("U8", [1 << 62], 0, 1 << 62)}),
    }


@pytest.mark.parametrize("case", sorted(hostile()))
def test_hostile_files_cost_little_time(case):
    data = hostile()[case]
    start = time.process_time()
    with pytest.raises(Error):
        opened(data)
    assert time.process_time() - start < 1


CHILD = """
import resource, sys
sys.path[:0] = {path!r}
from tests.unit.formats.test_safetensors import Error, hostile, opened
files = hostile()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for data in files.values():
    try:
        opened(data)
    except Error:
        continue
    raise SystemExit("accepted")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_hostile_files_cost_little_memory():
    script = CHILD.format(path=[*sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 64 << 20


def numbered(count: int) -> bytes:
    entry_of = '"layers.{}.weight":{{"dtype":"F16","shape":[1,1],"data_offsets":[{},{}]}}'.format
    entries = (entry_of(n, 2 * n, 2 * n + 2) for n in range(count))
    return file_of(("{" + ",".join(entries) + "}").encode(), bytes(2 * count))


def test_a_hundred_thousand_tensors_open_in_well_under_two_seconds():
    count = 100_000
    data = numbered(count)
    start = time.process_time()
    catalog = opened(data)
    # About a third of a second on one core of 2024; the bound leaves room for a slow machine.
    assert time.process_time() - start < 2
    assert len(catalog.tensors) == count
    assert catalog.tensors[f"layers.{count - 1}.weight"].shape == (1, 1)


LARGE = """
import resource, sys
sys.path[:0] = {path!r}
from tests.unit.formats.test_safetensors import numbered, opened
data = numbered(1_300_000)
# Building the file leaves a peak of its own: only what goes beyond it counts.
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
catalog = opened(data)
print(len(catalog.tensors), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
def test_s6_over_a_million_tensors_open_within_a_kilobyte_each():
    script = LARGE.format(path=[*sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    count, grown = map(int, done.stdout.split())
    unit = 1 if sys.platform == "darwin" else 1024
    assert count == 1_300_000
    assert grown * unit <= 1024 * count
