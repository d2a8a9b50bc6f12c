"""Files of `reject/` that open, and whose masks and weights contradict: verifying shows it."""

from __future__ import annotations

from conformance.zt.build import laid
from conformance.zt.build.manifest import tensor

from .image import (
    SPARSE_VALUES,
    Image,
    Single,
    Tensor,
    alone,
    floats,
    sparse,
)
from .rules import NM


def pruned_zero() -> Image:
    """A weight under a clear bit is 7."""
    values = [*SPARSE_VALUES[:1], 7.0, *SPARSE_VALUES[2:]]
    return alone(sparse(weights=floats(*values)))


def pruned_zero__last() -> Image:
    """The last weight is not zero and its bit is clear; the value is the smallest of fp32."""
    values = [*SPARSE_VALUES[:-2], 4.5, 1e-45]
    mask = bytes([0x05, 0x0A] * 3 + [0x05, 0x06])
    return Single(sparse(weights=floats(*values), mask=mask).data)


def pruned_zero__in_a_zt() -> Image:
    """A `.zt` has a weight that is not zero under a clear bit."""
    values = [*SPARSE_VALUES[:1], 7.0, *SPARSE_VALUES[2:]]
    parts = {
        "weights": (floats(*values), {"dtype": "f32"}),
        "mask": (bytes([0x05, 0x0A] * 4), {"dtype": "u8"}),
    }
    record = tensor(layout=NM, shape=[4, 8], attributes={"tensorbit": {"n": 2, "m": 4}})
    image = laid.alone(record, parts)
    if not isinstance(image, bytes):
        raise TypeError
    return Tensor(image)


def mask_count() -> Image:
    """A group keeps three of four weights, at 2:4."""
    return alone(sparse(mask=bytes([0x0D, 0x0A] + [0x05, 0x0A] * 3)))


def mask_count__too_few() -> Image:
    """A group keeps one of four weights, at 2:4; the others are zero."""
    values = [1.0, 0.0, 0.0, 0.0, *SPARSE_VALUES[4:]]
    mask = bytes([0x01, 0x0A] + [0x05, 0x0A] * 3)
    return alone(sparse(weights=floats(*values), mask=mask))


def mask_count__all_bits() -> Image:
    """All bits are set, also those above M, as the public test generator does."""
    return Single(sparse(mask=b"\xff" * 8).data)


def mask_count__short_group() -> Image:
    """The short last group of 10 weights keeps both of them, at 1:4."""
    values = [1.0, 0.0, 0.0, 0.0] * 2 + [5.0, 6.0]
    return Single(sparse(weights=floats(*values), count=10, n=1, mask=b"\1\1\3").data)


def mask_truncated() -> Image:
    """A mask of 8:16 has one byte a group, and weights 8 to 15 are zero, as the tool makes them."""
    values = [1.0] * 4 + [0.0] * 12 + [0.0] * 4 + [2.0] * 4 + [0.0] * 8
    return Single(sparse(weights=floats(*values), n=8, m=16, mask=b"\x0f\xf0").data)
