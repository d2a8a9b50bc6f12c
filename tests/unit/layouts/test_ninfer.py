"""NInfer's formats against published objects, a scalar reading of their text, and by hand."""

from __future__ import annotations

import json
import os
import random
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorark.errors import InvalidInput, Unsupported
from tensorark.layouts.ninfer import decoding, fp8, nvfp4
from tensorark.layouts.ninfer.content import CONTENT_RULES, Payload
from tensorark.layouts.ninfer.geometry import GGUF, GROUPED, LAYOUT_OF, Geometry, geometry
from tensorark.layouts.ninfer.groups import CODINGS, pack, unpack
from tensorark.layouts.ninfer.make import (
    METHODS,
    cast_direct,
    encode,
    encode_rows,
    join,
    method_of,
    pack_groups,
)
from tensorark.layouts.ninfer.small_floats import as_octets, bf16_words
from tests.unit.layouts import scalar

SHARED = Path(os.environ.get("TENSORARK_SHARED") or Path(__file__).resolve().parents[4] / "shared")
VECTORS = SHARED / "vectors" / "ninfer"
INDEX = (
    json.loads((VECTORS / "index.json").read_bytes()) if (VECTORS / "index.json").exists() else {}
)
TENSORS = {each["id"]: each for each in INDEX.get("tensors", ())}
FULL = {name.partition("_")[0]: name for name in GROUPED}


def laid(format_: str, *shape: int, divisors: int = 1) -> Geometry:
    return geometry(format_, LAYOUT_OF[format_], shape, divisors)


def floats(words: str | np.ndarray) -> np.ndarray:
    return (np.asarray(words).astype(np.uint32) << 16).view(np.float32)


def vector(name: str) -> np.ndarray:
    return np.load(VECTORS / name)


# ------------------------------------------------------------------------------------------ vectors


@pytest.mark.parametrize("name", TENSORS)
def test_published_objects_have_our_size_and_decode_bit_by_bit(name):
    known = TENSORS[name]
    data = (VECTORS / known["payload"]).read_bytes()
    whole = geometry(known["format"], known["layout"], tuple(known["shape"]), known["divisors"])
    assert whole.nbytes == len(data) == known["bytes"]
    if known["format"] in GGUF:
        with pytest.raises(Unsupported, match="GGUF"):
            decoding.decode(whole, memoryview(data))
        return
    found = decoding.decode(whole, memoryview(data)).reshape(known["shape"])
    expected = vector(known["decoded"])
    if known["format"] == "bf16":
        found = floats(found.view(np.uint16))
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


ENCODED = [
    name
    for name, each in TENSORS.items()
    if "input" in each and each["format"] not in GGUF and each["encoder"] != "import_encoded"
]


@pytest.mark.parametrize("name", ENCODED)
def test_published_inputs_are_encoded_byte_by_byte(name):
    known = TENSORS[name]
    values = vector(known["input"])
    if "bf16" in known["input_kind"]:
        values = values.view(ml_dtypes.bfloat16)
    elif "fp32 words" in known["input_kind"]:
        values = values.view(np.float32)
    whole = laid(known["format"], *known["shape"])
    method = known["encoder"] if known["encoder"] != "identity" else "cast_direct"
    assert encode(whole, values.reshape(whole.rows, whole.columns), method=method) == payload(name)


def payload(name: str) -> bytes:
    return (VECTORS / TENSORS[name]["payload"]).read_bytes()


def of_groups(format_: str, columns: int, codes: np.ndarray, scales: np.ndarray) -> bytes:
    """The object of codes [rows, groups, group] and FP16 scales [rows, groups], with padding."""
    whole, group = laid(format_, len(codes), columns), GROUPED[format_].group
    used = -(-columns // group)
    padded = np.zeros((len(codes), whole.plane("scales").stride // 2, group), np.int8)
    padded[:, :used] = codes[:, :used]
    padded.reshape(len(codes), -1)[:, columns:] = 0
    words = np.zeros(padded.shape[:2], np.float16)
    words[:, :used] = scales[:, :used]
    return join(whole, pack_groups(format_, padded, words))


def of_nvfp4(codes: np.ndarray, scales: np.ndarray, divisors: np.ndarray) -> bytes:
    """The object of codes [rows, columns / 2], scales in natural order and divisors."""
    whole = laid("nvfp4", len(codes), 2 * codes.shape[1], divisors=divisors.size)
    planes = {"codes": codes, "scales": nvfp4.swizzle(scales), "divisors": as_octets(divisors)}
    return join(whole, planes)


@pytest.mark.parametrize("name", [name for name, each in TENSORS.items() if "words" in each])
def test_published_codes_and_scales_are_packed_byte_by_byte(name):
    known = TENSORS[name]
    words = {role: vector(path) for role, path in known["words"].items()}
    format_, columns = known["format"], known["shape"][1]
    if format_ in GROUPED:
        made = of_groups(format_, columns, words["codes"], words["scales"])
    elif format_ == "nvfp4":
        made = of_nvfp4(words["packed"], words["scales"], words["divisors"].view(np.float32))
    elif format_ == "fp8_e4m3fn_row_bf16":
        scales = as_octets(bf16_words(floats(words["scales"])))
        made = join(laid(format_, *known["shape"]), {"codes": words["codes"], "scales": scales})
    else:
        octets = [words["codes"], words["scales"].reshape(-1, 1).view(np.uint8)]
        made = np.concatenate(octets, axis=1).tobytes()
    assert made == payload(name)


@pytest.mark.parametrize("case", INDEX.get("encoder_results", ()), ids=str)
def test_what_published_encoders_refuse_is_refused(case):
    format_, value = case["format"], case["value"]
    if "input_row" in case:
        row = np.array([[float(each) for each in case["input_row"]]], np.float32)
        whole = laid(format_, *row.shape)
        with pytest.raises(InvalidInput, match=r"finite|too large"):
            encode(whole, row)
    elif format_.startswith("fp8"):
        worst = {"nan": np.nan, "inf": np.inf, "row_max_1.3e-36": 1.3e-36}[value]
        with pytest.raises(InvalidInput, match=r"finite|too small"):
            encode(laid(format_, 1, 2), np.array([[0, worst]], np.float32))
    else:
        codes, scales = np.zeros((128, 32), np.uint8), np.zeros((128, 4), np.uint8)
        divisor = np.ones(1, np.float32)
        if value.startswith("scale"):
            scales[5, 2] = int(value.split()[1], 16)
        else:
            divisor[0] = float(value.split()[1])
        document = Payload((), laid("nvfp4", 128, 64), memoryview(of_nvfp4(codes, scales, divisor)))
        assert [fault for each in CONTENT_RULES for fault in each(document)]


# ------------------------------------------------------------------------------------ known by hand

HAND = [
    ("q4", [7, -7, 0.5, 1.5, 2.5, -0.5], {0: "97 20 02 00", 256: "00 3c 00 00"}, 260),
    (
        "q5",
        [15, -15, 0.5, 1.5, 2.5, -16],
        {0: "2e 10 12", 256: "22", 512: "44 3c 00 00"},
        516,
    ),
    ("q6", [31, -31, 0.5, -17, 16, 1], {0: "1f f0 10", 256: "89 01", 512: "00 3c 00 00"}, 516),
    ("t2", [1, -1, 0.5, 0.75, -0.25, -0.75], {0: "4d 0c 00", 256: "00 3c"}, 258),
]


@pytest.mark.parametrize(("name", "row", "bytes_", "size"), HAND, ids=[each[0] for each in HAND])
def test_small_rows_are_encoded_as_computed_by_hand(name, row, bytes_, size):
    made = encode(laid(FULL[name], 1, len(row)), np.array([row], np.float32))
    assert len(made) == size
    for offset, text in bytes_.items():
        expected = bytes.fromhex(text)
        assert made[offset : offset + len(expected)] == expected


def test_codes_are_packed_as_computed_by_hand():
    cases = {
        "q4": ([-8, -7, -1, 0, 1, 7], "98 0f 71", ""),
        "q5": ([-16, -15, -1, 0, 1, 15, 0, 0], "10 0f f1 00", "07"),
        "q6": ([-32, -31, -17, -16, -1, 0, 15, 31], "10 0f 0f ff", "ea 43"),
        "q8": ([-127, -1, 0, 1, 127], "81 ff 00 01 7f", ""),
        "q2": ([-1, 0, 1, 2, 2, -1, 0, 0], "e4 53", ""),
    }
    for name, (codes, base, high) in cases.items():
        found = pack(CODINGS[FULL[name]], np.array(codes, np.int8))
        assert [each.tobytes().hex(" ") for each in found] == [base, high], name


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ([-(1 << 31), (1 << 31) - 1], True),
        ([-(1 << 31) - 1, 0], False),
        ([0, 1 << 31], False),
        ([], True),
    ],
)
def test_integers_become_int32_where_they_fit(values, fits):
    held = np.array(values, np.int64)
    if fits:
        made = cast_direct(held, "int32")
        assert (made.dtype, made.tolist()) == (np.dtype("<i4"), values)
        return
    with pytest.raises(InvalidInput) as caught:
        cast_direct(held, "int32")
    assert caught.value.code == "encode-values"


def test_fp8_rows_are_encoded_as_computed_by_hand():
    rows = np.array([[448, -1, 0.5], [0, 0, -0.0]], np.float32)
    made = encode(laid("fp8_e4m3fn_row_bf16", 2, 3), rows)
    assert (made[:6].hex(), made[256:].hex(), len(made)) == ("7eb830000000", "803f0000", 260)
    row = floats([[0x3F80, 0xBE9A, 0x3BE5]])
    made = encode(laid("fp8_e4m3fn_row_bf16", 1, 3), row)
    assert (made[:3].hex(), made[256:].hex()) == ("7ef045", "123b")


@pytest.mark.parametrize(
    ("kind", "largest", "fits"),
    [
        ("fp16", 223 * 2.0**17, True),
        ("fp16", 224 * 2.0**17, False),  # 448 times 2^16, above the largest number of FP16
        ("fp16", 3e38, False),
        ("fp16", 448 * 2.0**-14, True),
        ("fp16", 448 * 2.0**-24, True),  # the smallest, whose inverse is 2^24
        ("bf16", 3e38, True),
        ("bf16", 448 * 2.0**-126, True),
        ("bf16", 448 * 2.0**-133, False),  # its inverse is no float32
    ],
)
def test_a_row_that_its_scale_cannot_reach_is_refused(kind, largest, fits):
    values = np.array([[0.5, 1.0], [largest, -largest / 2]], np.float32)
    if fits:
        codes, words = fp8.quantize(values, kind)
        assert codes[1].tolist() == [0x7E, 0xF6]  # 448 and -224
        assert fp8.scale_values(words, kind)[1] * 448 == pytest.approx(largest, rel=2**-8)
        return
    with pytest.raises(InvalidInput) as caught:
        fp8.quantize(values, kind)
    assert caught.value.code == "encode-scale"


@pytest.mark.parametrize(
    ("kind", "smallest"), [("fp16", 2.0**-24), ("bf16", 2.0**-126)], ids=["fp16", "bf16"]
)
def test_the_scale_of_a_row_that_is_not_zero_is_no_zero(kind, smallest):
    """A quarter of the smallest: the scale is rounded up to that, and codes are smaller for it."""
    if kind == "bf16":  # below 2^-126 an inverse is no float32: such rows are refused
        rows = np.array([[448 * smallest, 0], [0, -0.0]], np.float32)
        assert fp8.quantize(rows, kind)[1].tolist() == [0x0080, 0]
        return
    rows = np.array([[112 * smallest, -56 * smallest], [0, -0.0]], np.float32)
    codes, words = fp8.quantize(rows, kind)
    assert words.tolist() == [1, 0]
    assert codes.tolist() == [[0x6E, 0xE6], [0, 0]]  # 112, -56 and no minus zero


def test_block_scales_are_swizzled_as_computed_by_hand():
    places = {
        64: [(0, 0, 0), (0, 3, 3), (1, 0, 16), (31, 3, 499), (32, 0, 4), (127, 3, 511)],
        128: [(0, 4, 512), (128, 0, 1024), (130, 5, 1569)],
        192: [(0, 8, 1024), (128, 0, 1536), (161, 9, 2581)],
    }
    for columns, known in places.items():
        natural = np.arange(256 * columns // 16).reshape(256, -1)
        for row, group, offset in known:
            alone = (natural == natural[row, group]).astype(np.uint8)
            stored = nvfp4.swizzle(alone)
            assert int(stored.argmax()) == offset
            assert (nvfp4.unswizzle(stored, 256) == alone).all()


@pytest.mark.parametrize(
    ("largest", "divisor"),
    [(0.0, 1.0), (2688.0, 1.0), (5376.0, 0.5), (6.0, 448.0), (2.0**127, 2688 / 2.0**127)],
)
def test_the_divisor_of_a_matrix_is_that_of_its_largest_value(largest, divisor):
    """Six times 448, the largest code times the largest scale, is what that value becomes."""
    assert nvfp4.divisor_of(largest) == np.float32(divisor)


def test_an_nvfp4_matrix_is_encoded_as_computed_by_hand():
    values = np.zeros((128, 64), np.float32)
    values[0, :4] = 6, -3, 1, 0.5
    values[33, 17] = 0.01
    made = encode(laid("nvfp4", 128, 64), values)
    assert len(made) == 4612
    assert made[4608:].hex() == "0000e043"
    assert made[:2].hex() == "d712"
    assert (made[4096], made[4096 + 21]) == (0x7E, 0x34)


def test_the_sizes_of_section_12_3_are_met():
    known = {"q4_g64_fp16": 19496960, "q5_g64_fp16": 24084480}
    for format_, size in known.items():
        assert laid(format_, 7168, 5120).nbytes == size
    assert laid("fp8_e4m3fn_row_bf16", 14336, 5120).nbytes == 73428992
    assert laid("nvfp4", 14336, 5120).nbytes == 41287684


# ----------------------------------------------------------------------- against the scalar reading


def exact(values: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(each)) for each in row] for row in values]


def rough(seed: int, rows: int, columns: int) -> np.ndarray:
    """Return values of very different sizes, ties and zeros among them."""
    rng = random.Random(seed)
    kinds = [
        lambda: rng.gauss(0, 1),
        lambda: rng.randrange(-40, 40) / 2,
        lambda: 0.0,
        lambda: rng.gauss(0, 1) * 2.0 ** rng.randrange(-30, 8),
    ]
    return np.array(
        [[rng.choice(kinds)() for _ in range(columns)] for _ in range(rows)], np.float32
    )


@pytest.mark.parametrize("name", scalar.QMAX)
@pytest.mark.parametrize("columns", [1, 63, 130, 257])
def test_groups_are_encoded_as_the_scalar_reading_does(name, columns):
    values = rough(columns, 3, columns)
    values[1] *= np.float32(2.0**-18)  # scales that are subnormal, or rescued
    made = encode(laid(FULL[name], 3, columns), values)
    assert made == scalar.grouped_object(name, exact(values))


@pytest.mark.parametrize("name", scalar.QMAX)
def test_the_reciprocal_is_what_codes_are_made_with(name):
    """Dividing by the scale, and multiplying by the exact reciprocal, both differ somewhere."""
    rng = np.random.default_rng(3)
    group, differing = scalar.GROUP[name], 0
    for _ in range(150):
        scale = np.float16(rng.uniform(0.001, 4))
        halves = np.float32(scale) * (rng.integers(0, scalar.QMAX[name], group) + np.float32(0.5))
        values = np.nextafter(halves, rng.choice([0, 9], group).astype(np.float32))
        values[0] = np.float32(scale) * scalar.QMAX[name]
        found = encode(laid(FULL[name], 1, group), values[np.newaxis])
        assert found == scalar.grouped_object(name, exact(values[np.newaxis]))
        divided = np.clip(np.rint(values / np.float32(scale)), -128, scalar.QMAX[name])
        codes = unpacked(FULL[name], found, 1, group)[0, 0]
        differing += int((codes != divided).any())
    assert differing > 0


def unpacked(format_: str, data: bytes, rows: int, columns: int) -> np.ndarray:
    whole, stored = laid(format_, rows, columns), GROUPED[format_]
    planes = decoding.planes_of(whole, memoryview(data))
    base = planes["base"].reshape(rows, -1, stored.base)
    high = planes["high"].reshape(rows, base.shape[1], stored.high)
    return unpack(CODINGS[format_], base, high)


def test_fp8_rows_are_encoded_as_the_scalar_reading_does():
    values = rough(5, 6, 70)
    values[1] *= np.float32(2.0**-60)
    values[2] *= np.float32(2.0**80)
    values[3] = 0
    made = encode(laid("fp8_e4m3fn_row_bf16", 6, 70), values)
    assert made == scalar.fp8_object(exact(values))


def test_every_e4m3_boundary_is_rounded_as_the_scalar_reading_does():
    words = np.arange(127)
    numbers = np.array([float(scalar.number(int(each), scalar.E4M3)) for each in words])
    middles = ((numbers[1:] + numbers[:-1]) / 2).astype(np.float32)
    near = np.concatenate([middles, np.nextafter(middles, 0), np.nextafter(middles, 999)])
    from tensorark.layouts.ninfer.small_floats import e4m3_words

    expected = [
        scalar.word(scalar.rounded(Fraction(float(each)), scalar.E4M3), scalar.E4M3)
        for each in near
    ]
    assert e4m3_words(near.astype(np.float32)).tolist() == expected


@pytest.mark.parametrize("rescued", [True, False])
def test_nvfp4_is_encoded_as_the_scalar_reading_does(rescued):
    values = rough(7, 128, 64)
    values[3:70] *= np.float32(2.0**-14)  # scales that are subnormal, rescued, or zero
    method = "nvfp4_absmax" if rescued else "nvfp4_maxabs"
    made = encode(laid("nvfp4", 128, 64), values, method=method)
    assert made == scalar.nvfp4_object(exact(values), rescued=rescued)


def test_a_tiny_block_is_rescued_or_becomes_zero():
    values = np.zeros((128, 64), np.float32)
    values[0, 0], values[1, 0] = 1000.0, 0.0004
    for method, alive in (("nvfp4_absmax", True), ("nvfp4_maxabs", False)):
        data = encode(laid("nvfp4", 128, 64), values, method=method)
        assert bool(decoding.decode(laid("nvfp4", 128, 64), memoryview(data))[1, 0]) is alive


@pytest.mark.parametrize("name", scalar.BITS)
def test_any_codes_and_scales_decode_to_one_rounded_product(name):
    rng = np.random.default_rng(11)
    columns = 2 * scalar.GROUP[name]
    low, high = CODINGS[FULL[name]].low, CODINGS[FULL[name]].high
    codes = rng.integers(low, high + 1, (5, 2, scalar.GROUP[name])).astype(np.int8)
    words = np.array([[0x3C01, 0xBC00], [0x0001, 0x8001], [0x7BFF, 0x0400], [0x3555, 1], [2, 3]])
    data = of_groups(FULL[name], columns, codes, words.astype("<u2").view(np.float16))
    found = decoding.decode(laid(FULL[name], 5, columns), memoryview(data))
    for row, group, lane in np.ndindex(codes.shape):
        product = scalar.number(int(words[row, group]), scalar.F16) * int(codes[row, group, lane])
        value = found[row, group * scalar.GROUP[name] + lane]
        assert Fraction(float(value)) == scalar.rounded(product, scalar.F32)


def test_nvfp4_products_are_divided_with_one_rounding():
    rng = np.random.default_rng(13)
    codes = rng.integers(0, 256, (256, 32)).astype(np.uint8)
    scales = rng.integers(0, 0x7F, (256, 4)).astype(np.uint8)
    divisors = np.array([3.0, 0.7], np.float32)
    data = of_nvfp4(codes, scales, divisors)
    whole = laid("nvfp4", 256, 64, divisors=2)
    found = decoding.decode(whole, memoryview(data))
    for row, column in [(0, 0), (1, 17), (127, 63), (128, 0), (200, 33), (255, 62)]:
        code = codes[row, column // 2] >> (4 * (column % 2)) & 15
        value = scalar.E2M1[code & 7] * (-1 if code & 8 else 1)
        value *= scalar.number(int(scales[row, column // 16]), scalar.E4M3)
        expected = scalar.rounded(value / Fraction(float(divisors[row // 128])), scalar.F32)
        assert Fraction(float(found[row, column])) == expected


# --------------------------------------------------------------------------------------- properties

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 300))


@given(st.sampled_from(sorted(scalar.QMAX)), SIZES, st.integers(0, 99), st.integers(-20, 12))
def test_a_grouped_round_trip_stays_within_its_bound(name, size, seed, power):
    values = np.random.default_rng(seed).standard_normal(size).astype(np.float32) * 2.0**power
    values = values.astype(np.float32)
    whole = laid(FULL[name], *size)
    data = encode(whole, values)
    found = decoding.decode(whole, memoryview(data))
    for row in range(size[0]):
        for start in range(0, size[1], scalar.GROUP[name]):
            part = slice(start, start + scalar.GROUP[name])
            largest = float(np.abs(values[row, part]).max())
            # Half a step, the rounding of the scale, and the clamp where that was rounded down.
            scale = max(largest / scalar.QMAX[name] * (1 + 2**-10), 2.0**-24)
            bound = scale / 2 + largest * 2**-10 + 2.0**-24 * scalar.QMAX[name]
            assert np.abs(found[row, part] - values[row, part]).max() <= bound


@given(st.sampled_from(sorted(FULL)), SIZES, st.data())
def test_any_legal_codes_survive_packing_and_are_judged_sound(name, size, data):
    rows, columns = size
    format_, group = FULL[name], scalar.GROUP[name]
    used = -(-columns // group)
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    coding = CODINGS[format_]
    codes = rng.integers(coding.low, coding.high + 1, (rows, used, group)).astype(np.int8)
    scales = rng.uniform(0.01, 2, (rows, used)).astype(np.float16)
    made = of_groups(format_, columns, codes, scales)
    whole = laid(format_, rows, columns)
    found = unpacked(format_, made, rows, columns).reshape(rows, -1)[:, :columns]
    assert (found == codes.reshape(rows, -1)[:, :columns]).all()
    document = Payload((), whole, memoryview(made))
    assert [fault for each in CONTENT_RULES for fault in each(document)] == []


@given(st.sampled_from([*sorted(FULL.values()), "nvfp4", "fp8_e4m3fn_row_bf16"]), st.data())
def test_rows_are_what_they_are_in_the_whole(format_, data):
    size = (256, 64) if format_ == "nvfp4" else data.draw(SIZES)
    octets = np.random.default_rng(1).integers(0, 256, laid(format_, *size).nbytes)
    stored = memoryview(octets.astype(np.uint8).tobytes())
    start = data.draw(st.integers(0, size[0]))
    stop = data.draw(st.integers(start, size[0]))
    whole = laid(format_, *size)
    every = decoding.decode(whole, stored)
    assert same(decoding.decode(whole, stored, start, stop), every[start:stop])


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Compare bit by bit, but for the payload and sign of NaN, which illegal words give."""
    words = [np.where(np.isnan(each), np.float32(np.nan), each) for each in (found, expected)]
    return words[0].tobytes() == words[1].tobytes()


def test_large_rows_and_matrices_are_decoded_in_blocks_as_at_once(monkeypatch):
    rng = np.random.default_rng(17)
    for format_, shape in (
        ("q5_g64_fp16", (7, 333)),
        ("t2_g128_fp16", (5, 300)),
        ("q8_g32_fp16", (64, 256)),
        ("nvfp4", (384, 128)),
        ("fp8_e4m3fn_row_bf16", (9, 77)),
        ("fp8_e4m3fn_row_fp16", (9, 77)),
    ):
        whole = laid(format_, *shape)
        stored = memoryview(rng.integers(0, 256, whole.nbytes).astype(np.uint8).tobytes())
        expected = decoding.decode(whole, stored)
        monkeypatch.setattr(decoding, "BLOCK", 128)
        assert same(decoding.decode(whole, stored), expected), format_
        monkeypatch.undo()


def test_memory_stays_near_the_output():
    import tracemalloc

    whole = laid("q6_g64_fp16", 2048, 4096)
    stored = memoryview(bytes(whole.nbytes))
    tracemalloc.start()
    decoding.decode(whole, stored)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2048 * 4096 * 4 + (16 << 20)


# ----------------------------------------------------------------------------------------- refusals


def test_q2_is_never_made_from_floats():
    with pytest.raises(Unsupported, match="not made from floats"):
        encode(laid("q2_g64_fp16", 1, 64), np.zeros((1, 64), np.float32))
    assert "q2_g64_fp16" not in METHODS


def test_a_method_makes_its_own_formats_only():
    with pytest.raises(InvalidInput, match="not made by this method"):
        method_of("q4_g64_fp16", "nvfp4_absmax")


def test_integers_are_not_quantized_and_floats_are_no_integers():
    with pytest.raises(InvalidInput, match="not converted"):
        encode(laid("q4_g64_fp16", 1, 4), np.zeros((1, 4), np.int32))
    with pytest.raises(InvalidInput, match="not converted"):
        encode(laid("int32", 1, 4), np.zeros((1, 4), np.float32))
    with pytest.raises(InvalidInput, match="does not fit int32"):
        encode(laid("int32", 1, 1), np.array([[1 << 31]]))


def test_words_of_the_same_type_are_kept_bit_by_bit():
    words = np.array([[0x7F81, 0xFFC1, 0x8000, 0x0001]], np.uint16)
    assert encode(laid("bf16", 1, 4), words.view(ml_dtypes.bfloat16)) == words.tobytes()


def test_floats_become_bf16_with_ties_to_even():
    words = np.array([[0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF]], np.uint32)
    made = encode(laid("bf16", 1, 4), words.view(np.float32))
    assert np.frombuffer(made, "<u2").tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80]


def test_bytes_of_another_size_are_refused():
    with pytest.raises(InvalidInput, match="not the bytes of the object"):
        decoding.decode(laid("q4_g64_fp16", 1, 64), memoryview(bytes(3)))
    with pytest.raises(InvalidInput, match="no such rows"):
        decoding.decode(laid("int32", 2, 2), memoryview(bytes(16)), 0, 3)


def test_a_reciprocal_is_rounded_once():
    assert nvfp4.reciprocal(np.float32(3)) == np.float32(1 / 3)


def test_planes_are_joined_with_zeros_between():
    whole = laid("q5_g64_fp16", 1, 64)
    planes = encode_rows(whole, np.ones((1, 64), np.float32))
    made = join(whole, planes)
    assert not any(made[64:256])
    assert not any(made[256 + 16 : 512])
