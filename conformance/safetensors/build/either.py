"""Files of `either/`: the description is silent, or readers in circulation differ."""

from __future__ import annotations

import struct

from conformance.build.case import ACCEPT, REFUSE, Case

from .case import Stored, case
from .image import entry, file, one

_PI = struct.pack("<f", 3.140625)
_ONE = {"a": Stored("F32", (1,), _PI)}


def metadata_null() -> Case:
    """__metadata__ is null."""
    image = file({"__metadata__": None, "a": entry("F32", [1], 0, 4)}, _PI)
    choice = "A null counts as absent: the public library reads it so."
    return case(image, tensors=_ONE, choice=choice)


def unknown_member() -> Case:
    """An entry has a member that nobody defined."""
    choice = "It is ignored, as by the public library."
    return case(one(_PI, extra=1), tensors=_ONE, choice=choice)


def unknown_type() -> Case:
    """A tensor is of a type that nobody defined."""
    image = file({"a": entry("F7", [4], 0, 3)}, b"123")
    choice = "The file opens, so that the rest of it can be read; the tensor has no numbers."
    expect = {"open": ACCEPT, "decode": REFUSE}
    return case(image, expect=expect, tensors={"a": Stored("F7", (4,), b"123")}, choice=choice)


def empty_at_the_end() -> Case:
    """A tensor without bytes stands where the data end."""
    image = file({"a": entry("F32", [1], 0, 4), "z": entry("U8", [0], 4, 4)}, _PI)
    choice = "It lies inside no other tensor and leaves no hole."
    return case(image, tensors={**_ONE, "z": Stored("U8", (0,), b"")}, choice=choice)


def zero_bytes_in_a_name() -> Case:
    """A name holds U+0000."""
    image = file({"a\0b": entry("F32", [1], 0, 4)}, _PI)
    choice = "A name is any text; what is shown of it is escaped."
    return case(image, tensors={"a\0b": _ONE["a"]}, choice=choice)
