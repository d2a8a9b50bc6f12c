"""What a builder of a file outside `reject/` returns: its image, contents and expected answers.

Owns the expected JSON. It is computed from the values a builder put in, never by reading a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from .image import Image

ACCEPT, REJECT, REFUSE = "accept", "reject", "refuse"

Expect = Mapping[str, str]
READABLE: Expect = {"open": ACCEPT, "decode": ACCEPT, "verify": ACCEPT}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file that opens, or about which the specification is silent.

    `tensors` are in the order of the file; `rule` is what a rejection names, `choice` what we do
    where the text is silent, and why.
    """

    image: Image
    section: str = "file"
    expect: Expect = field(default_factory=lambda: READABLE)
    tensors: Mapping[str, Stored] = field(default_factory=dict)
    facts: Mapping[str, object] | None = None
    rule: str | None = None
    choice: str | None = None


def contents(case: Case) -> dict[str, object]:
    """Return the expected JSON of a case."""
    found: dict[str, object] = {} if case.choice is None else {"choice": case.choice}
    if case.expect.get("open") == ACCEPT:
        found["tensors"] = {
            name: {
                "shape": list(each.shape),
                "nm": each.nm,
                "weights": hashlib.sha256(each.weights).hexdigest(),
                "mask": hashlib.sha256(each.mask).hexdigest() if each.mask else None,
                "values": hashlib.sha256(each.values).hexdigest(),
            }
            for name, each in case.tensors.items()
        }
        if case.facts is not None:
            found |= case.facts
    return found
