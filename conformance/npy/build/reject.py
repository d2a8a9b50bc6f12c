"""Files of `reject/`: each breaks the rule that its name begins with."""

from __future__ import annotations

from .image import MAGIC, array, npy


def header__version() -> bytes:
    """The version is 4."""
    return array("<f4", "(1,)", bytes(4), version=4)


def header__cut() -> bytes:
    """The file ends inside of the header."""
    return array("<f4", "(1,)", bytes(4))[:40]


def header__no_length() -> bytes:
    """The file ends behind the version."""
    return MAGIC + b"\1\0"


def header__members() -> bytes:
    """A fourth member stands in the header."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}"
    return npy(text, bytes(4))


def header__expression() -> bytes:
    """The shape is an expression, which nobody may evaluate."""
    return npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1+0,)}", bytes(4))


def header__order() -> bytes:
    """The order is a number."""
    return npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", bytes(4))


def header__shape() -> bytes:
    """A dimension is negative."""
    return npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", bytes(4))


def data_size() -> bytes:
    """The file is cut: an element is missing."""
    return array("<f4", "(2,)", bytes(4))


def data_size__longer() -> bytes:
    """A byte follows the elements."""
    return array("<f4", "(1,)", bytes(5))


def data_size__fortran_order() -> bytes:
    """An element is missing of an array that is stored by columns."""
    return array("<f4", "(2, 3)", bytes(20), fortran=True)


def data_size__product() -> bytes:
    """The product of the dimensions exceeds 64 bits, and would be 4 without what is above."""
    return array("<f4", f"({1 << 32}, {1 << 32}, 1)", bytes(4))
