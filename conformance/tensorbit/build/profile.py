"""Files of `reject/` that break the layout profile `tensorbit.nm/1` of a `.zt`."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.zt.build import laid
from conformance.zt.build.manifest import tensor

from .image import SPARSE_MASK, SPARSE_VALUES, Image, Tensor, floats
from .rules import NM

Stored = tuple[bytes, Mapping[str, object]]

_WEIGHTS: Stored = (floats(*SPARSE_VALUES), {"dtype": "f32"})
_MASK: Stored = (SPARSE_MASK, {"dtype": "u8"})


def _file(facts: object = None, shape: list[int] | None = None, **parts: Stored | None) -> Tensor:
    """Return a `.zt` with one object of 4 x 8 weights at 2:4, changed as told."""
    usual = {"weights": _WEIGHTS, "mask": _MASK}
    attributes = {"tensorbit": {"n": 2, "m": 4} if facts is None else facts}
    record = tensor(layout=NM, shape=shape or [4, 8], attributes=attributes)
    image = laid.alone(record, laid.chosen(usual, parts))
    if not isinstance(image, bytes):
        raise TypeError
    return Tensor(image)


def nm_pattern() -> Image:
    """The pattern lacks m."""
    return _file({"n": 2})


def nm_pattern__too_many() -> Image:
    """Five of each four weights are kept."""
    return _file({"n": 5, "m": 4})


def nm_pattern__text() -> Image:
    """`tensorbit` is text."""
    return _file("2:4")


def nm_dtype() -> Image:
    """The quantized type is int2."""
    return _file({"n": 2, "m": 4, "dtype": "int2"})


def nm_group_size() -> Image:
    """The group size is negative."""
    facts = {"n": 2, "m": 4, "dtype": "int8", "group_size": -1}
    return _file(facts, weights=(bytes(32), {"dtype": "i8"}))


def nm_parts() -> Image:
    """There are no weights."""
    return _file(weights=None)


def nm_parts__scales_of_floats() -> Image:
    """Weights that are floats have scales."""
    return _file(scales=(floats(1.0), {"dtype": "f32"}))


def nm_parts__extra() -> Image:
    """There is a part that the profile does not know."""
    return _file(zeros=(bytes(4), {"dtype": "u8"}))


def nm_types() -> Image:
    """The mask is i8."""
    return _file(mask=(SPARSE_MASK, {"dtype": "i8"}))


def nm_types__weights() -> Image:
    """The weights are i32."""
    return _file(weights=(floats(*SPARSE_VALUES), {"dtype": "i32"}))


def nm_types__int4() -> Image:
    """int4 weights are i8, not u8."""
    return _file({"n": 2, "m": 4, "dtype": "int4"}, weights=(bytes(16), {"dtype": "i8"}))


def nm_weights_size() -> Image:
    """The weights have one element too few."""
    return _file(weights=(floats(*SPARSE_VALUES[:-1]), {"dtype": "f32"}))


def nm_mask_size() -> Image:
    """The mask has one byte too few."""
    return _file(mask=(SPARSE_MASK[:-1], {"dtype": "u8"}))


def nm_mask_size__dense() -> Image:
    """An object of the pattern 0:0 has a mask."""
    return _file({"n": 0, "m": 0})


def nm_scales_size() -> Image:
    """A scale has two bytes."""
    facts = {"n": 2, "m": 4, "dtype": "int8", "group_size": 0}
    parts = {"weights": (bytes(32), {"dtype": "i8"}), "scales": (bytes(2), {"dtype": "f32"})}
    return _file(facts, **parts)
