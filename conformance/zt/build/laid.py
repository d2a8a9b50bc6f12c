"""Objects of the layout profiles that most builders change in one place, and how parts are placed.

Owns the usual objects. It never decides what is valid.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from .image import FLOOR, Image, image
from .manifest import Map, changed, floats, integers, part, root, tensor
from .rules import COO, MLX, MX, QUANT

Stored = tuple[bytes, Mapping[str, object]]
"""The bytes of a part and its fields, without `blob`."""


def halves(*values: float) -> bytes:
    """Return little-endian f16 elements."""
    return struct.pack(f"<{len(values)}e", *values)


def placed(heap: dict[int, bytes], record: Map, parts: Mapping[str, Stored]) -> Map:
    """Return an object with `parts`, whose bytes are added to `heap`; equal ones share a blob."""
    laid: Map = {}
    for role, (data, fields) in parts.items():
        at = next((at for at, held in heap.items() if held == data), FLOOR * (len(heap) + 1))
        heap[at] = data
        laid[role] = part(blob=[at, len(data)], **fields)
    return changed(record, {"parts": laid})


def alone(record: Map, parts: Mapping[str, Stored]) -> Image:
    """Return a file with one object."""
    heap: dict[int, bytes] = {}
    return image(root(objects={"t": placed(heap, record, parts)}), heap)


def chosen(usual: Mapping[str, Stored], parts: Mapping[str, Stored | None]) -> dict[str, Stored]:
    """Return parts with some replaced, added, or, where there is None, left out."""
    merged = {**usual, **parts}
    return {role: stored for role, stored in merged.items() if stored is not None}


def coo(shape: list[int] | None = None, **parts: Stored | None) -> Image:
    """Return a file with one COO object, [[1, 0, 2], [0, 3, 0]] in f32, changed as told."""
    usual: dict[str, Stored] = {
        "values": (floats(1, 2, 3), {"dtype": "f32"}),
        "coords": (integers("u64", 0, 0, 1, 0, 2, 1), {"dtype": "u64"}),
    }
    record = tensor(layout=COO, shape=[2, 3] if shape is None else shape)
    return alone(record, chosen(usual, parts))


PACKING: Map = {"word": "u32", "order": "lsb_first", "per_word": 8}
SCHEME: Map = {
    "bits": 4,
    "group_size": 4,
    "axis": 1,
    "packing": PACKING,
    "scale_form": "f16_factors",
    "zero_point": {"form": "implied", "value": 8},
}
TENSOR_ZERO: Map = {"form": "tensor", "packing": "plain"}
CODES: Stored = (bytes.fromhex("1032547698badcfe"), {"dtype": "u32"})
SCALES: Stored = (halves(0.5, 1, 2, -0.25), {"dtype": "f16"})
ZEROS: Stored = (bytes([8, 4, 0, 15]), {"dtype": "u8"})


def quant(
    shape: list[int] | None = None,
    scheme: Mapping[str, object] | None = None,
    **parts: Stored | None,
) -> Image:
    """Return a file with one group-quantized object, the codes 0 to 15 in [2, 8], as told."""
    usual = {"data": CODES, "scales": SCALES}
    attributes = changed(SCHEME, scheme or {})
    record = tensor(layout=QUANT, shape=[2, 8] if shape is None else shape, attributes=attributes)
    return alone(record, chosen(usual, parts))


BLOCKS: Map = {"block_size": 2, "scale_form": "e8m0_exponent"}
ELEMENTS: Stored = (bytes.fromhex("21436587"), {"dtype": "u8", "type": "f4_e2m1"})
EXPONENTS: Stored = (bytes([128, 127, 126, 129]), {"dtype": "u8", "type": "f8_e8m0"})


def mx(
    shape: list[int] | None = None,
    blocks: Mapping[str, object] | None = None,
    **parts: Stored | None,
) -> Image:
    """Return a file with one MX object, eight f4_e2m1 in blocks of two, changed as told."""
    usual = {"data": ELEMENTS, "scales": EXPONENTS}
    attributes = changed(BLOCKS, blocks or {})
    record = tensor(layout=MX, shape=[2, 4] if shape is None else shape, attributes=attributes)
    return alone(record, chosen(usual, parts))


Q8_0: Map = {"elems_per_block": 32, "block_bytes": 34}


def gguf(
    shape: list[int] | None = None,
    blocks: Mapping[str, object] | None = None,
    layout: str = "gguf.q8_0/1",
    **parts: Stored | None,
) -> Image:
    """Return a file with one GGUF object, two blocks of q8_0, changed as told."""
    usual: dict[str, Stored] = {"data": (bytes(range(68)), {"dtype": "u8"})}
    attributes = changed(Q8_0, blocks or {})
    record = tensor(layout=layout, shape=[2, 32] if shape is None else shape, attributes=attributes)
    return alone(record, chosen(usual, parts))


AFFINE: Map = {"bits": 3, "group_size": 16}
# The codes 0 to 7 in 24 bits, three times, then eight zeros.
AFFINE_DATA: Stored = (bytes.fromhex("88c6fa88c6fa88c6fa000000"), {"dtype": "u32"})
AFFINE_SCALES: Stored = (halves(0.5, 1), {"dtype": "f16"})
AFFINE_BIASES: Stored = (halves(-1, 0), {"dtype": "f16"})


def mlx(
    shape: list[int] | None = None,
    scheme: Mapping[str, object] | None = None,
    **parts: Stored | None,
) -> Image:
    """Return a file with one MLX object, 32 codes of 3 bits in two groups, changed as told."""
    usual = {"data": AFFINE_DATA, "scales": AFFINE_SCALES, "biases": AFFINE_BIASES}
    attributes = changed(AFFINE, scheme or {})
    record = tensor(layout=MLX, shape=[1, 32] if shape is None else shape, attributes=attributes)
    return alone(record, chosen(usual, parts))
