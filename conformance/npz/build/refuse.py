"""Files of `refuse/`: valid, with elements that are no numbers."""

from __future__ import annotations

from conformance.build.case import ACCEPT, REFUSE, Case

from .case import case
from .image import Member, archive, described, npy

_EXPECT = {"open": ACCEPT, "decode": REFUSE}


def _of(data: bytes) -> Case:
    return case(archive(Member(data=data)), section="npy", expect=_EXPECT)


def objects() -> Case:
    """The elements are pickled objects, which nobody should load."""
    return _of(described("|O", "(1,)", b"\x80\4]\x94N\x61."))


def text() -> Case:
    """The elements are text of two characters."""
    return _of(described("<U2", "(1,)", bytes(8)))


def dates() -> Case:
    """The elements are days."""
    return _of(described("<M8[D]", "(1,)", bytes(8)))


def voids() -> Case:
    """The elements are three bytes each."""
    return _of(described("|V3", "(1,)", bytes(3)))


def records() -> Case:
    """The elements are records of two fields."""
    descr = "[('x', '<f4'), ('y', '<i4')]"
    return _of(npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}", bytes(8)))
