"""The expected JSON of an archive, computed from the values a builder put in, never by reading."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conformance.build.case import READABLE, Case, Expect


@dataclass(frozen=True, slots=True)
class Stored:
    """An array as it was put in: numpy's name of its type, shape, and row-major bytes.

    The bytes are little-endian, whatever the order in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def case(
    image: bytes,
    *,
    section: str = "zip",
    expect: Expect = READABLE,
    tensors: Mapping[str, Stored] | None = None,
    others: Sequence[str] = (),
) -> Case:
    """Return the case of `tensors` in the order of the directory, and other members."""
    found = {
        name: {
            "dtype": each.dtype,
            "shape": list(each.shape),
            "values": hashlib.sha256(each.data).hexdigest(),
        }
        for name, each in (tensors or {}).items()
    }
    contents = {"tensors": found, "others": list(others)}
    return Case(image=image, section=section, expect=expect, contents=contents)
