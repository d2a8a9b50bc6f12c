"""The expected JSON of Tensorbit, computed from what a builder put in, never by reading a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from conformance.build.case import ACCEPT, READABLE, REJECT, Case, Expect, chosen

from .image import Image

FAULTY: Expect = {"open": ACCEPT, "decode": ACCEPT, "verify": REJECT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tensor as it was put in: shape, pattern, the bytes of weights and mask, and its values.

    `values` are the decoded ones, masked and scaled, as bytes of the type they decode to.
    """

    shape: tuple[int, ...]
    weights: bytes
    values: bytes
    mask: bytes = b""
    nm: str | None = None


def case(
    image: Image,
    *,
    section: str = "file",
    expect: Expect = READABLE,
    tensors: Mapping[str, Stored] | None = None,
    facts: Mapping[str, object] | None = None,
    rule: str | None = None,
    choice: str | None = None,
) -> Case:
    """Return the case of `tensors` in the order of the file, and of `facts` about the model.

    `rule` is what a rejection names, `choice` what we do where the text is silent, and why.
    """
    found = {
        name: {
            "shape": list(each.shape),
            "nm": each.nm,
            "weights": hashlib.sha256(each.weights).hexdigest(),
            "mask": hashlib.sha256(each.mask).hexdigest() if each.mask else None,
            "values": hashlib.sha256(each.values).hexdigest(),
        }
        for name, each in (tensors or {}).items()
    }
    return Case(
        image=image,
        section=section,
        expect=expect,
        contents={"tensors": found, **(facts or {})},
        rule=rule,
        notes=chosen(choice),
    )
