"""Files of `refuse/`: valid, with elements whose numbers nobody here defined."""

from __future__ import annotations

from conformance.build.case import ACCEPT, REFUSE, Case

from .case import Stored, case
from .image import entry, file

_EXPECT = {"open": ACCEPT, "decode": REFUSE}


def _of(dtype: str, shape: tuple[int, ...], data: bytes) -> Case:
    image = file({"a": entry(dtype, list(shape), 0, len(data))}, data)
    return case(image, expect=_EXPECT, tensors={"a": Stored(dtype, shape, data)})


def six_bits() -> Case:
    """Four F6_E2M3 in three bytes."""
    return _of("F6_E2M3", (4,), b"123")


def six_bits_e3m2() -> Case:
    """Four F6_E3M2 in three bytes."""
    return _of("F6_E3M2", (4,), b"123")
