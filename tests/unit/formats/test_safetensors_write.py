from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.core.conversation import drive
from tensorark.core.model import Encoded, Part, Raw, Span, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import InvalidInput
from tensorark.formats.safetensors import (
    SAFETENSORS,
    SAFETENSORS_INDEX,
    UNKNOWN,
    index_bytes,
    index_name,
    plan,
    plan_shards,
    refusals,
    shard_names,
    stamp,
)
from tests.unit.sources import Memory

# Name in safetensors, storage type, logical type, bits: written down from the format's description.
TYPES = [
    ("F64", "f64", None, 64),
    ("I64", "i64", None, 64),
    ("U64", "u64", None, 64),
    ("C64", "f32", "complex64", 64),
    ("F32", "f32", None, 32),
    ("I32", "i32", None, 32),
    ("U32", "u32", None, 32),
    ("F16", "f16", None, 16),
    ("BF16", "bf16", None, 16),
    ("I16", "i16", None, 16),
    ("U16", "u16", None, 16),
    ("I8", "i8", None, 8),
    ("U8", "u8", None, 8),
    ("BOOL", "u8", "bool", 8),
    ("F8_E4M3", "u8", "f8_e4m3fn", 8),
    ("F8_E5M2", "u8", "f8_e5m2", 8),
    ("F8_E4M3FNUZ", "u8", "f8_e4m3fnuz", 8),
    ("F8_E5M2FNUZ", "u8", "f8_e5m2fnuz", 8),
    ("F8_E8M0", "u8", "f8_e8m0", 8),
    ("F6_E2M3", "u8", "safetensors.f6_e2m3", 6),
    ("F6_E3M2", "u8", "safetensors.f6_e3m2", 6),
    ("F4", "u8", "f4_e2m1", 4),
]


def tensor(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    type_: str | None = None,
    nbytes: int | None = None,
) -> Tensor:
    bits = next(bits for _, d, t, bits in TYPES if (d, t) == (dtype, type_))
    count = 1
    for dimension in shape:
        count *= dimension
    nbytes = count * bits // 8 if nbytes is None else nbytes
    return Tensor(name, shape, "dense", {"data": Part(Raw((Span(0, nbytes),)), dtype, type_)})


def header_of(planned) -> dict[str, dict[str, object]]:
    assert int.from_bytes(planned.header[:8], "little") == len(planned.header) - 8
    return json.loads(planned.header[8:])


def test_a_plan_is_the_file_byte_for_byte():
    planned = plan([tensor("b", (2,), "u8"), tensor("a", (3, 1), "f32")], {"k": "v", "é": "\n"})
    text = (
        '{"__metadata__":{"k":"v","é":"\\n"},'
        '"a":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},'
        '"b":{"dtype":"U8","shape":[2],"data_offsets":[12,14]}}'
    ).encode()
    length = -(-(len(text) + 8) // 64) * 64 - 8
    assert planned.header == length.to_bytes(8, "little") + text.ljust(length)
    assert planned.order == ("a", "b")
    assert planned.size == length + 8 + 14


def test_wider_elements_come_first_then_names_by_their_bytes():
    tensors = [
        tensor(f"{name}.{n}", (8,), d, t) for n, (_, d, t, _) in enumerate(TYPES) for name in "ba"
    ]
    tensors += [tensor("é", (1,), "f64"), tensor("z", (1,), "f64"), tensor("Z", (1,), "f64")]
    bits = {
        each.name: next(b for _, d, t, b in TYPES if (d, t) == (p.dtype, p.type))
        for each in tensors
        for p in each.parts.values()
    }
    order = plan(tensors, None).order
    assert sorted(order) == sorted(bits)
    for left, right in itertools.pairwise(order):
        assert (-bits[left], left.encode()) < (-bits[right], right.encode())


def test_no_tensor_is_misaligned_and_data_starts_at_64():
    tensors = [
        tensor(f"{n}", (n + 1,) if bits >= 8 else (8,), d, t)
        for n, (_, d, t, bits) in enumerate(TYPES)
    ]
    planned = plan(tensors, None)
    assert len(planned.header) % 64 == 0
    for member in header_of(planned).values():
        bits = next(bits for name, _, _, bits in TYPES if name == member["dtype"])
        assert member["data_offsets"][0] % max(bits // 8, 1) == 0


def test_s23_bytes_do_not_depend_on_any_order():
    tensors = [tensor(f"t{n}", (n,), "f32") for n in range(20)]
    pairs = [(f"key{n}", f"value{n}") for n in range(16)]
    headers = set()
    for seed in range(8):
        random.Random(seed).shuffle(pairs)
        random.Random(seed).shuffle(tensors)
        headers.add(plan(tensors, dict(pairs)).header)
    assert len(headers) == 1


def test_absent_and_empty_metadata_differ():
    assert header_of(plan([], None)) == {}
    assert header_of(plan([], {})) == {"__metadata__": {}}


def test_every_type_that_the_format_has_keeps_its_name():
    tensors = [tensor(name, (8, 3), d, t) for name, d, t, _ in TYPES]
    assert {n: m["dtype"] for n, m in header_of(plan(tensors, None)).items()} == {
        name: name for name, *_ in TYPES
    }
    assert list(refusals(tensors)) == []


def sparse() -> Tensor:
    return replace(tensor("a", (1,), "f32"), layout="zt.sparse_csr/1")


def typed(dtype: str, type_: str | None) -> Tensor:
    return Tensor("a", (1,), "dense", {"data": Part(Raw((Span(0, 16),)), dtype, type_)})


REFUSED = [
    (sparse(), 'layout "zt.sparse_csr/1"'),
    (typed("f64", "complex128"), '"complex128"'),
    (typed("u8", "gguf.q4_0"), '"gguf.q4_0"'),
    (typed("u8", "safetensors.xx"), '"safetensors.xx"'),
    (typed("f32", "bool"), '"bool" over f32'),
    (tensor("a", (3,), "u8", "f4_e2m1", 2), "3 elements of 4 bits do not fill whole bytes"),
    (tensor("a", (2,), "u8", "safetensors.f6_e2m3", 2), "do not fill whole bytes"),
    (tensor("a", (3,), "f32", None, 8), "needs 12 bytes, its data has 8"),
    (tensor("a", (1 << 63, 2, 0), "f32"), "too many elements"),
    (tensor("a", (-1, -1), "u8"), "too many elements"),
    (tensor("__metadata__", (1,), "u8"), "reserved"),
    (tensor("\ud800", (1,), "u8"), "not Unicode"),
    (replace(tensor("a", (1,), "u8"), parts={}), "other parts"),
    (
        replace(
            tensor("a", (1,), "u8"),
            parts={n: Part(Raw((Span(0, 1),)), "u8") for n in ("data", "b")},
        ),
        "other parts",
    ),
]


@pytest.mark.parametrize(("refused", "reason"), REFUSED)
def test_what_the_format_cannot_hold_is_refused_by_name(refused, reason):
    fine = tensor("fine", (2,), "bf16")
    found = list(refusals([fine, refused, fine]))
    assert [name for name, _ in found] == [refused.name]
    assert reason in found[0][1]
    with pytest.raises(InvalidInput) as caught:
        plan([refused], None)
    assert caught.value.where == (refused.name,)
    assert reason in caught.value.detail
    assert str(caught.value).isprintable()


def test_an_encoded_part_is_planned_with_its_decoded_size():
    part = Part(Encoded((Span(0, 3),), "zstd", 4000), "f32")
    stored = Tensor("a", (1000,), "dense", {"data": part})
    assert list(refusals([stored])) == []
    assert header_of(plan([stored], None))["a"]["data_offsets"] == [0, 4000]


@pytest.mark.parametrize(
    "metadata", [{"a": 1}, {1: "a"}, {"a": None}, {"\ud800": ""}, {"": "\udfff"}]
)
def test_metadata_must_be_text(metadata):
    with pytest.raises(InvalidInput):
        plan([], metadata)


def test_a_name_given_twice_is_refused():
    with pytest.raises(InvalidInput, match="twice"):
        plan([tensor("a", (1,), "u8"), tensor("a", (1,), "f32")], None)


# A short alphabet: tables of all of Unicode take seconds to load.
NAMES = st.text('ab."\\\n\0\x7fé€😀', max_size=8)
TENSORS = st.dictionaries(
    NAMES,
    st.tuples(
        st.sampled_from(TYPES),
        st.lists(st.integers(0, 4), max_size=3).map(tuple),
    ),
    max_size=8,
).map(
    lambda drawn: [
        tensor(name, (*shape, 8) if bits < 8 else shape, d, t)
        for name, ((_, d, t, bits), shape) in drawn.items()
    ]
)
METADATA = st.none() | st.dictionaries(NAMES, NAMES, max_size=4)


@given(TENSORS, METADATA)
def test_a_planned_file_opens_with_the_same_tensors(tensors, metadata):
    planned = plan(tensors, metadata)
    source = Memory(planned.header + bytes(planned.size - len(planned.header)))
    catalog = drive(SAFETENSORS.read(source.size, Reading()), source)
    assert tuple(catalog.tensors) == planned.order
    assert catalog.attributes == metadata
    for each in tensors:
        again = catalog.tensors[each.name]
        old, new = each.parts["data"], again.parts["data"]
        assert (again.shape, new.dtype, new.type, new.nbytes) == (
            each.shape,
            old.dtype,
            old.type,
            old.nbytes,
        )
    # A second plan from what was read is the same file.
    assert plan(list(catalog.tensors.values()), catalog.attributes).header == planned.header


# --------------------------------------------------------------------------------------- shard sets


def test_names_are_those_of_the_public_tools():
    assert shard_names("model", 3) == (
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
    )
    assert index_name("model") == "model.safetensors.index.json"


def test_shards_are_filled_in_order_of_names_and_the_cap_holds():
    tensors = [tensor(f"t{n:03}", (n * 7 % 50,), "f32") for n in range(100)]
    random.Random(1).shuffle(tensors)
    metadata = {"format": "pt"}
    for limit in (600, 1000, 4096, 1 << 20):
        shards = plan_shards(tensors, limit, metadata)
        names = [each.name for shard in shards for each in shard]
        assert names == sorted(each.name for each in tensors)
        sizes = [plan(shard, stamp(metadata, UNKNOWN)).size for shard in shards]
        assert max(sizes) <= limit
        # Greedy: the next tensor would not have fitted, give or take the padding of the header.
        for shard, after in itertools.pairwise(shards):
            assert plan([*shard, after[0]], stamp(metadata, UNKNOWN)).size + 200 > limit


def test_a_limit_that_a_tensor_exceeds_alone_is_refused_with_the_least_that_would_do():
    tensors = [tensor("a", (10,), "u8"), tensor("big", (1000,), "u8")]
    with pytest.raises(InvalidInput) as caught:
        plan_shards(tensors, 1000)
    assert caught.value.where == ("big",)
    least = int(str(caught.value.expected).split()[-2])
    assert least == plan(tensors[1:], stamp(None, UNKNOWN)).size
    shards = plan_shards(tensors, least)
    assert [[each.name for each in shard] for shard in shards] == [["a"], ["big"]]
    with pytest.raises(InvalidInput):
        plan_shards(tensors, least - 1)


def test_what_cannot_be_stored_is_refused_before_it_is_distributed():
    with pytest.raises(InvalidInput, match="layout"):
        plan_shards([sparse()], 1 << 20)
    with pytest.raises(InvalidInput, match="twice"):
        plan_shards([tensor("a", (300,), "u8"), tensor("a", (300,), "u8")], 600)


def test_no_tensors_make_one_empty_shard():
    assert plan_shards([], 1000) == ((),)


def test_the_index_is_what_transformers_writes():
    shards = {
        "m-00001-of-00002.safetensors": [tensor("b", (2,), "f32"), tensor("é", (3,), "u8")],
        "m-00002-of-00002.safetensors": [tensor("a", (1,), "f64")],
    }
    assert index_bytes(shards, "xxh3:0123456789abcdef") == (
        b'{\n  "metadata": {\n    "tensorark.set": "xxh3:0123456789abcdef",\n'
        b'    "total_size": 19\n  },\n  "weight_map": {\n'
        b'    "a": "m-00002-of-00002.safetensors",\n'
        b'    "b": "m-00001-of-00002.safetensors",\n'
        b'    "\\u00e9": "m-00001-of-00002.safetensors"\n  }\n}\n'
    )


@given(TENSORS, METADATA)
def test_a_planned_set_opens_with_the_same_tensors(tensors, metadata):
    groups = plan_shards(tensors, 700, metadata) if tensors else ((),)
    named = dict(zip(shard_names("m", len(groups)), groups, strict=True))
    files: dict[str | None, bytes] = {None: index_bytes(named, UNKNOWN)}
    for label, group in named.items():
        planned = plan(group, stamp(metadata, UNKNOWN))
        files[label] = planned.header + bytes(planned.size - len(planned.header))
    source = Memory(files)
    catalog = drive(SAFETENSORS_INDEX.read(source.size, Reading()), source)
    assert {name: each.shape for name, each in catalog.tensors.items()} == {
        each.name: each.shape for each in tensors
    }
    if tensors:
        assert catalog.attributes == metadata
        assert set(catalog.files) == set(named)
