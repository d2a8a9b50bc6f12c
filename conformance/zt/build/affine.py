"""Files of `reject/` that break the layout profile `mlx.affine/1`, before any payload is read."""

from __future__ import annotations

from .image import Image
from .laid import AFFINE_BIASES, AFFINE_DATA, AFFINE_SCALES, halves, mlx
from .manifest import ABSENT

_U32 = {"dtype": "u32"}
_F16 = {"dtype": "f16"}


def mlx_parts() -> Image:
    """There are no biases."""
    return mlx(biases=None)


def mlx_parts__extra() -> Image:
    """There is a part that the profile does not know."""
    return mlx(zeros=(bytes(2), {"dtype": "u8"}))


def mlx_bits() -> Image:
    """bits is 7."""
    return mlx(scheme={"bits": 7})


def mlx_bits__missing() -> Image:
    """There is no attribute bits."""
    return mlx(scheme={"bits": ABSENT})


def mlx_bits__float() -> Image:
    """bits is the float 3.0."""
    return mlx(scheme={"bits": 3.0})


def mlx_group_size() -> Image:
    """group_size is 12 over a last dimension of 32."""
    return mlx(scheme={"group_size": 12})


def mlx_group_size__missing() -> Image:
    """There is no attribute group_size."""
    return mlx(scheme={"group_size": ABSENT})


def mlx_group_size__zero() -> Image:
    """group_size is 0."""
    return mlx(scheme={"group_size": 0})


def mlx_group_size__scalar() -> Image:
    """A scalar has no groups."""
    return mlx([], data=(b"", _U32), scales=(b"", _F16), biases=(b"", _F16))


def mlx_dtypes() -> Image:
    """data is i32."""
    return mlx(data=(AFFINE_DATA[0], {"dtype": "i32"}))


def mlx_dtypes__biases() -> Image:
    """scales are f16 and biases bf16."""
    return mlx(biases=(AFFINE_BIASES[0], {"dtype": "bf16"}))


def mlx_dtypes__scales() -> Image:
    """scales and biases are u16."""
    typed = {"dtype": "u16"}
    return mlx(scales=(AFFINE_SCALES[0], typed), biases=(AFFINE_BIASES[0], typed))


def mlx_dtypes__logical_type() -> Image:
    """data is u32 with an unregistered logical type."""
    return mlx(data=(AFFINE_DATA[0], {"dtype": "u32", "type": "conformance.unknown"}))


def mlx_data_size() -> Image:
    """data has two words for three."""
    return mlx(data=(AFFINE_DATA[0][:8], _U32))


def mlx_data_size__row() -> Image:
    """A row of 16 codes of 3 bits ends inside of a word, two rows fill three of them."""
    return mlx([2, 16])


def mlx_scales_size() -> Image:
    """There is one scale for two groups."""
    return mlx(scales=(halves(0.5), _F16))


def mlx_scales_size__biases() -> Image:
    """There are three biases for two groups."""
    return mlx(biases=(halves(-1, 0, 1), _F16))
