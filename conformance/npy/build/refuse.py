"""Files of `refuse/`: valid, with elements that are no numbers."""

from __future__ import annotations

from conformance.build.case import ACCEPT, REFUSE, Case

from .case import case
from .image import array, npy


def _of(name: str, image: bytes) -> Case:
    return case(name, image, (1,), expect={"open": ACCEPT, "decode": REFUSE})


def objects() -> Case:
    """The elements are pickled objects, which nobody should load."""
    return _of("objects", array("|O", "(1,)", b"\x80\4]\x94N\x61."))


def text() -> Case:
    """The elements are text of two characters."""
    return _of("text", array("<U2", "(1,)", bytes(8)))


def dates() -> Case:
    """The elements are days."""
    return _of("dates", array("<M8[D]", "(1,)", bytes(8)))


def voids() -> Case:
    """The elements are three bytes each."""
    return _of("voids", array("|V3", "(1,)", bytes(3)))


def records() -> Case:
    """The elements are records of two fields."""
    descr = "[('x', '<f4'), ('y', '<i4')]"
    return _of(
        "records", npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}", bytes(8))
    )
