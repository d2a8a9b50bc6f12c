"""N:M masks against a scalar reading of the specification, for every width and every tail."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.errors import InvalidInput, Rejected
from tensorark.layouts.nm import census, masks, window, zeros
from tensorark.layouts.nm import values as nm
from tensorark.layouts.nm.rules import (
    Pattern,
    Sparse,
    mask_size,
    packing_of,
    parse_pattern,
)

PATTERNS = [
    (1, 2),
    (2, 4),
    (1, 4),
    (2, 3),
    (3, 5),
    (4, 7),
    (4, 8),
    (5, 9),
    (5, 14),
    (6, 12),
    (8, 16),
    (16, 32),
    (3, 40),
]


def bit(mask: bytes, pattern: Pattern, index: int, width: int | None = None) -> bool:
    """Bit i of a group is bit i % 8 of byte i // 8 of the group; what lies behind is clear."""
    group, place = divmod(index, pattern.m)
    size = pattern.mask_width if width is None else width
    if place // 8 >= size:
        return False
    return bool(mask[group * size + place // 8] >> (place % 8) & 1)


def sparse_of(
    elements: int, pattern: Pattern, packing: str = "groups", dtype: str = "f32"
) -> Sparse:
    return Sparse(elements=elements, pattern=pattern, packing=packing, dtype=dtype)


def random_mask(rng, elements: int, pattern: Pattern) -> np.ndarray:
    return rng.integers(0, 256, mask_size(elements, pattern), dtype=np.uint8)


@pytest.mark.parametrize("pattern", [Pattern(*each) for each in PATTERNS], ids=str)
@pytest.mark.parametrize("extra", [0, 1, 3])
def test_bits_are_those_of_the_specification(pattern, extra, monkeypatch):
    monkeypatch.setattr(masks, "BLOCK", 64)
    rng = np.random.default_rng(pattern.m)
    elements = pattern.m * 23 + extra % pattern.m
    mask = random_mask(rng, elements, pattern)
    found = masks.unpack_mask(mask, sparse_of(elements, pattern))
    assert found.tolist() == [bit(mask.tobytes(), pattern, i) for i in range(elements)]


@pytest.mark.parametrize("pattern", [Pattern(*each) for each in PATTERNS], ids=str)
@pytest.mark.parametrize("extra", [0, 1, 3])
def test_masks_of_flags_give_the_flags_back_and_leave_unused_bits_clear(
    pattern, extra, monkeypatch
):
    monkeypatch.setattr(masks, "BLOCK", 64)
    rng = np.random.default_rng(pattern.n)
    elements = pattern.m * 23 + extra % pattern.m
    keep = rng.random(elements) < 0.5
    mask = masks.pack_mask(keep, pattern)
    assert mask.size == mask_size(elements, pattern)
    assert np.array_equal(masks.unpack_mask(mask, sparse_of(elements, pattern)), keep)
    assert np.unpackbits(mask).sum() == keep.sum()


@pytest.mark.parametrize("pattern", [Pattern(*each) for each in PATTERNS], ids=str)
@pytest.mark.parametrize("element", ["<f4", "<f2", "<f8", "i1", ml_dtypes.bfloat16])
def test_masking_sets_to_plus_zero_what_is_not_kept_and_nothing_else(pattern, element, monkeypatch):
    monkeypatch.setattr(masks, "BLOCK", 64)
    rng = np.random.default_rng(7)
    dtype = np.dtype(element)
    elements = pattern.m * 17 + 1
    words = rng.integers(0, 256, elements * dtype.itemsize, dtype=np.uint8).view(dtype)
    mask = random_mask(rng, elements, pattern)
    sparse = sparse_of(elements, pattern)
    found = masks.apply(words, mask, sparse, out=None)
    plain, wanted = found.view(np.uint8), words.copy().view(np.uint8)
    for index in range(elements):
        if not bit(mask.tobytes(), pattern, index):
            wanted[index * dtype.itemsize : (index + 1) * dtype.itemsize] = 0
    assert np.array_equal(plain, wanted)
    compact = masks.compact(words, mask, sparse)
    keep = masks.unpack_mask(mask, sparse)
    assert compact.tobytes() == words[keep].tobytes()
    assert masks.spread(compact, keep).tobytes() == found.tobytes()


def test_masking_works_in_place_and_on_unaligned_bytes():
    octets = np.frombuffer(b"x" + np.arange(1, 17, dtype="<f4").tobytes(), np.uint8)[1:]
    weights = octets.view("<f4")
    assert not weights.flags.aligned
    sparse = sparse_of(16, Pattern(2, 4))
    out = np.empty(16, "<f4")
    masks.apply(weights, np.array([3, 5, 6, 12], np.uint8), sparse, out=out)
    assert out.tolist() == [1, 2, 0, 0, 5, 0, 7, 0, 0, 10, 11, 0, 0, 0, 15, 16]
    again = weights.copy()
    assert masks.apply(again, np.array([3, 5, 6, 12], np.uint8), sparse, out=again) is again
    assert np.array_equal(again, out)


@pytest.mark.parametrize(
    ("elements", "pattern", "nbytes", "packing"),
    [
        (32, (2, 4), 8, "groups"),
        (10, (2, 4), 3, "groups"),
        (10, (2, 4), 2, "floor"),
        (3, (2, 4), 1, "groups"),
        (32, (8, 16), 4, "groups"),
        (32, (8, 16), 2, "truncated"),
        (24, (8, 16), 2, "floor"),
        (24, (8, 16), 4, "groups"),
        (36, (6, 12), 3, "truncated"),
        (32, (2, 4), 0, "none"),
        (32, (0, 0), 0, "none"),
        (32, (2, 4), 7, None),
        (32, (0, 0), 8, None),
        (32, (4, 8), 8, None),
        (0, (2, 4), 0, "none"),
        (1 << 63, (2, 4), 1 << 61, "groups"),
    ],
)
def test_the_packing_follows_from_the_sizes(elements, pattern, nbytes, packing):
    assert packing_of(elements, Pattern(*pattern), nbytes) == packing


def test_weights_without_a_bit_are_kept_and_those_a_truncated_mask_lacks_are_not():
    floor = masks.unpack_mask(np.array([3, 5], np.uint8), sparse_of(10, Pattern(2, 4), "floor"))
    assert floor.tolist() == [1, 1, 0, 0, 1, 0, 1, 0, 1, 1]
    short = masks.unpack_mask(
        np.array([0xFF, 0x01], np.uint8), sparse_of(32, Pattern(8, 16), "truncated")
    )
    assert short.tolist() == [1] * 8 + [0] * 8 + [1] + [0] * 15


def test_one_huge_group_is_cut_without_changing_an_answer(monkeypatch):
    monkeypatch.setattr(masks, "BLOCK", 64)
    monkeypatch.setattr(window, "CHUNK", 128)
    pattern, elements = Pattern(5, 1000), 2300
    rng = np.random.default_rng(3)
    mask = random_mask(rng, elements, pattern)
    keep = masks.unpack_mask(mask, sparse_of(elements, pattern))
    assert keep.tolist() == [bit(mask.tobytes(), pattern, i) for i in range(elements)]
    view, read = tensor_of(np.ones(elements, "<f4"), mask, pattern)
    found = census.count(view, read)
    groups = [int(keep[at : at + 1000].sum()) for at in (0, 1000, 2000)]
    assert found.bits == dict.fromkeys(sorted(groups[:2]), 1)
    assert (found.last, found.kept, found.stray) == (groups[2], keep.sum(), (~keep).sum())
    assert found.first_wrong == 0


def tensor_of(weights, mask, pattern, *, shape=None, facts=None, scales=None, dtype="f32"):
    parts = {"weights": (weights.tobytes(), dtype)}
    if mask is not None:
        parts["mask"] = (mask.tobytes(), "u8")
    if scales is not None:
        parts["scales"] = (np.asarray(scales, "<f4").tobytes(), "f32")
    held = {role: data for role, (data, _) in parts.items()}
    attributes = {"tensorbit": {"n": pattern.n, "m": pattern.m, **(facts or {})}}
    tensor = Tensor(
        "t",
        (weights.size,) if shape is None else shape,
        "tensorbit.nm/1",
        {role: Part(Raw((Span(0, len(data)),)), type_) for role, (data, type_) in parts.items()},
        attributes,
    )

    def read(role, start=0, stop=None):
        return memoryview(held[role])[start:stop]

    return tensor, read


@pytest.mark.parametrize("pattern", [Pattern(*each) for each in PATTERNS], ids=str)
def test_any_range_of_elements_is_that_of_the_whole(pattern, monkeypatch):
    monkeypatch.setattr(window, "CHUNK", 64)
    rng = np.random.default_rng(11)
    elements = pattern.m * 13 + 2
    weights = rng.standard_normal(elements).astype("<f4")
    tensor, read = tensor_of(weights, random_mask(rng, elements, pattern), pattern)
    whole = nm.assemble(tensor, read)
    for start, stop in ((0, 0), (0, 1), (1, elements), (pattern.m, 3 * pattern.m), (37, 38)):
        found = nm.elements(tensor, read, min(start, elements), min(stop, elements))
        assert found.tobytes() == whole[start:stop].tobytes()


@pytest.mark.parametrize("dtype", ["int8", "int4"])
@pytest.mark.parametrize("group", [0, 1, 3, 4, 100])
def test_quantized_weights_are_code_times_scale_of_their_group(dtype, group, monkeypatch):
    monkeypatch.setattr(window, "CHUNK", 16)
    rng = np.random.default_rng(group)
    elements = 101
    low = -128 if dtype == "int8" else -8
    codes = rng.integers(low, -low, elements)
    if dtype == "int8":
        packed, storage = codes.astype(np.int8), "i8"
    else:
        nibbles = np.append(codes & 15, 0).astype(np.uint8)
        packed, storage = nibbles[0::2] | nibbles[1::2] << 4, "u8"
    scales = rng.standard_normal(20).astype("<f4")
    facts = {"dtype": dtype, "group_size": group}
    pattern = Pattern(2, 3)
    mask = random_mask(rng, elements, pattern)
    tensor, read = tensor_of(
        packed, mask, pattern, shape=(elements,), facts=facts, scales=scales, dtype=storage
    )
    wanted = []
    for index, code in enumerate(codes.tolist()):
        at = index // group if group else 0
        scale = scales[at] if at < scales.size else np.float32(1)
        kept = bit(mask.tobytes(), pattern, index)
        wanted.append(np.float32(code) * scale if kept else np.float32(0))
    assert nm.assemble(tensor, read).tolist() == [float(each) for each in wanted]
    bare, read_bare = tensor_of(
        packed, None, Pattern(0, 0), shape=(elements,), facts={"dtype": dtype}, dtype=storage
    )
    found = nm.assemble(bare, read_bare)
    assert (found.dtype, found.tolist()) == (np.int8, codes.tolist())


def test_the_census_counts_what_is_there():
    weights = np.array([1, 0, 2, 0, -0.0, 5, 0, 0, 6, 0], "<f4")
    mask = np.array([0b0101, 0b0110, 0b01], np.uint8)
    tensor, read = tensor_of(weights, mask, Pattern(2, 4))
    found = census.count(tensor, read)
    assert (found.zeros, found.negative_zeros) == (6, 1)
    assert (found.kept, found.stray, found.idle) == (5, 0, 1)
    assert (found.bits, found.last) == ({2: 2}, 1)
    assert found.sparsity == 0.6
    stray, read = tensor_of(weights, np.array([1, 6, 1], np.uint8), Pattern(2, 4))
    found = census.count(stray, read)
    assert (found.stray, found.first_stray, found.first_wrong) == (1, 2, 0)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0x" * 16, (1, 2)),
        ("00xx" * 8, (2, 4)),
        ("000x" * 8, (1, 4)),
        ("00000xxx" * 4, (3, 8)),
        ("0" * 8 + "x" * 8 + "x" * 8 + "0" * 8, (8, 16)),
        ("x" * 16 + "0" * 16, (16, 32)),
        ("x" * 31 + "0", (31, 32)),
        ("x" * 32, None),
        ("0" * 32, None),
        ("00xx" * 4 + "0xxx" * 4, (20, 32)),
    ],
)
def test_the_tightest_pattern_is_found_in_zeros(text, wanted):
    row = [0.0 if each == "0" else 1.5 for each in text]
    matrix = np.array([row, row], np.float16)
    found = zeros.detect(matrix)
    assert found == (None if wanted is None else Pattern(*wanted))


def test_rows_that_no_group_divides_have_no_pattern():
    assert zeros.detect(np.zeros((4, 7)) + np.eye(4, 7)) is None
    assert zeros.detect(np.array([[0, 1, 0, 1, 0, 1]], np.float32)) == Pattern(1, 2)
    assert zeros.detect(np.float32(0)) is None


def test_groups_that_keep_too_few_are_filled_with_their_first_zeros():
    keep = np.array([0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0], bool)
    found = zeros.fill(keep, Pattern(2, 4))
    assert found.astype(int).tolist() == [1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0]


def test_patterns_are_read_and_nonsense_is_refused():
    assert parse_pattern("2:4") == Pattern(2, 4)
    for text in ("4:2", "4:4", "0:4", "2", "2:4:8", "-1:4", "2:99999", " 2:4", ""):
        with pytest.raises(InvalidInput):
            parse_pattern(text)


def test_spreading_needs_as_many_values_as_places():
    with pytest.raises(InvalidInput):
        masks.spread(np.ones(3), np.array([True, False]))
    with pytest.raises(InvalidInput):
        masks.pack_mask(np.ones(3, bool), Pattern(0, 0))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"attributes": None}, "tb.nm-pattern"),
        ({"attributes": {"tensorbit": {"n": 2, "m": True}}}, "tb.nm-pattern"),
        ({"attributes": {"tensorbit": {"n": 5, "m": 4}}}, "tb.nm-pattern"),
        ({"attributes": {"tensorbit": {"n": 2, "m": 1 << 64}}}, "tb.nm-pattern"),
        ({"shape": (9,)}, "tb.nm-weights-size"),
    ],
)
def test_metadata_is_judged_before_anything_is_decoded(change, rule):
    weights = np.ones(8, "<f4")
    tensor, read = tensor_of(weights, np.array([3, 3], np.uint8), Pattern(2, 4))
    with pytest.raises(Rejected) as caught:
        nm.assemble(replace(tensor, **change), read)
    assert caught.value.code == rule


def test_differences_are_those_of_numbers():
    left = np.array([0.0, -0.0, 1, np.nan, np.inf], "<f4")
    assert zeros.differences(left, left.copy()) == 0
    assert zeros.differences(left, np.array([-0.0, 0.0, 2, np.nan, np.inf], "<f4")) == 1
    assert zeros.differences(np.array([1, 2], np.int8), np.array([1, 3], np.int8)) == 1


@pytest.mark.parametrize(
    ("keep", "found"), [("", None), ("0000", None), ("0x0x", True), ("xxx0", None)]
)
def test_a_stated_pattern_is_found_where_something_is_kept_and_fits(keep, found):
    stated = Pattern(2, 4)
    search = zeros.Search(4, stated)
    if keep:
        search.add(np.array([each == "x" for each in keep]))
    assert search.found == (stated if found else None)


def test_no_pattern_is_found_where_there_is_nothing():
    assert zeros.Search(0).found is None
    assert zeros.Search(0).is_hopeless
