"""The files of the layout profiles under a second opinion, made from the texts of the profiles.

The reference reader takes these layouts for unknown ones, so the files get a judge of their own: it
works on what the reference reader finds structurally, and never sees the library.
"""

from __future__ import annotations

import math
import re
import struct

import pytest

from conformance.reference import ztread

from .corpus_files import CORPUS, index

PROFILES = ("zt.sparse_coo/1", "zt.quant_group/1", "zt.mx/1", "gguf.<type>/1", "mlx.affine/1")
OURS = {file["path"]: file for file in index()["files"] if file["requires"] in PROFILES}
BITS = {"f4_e2m1": 4, "complex64": 64, "complex128": 128}
WORDS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}


def size(part, count):
    bits = BITS.get(part.type) or 8 * ztread.WIDTHS[part.dtype]
    return -(-count * bits // 8)


def uint(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def texts(value):
    """The entries of a map whose keys are text."""
    return value.text if isinstance(value, ztread.Map) else {}


def ids(part):
    return part.dtype, part.type


def coo(tensor, _attributes):
    rank = len(tensor.shape)
    if rank == 0:
        yield "coo-rank"
    if set(tensor.parts) != {"values", "coords"}:
        yield "coo-parts"
        return
    values, coords = tensor.parts["values"], tensor.parts["coords"]
    if ids(coords) not in {("u32", None), ("u64", None)}:
        yield "coo-coords-dtype"
    step = rank * ztread.WIDTHS[coords.dtype]
    if step and coords.nbytes % step:
        yield "coo-coords-size"
    elif step and values.nbytes != size(values, coords.nbytes // step):
        yield "coo-values-size"


def quant(tensor, given):
    packing, zero = texts(given.get("packing")), texts(given.get("zero_point"))
    word, bits, axis = packing.get("word"), given.get("bits"), given.get("axis")
    width = WORDS.get(word) if isinstance(word, str) else None
    whole = uint(bits) and bits in {2, 4, 8} and (width is None or width % bits == 0)
    form = zero.get("form")
    expected = {"data", "scales"} | ({"zeros"} if form == "tensor" else set())
    if set(tensor.parts) != expected and form in {"none", "implied", "tensor"}:
        yield "quant-parts"
    if not whole:
        yield "quant-bits"
    axed = uint(axis) and axis < len(tensor.shape)
    if not axed:
        yield "quant-axis"
    group = given.get("group_size")
    along = tensor.shape[axis] if axed else 0
    grouped = uint(group) and (group == 0 or along % group == 0)
    if not grouped:
        yield "quant-group-size"
    if width is None or packing.get("order") not in {"lsb_first", "msb_first"}:
        yield "quant-packing"
    if width and whole and not (uint(packing.get("per_word")) and
                                packing["per_word"] * bits == width):  # fmt: skip
        yield "quant-per-word"
    if given.get("scale_form") not in {"f32_factors", "f16_factors", "e8m0_exponent"}:
        yield "quant-scale-form"
    value = zero.get("value")
    settled = {
        "none": True,
        "implied": isinstance(value, int) and not isinstance(value, bool),
        "tensor": zero.get("packing") in {"plain", "same_as_data"},
    }
    if not settled.get(form, False):
        yield "quant-zero-point"
    yield from quant_parts(tensor, given, width if whole else None, bits, axed and grouped)


def quant_parts(tensor, given, width, bits, grouped):
    data, scales, zeros = (tensor.parts.get(role) for role in ("data", "scales", "zeros"))
    packing, zero = texts(given.get("packing")), texts(given.get("zero_point"))
    words = {(packing.get("word"), None), (f"i{str(packing.get('word'))[1:]}", None)}
    known = packing.get("word") in WORDS
    if data and known and ids(data) not in words:
        yield "quant-data-dtype"
    allowed = {
        "f32_factors": {(name, None) for name in ("f64", "f32", "f16", "bf16")},
        "f16_factors": {("f16", None), ("bf16", None)},
        "e8m0_exponent": {("u8", "f8_e8m0")},
    }.get(given.get("scale_form"))
    if scales and allowed and ids(scales) not in allowed:
        yield "quant-scales-dtype"
    packed = zero.get("packing") == "same_as_data"
    if zeros and zero.get("form") == "tensor" and (
        ids(zeros) not in words if packed and known else zeros.type is not None
    ):  # fmt: skip
        yield "quant-zeros-dtype"
    codes = math.prod(tensor.shape)
    if data and width and data.nbytes * 8 != packed_bits(codes, bits, width):
        yield "quant-data-size"
    if not grouped or not scales:
        return
    group, along = given["group_size"], tensor.shape[given["axis"]]
    counts = {codes // group} if group else {along, codes}
    step = ztread.WIDTHS[scales.dtype]
    if scales.nbytes not in {count * step for count in counts}:
        yield "quant-scales-size"
    elif zeros and zero.get("form") == "tensor":
        count = scales.nbytes // step
        if packed and width and zeros.nbytes * 8 != packed_bits(count, bits, width):
            yield "quant-zeros-size"
        if zero.get("packing") == "plain" and zeros.nbytes != count * ztread.WIDTHS[zeros.dtype]:
            yield "quant-zeros-size"


def packed_bits(count, bits, width):
    """The bits of `count` codes in whole words, None if they do not fill them."""
    return None if count * bits % width else count * bits


def mx(tensor, given):
    if set(tensor.parts) != {"data", "scales"}:
        yield "mx-parts"
    rank = len(tensor.shape)
    axis = given.get("axis", rank - 1)
    axed = uint(axis) and axis < rank
    if not axed:
        yield "mx-axis"
    block = given.get("block_size")
    blocked = uint(block) and block >= 2 and not (axed and tensor.shape[axis] % block)
    if not blocked:
        yield "mx-block-size"
    if given.get("scale_form") != "e8m0_exponent":
        yield "mx-scale-form"
    data, scales = tensor.parts.get("data"), tensor.parts.get("scales")
    elements = math.prod(tensor.shape)
    if scales and ids(scales) != ("u8", "f8_e8m0"):
        yield "mx-scales-dtype"
    if scales and axed and blocked and scales.nbytes * block != elements:
        yield "mx-scales-size"
    if data and data.type is None and data.dtype != "i8":
        yield "mx-data-dtype"
    if data and data.nbytes != size(data, elements):
        yield "mx-data-size"


def gguf(tensor, given):
    if set(tensor.parts) != {"data"}:
        yield "gguf-parts"
    data = tensor.parts.get("data")
    if data and ids(data) != ("u8", None):
        yield "gguf-dtype"
    per, octets = given.get("elems_per_block"), given.get("block_bytes")
    elements = math.prod(tensor.shape)
    divides = uint(per) and per > 0 and elements % per == 0
    if not divides:
        yield "gguf-elems-per-block"
    if not (uint(octets) and octets > 0):
        yield "gguf-block-bytes"
    elif data and divides and data.nbytes != elements // per * octets:
        yield "gguf-size"


def mlx(tensor, given):
    if set(tensor.parts) != {"data", "scales", "biases"}:
        yield "mlx.parts"
    bits, group = given.get("bits"), given.get("group_size")
    known = uint(bits) and bits in {2, 3, 4, 5, 6, 8}
    last = tensor.shape[-1] if tensor.shape else None
    grouped = last is not None and uint(group) and group > 0 and last % group == 0
    if not known:
        yield "mlx.bits"
    if not grouped:
        yield "mlx.group-size"
    data, scales, biases = (tensor.parts.get(role) for role in ("data", "scales", "biases"))
    factors = {(name, None) for name in ("f32", "f16", "bf16")}
    if (data and ids(data) != ("u32", None)) or (
        scales and biases and (ids(scales) not in factors or ids(scales) != ids(biases))
    ):
        yield "mlx.dtypes"
    elements = math.prod(tensor.shape)
    whole = known and last is not None and last * bits % 32 == 0
    if data and known and last is not None and not (whole and data.nbytes * 8 == elements * bits):
        yield "mlx.data-size"
    sizes = {part.nbytes / ztread.WIDTHS[part.dtype] for part in (scales, biases) if part}
    if grouped and sizes - {elements / group}:
        yield "mlx.scales-size"


def judge_of(layout):
    if re.fullmatch(r"gguf\.[a-z0-9_]+/1", layout):
        return gguf
    return {"zt.sparse_coo/1": coo, "zt.quant_group/1": quant, "zt.mx/1": mx, "mlx.affine/1": mlx}[
        layout
    ]


def full(rule):
    return rule if "." in rule else f"zt.{rule}"


def payload(tensor, data):
    """Yield the rules broken by the bytes of an object whose sizes are right."""
    values = tensor.parts.get("values") or tensor.parts.get("data")
    count = math.prod(tensor.shape)
    if tensor.layout == "zt.sparse_coo/1":
        form = {"u32": "I", "u64": "Q"}[tensor.parts["coords"].dtype]
        coords = struct.unpack(f"<{len(data['coords']) // struct.calcsize('<' + form)}{form}",
                               data["coords"])  # fmt: skip
        count = len(coords) // len(tensor.shape)
        axes = [coords[d * count : (d + 1) * count] for d in range(len(tensor.shape))]
        inside = all(i < extent for e, extent in zip(axes, tensor.shape, strict=True) for i in e)
        if not inside:
            yield "coo-coord-bound"
        elif len(set(zip(*axes, strict=True))) != count:
            yield "coo-cell-unique"
    stored = data.get("values", data.get("data"))
    if values.type == "bool" and set(stored) - {0, 1}:
        yield "bool-byte"
    if values.type == "f4_e2m1" and count % 2 and stored[-1] >> 4:
        yield "f4-padding"


def second_opinion(path):
    """Return the stage at which a file fails and the rules it breaks, or ("", [])."""
    with path.open("rb") as file:
        frame = ztread.read_frame(file)
        root = ztread.read_manifest(file, frame)
        tensors = ztread.tensors(root)
        assert [rule for rule, _ in ztread.claims(root, tensors, frame)] == []
        found = []
        for tensor in tensors:
            given = texts(tensor.record.text.get("attributes"))
            found += judge_of(tensor.layout)(tensor, given)
        if found:
            return "open", [full(rule) for rule in found]
        for tensor in tensors:
            data = {role: ztread.payload(file, part) for role, part in tensor.parts.items()}
            found += payload(tensor, data)
    return ("content", [full(rule) for rule in found]) if found else ("", [])


@pytest.mark.parametrize("path", OURS)
def test_breaks_exactly_its_rule(path):
    file = OURS[path]
    wanted = (file["stage"], [file["rule"]]) if file["class"] == "reject" else ("", [])
    assert second_opinion(CORPUS / path) == wanted


def test_there_is_a_valid_file_of_every_profile():
    assert {file["requires"] for file in OURS.values() if file["class"] == "accept"} == set(
        PROFILES
    )
