"""Files of `reject/` that break a layout profile: COO, group quantization, MX, GGUF.

All but the last three show before any payload is read.
"""

from __future__ import annotations

from .image import Image
from .laid import (
    CODES,
    EXPONENTS,
    PACKING,
    SCALES,
    TENSOR_ZERO,
    ZEROS,
    coo,
    gguf,
    halves,
    mx,
    quant,
)
from .manifest import ABSENT, floats, integers

_U8 = {"dtype": "u8"}
_F32 = {"dtype": "f32"}

# --- zt.sparse_coo/1 -----------------------------------------------------------------------------


def coo_rank() -> Image:
    """A COO object is a scalar."""
    return coo([], values=(b"", _F32), coords=(b"", {"dtype": "u64"}))


def coo_parts() -> Image:
    """A COO object has no coords."""
    return coo(coords=None)


def coo_parts__no_values() -> Image:
    """A COO object has no values."""
    return coo(values=None)


def coo_parts__extra() -> Image:
    """A COO object has a third part."""
    return coo(indptr=(integers("u64", 0, 2, 3), {"dtype": "u64"}))


def coo_coords_dtype() -> Image:
    """coords are i64."""
    return coo(coords=(integers("i64", 0, 0, 1, 0, 2, 1), {"dtype": "i64"}))


def coo_coords_dtype__logical_type() -> Image:
    """coords are u32 with an unregistered logical type."""
    typed = {"dtype": "u32", "type": "conformance.unknown"}
    return coo(coords=(integers("u32", 0, 0, 1, 0, 2, 1), typed))


def coo_coords_size() -> Image:
    """coords have five u64 for two dimensions."""
    return coo(coords=(integers("u64", 0, 0, 1, 0, 2), {"dtype": "u64"}))


def coo_coords_size__part_of_an_index() -> Image:
    """coords have 20 bytes, two and a half u64."""
    return coo(coords=(bytes(20), {"dtype": "u64"}))


def coo_values_size() -> Image:
    """values has two f32 for three cells."""
    return coo(values=(floats(1, 2), _F32))


def coo_values_size__one_for_each_coordinate() -> Image:
    """values has six f32 for three cells in two dimensions."""
    return coo(values=(bytes(24), _F32))


def coo_values_size__packed() -> Image:
    """values has one byte for three cells of f4_e2m1."""
    return coo(values=(b"\x11", {"dtype": "u8", "type": "f4_e2m1"}))


# --- zt.quant_group/1 ----------------------------------------------------------------------------


def quant_parts() -> Image:
    """There are zeros although the zero point is implied."""
    return quant(zeros=ZEROS)


def quant_parts__no_zeros() -> Image:
    """The zero point is a tensor that is not there."""
    return quant(scheme={"zero_point": TENSOR_ZERO})


def quant_parts__no_scales() -> Image:
    """There are no scales."""
    return quant(scales=None)


def quant_parts__extra() -> Image:
    """There is a part g_idx, as GPTQ has it."""
    return quant(g_idx=(integers("u32", 0, 0, 0, 0, 1, 1, 1, 1), {"dtype": "u32"}))


def quant_bits() -> Image:
    """bits is 3, which divides no word."""
    return quant(scheme={"bits": 3})


def quant_bits__missing() -> Image:
    """There is no attribute bits."""
    return quant(scheme={"bits": ABSENT})


def quant_bits__one() -> Image:
    """bits is 1."""
    return quant(scheme={"bits": 1})


def quant_bits__float() -> Image:
    """bits is the float 4.0."""
    return quant(scheme={"bits": 4.0})


def quant_axis() -> Image:
    """axis is 2 in a matrix."""
    return quant(scheme={"axis": 2})


def quant_axis__negative() -> Image:
    """axis is -1."""
    return quant(scheme={"axis": -1})


def quant_axis__scalar() -> Image:
    """A scalar has no axis."""
    one: dict[str, object] = {**PACKING, "word": "u8", "per_word": 1}
    return quant(
        [],
        {"bits": 8, "axis": 0, "packing": one},
        data=(b"\x10", _U8),
        scales=(halves(1), {"dtype": "f16"}),
    )


def quant_group_size() -> Image:
    """group_size is 3 over an axis of 8."""
    return quant(scheme={"group_size": 3})


def quant_group_size__missing() -> Image:
    """There is no attribute group_size."""
    return quant(scheme={"group_size": ABSENT})


def quant_group_size__negative() -> Image:
    """group_size is -1, as GPTQ writes it for a whole column."""
    return quant(scheme={"group_size": -1})


def quant_packing() -> Image:
    """packing.word is i32, which is a dtype and no word."""
    return quant(scheme={"packing": {**PACKING, "word": "i32"}})


def quant_packing__missing() -> Image:
    """packing has no order."""
    return quant(scheme={"packing": {"word": "u32", "per_word": 8}})


def quant_packing__order() -> Image:
    """packing.order is interleaved."""
    return quant(scheme={"packing": {**PACKING, "order": "interleaved"}})


def quant_per_word() -> Image:
    """packing.per_word is 4 for 4 bits in u32."""
    return quant(scheme={"packing": {**PACKING, "per_word": 4}})


def quant_per_word__missing() -> Image:
    """packing has no per_word."""
    return quant(scheme={"packing": {"word": "u32", "order": "lsb_first"}})


def quant_scale_form() -> Image:
    """scale_form is f16."""
    return quant(scheme={"scale_form": "f16"})


def quant_scale_form__missing() -> Image:
    """There is no attribute scale_form."""
    return quant(scheme={"scale_form": ABSENT})


def quant_zero_point() -> Image:
    """zero_point.form is implied and there is no value."""
    return quant(scheme={"zero_point": {"form": "implied"}})


def quant_zero_point__float() -> Image:
    """zero_point.value is the float 8.0."""
    return quant(scheme={"zero_point": {"form": "implied", "value": 8.0}})


def quant_zero_point__form() -> Image:
    """zero_point.form is null."""
    return quant(scheme={"zero_point": {"form": None}})


def quant_zero_point__not_a_map() -> Image:
    """zero_point is the integer 8."""
    return quant(scheme={"zero_point": 8})


def quant_zero_point__packing() -> Image:
    """zero_point.form is tensor and there is no packing."""
    return quant(scheme={"zero_point": {"form": "tensor"}}, zeros=ZEROS)


def quant_data_dtype() -> Image:
    """data is u8 and the word u32."""
    return quant(data=(CODES[0], _U8))


def quant_data_dtype__logical_type() -> Image:
    """data is u32 with an unregistered logical type."""
    return quant(data=(CODES[0], {"dtype": "u32", "type": "conformance.unknown"}))


def quant_data_dtype__float() -> Image:
    """data is f32, as wide as its word."""
    return quant(data=(CODES[0], _F32))


def quant_scales_dtype() -> Image:
    """scales are f32 where scale_form says f16_factors."""
    return quant(scales=(floats(0.5, 1, 2, -0.25), _F32))


def quant_scales_dtype__integer() -> Image:
    """scales are i32 where scale_form says f32_factors."""
    scales = (integers("u32", 1, 2, 3, 4), {"dtype": "i32"})
    return quant(scheme={"scale_form": "f32_factors"}, scales=scales)


def quant_scales_dtype__exponents_without_type() -> Image:
    """scales are plain u8 where scale_form says e8m0_exponent."""
    return quant(scheme={"scale_form": "e8m0_exponent"}, scales=(EXPONENTS[0], _U8))


def quant_zeros_dtype() -> Image:
    """zeros are packed in u8 and the data in u32."""
    packed = {"form": "tensor", "packing": "same_as_data"}
    codes = (bytes(16), {"dtype": "u32"})
    scales = (bytes(16), {"dtype": "f16"})
    return quant([4, 8], {"zero_point": packed}, data=codes, scales=scales, zeros=(bytes(4), _U8))


def quant_zeros_dtype__logical_type() -> Image:
    """zeros are plain f8_e4m3fn."""
    typed = (ZEROS[0], {"dtype": "u8", "type": "f8_e4m3fn"})
    return quant(scheme={"zero_point": TENSOR_ZERO}, zeros=typed)


def quant_data_size() -> Image:
    """data has one word for sixteen codes of 4 bits."""
    return quant(data=(CODES[0][:4], {"dtype": "u32"}))


def quant_data_size__half_a_word() -> Image:
    """Twelve codes fill one and a half words of eight."""
    scales = (SCALES[0][:6], {"dtype": "f16"})
    return quant([1, 12], data=CODES, scales=scales)


def quant_data_size__padded_rows() -> Image:
    """Each of two rows of four codes has a word of its own."""
    scales = (SCALES[0][:4], {"dtype": "f16"})
    return quant([2, 4], data=CODES, scales=scales)


def quant_data_size__wraps() -> Image:
    """2^64 - 4 codes of 8 bits have no bytes in 64-bit arithmetic, times four."""
    word = {"word": "u32", "order": "lsb_first", "per_word": 4}
    return quant(
        [(1 << 64) - 4],
        {"bits": 8, "group_size": (1 << 64) - 4, "axis": 0, "packing": word},
        data=(b"", {"dtype": "u32"}),
        scales=(halves(1), {"dtype": "f16"}),
    )


def quant_scales_size() -> Image:
    """There are two scales for four groups, one for each row."""
    return quant(scales=(SCALES[0][:4], {"dtype": "f16"}))


def quant_scales_size__per_channel() -> Image:
    """group_size is 0 and scales hold neither one for each column nor one for each element."""
    return quant(scheme={"group_size": 0}, scales=(SCALES[0][:4], {"dtype": "f16"}))


def quant_zeros_size() -> Image:
    """There are two plain zero points for four groups."""
    return quant(scheme={"zero_point": TENSOR_ZERO}, zeros=(ZEROS[0][:2], _U8))


def quant_zeros_size__half_a_word() -> Image:
    """Four packed zero points fill half a word."""
    packed = {"form": "tensor", "packing": "same_as_data"}
    return quant(scheme={"zero_point": packed}, zeros=(b"\x48\xf0", {"dtype": "u32"}))


# --- zt.mx/1 -------------------------------------------------------------------------------------


def mx_parts() -> Image:
    """An MX object has no scales."""
    return mx(scales=None)


def mx_parts__extra() -> Image:
    """An MX object has zeros."""
    return mx(zeros=ZEROS)


def mx_axis() -> Image:
    """axis is 2 in a matrix."""
    return mx(blocks={"axis": 2})


def mx_axis__negative() -> Image:
    """axis is -1."""
    return mx(blocks={"axis": -1})


def mx_axis__scalar() -> Image:
    """A scalar has no last dimension."""
    typed = {"dtype": "u8", "type": "f4_e2m1"}
    return mx([], data=(b"\x01", typed), scales=(b"", EXPONENTS[1]))


def mx_block_size() -> Image:
    """block_size is 3 over an axis of 4."""
    return mx(blocks={"block_size": 3})


def mx_block_size__missing() -> Image:
    """There is no attribute block_size; 32 is not implied."""
    return mx(blocks={"block_size": ABSENT})


def mx_block_size__one() -> Image:
    """block_size is 1."""
    return mx(blocks={"block_size": 1})


def mx_block_size__zero() -> Image:
    """block_size is 0."""
    return mx(blocks={"block_size": 0})


def mx_scale_form() -> Image:
    """scale_form is f32_factors."""
    return mx(blocks={"scale_form": "f32_factors"})


def mx_scale_form__missing() -> Image:
    """There is no attribute scale_form."""
    return mx(blocks={"scale_form": ABSENT})


def mx_scales_dtype() -> Image:
    """scales are plain u8."""
    return mx(scales=(EXPONENTS[0], _U8))


def mx_data_dtype() -> Image:
    """data is plain u8."""
    return mx(data=(bytes(8), _U8))


def mx_data_size() -> Image:
    """data has three bytes for eight f4_e2m1."""
    return mx(data=(b"\x21\x43\x65", {"dtype": "u8", "type": "f4_e2m1"}))


def mx_scales_size() -> Image:
    """There are eight scales, one for each element."""
    return mx(scales=(bytes(8), EXPONENTS[1]))


# --- gguf.<type>/1 -------------------------------------------------------------------------------


def gguf_parts() -> Image:
    """A GGUF object has scales beside its blocks."""
    return gguf(scales=(halves(1, 2), {"dtype": "f16"}))


def gguf_parts__other_name() -> Image:
    """The one part of a GGUF object is named values."""
    return gguf(data=None, values=(bytes(68), _U8))


def gguf_dtype() -> Image:
    """data is i8."""
    return gguf(data=(bytes(range(68)), {"dtype": "i8"}))


def gguf_dtype__logical_type() -> Image:
    """data is u8 with an unregistered logical type."""
    return gguf(data=(bytes(range(68)), {"dtype": "u8", "type": "conformance.unknown"}))


def gguf_elems_per_block() -> Image:
    """elems_per_block is 48 for 64 elements."""
    return gguf(blocks={"elems_per_block": 48})


def gguf_elems_per_block__missing() -> Image:
    """There is no attribute elems_per_block; the type's name does not replace it."""
    return gguf(blocks={"elems_per_block": ABSENT})


def gguf_elems_per_block__zero() -> Image:
    """elems_per_block is 0."""
    return gguf(blocks={"elems_per_block": 0})


def gguf_block_bytes() -> Image:
    """block_bytes is 0."""
    return gguf(blocks={"block_bytes": 0})


def gguf_block_bytes__missing() -> Image:
    """There is no attribute block_bytes."""
    return gguf(blocks={"block_bytes": ABSENT})


def gguf_size() -> Image:
    """data has one block for 64 elements."""
    return gguf(data=(bytes(range(34)), _U8))


def gguf_size__unknown_type() -> Image:
    """A type that GGUF does not have yet is measured by its attributes too."""
    return gguf(layout="gguf.q99_z/1", data=(bytes(range(67)), _U8))


# --- payload -------------------------------------------------------------------------------------


def coo_coord_bound() -> Image:
    """A coordinate is 3 in a dimension of three."""
    return coo(coords=(integers("u64", 0, 0, 1, 0, 3, 1), {"dtype": "u64"}))


def coo_coord_bound__largest() -> Image:
    """A coordinate is 2^64 - 1, or -1 to a careless reader."""
    coords = integers("u64", 0, (1 << 64) - 1, 1, 0, 2, 1)
    return coo(coords=(coords, {"dtype": "u64"}))


def coo_coord_bound__no_extent() -> Image:
    """A cell is named in a tensor that has none."""
    one = integers("u32", 0, 0)
    return coo([0, 3], values=(floats(1), _F32), coords=(one, {"dtype": "u32"}))


def coo_cell_unique() -> Image:
    """A cell is named twice in a row."""
    return coo(coords=(integers("u64", 0, 0, 1, 2, 2, 1), {"dtype": "u64"}))


def coo_cell_unique__apart() -> Image:
    """The first and the last of three cells are the same, with the same value."""
    coords = (integers("u32", 1, 0, 1, 2, 0, 2), {"dtype": "u32"})
    return coo(values=(floats(5, 6, 5), _F32), coords=coords)


def f4_padding__coo_values() -> Image:
    """Three f4_e2m1 among the values of a COO object leave a high nibble, which is 4."""
    return coo(values=(b"\x21\x43", {"dtype": "u8", "type": "f4_e2m1"}))


def f4_padding__mx() -> Image:
    """Nine f4_e2m1 in blocks of three leave a high nibble, which is 8, a minus zero."""
    typed = {"dtype": "u8", "type": "f4_e2m1"}
    data = (b"\x21\x43\x65\x07\x81", typed)
    return mx([3, 3], {"block_size": 3}, data=data, scales=(bytes([127] * 3), EXPONENTS[1]))


def bool_byte__coo_values() -> Image:
    """A bool among the values of a COO object is 2."""
    return coo(values=(b"\x01\x02\x01", {"dtype": "u8", "type": "bool"}))
