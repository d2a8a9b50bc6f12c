"""The expected JSON of safetensors, computed from what a builder put in, never by reading."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from conformance.build.case import Case, Expect, chosen

from .image import Image

READABLE: Expect = {"open": "accept", "decode": "accept"}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as it was put in: element type, shape and bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def case(
    image: Image,
    *,
    section: str = "format",
    expect: Expect = READABLE,
    tensors: Mapping[str, Stored] | None = None,
    metadata: Mapping[str, str] | None = None,
    choice: str | None = None,
) -> Case:
    """Return the case of `tensors` in the order of the header, of a set in that of the index.

    `choice` is what we do where the text is silent, and why.
    """
    found = {
        name: {
            "dtype": each.dtype,
            "shape": list(each.shape),
            "sha256": hashlib.sha256(each.data).hexdigest(),
        }
        for name, each in (tensors or {}).items()
    }
    contents = {"metadata": metadata, "tensors": found}
    notes = chosen(choice)
    return Case(image=image, section=section, expect=expect, contents=contents, notes=notes)
