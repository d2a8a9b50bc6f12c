"""Files of `accept/`: valid, with known contents."""

from __future__ import annotations

import struct

from conformance.build.case import Case

from .case import Stored, case
from .image import DEFLATED, PLAIN, Member, archive, described, npy

_A = {"a": Stored("float32", (1,), bytes(4))}
_SIX = struct.pack("<6h", 0, 1, 2, 3, 4, 5)


def _one(data: bytes, dtype: str, shape: tuple[int, ...], values: bytes, method: int = 0) -> Case:
    image = archive(Member(data=data, method=method))
    return case(image, section="npy", tensors={"a": Stored(dtype, shape, values)})


def minimal() -> Case:
    """One f32, stored."""
    return case(archive(Member()), tensors=_A)


def no_members() -> Case:
    """An empty archive, as numpy writes it of no arrays."""
    return case(archive())


def stored_and_deflated() -> Case:
    """One array is stored and one deflated."""
    data = described("<i2", "(2, 3)", _SIX)
    image = archive(Member(), Member(name=b"b.npy", data=data, method=DEFLATED))
    return case(image, tensors={**_A, "b": Stored("int16", (2, 3), _SIX)})


_TYPES = {
    "bool": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2",
    "int32": "<i4", "uint32": "<u4", "int64": "<i8", "uint64": "<u8", "float16": "<f2",
    "float32": "<f4", "float64": "<f8", "complex64": "<c8", "complex128": "<c16",
}  # fmt: skip


def types() -> Case:
    """Two elements of every type that is numbers."""
    members, tensors = [], {}
    for name, descr in _TYPES.items():
        width = int(descr[2:])
        data = b"\1\0" if name == "bool" else bytes((5 * k + width) % 60 for k in range(2 * width))
        members.append(Member(name=f"{name}.npy".encode(), data=described(descr, "(2,)", data)))
        tensors[name] = Stored(name, (2,), data)
    return case(archive(*members), section="npy", tensors=tensors)


def big_endian() -> Case:
    """An array is big-endian, its values are 0 to 5."""
    return _one(described(">i2", "(2, 3)", struct.pack(">6h", *range(6))), "int16", (2, 3), _SIX)


def fortran_order() -> Case:
    """An array is stored by columns, its values are 0 to 5 by rows."""
    columns = struct.pack("<6h", 0, 3, 1, 4, 2, 5)
    return _one(described("<i2", "(2, 3)", columns, fortran=True), "int16", (2, 3), _SIX)


def fortran_order_deflated() -> Case:
    """A big-endian array is stored by columns, and deflated."""
    columns = struct.pack(">6h", 0, 3, 1, 4, 2, 5)
    data = described(">i2", "(2, 3)", columns, fortran=True)
    return _one(data, "int16", (2, 3), _SIX, DEFLATED)


def shapes() -> Case:
    """A scalar, an array of no elements, and one of six dimensions."""
    image = archive(
        Member(name=b"scalar.npy", data=described("<f4", "()")),
        Member(name=b"none.npy", data=described("<f8", "(3, 0, 2)", b"")),
        Member(name=b"six.npy", data=described("|u1", "(1, 2, 1, 2, 1, 1)", b"2345")),
    )
    tensors = {
        "scalar": Stored("float32", (), bytes(4)),
        "none": Stored("float64", (3, 0, 2), b""),
        "six": Stored("uint8", (1, 2, 1, 2, 1, 1), b"2345"),
    }
    return case(image, section="npy", tensors=tensors)


def versions() -> Case:
    """The headers are of the versions 1, 2 and 3."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
    members = [Member(name=f"v{n}.npy".encode(), data=npy(text, version=n)) for n in (1, 2, 3)]
    tensors = {f"v{n}": _A["a"] for n in (1, 2, 3)}
    return case(archive(*members), section="npy", tensors=tensors)


def spelling() -> Case:
    """A header has its members in another order, other quotes and spaces."""
    text = " { \"shape\" : ( 1 , ) ,\n'fortran_order' : True , \"descr\":'<f4' } "
    return _one(npy(text), "float32", (1,), bytes(4))


def names() -> Case:
    """Names are labels: empty, like a path, in UTF-8 and in CP437, alike but for case."""
    spelled = {
        "": b".npy",
        "../x": b"../x.npy",
        "/etc/p": b"/etc/p.npy",
        "x": b"x.npy",
        "X": b"X.npy",
        "é": b"\x82.npy",
    }
    members = [Member(name=each) for each in spelled.values()]
    members.append(Member(name="größe.npy".encode(), flags=2048))
    tensors = dict.fromkeys([*spelled, "größe"], _A["a"])
    return case(archive(*members), tensors=tensors)


def descriptor() -> Case:
    """A local header leaves the CRC to a descriptor."""
    return case(archive(Member(flags=8, local_crc=0)), tensors=_A)


def extra() -> Case:
    """A local header has an extra field of 64 bytes, which aligns the data."""
    return case(archive(Member(extra=bytes(64))), tensors=_A)


def comment() -> Case:
    """A comment follows the end record."""
    return case(archive(Member(), comment=b"made by hand"), tensors=_A)


def zip64() -> Case:
    """The record of 64 bits holds the numbers of the directory."""
    return case(archive(Member(), zip64=True), tensors=_A)


def long_header() -> Case:
    """A deflated header of version 2 has 70000 spaces."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + " " * 70_000
    return _one(npy(text, version=2), "float32", (1,), bytes(4), DEFLATED)


def other_members() -> Case:
    """A folder and a text lie beside the array."""
    image = archive(Member(), Member(name=b"d/", data=b""), Member(name=b"t.txt", data=PLAIN))
    return case(image, tensors=_A, others=["t.txt"])
