"""Files of `reject/` in another container: a `.zt` whose tensor is an encoded object of NInfer.

Owns what the metadata of such a tensor says wrongly. All of it shows when the file is opened.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.zt.build.laid import Stored, alone, chosen
from conformance.zt.build.manifest import Map
from conformance.zt.build.manifest import tensor as record_of

from .image import Carried

_SIZE = 260
"""Of a q4 matrix [1, 64]: two groups of 32 bytes, filled up to 256, and two scales of FP16."""

_Q4: Map = {"dtype": "u8", "type": "ninfer.q4_g64_fp16"}


def _carried(
    shape: list[int],
    data: Stored | None = (bytes(_SIZE), _Q4),
    layout: str = "ninfer.row_split_k128_v1",
    attributes: Mapping[object, object] | None = None,
    **parts: Stored | None,
) -> Carried:
    """Return a `.zt` with one tensor of this layout, its part `data` as told."""
    record = record_of(layout=layout, shape=shape)
    if attributes is not None:
        record["attributes"] = attributes
    file = alone(record, chosen({}, {"data": data, **parts}))
    assert isinstance(file, bytes)
    return Carried(file)


def layout_parts() -> Carried:
    """The object has a part of its own for the scales."""
    return _carried([1, 64], scales=(bytes(4), {"dtype": "f16"}))


def layout_parts__other_name() -> Carried:
    """The only part is named codes."""
    return _carried([1, 64], None, codes=(bytes(_SIZE), _Q4))


def layout_type() -> Carried:
    """The part has no logical type, so that nothing names the numeric format."""
    return _carried([1, 64], (bytes(_SIZE), {"dtype": "u8"}))


def layout_type__foreign() -> Carried:
    """The logical type is one of another vocabulary."""
    return _carried([1, 64], (bytes(_SIZE), {"dtype": "u8", "type": "conformance.unknown"}))


def layout_shape() -> Carried:
    """A matrix of grouped codes has one dimension."""
    return _carried([64])


def layout_shape__divisors() -> Carried:
    """An object in q4 states two divisors, which nvfp4 alone has."""
    return _carried([1, 64], attributes={"divisors": 2})


def layout_shape__nvfp4_rows() -> Carried:
    """A matrix in nvfp4 has 127 rows, which is no multiple of 128."""
    typed = {"dtype": "u8", "type": "ninfer.nvfp4"}
    return _carried([127, 64], (bytes(4580), typed), "ninfer.block_scale_k16_m128x4_v1")


def layout_size() -> Carried:
    """The last byte of the scales is missing."""
    return _carried([1, 64], (bytes(_SIZE - 1), _Q4))


def layout_size__padding_forgotten() -> Carried:
    """The scales follow the codes at once, not at a multiple of 256."""
    return _carried([1, 64], (bytes(68), _Q4))
