from __future__ import annotations

import json
import time

import pytest

from tensorark.core.conversation import drive
from tensorark.core.limits import Limits
from tensorark.core.model import Span
from tensorark.core.rules import Reading
from tensorark.errors import LimitExceeded, ReadFailed, Rejected
from tensorark.formats.safetensors import FORMATS, SAFETENSORS, SAFETENSORS_INDEX
from tensorark.formats.safetensors.index import is_component
from tests.unit.sources import Memory

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def shard_of(tensors: dict[str, int], metadata: object = None, pad: int = 0) -> bytes:
    """Make a shard of U8 vectors, by name and length."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    begin = 0
    for name, length in tensors.items():
        end = begin + length
        header[name] = {"dtype": "U8", "shape": [length], "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode() + b" " * pad
    return len(text).to_bytes(8, "little") + text + bytes(begin)


def index_of(weight_map: object, **more: object) -> bytes:
    return json.dumps({"metadata": {"total_size": 9}, "weight_map": weight_map, **more}).encode()


def good() -> dict[str | None, bytes]:
    return {
        None: index_of({"b": TWO, "a": ONE, "c": TWO}),
        ONE: shard_of({"a": 3}, {"format": "pt"}),
        TWO: shard_of({"c": 2, "b": 1}, {"format": "pt"}),
    }


def opened(source: Memory, **limits: int):
    return drive(SAFETENSORS_INDEX.read(source.size, Reading(Limits(**limits))), source)


def faults(files: dict[str | None, bytes]) -> list[tuple[str, tuple[str | int, ...]]]:
    gathered: list = []
    with pytest.raises(Rejected) as first:
        opened(Memory(files))
    source = Memory(files)
    with pytest.raises(Rejected):
        drive(SAFETENSORS_INDEX.read(source.size, Reading(gathered=gathered)), source)
    assert (first.value.code, first.value.where) == (gathered[0].rule, gathered[0].where)
    assert all(each.expected is not None and each.found is not None for each in gathered)
    return [(each.rule.removeprefix("safetensors."), each.where) for each in gathered]


def test_a_set_is_one_catalog_in_the_order_of_its_index():
    files = good()
    source = Memory(files)
    catalog = opened(source)
    assert catalog.format == "safetensors-index"
    assert catalog.files == (ONE, TWO)
    assert list(catalog.tensors) == ["b", "a", "c"]
    assert len(catalog.tensors) == 3
    assert "a" in catalog.tensors
    assert "d" not in catalog.tensors
    start = len(files[TWO]) - 3
    assert catalog.tensors["b"].parts["data"].blob.spans == (Span(start + 2, 1, TWO),)
    assert catalog.tensors["c"].parts["data"].blob.spans == (Span(start, 2, TWO),)
    assert catalog.tensors["a"].parts["data"].blob.spans == (Span(len(files[ONE]) - 3, 3, ONE),)
    assert catalog.attributes == {"format": "pt"}
    assert catalog.native.metadata == {"total_size": 9}
    assert list(catalog.native.headers) == [ONE, TWO]
    assert catalog.native.headers[TWO].members == ("__metadata__", "c", "b")


def test_a_set_costs_one_round_trip_for_the_index_and_one_for_all_headers():
    source = Memory(good())
    opened(source)
    assert source.round_trips == 2
    files = good()
    files[ONE] = shard_of({"a": 3}, pad=1 << 17)
    files[TWO] = shard_of({"b": 1, "c": 2}, pad=1 << 18)
    source = Memory(files)
    opened(source)
    assert source.round_trips == 3
    files[ONE] = shard_of({"a": 3})
    source = Memory(files)
    opened(source)
    assert source.round_trips == 3
    assert [span.file for span in source.spans] == [None, ONE, TWO, TWO]


def test_an_index_may_list_nothing():
    source = Memory({None: index_of({})})
    catalog = opened(source)
    assert (len(catalog.tensors), catalog.files, catalog.attributes) == (0, (), None)
    assert source.round_trips == 1


def test_metadata_is_merged_where_the_shards_agree():
    files = good()
    files[ONE] = shard_of({"a": 3}, {"format": "pt", "shard": "1", "only": "here"})
    files[TWO] = shard_of({"b": 1, "c": 2}, {"format": "pt", "shard": "2"})
    catalog = opened(Memory(files))
    apart = {"shards": {ONE: {"shard": "1"}, TWO: {"shard": "2"}}}
    assert catalog.attributes == {"format": "pt", "only": "here", "safetensors.set": apart}
    assert [header.metadata["shard"] for header in catalog.native.headers.values()] == ["1", "2"]
    files[ONE], files[TWO] = shard_of({"a": 3}), shard_of({"b": 1, "c": 2}, {})
    assert opened(Memory(files)).attributes == {}
    files[TWO] = shard_of({"b": 1, "c": 2})
    assert opened(Memory(files)).attributes is None


def test_a_total_size_is_not_relied_upon():
    files = good()
    for metadata in ({}, {"total_size": 1}, {"total_size": 6.0, "more": [1]}):
        files[None] = index_of({"b": TWO, "a": ONE, "c": TWO}, metadata=metadata)
        assert opened(Memory(files)).native.metadata == metadata
    files[None] = json.dumps({"weight_map": {"b": TWO, "a": ONE, "c": TWO}}).encode()
    assert opened(Memory(files)).native.metadata is None


@pytest.mark.parametrize(
    ("index", "rules", "where"),
    [
        (b"", ["json-syntax"], ()),
        (b"\xef\xbb\xbf{}", ["json-bom"], ()),
        (b'{"weight_map":{"a":"x","a":"y"}}', ["json-duplicate"], ("weight_map", "a")),
        (b'{"weight_map":{},"weight_map":{}}', ["json-duplicate"], ("weight_map",)),
        (b"[]", ["index-map"], ()),
        (b"null", ["index-map"], ()),
        (b"{}", ["index-weight-map"], ("weight_map",)),
        (index_of([]), ["index-weight-map"], ("weight_map",)),
        (index_of(None), ["index-weight-map"], ("weight_map",)),
        (index_of({"a": ONE, "b": 1}), ["index-weight-map"], ("weight_map", "b")),
        (index_of({}, metadata=[]), ["index-metadata"], ("metadata",)),
        (index_of({}, metadata=None), ["index-metadata"], ("metadata",)),
        (index_of({"a": ONE, "b": "../x"}), ["index-name"], ("weight_map", "b")),
    ],
)
def test_a_broken_index_breaks_exactly_these_rules(index, rules, where):
    found = faults({None: index})
    assert [rule for rule, _ in found] == rules
    assert found[0][1] == where


BAD_NAMES = [
    *("../../secret", "/etc/passwd", "a/b", "a\\b", "..", ".", "", "a\0b", "C:x", "C:\\x"),
    *("\\\\host\\x", "x:stream", "a\nb", "\x7f", "dots..", "space ", "./x", "x/", "é" * 128),
]
GOOD_NAMES = [ONE, "x", ".hidden", "...x", "a b", "é.safetensors", "~x", "%2e%2e", "x" * 255]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_s28_a_name_that_leads_elsewhere_is_rejected_before_any_file_is_touched(name):
    source = Memory({None: index_of({"a": name})})
    with pytest.raises(Rejected) as caught:
        opened(source)
    assert caught.value.code == "safetensors.index-name"
    assert caught.value.where == ("weight_map", "a")
    assert caught.value.offset == source.files[None].index(b'"a"')
    assert source.sized == [None]
    assert {span.file for span in source.spans} == {None}
    assert not is_component(name)


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_plain_file_names_are_taken(name):
    assert is_component(name)
    files = {None: index_of({"a": name}), name: shard_of({"a": 1})}
    assert opened(Memory(files)).files == (name,)


def test_s25_a_missing_shard_is_named_with_what_it_holds():
    files = good()
    del files[TWO]
    source = Memory(files)
    with pytest.raises(ReadFailed) as caught:
        opened(source)
    error = caught.value
    assert (error.code, error.exit_code, error.where) == ("missing-shard", 5, (TWO,))
    assert TWO in str(error)
    assert '"b", "c"' in str(error)
    assert source.round_trips == 1


def test_only_a_few_of_the_missing_tensors_are_listed():
    names = {f"t{n}": ONE for n in range(9)} | {"a": TWO}
    with pytest.raises(ReadFailed, match='"t0", "t1", "t2" and 6 more there') as caught:
        opened(Memory({None: index_of(names)}))
    assert (caught.value.where, caught.value.found) == ((ONE,), 0)
    assert "1 more shards are missing" in caught.value.detail


def test_other_failures_are_not_called_missing():
    class Broken(Memory):
        def size(self, file=None):
            if file == TWO:
                raise ReadFailed("no permission", code="denied")
            return super().size(file)

    with pytest.raises(ReadFailed) as caught:
        opened(Broken(good()))
    assert caught.value.code == "denied"


def test_index_and_shards_must_agree_in_both_directions():
    files = good()
    files[ONE] = shard_of({"x": 3})
    assert faults(files) == [
        ("shard-lacks", ("weight_map", "a")),
        ("shard-unlisted", (ONE, "x")),
    ]
    files = good()
    files[None] = index_of({"b": TWO, "a": ONE})
    assert faults(files) == [("shard-unlisted", (TWO, "c"))]
    files = good()
    files[ONE] = shard_of({"a": 3, "b": 1})  # held twice, listed once
    assert faults(files) == [("shard-unlisted", (ONE, "b"))]


def test_the_three_disagreements_have_three_messages():
    def message(files: dict[str | None, bytes]) -> str:
        with pytest.raises((Rejected, ReadFailed)) as caught:
            opened(Memory(files))
        return caught.value.detail

    lacking, unlisted, absent, moved = good(), good(), good(), good()
    lacking[ONE] = shard_of({})
    unlisted[ONE] = shard_of({"a": 3, "d": 1})
    moved[ONE] = shard_of({"a": 3, "b": 1})
    del absent[ONE]
    assert message(lacking) == f'shard "{ONE}" lacks "a", which the index places there'
    assert message(unlisted) == f'shard "{ONE}" holds "d", which the index does not list'
    assert message(moved) == f'shard "{ONE}" holds "b", which the index does not place there'
    assert message(absent).startswith(f'shard "{ONE}" is missing; the index places "a" there')


def test_what_is_wrong_inside_a_shard_is_placed_under_its_name():
    files = good()
    files[TWO] = files[TWO][:-1]
    assert faults(files) == [("truncated", (TWO, "b"))]
    with pytest.raises(Rejected) as caught:
        opened(Memory(files))
    assert caught.value.path == TWO
    files[TWO] = b"{}"
    assert faults(files) == [("file-size", (TWO,))]
    files[TWO] = b"\0" * 8 + b"{}"
    assert faults(files) == [("header-begin", (TWO,))]


def test_limits_hold_for_index_and_shards():
    files = good()
    size = len(files[None])
    source = Memory(files)
    with pytest.raises(LimitExceeded) as caught:
        opened(source, index_file=size - 1)
    assert (caught.value.expected, caught.value.found) == (size - 1, size)
    assert source.round_trips == 0
    opened(source, index_file=size)
    with pytest.raises(LimitExceeded) as caught:
        opened(source, safetensors_header=10)
    assert (caught.value.path, caught.value.where) == (ONE, (ONE,))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (index_of({"a": ONE}), True),
        (json.dumps({"weight_map": {}}, indent=2).encode(), True),
        (b' \n{"weight_map":{', True),
        (
            json.dumps(
                {
                    "metadata": {"total_parameters": 8_030_261_248, "total_size": 16_060_522_496},
                    "weight_map": {"model.embed_tokens.weight": ONE},
                },
                indent=2,
            ).encode(),
            True,
        ),
        (json.dumps({"weight_map": {"a": "model-00001-of-00002.bin"}}).encode(), False),
        (b'{"metadata": {"total_size": 1}, "other": 1}', False),
        (b'["weight_map"]', False),
        (b"[" + index_of({"a": ONE}) + b"]", True),
        (b"\xef\xbb\xbf" + index_of({"a": ONE}), True),
        (b"", False),
        (shard_of({"a": 1}), False),
    ],
)
def test_recognition_needs_an_object_that_maps_weights(text, verdict):
    assert SAFETENSORS_INDEX.sniff(text[:64], text[-64:], len(text)) is verdict


def test_the_two_formats_are_values_with_their_own_names():
    assert FORMATS == (SAFETENSORS_INDEX, SAFETENSORS)
    assert [each.suffixes for each in FORMATS] == [(".safetensors.index.json",), (".safetensors",)]
    rules = {each.id for each in SAFETENSORS_INDEX.rules}
    assert {each.id for each in SAFETENSORS.rules} < rules
    assert all(each.startswith("safetensors.") for each in rules)


def test_s27_an_index_of_three_hundred_thousand_names_opens():
    names = [f"model.layers.{n}.mlp.experts.gate_up_proj.weight" for n in range(300_000)]
    entries = ",".join(f'"{n}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for n in names)
    text = ("{" + entries + "}").encode()
    files = {
        None: index_of(dict.fromkeys(names, ONE)),
        ONE: len(text).to_bytes(8, "little") + text,
    }
    assert len(files[None]) > 20 << 20
    start = time.process_time()
    assert len(opened(Memory(files)).tensors) == 300_000
    assert time.process_time() - start < 20  # about 2 on one core of 2024
