"""Edges of arithmetic that only a file made for it reaches: each was a mutant that survived."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest

import tensorark
from conformance.zt.build import image as build
from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.encodings.zstd.rules import survey
from tensorark.formats.safetensors.plan import refusals
from tensorark.formats.zt.frame import MAX_MANIFEST, RawFrame, manifest_bounds

U64 = 1 << 64


def frame(length, offset=4096, size=8192):
    return RawFrame(
        size=size,
        header_magic=b"",
        manifest_offset=offset,
        manifest_length=length,
        manifest_hash=0,
        version=2,
        reserved=0,
        footer_magic=b"",
    )


@pytest.mark.parametrize(
    ("length", "faults"),
    [(0, 0), (1, 0), (8192 - 40 - 4096, 0), (8192 - 40 - 4096 + 1, 1), (MAX_MANIFEST, 1),
     (MAX_MANIFEST + 1, 0)],
)  # fmt: skip
def test_a_manifest_ends_where_the_footer_begins(length, faults):
    """One that is too large is told by the rule about sizes alone."""
    assert len(list(manifest_bounds(frame(length)))) == faults


def test_nothing_past_the_data_region_is_a_manifest_of_no_bytes():
    assert not list(manifest_bounds(frame(0, offset=1 << 20)))
    assert list(manifest_bounds(frame(1, offset=1 << 20)))


def test_the_largest_frame_header_is_read_whole():
    """Magic, descriptor, window, four bytes of dictionary, eight of size: eighteen."""
    header = struct.pack("<IBBIQ", 0xFD2FB528, 0xC3, 0, 7, 3)
    block = (3 << 3 | 1).to_bytes(3, "little") + b"abc"
    found = survey(memoryview(header + block))
    assert (found.problem, found.frames, found.dictionary) == (None, 1, 7)
    assert found.header is not None
    assert (found.header.length, found.header.content) == (18, 3)


@pytest.mark.parametrize(
    ("shape", "dtype", "nbytes", "refused"),
    [((4,), "f32", 16, False), ((4,), "f32", 15, True), ((4,), "f32", 17, True),
     ((1 << 61,), "f64", U64, True), (((1 << 61) - 1,), "f64", U64 - 8, False)],
)  # fmt: skip
def test_safetensors_holds_what_its_shape_needs_below_two_to_the_64(shape, dtype, nbytes, refused):
    part = Part(Raw((Span(0, nbytes),)), dtype)
    tensor = Tensor("t", shape, "dense", {"data": part})
    assert bool(list(refusals([tensor]))) == refused


def quantized(folder, zeros, zero_dtype, scale, codes, attributes=None, *, count=None):
    """One group of eight-bit codes with one scale, and maybe a plain zero point."""
    objects = {
        "shape": [1, count or len(codes)],
        "layout": "zt.quant_group/1",
        "attributes": {
            "bits": 8, "axis": 1, "group_size": count or len(codes), "scale_form": "f32_factors",
            "packing": {"word": "u8", "order": "lsb_first", "per_word": 1},
        } | (attributes or {}),
        "parts": {"data": {"dtype": "u8", "blob": [4096, len(codes)]},
                  "scales": {"dtype": "f32", "blob": [8192, 4]}},
    }  # fmt: skip
    blobs = {4096: bytes(codes), 8192: np.float32(scale).tobytes()}
    if zeros is not None:
        data = np.array([zeros], zero_dtype).tobytes()
        name = {"<i4": "i32", "<i2": "i16", "<f4": "f32", "<f2": "f16"}[zero_dtype]
        objects["parts"]["zeros"] = {"dtype": name, "blob": [12288, len(data)]}
        blobs[12288] = data
    path = folder / "q.zt"
    path.write_bytes(build.image({"objects": {"t": objects}}, blobs))
    return path


def reference(codes, zero, scale):
    """Difference and product in f64, each rounded once, and then one rounding to f32."""
    factor = float(np.float32(scale))
    return [np.float32(float(Fraction(code) - Fraction(zero)) * factor) for code in codes]


CODES = [*range(256)]


@pytest.mark.parametrize(
    ("zero", "dtype"),
    [(0.1, "<f4"), (0.3, "<f2"), (7, "<i2"), ((1 << 25) + 1, "<i4"), (-(1 << 30) - 1, "<i4")],
)
def test_a_plain_zero_point_is_taken_off_exactly(tmp_path, zero, dtype):
    facts = {"zero_point": {"form": "tensor", "packing": "plain"}}
    path = quantized(tmp_path, zero, dtype, 1 / 3, CODES, facts)
    with tensorark.open(path) as file:
        found = file["t"].numpy().reshape(-1).tolist()
    assert found == reference(CODES, np.array([zero], dtype)[0].item(), 1 / 3)


@pytest.mark.parametrize(
    "zero", [0, 8, (1 << 20) - 1, 1 << 20, (1 << 25) + 1, -(1 << 25) - 1, (1 << 40) + 1]
)
def test_an_implied_zero_point_is_taken_off_exactly(tmp_path, zero):
    facts = {"zero_point": {"form": "implied", "value": zero}}
    path = quantized(tmp_path, None, "", 1 / 3, CODES, facts)
    with tensorark.open(path) as file:
        found = file["t"].numpy().reshape(-1).tolist()
    assert found == reference(CODES, zero, 1 / 3)


@pytest.mark.parametrize("stop", [1, 2, 3, 7, 8])
def test_a_range_ends_inside_a_byte_of_packed_codes(tmp_path, stop):
    packing = {"word": "u8", "order": "lsb_first", "per_word": 2}
    facts = {"bits": 4, "packing": packing, "zero_point": {"form": "none"}}
    path = quantized(tmp_path, None, "", 0.5, [0x21, 0x43, 0x65, 0x87], facts, count=8)
    with tensorark.open(path) as file:
        found = file["t"].elements(0, stop).tolist()
    assert found == [(code + 1) / 2 for code in range(stop)]


def test_no_byte_of_a_blob_is_called_padding(tmp_path):
    """A blob that lies before the next place of canonical form ends the padding before it."""
    part = {"dtype": "u8", "blob": [4096, 4]}
    tensor = {"shape": [4], "layout": "dense", "parts": {"data": part}}
    (tmp_path / "a.zt").write_bytes(build.image({"objects": {"t": tensor}}, {4096: b"abcd"}))
    found = {each.rule for each in tensorark.validate(tmp_path / "a.zt", canonical=True)}
    assert found
    assert not [each for each in found if "padding" in each]


@pytest.mark.parametrize("dtype", [["u8"], {"u8": 1}, 8, None, "u9"])
def test_a_storage_type_that_is_no_name_is_told_beside_a_known_logical_type(tmp_path, dtype):
    part = {"dtype": dtype, "type": "f8_e4m3fn", "blob": [4096, 4]}
    tensor = {"shape": [4], "layout": "dense", "parts": {"data": part}}
    (tmp_path / "a.zt").write_bytes(build.image({"objects": {"t": tensor}}, {4096: b"abcd"}))
    found = [each.rule for each in tensorark.validate(tmp_path / "a.zt")]
    assert found
    assert "zt.type-dtype" not in found
