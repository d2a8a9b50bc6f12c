"""What the payload of NInfer objects must obey: one rule for one fault, at the right place."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.core.rules import Finding, Reading
from tensorark.errors import Rejected, Unsupported
from tensorark.layouts.gate import assemble, judge
from tensorark.layouts.ninfer import remarks as notes
from tensorark.layouts.ninfer import values as layouts
from tensorark.layouts.ninfer.content import CONTENT_RULES, Payload
from tensorark.layouts.ninfer.geometry import LAYOUT_OF, geometry
from tensorark.layouts.ninfer.make import encode
from tensorark.layouts.ninfer.values import elements


def sound(format_: str, rows: int, columns: int) -> bytearray:
    """Return a matrix whose every group and row has values."""
    whole = geometry(format_, LAYOUT_OF[format_], (rows, columns))
    if format_.startswith("q2"):
        base, scales = whole.plane("base"), whole.plane("scales")
        data = bytearray((b"\x55" * base.nbytes).ljust(whole.nbytes, b"\0"))
        words = [0x3C00 if i % 2 == 0 else 0 for i in range(scales.nbytes // 2)]
        data[scales.offset :] = struct.pack(f"<{len(words)}H", *words)
        return data
    rng = np.random.default_rng(2)
    return bytearray(encode(whole, rng.uniform(0.5, 1, (rows, columns)).astype(np.float32)))


def broken(format_: str, rows: int, columns: int, data: bytes) -> list[tuple[str, str]]:
    whole = geometry(format_, LAYOUT_OF[format_], (rows, columns))
    document = Payload(("objects", "w"), whole, memoryview(data))
    return [(each.id, fault.detail) for each in CONTENT_RULES for fault in each(document)]


# format, rows, columns, offset, bytes put there, rule, what the message begins with
CASES = [
    ("q8_g32_fp16", 2, 128, 128 + 33, b"\x80", "code-word", "row 1, column 33"),
    ("t2_g128_fp16", 2, 128, 32 + 1, b"\x95", "code-word", "row 1, column 7"),
    ("fp8_e4m3fn_row_bf16", 3, 5, 7, b"\xff", "code-word", "row 1, column 2"),
    ("fp8_e4m3fn_row_fp16", 3, 5, 7 + 2, b"\x7f", "code-word", "row 1, column 2"),
    ("q4_g64_fp16", 2, 128, 256 + 6, b"\x00\x7c", "scale-word", "row 1, column 64"),
    ("q4_g64_fp16", 2, 128, 256 + 2, b"\x01\x7e", "scale-word", "row 0, column 64"),
    ("q4_g64_fp16", 2, 128, 256 + 4, b"\x00\x80", "scale-word", "row 1, column 0"),
    ("fp8_e4m3fn_row_bf16", 3, 5, 256 + 2, b"\x80\x7f", "scale-word", "row 1, column 0"),
    ("fp8_e4m3fn_row_bf16", 3, 5, 256 + 4, b"\x00\x80", "scale-word", "row 2, column 0"),
    ("fp8_e4m3fn_row_fp16", 3, 5, 5, b"\x00\xbc", "scale-word", "row 0, column 0"),
    ("nvfp4", 256, 64, 256 * 32 + 512 + 16 + 2, b"\x7f", "scale-word", "row 129, column 32"),
    ("nvfp4", 128, 64, 128 * 32 + 5, b"\x80", "scale-word", "row 32, column 16"),
    ("q5_g64_fp16", 2, 128, 512 + 2, b"\x00\x00", "zero-scale", "row 0, column 64"),
    ("fp8_e4m3fn_row_bf16", 3, 5, 256 + 2, b"\x00\x00", "zero-scale", "row 1, column 0"),
    ("nvfp4", 128, 64, 128 * 36, struct.pack("<f", 0.0), "divisor-word", "divisor 0"),
    ("nvfp4", 128, 64, 128 * 36, struct.pack("<f", -1.0), "divisor-word", "divisor 0"),
    ("nvfp4", 128, 64, 128 * 36, struct.pack("<f", float("inf")), "divisor-word", "divisor 0"),
    ("q4_g64_fp16", 2, 65, 64 + 32 + 1, b"\x01", "padding-word", "row 1, column 66"),
    ("q6_g64_fp16", 1, 65, 256 + 31, b"\x80", "padding-word", "row 0, column 127"),
    ("q8_g32_fp16", 1, 32, 40, b"\x01", "padding-word", "row 0, column 40"),
    ("q8_g32_fp16", 1, 32, 256 + 4, b"\x01\x00", "padding-word", "row 0, column 64"),
    ("q2_g64_fp16", 1, 64, 20, b"\x54", "padding-word", "row 0, column 80"),
    ("q5_g64_fp16", 1, 128, 64, b"\x01", "plane-gap", "byte 64"),
    ("q5_g64_fp16", 1, 128, 511, b"\x01", "plane-gap", "byte 511"),
    ("fp8_e4m3fn_row_bf16", 3, 5, 15, b"\x01", "plane-gap", "byte 15"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[5]}-{case[3]}")
def test_a_fault_breaks_its_own_rule_and_no_other(case):
    format_, rows, columns, offset, octets, rule, place = case
    data = sound(format_, rows, columns)
    assert broken(format_, rows, columns, bytes(data)) == []
    assert data[offset : offset + len(octets)] != octets
    data[offset : offset + len(octets)] = octets
    ((found, detail),) = broken(format_, rows, columns, bytes(data))
    assert found == f"ninfer.{rule}"
    assert detail.startswith(place)


def test_a_code_of_padding_is_told_with_what_it_should_be():
    data = sound("q4_g64_fp16", 2, 65)
    data[64 + 32 + 1] = 1
    whole = geometry("q4_g64_fp16", LAYOUT_OF["q4_g64_fp16"], (2, 65))
    document = Payload(("objects", "w"), whole, memoryview(data))
    (fault,) = [fault for each in CONTENT_RULES for fault in each(document)]
    assert (fault.expected, fault.found) == (0, "another code")


def test_what_the_formats_allow_is_sound():
    q2 = sound("q2_g64_fp16", 1, 128)
    q2[:16] = bytes(range(16))
    q2[256:260] = b"\x00\x80\x00\x00"  # minus zero and zero over codes that are not zero
    assert broken("q2_g64_fp16", 1, 128, bytes(q2)) == []
    q4 = sound("q4_g64_fp16", 1, 128)
    q4[257] |= 0x80  # a negative scale
    assert broken("q4_g64_fp16", 1, 128, bytes(q4)) == []
    fp8 = sound("fp8_e4m3fn_row_bf16", 1, 4)
    fp8[:4], fp8[256:] = b"\x00\x80\x00\x80", b"\x00\x00"
    assert broken("fp8_e4m3fn_row_bf16", 1, 4, bytes(fp8)) == []
    nvfp4 = sound("nvfp4", 128, 64)
    nvfp4[4096] = 0
    assert broken("nvfp4", 128, 64, bytes(nvfp4)) == []


def test_the_first_code_under_a_scale_of_zero_is_named_by_its_own_row_and_column():
    """Behind groups of zeros that have a scale of zero by right."""
    data = sound("q4_g64_fp16", 4, 128)
    for group in (0, 5, 6):  # row 0; row 2, column 64; row 3
        data[256 + 2 * group : 258 + 2 * group] = b"\0\0"
        data[32 * group : 32 * group + 32] = bytes(32)
    data[32 * 5 + 7] = 0x30  # two codes to a byte, the low one first
    data[32 * 6 + 1] = 0x01
    whole = geometry("q4_g64_fp16", LAYOUT_OF["q4_g64_fp16"], (4, 128))
    document = Payload(("objects", "w"), whole, memoryview(data))
    faults = [(each.id, fault) for each in CONTENT_RULES for fault in each(document)]
    ((id_, fault),) = faults
    assert id_ == "ninfer.zero-scale"
    assert fault.detail.startswith("row 2, column 79: ")
    assert (fault.expected, fault.found) == (0, 3)


def test_each_negative_scale_is_counted_and_minus_zero_is_none():
    data = sound("q4_g64_fp16", 4, 128)
    words = [0x8001, 0xBC00, 0x0001, 0x7BFF, 0xFBFF, 0x3C00, 0x3C00, 0x3C00]
    data[256:272] = struct.pack("<8H", *words)
    whole = geometry("q4_g64_fp16", LAYOUT_OF["q4_g64_fp16"], (4, 128))
    (note,) = notes.negative_scale(Payload(("objects", "w"), whole, memoryview(data)))
    assert (note.where, note.found) == (("objects", "w"), 3)
    assert note.detail.startswith("3 of 8 scales")
    data[256:272] = struct.pack("<8H", 0x8000, *words[5:], 0, 0x8000, 1, 0)
    assert list(notes.negative_scale(Payload((), whole, memoryview(data)))) == []


def test_faults_far_into_a_matrix_are_found():
    rows, columns = 3000, 512
    for format_, offset, octets in (
        ("q8_g32_fp16", 2999 * 512 + 511, b"\x80"),
        ("t2_g128_fp16", 2999 * 128 + 127, b"\x80"),
    ):
        data = sound(format_, rows, columns)
        data[offset : offset + 1] = octets
        ((rule, detail),) = broken(format_, rows, columns, bytes(data))
        assert (rule, detail[:20]) == ("ninfer.code-word", "row 2999, column 511")


# ------------------------------------------------------------------------------------------ layouts


def tensor(
    format_: str, shape: tuple[int, ...], nbytes: int, layout: str | None = None, **attributes: int
) -> Tensor:
    part = Part(Raw((Span(0, nbytes),)), "u8", "ninfer." + format_)
    layout = "ninfer." + (layout or LAYOUT_OF.get(format_, "row_split_k128_v1"))
    return Tensor("w", shape, layout, {"data": part}, attributes or None)


class Reader:
    """Gives bytes, and counts them."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.read = self.largest = 0

    def __call__(self, role: str, start: int = 0, stop: int | None = None) -> memoryview:
        assert role == "data"
        piece = self.data[start:stop]
        self.read += len(piece)
        self.largest = max(self.largest, len(piece))
        return piece


@pytest.mark.parametrize(
    ("format_", "shape"),
    [
        ("q4_g64_fp16", (9, 130)),
        ("q6_g64_fp16", (9, 128)),
        ("nvfp4", (384, 64)),
        ("fp8_e4m3fn_row_bf16", (9, 33)),
        ("fp8_e4m3fn_row_fp16", (9, 33)),
    ],
)
def test_element_ranges_are_those_of_the_whole_and_read_their_rows(format_, shape):
    data = bytes(sound(format_, *shape))
    found = tensor(format_, shape, len(data))
    every = assemble(found, Reader(data))
    assert every.shape == shape
    flat = every.reshape(-1)
    columns, count = shape[1], flat.size
    for start, stop in [
        (0, 0),
        (0, 1),
        (columns - 1, columns + 1),
        (count // 2, count),
        (3, count),
    ]:
        reader = Reader(data)
        assert (elements(found, reader, start, stop) == flat[start:stop]).all()
        rows = -(-stop // columns) - start // columns
        unit = 128 if format_ == "nvfp4" else 1
        rows = (-(-(rows + unit - 1) // unit) * unit) if stop > start else 0
        assert reader.read <= len(data) * rows // shape[0] + 8


def test_a_stack_with_several_divisors_is_read_range_by_range():
    rng = np.random.default_rng(1)
    whole = geometry("nvfp4", LAYOUT_OF["nvfp4"], (512, 64), 2)
    data = bytearray(rng.integers(0, 0x7F, whole.nbytes).astype(np.uint8).tobytes())
    data[-8:] = struct.pack("<2f", 2.0, 0.5)
    found = tensor("nvfp4", (512, 64), len(data), divisors=2)
    flat = assemble(found, Reader(bytes(data))).reshape(-1)
    for start, stop in [(255 * 64, 257 * 64), (100, 400 * 64 + 3)]:
        assert (elements(found, Reader(bytes(data)), start, stop) == flat[start:stop]).all()


@pytest.mark.parametrize(
    ("format_", "shape", "divisors"),
    [
        *(
            (each, (700, 200), 1)
            for each in LAYOUT_OF
            if not each.startswith(("gguf_", "nvfp4", "bf16", "fp32", "int32"))
        ),
        ("nvfp4", (1024, 64), 1),
        ("nvfp4", (1024, 64), 4),
    ],
)
def test_a_large_object_is_never_whole_in_memory(monkeypatch, format_, shape, divisors):
    whole = geometry(format_, LAYOUT_OF[format_], shape, divisors)
    data = np.random.default_rng(4).integers(0, 0x7B, whole.nbytes).astype(np.uint8).tobytes()
    more = {} if divisors == 1 else {"divisors": divisors}
    found = tensor(format_, shape, len(data), **more)
    at_once = assemble(found, Reader(data))
    monkeypatch.setattr(layouts, "_WHOLE", 1000)
    monkeypatch.setattr(layouts, "_CHUNK", 128 * 64)
    reader = Reader(data)
    assert assemble(found, reader).tobytes() == at_once.tobytes()
    assert reader.read == reader.data.nbytes - _gaps(whole) + _repeated(whole)
    assert reader.largest <= 2 * 128 * 64  # a row may be padded to twice its columns


def _gaps(whole):
    return whole.nbytes - sum(each.nbytes for each in whole.planes)


def _repeated(whole):
    """Bytes of divisors, which go along with each run of rows."""
    if whole.format != "nvfp4":
        return 0
    runs = whole.rows // 128
    return 4 * runs - whole.plane("divisors").nbytes


@pytest.mark.parametrize(
    ("described", "code"),
    [
        (tensor("q4_g64_fp16", (1, 64), 259), "ninfer.layout-size"),
        (tensor("q4_g64_fp16", (64,), 260), "ninfer.layout-shape"),
        (tensor("nvfp4", (127, 64), 100), "ninfer.layout-shape"),
        (tensor("q4_g64_fp16", (1, 64), 260, divisors=2), "ninfer.layout-shape"),
        (tensor("q4_g64_fp16", (1, 64), 260, layout="row_scale_v1"), "ninfer.layout-shape"),
    ],
)
def test_metadata_that_does_not_fit_is_rejected(described, code):
    with pytest.raises(Rejected) as caught:
        assemble(described, Reader(bytes(300)))
    assert caught.value.code == code


def test_a_part_of_another_kind_is_rejected():
    plain = Tensor("w", (1, 64), "ninfer.row_split_k128_v1", {"data": Part(Raw(()), "u8")})
    with pytest.raises(Rejected) as caught:
        assemble(plain, Reader(b""))
    assert caught.value.code == "ninfer.layout-type"
    other = Tensor("w", (1, 64), "ninfer.row_split_k128_v1", {"other": Part(Raw(()), "u8")})
    with pytest.raises(Rejected) as caught:
        assemble(other, Reader(b""))
    assert caught.value.code == "ninfer.layout-parts"


def test_unknown_formats_and_layouts_are_refused():
    with pytest.raises(Unsupported) as caught:
        assemble(tensor("q3_g64_fp16", (1, 64), 260), Reader(bytes(260)))
    assert caught.value.code == "unknown-format"
    with pytest.raises(Unsupported) as caught:
        assemble(tensor("q4_g64_fp16", (1, 64), 260, layout="row_split_k256_v1"), Reader(b""))
    assert caught.value.code == "unknown-layout"


def test_gguf_blocks_are_measured_and_refused():
    found = tensor("gguf_q8_0", (2, 64), 136)
    for ask in (
        lambda: assemble(found, Reader(bytes(136))),
        lambda: judge(found, Reader(bytes(136)), Reading()),
    ):
        with pytest.raises(Unsupported) as caught:
            ask()
        assert (caught.value.code, caught.value.where) == ("gguf-blocks", ("objects", "w"))
    with pytest.raises(Rejected):
        assemble(tensor("gguf_q8_0", (2, 64), 135), Reader(bytes(135)))
    with pytest.raises(Rejected):
        assemble(tensor("gguf_q8_0", (2, 33), 136), Reader(bytes(136)))


def test_plain_words_keep_their_type():
    data = struct.pack("<4i", 1, -2, 3, -4)
    found = assemble(tensor("int32", (2, 2), 16, layout="contiguous_le_v1"), Reader(data))
    assert (found.dtype, found.tolist()) == (np.int32, [[1, -2], [3, -4]])


def test_judging_gathers_what_is_broken():
    data = sound("q8_g32_fp16", 2, 128)
    data[0], data[256:258] = 0x80, b"\x00\x7c"
    gathered: list[Finding] = []
    found = tensor("q8_g32_fp16", (2, 128), len(data))
    with pytest.raises(Rejected):
        judge(found, Reader(bytes(data)), Reading(gathered=gathered))
    assert [each.rule for each in gathered] == ["ninfer.code-word", "ninfer.scale-word"]
    assert gathered[0].where == ("objects", "w", "parts", "data")
