"""The expected JSON of an array, computed from the values a builder put in, never by reading."""

from __future__ import annotations

import hashlib

from conformance.build.case import READABLE, Case, Expect


def case(
    name: str,
    image: bytes,
    shape: tuple[int, ...] = (),
    values: bytes | None = None,
    *,
    expect: Expect = READABLE,
) -> Case:
    """Return the case of the file `name` with these elements, row-major and little-endian."""
    found: dict[str, object] = {"shape": list(shape)}
    if values is not None:
        found["values"] = hashlib.sha256(values).hexdigest()
    return Case(image=image, section="npy", expect=expect, contents={"tensors": {name: found}})
