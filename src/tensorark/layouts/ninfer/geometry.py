"""Where the bytes of an encoded object lie: sizes, planes and row strides, without a number (§6).

Owns the pairs of numeric format and storage layout that are known, and the arithmetic of each. Both
the format that defines them and what turns their words into numbers need it. Pure
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from types import MappingProxyType
from typing import Final, NamedTuple

from tensorark.core.model import Tensor
from tensorark.errors import InvalidInput, Unsupported, quoted

PREFIX: Final = "ninfer."
"""Stands before layouts and formats where they are ids of the model, or of a `.zt`."""

U64: Final = 1 << 64
ALIGNMENT: Final = 256
"""Where a tensor object may start in the logical payload, and a plane inside an object."""

RESOURCE_ENCODING: Final = "raw_bytes_v1"

CONTIGUOUS: Final = "contiguous_le_v1"
ROW_SPLIT: Final = "row_split_k128_v1"
BLOCK_SCALE: Final = "block_scale_k16_m128x4_v1"
ROW_SCALE: Final = "row_scale_v1"
ROW_INTERLEAVED: Final = "row_interleaved_v1"
GGUF_BLOCKS: Final = "gguf_blocks_v1"

NVFP4: Final = "nvfp4"
TILE_ROWS: Final = 128
"""Rows of an nvfp4 matrix whose block scales are swizzled together."""


def align_up(offset: int, alignment: int) -> int:
    """Return the first multiple of `alignment` at or after `offset`."""
    return -(-offset // alignment) * alignment


# ------------------------------------------------------------------------------------------ formats


class GroupFormat(NamedTuple):
    """A format of integer codes in groups of `group` along the last axis, an FP16 scale each.

    A group takes `base` bytes in the base plane and `high` bytes in the plane of high bits.
    """

    group: int
    base: int
    high: int


class Blocks(NamedTuple):
    """A format whose rows are blocks: `values` elements in `nbytes` bytes."""

    values: int
    nbytes: int


DIRECT: Final[Mapping[str, int]] = MappingProxyType({"bf16": 2, "fp32": 4, "int32": 4})
"""Formats of plain words, with the bytes of a word."""

GROUPED: Final[Mapping[str, GroupFormat]] = MappingProxyType(
    {
        "q2_g64_fp16": GroupFormat(group=64, base=16, high=0),
        "q4_g64_fp16": GroupFormat(group=64, base=32, high=0),
        "q5_g64_fp16": GroupFormat(group=64, base=32, high=8),
        "q6_g64_fp16": GroupFormat(group=64, base=32, high=16),
        "q8_g32_fp16": GroupFormat(group=32, base=32, high=0),
        "t2_g128_fp16": GroupFormat(group=128, base=32, high=0),
    }
)

GGUF: Final[Mapping[str, Blocks]] = MappingProxyType(
    {
        "gguf_q4_0": Blocks(32, 18),
        "gguf_q5_0": Blocks(32, 22),
        "gguf_q8_0": Blocks(32, 34),
        "gguf_q2_k": Blocks(256, 84),
        "gguf_q3_k": Blocks(256, 110),
        "gguf_q4_k": Blocks(256, 144),
        "gguf_q5_k": Blocks(256, 176),
        "gguf_q6_k": Blocks(256, 210),
        "gguf_iq2_xxs": Blocks(256, 66),
        "gguf_iq2_xs": Blocks(256, 74),
        "gguf_iq3_xxs": Blocks(256, 98),
        "gguf_iq1_s": Blocks(256, 50),
        "gguf_iq4_nl": Blocks(32, 18),
        "gguf_iq3_s": Blocks(256, 110),
        "gguf_iq2_s": Blocks(256, 82),
        "gguf_iq4_xs": Blocks(256, 136),
        "gguf_iq1_m": Blocks(256, 56),
        "gguf_q2_0": Blocks(64, 18),
    }
)

ROW_SCALED: Final[Mapping[str, str]] = MappingProxyType(
    {"fp8_e4m3fn_row_bf16": ROW_SCALE, "fp8_e4m3fn_row_fp16": ROW_INTERLEAVED}
)

LAYOUT_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(DIRECT, CONTIGUOUS),
        **dict.fromkeys(GROUPED, ROW_SPLIT),
        NVFP4: BLOCK_SCALE,
        **ROW_SCALED,
        **dict.fromkeys(GGUF, GGUF_BLOCKS),
    }
)
"""The one layout in which each known format is stored."""


# ----------------------------------------------------------------------------------------- geometry


class Plane(NamedTuple):
    """A run of bytes inside an object: `offset` from its start, `nbytes` long.

    Every `unit` rows of the matrix own `stride` bytes of it, in order.
    """

    role: str
    offset: int
    nbytes: int
    stride: int
    unit: int = 1


class Geometry(NamedTuple):
    """An encoded object seen as a matrix of `rows` rows of `columns` elements.

    `planes` lie in ascending order, zero bytes between them; `nbytes` is the encoded size. Rows can
    be cut out in multiples of `unit`, and never across a multiple of `segment`.
    """

    format: str
    layout: str
    rows: int
    columns: int
    planes: tuple[Plane, ...]
    nbytes: int
    unit: int = 1
    segment: int = 0

    def plane(self, role: str) -> Plane:
        """Return the plane `role`, one of the layout's own."""
        return next(each for each in self.planes if each.role == role)


class Slice(NamedTuple):
    """Rows [first, first + rows) of an object: where they lie, as (offset, length) in the object.

    The bytes of `pieces`, each at its offset in `geometry` and zeros between them, are a standalone
    object of the same format and layout, with one divisor.
    """

    first: int
    geometry: Geometry
    pieces: tuple[tuple[int, int], ...]


def geometry(format_: str, layout: str, shape: tuple[int, ...], divisors: int = 1) -> Geometry:
    """Return where the bytes of an object lie.

    Raises:
        Unsupported: when the format, the layout or their combination is unknown.
        InvalidInput: when no such object can have this shape.
    """
    reason = unknown(format_, layout)
    if reason is not None:
        raise Unsupported(reason[0], code=reason[1], section="6", found=reason[2])
    misfits = misfit(format_, layout, shape, divisors)
    if misfits is not None:
        raise InvalidInput(misfits, code="ninfer-shape", section="6.2", found=list(shape))
    return _PLANS[layout](format_, shape, divisors)


def geometry_of(tensor: Tensor) -> Geometry:
    """Return the geometry of a tensor whose layout and type carry our prefix.

    Raises:
        Unsupported: when the format, the layout or their combination is unknown.
        InvalidInput: when no such object can have its shape.
    """
    type_ = tensor.parts["data"].type or ""
    return geometry(
        type_.removeprefix(PREFIX),
        tensor.layout.removeprefix(PREFIX),
        tensor.shape,
        divisors_of(tensor.attributes or {}),
    )


def divisors_of(attributes: Mapping[str, object]) -> int:
    """Return the number of weight divisors that is stated: 1 without a word, 0 for no number."""
    stated = attributes.get("divisors", 1)
    return stated if type(stated) is int else 0


def unknown(format_: str, layout: str) -> tuple[str, str, str] | None:
    """Say what of an object cannot be interpreted: detail, code and the id; None if it can be."""
    if layout not in _PLANS:
        return "the layout is unknown, so the tensor is not interpreted", "unknown-layout", layout
    if format_ not in LAYOUT_OF:
        return "the format is unknown, so the tensor is not interpreted", "unknown-format", format_
    return None


def misfit(format_: str, layout: str, shape: tuple[int, ...], divisors: int = 1) -> str | None:
    """Say why an object of known ids cannot have this shape or divisors; None if it can."""
    if LAYOUT_OF[format_] != layout:
        return f"layout {quoted(layout)} does not hold format {quoted(format_)}"
    if divisors > 1 and format_ != NVFP4:
        return f"format {quoted(format_)} has no weight divisors"
    if not all(dimension > 0 for dimension in shape) or divisors < 1:
        return "a dimension, or the number of divisors, is not positive"
    if layout == CONTIGUOUS:
        ill = "more than 16 dimensions" if len(shape) > 16 else None
    elif len(shape) != 2:
        ill = f"layout {quoted(layout)} holds matrices, this has {len(shape)} dimensions"
    elif layout == BLOCK_SCALE:
        ill = _misfit_nvfp4(shape[0], shape[1], divisors)
    elif layout == GGUF_BLOCKS and shape[1] % GGUF[format_].values:
        ill = f"rows do not fill blocks of {GGUF[format_].values} elements"
    else:
        ill = None
    if ill is None and _PLANS[layout](format_, shape, divisors).nbytes >= U64:
        ill = "the encoded size does not fit 64 bits"
    return ill


def _misfit_nvfp4(rows: int, columns: int, divisors: int) -> str | None:
    if rows % TILE_ROWS or columns % 64:
        return "an nvfp4 matrix has rows in multiples of 128 and columns in multiples of 64"
    if divisors > 1 and (rows % divisors or rows // divisors % TILE_ROWS):
        return f"{rows} rows do not divide into {divisors} parts of a multiple of 128 rows"
    return None


def slices(whole: Geometry, start: int, stop: int) -> Iterator[Slice]:
    """Yield the least rows that hold [start, stop) and can be decoded alone, in ascending order."""
    segment = whole.segment or whole.rows
    first = start // whole.unit * whole.unit
    last = min(align_up(stop, whole.unit), whole.rows)
    while first < last:
        end = min(last, (first // segment + 1) * segment)
        pieces = tuple(
            (
                each.offset + first // each.unit * each.stride,
                (-(-end // each.unit) - first // each.unit) * each.stride,
            )
            for each in whole.planes
        )
        cut = _PLANS[whole.layout](whole.format, (end - first, whole.columns), 1)
        yield Slice(first=first, geometry=cut, pieces=pieces)
        first = end


# -------------------------------------------------------------------------------------- the layouts


def _stack(
    format_: str,
    layout: str,
    shape: tuple[int, int],
    planes: tuple[tuple[str, int, int], ...],
) -> Geometry:
    """Place planes given as role, alignment and bytes of a row, one after the other."""
    placed, end = [], 0
    for role, alignment, stride in planes:
        offset, nbytes = align_up(end, alignment), shape[0] * stride
        placed.append(Plane(role=role, offset=offset, nbytes=nbytes, stride=stride))
        end = offset + nbytes
    rows, columns = shape
    return Geometry(
        format=format_,
        layout=layout,
        rows=rows,
        columns=columns,
        planes=tuple(placed),
        nbytes=end,
    )


def _contiguous(format_: str, shape: tuple[int, ...], _divisors: int) -> Geometry:
    columns = shape[-1] if shape else 1
    rows = prod(shape[:-1])
    return _stack(format_, CONTIGUOUS, (rows, columns), (("data", 1, columns * DIRECT[format_]),))


def _row_split(format_: str, shape: tuple[int, ...], _divisors: int) -> Geometry:
    rows, columns = shape
    known = GROUPED[format_]
    groups = align_up(columns, 128) // known.group  # in a row, those of padding included
    planes = (
        ("base", ALIGNMENT, groups * known.base),
        ("high", ALIGNMENT, groups * known.high),
        ("scales", ALIGNMENT, groups * 2),
    )
    return _stack(format_, ROW_SPLIT, (rows, columns), planes)


def _block_scale(format_: str, shape: tuple[int, ...], divisors: int) -> Geometry:
    rows, columns = shape
    codes, scales = rows * columns // 2, rows * columns // 16
    start = align_up(codes, ALIGNMENT)
    segment = rows // divisors
    planes = (
        Plane(role="codes", offset=0, nbytes=codes, stride=columns // 2),
        Plane(
            role="scales",
            offset=start,
            nbytes=scales,
            stride=TILE_ROWS * columns // 16,
            unit=TILE_ROWS,
        ),
        Plane(role="divisors", offset=start + scales, nbytes=4 * divisors, stride=4, unit=segment),
    )
    return Geometry(
        format=format_,
        layout=BLOCK_SCALE,
        rows=rows,
        columns=columns,
        planes=planes,
        nbytes=start + scales + 4 * divisors,
        unit=TILE_ROWS,
        segment=segment,
    )


def _row_scale(format_: str, shape: tuple[int, ...], _divisors: int) -> Geometry:
    rows, columns = shape
    planes = (("codes", ALIGNMENT, columns), ("scales", ALIGNMENT, 2))
    return _stack(format_, ROW_SCALE, (rows, columns), planes)


def _row_interleaved(format_: str, shape: tuple[int, ...], _divisors: int) -> Geometry:
    rows, columns = shape
    return _stack(format_, ROW_INTERLEAVED, (rows, columns), (("rows", 1, columns + 2),))


def _gguf_blocks(format_: str, shape: tuple[int, ...], _divisors: int) -> Geometry:
    rows, columns = shape
    known = GGUF[format_]
    stride = columns // known.values * known.nbytes
    return _stack(format_, GGUF_BLOCKS, (rows, columns), (("blocks", 1, stride),))


_PLANS: Final[Mapping[str, Callable[[str, tuple[int, ...], int], Geometry]]] = MappingProxyType(
    {
        CONTIGUOUS: _contiguous,
        ROW_SPLIT: _row_split,
        BLOCK_SCALE: _block_scale,
        ROW_SCALE: _row_scale,
        ROW_INTERLEAVED: _row_interleaved,
        GGUF_BLOCKS: _gguf_blocks,
    }
)
