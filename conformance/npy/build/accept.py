"""Files of `accept/`: valid, in every order and with every dtype."""

from __future__ import annotations

import struct

from conformance.build.case import Case

from .case import case
from .image import array, npy

_SIX = (0, 1, 2, 3, 4, 5)


def _numbers(name: str, code: str, values: tuple[float, ...] = _SIX) -> Case:
    """Return six numbers, two by three, in a file named like their type."""
    data = struct.pack(f"<{len(values)}{code}", *values)
    order = "|" if struct.calcsize(code) == 1 else "<"
    image = array(order + name, "(2, 3)", data)
    return case(name, image, (2, 3), data)


def minimal() -> Case:
    """One float of four bytes."""
    return case("minimal", array("<f4", "(1,)", bytes(4)), (1,), bytes(4))


def b1() -> Case:
    """Booleans, two by three."""
    return _numbers("b1", "B", (0, 1, 1, 0, 1, 0))


def i1() -> Case:
    """Signed bytes, two by three."""
    return _numbers("i1", "b", (-128, -1, 0, 1, 2, 127))


def u1() -> Case:
    """Bytes, two by three."""
    return _numbers("u1", "B")


def i2() -> Case:
    """Signed integers of two bytes."""
    return _numbers("i2", "h")


def u2() -> Case:
    """Integers of two bytes."""
    return _numbers("u2", "H")


def i4() -> Case:
    """Signed integers of four bytes."""
    return _numbers("i4", "i")


def u4() -> Case:
    """Integers of four bytes."""
    return _numbers("u4", "I")


def i8() -> Case:
    """Signed integers of eight bytes."""
    return _numbers("i8", "q")


def u8() -> Case:
    """Integers of eight bytes, the largest one among them."""
    return _numbers("u8", "Q", (0, 1, 2, 3, 4, (1 << 64) - 1))


def f2() -> Case:
    """Floats of two bytes."""
    return _numbers("f2", "e")


def f4() -> Case:
    """Floats of four bytes."""
    return _numbers("f4", "f")


def f8() -> Case:
    """Floats of eight bytes."""
    return _numbers("f8", "d")


def c8() -> Case:
    """A complex number of two floats of four bytes."""
    data = struct.pack("<2f", 1.5, -2)
    return case("c8", array("<c8", "(1,)", data), (1,), data)


def c16() -> Case:
    """A complex number of two floats of eight bytes."""
    data = struct.pack("<2d", 1.5, -2)
    return case("c16", array("<c16", "(1,)", data), (1,), data)


def big_endian() -> Case:
    """The elements are big-endian, their values are 0 to 5."""
    image = array(">f4", "(2, 3)", struct.pack(">6f", *range(6)))
    values = struct.pack("<6f", *range(6))
    return case("big-endian", image, (2, 3), values)


def fortran_order() -> Case:
    """The elements are stored by columns, their values are 0 to 5 by rows."""
    image = array("<f4", "(2, 3)", struct.pack("<6f", 0, 3, 1, 4, 2, 5), fortran=True)
    values = struct.pack("<6f", *range(6))
    return case("fortran-order", image, (2, 3), values)


def fortran_order_big_endian() -> Case:
    """The elements are big-endian and stored by columns."""
    image = array(">i2", "(2, 3)", struct.pack(">6h", 0, 3, 1, 4, 2, 5), fortran=True)
    values = struct.pack("<6h", *range(6))
    return case("fortran-order-big-endian", image, (2, 3), values)


def fortran_order_vector() -> Case:
    """A vector in Fortran order is a vector."""
    data = struct.pack("<3f", 0, 1, 2)
    image = array("<f4", "(3,)", data, fortran=True)
    return case("fortran-order-vector", image, (3,), data)


def scalar() -> Case:
    """An array without dimensions has one element."""
    data = struct.pack("<d", 2.5)
    return case("scalar", array("<f8", "()", data), (), data)


def empty() -> Case:
    """An array without elements has no data."""
    return case("empty", array("<f4", "(0, 4)", b""), (0, 4), b"")


def version_2() -> Case:
    """A header of version 2 has a length of four bytes."""
    image = array("<f4", "(1,)", bytes(4), version=2)
    return case("version-2", image, (1,), bytes(4))


def version_3() -> Case:
    """A header of version 3 is UTF-8."""
    image = array("<f4", "(1,)", bytes(4), version=3)
    return case("version-3", image, (1,), bytes(4))


def without_padding() -> Case:
    """A header has no padding, and its members stand in another order."""
    text = "{'shape':(1,),'fortran_order':False,'descr':'<f4'}"
    return case("without-padding", npy(text, bytes(4)), (1,), bytes(4))


def long_header() -> Case:
    """A header is longer than what a reader asks for at first."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + " " * 5000 + "\n"
    return case("long-header", npy(text, bytes(4)), (1,), bytes(4))
