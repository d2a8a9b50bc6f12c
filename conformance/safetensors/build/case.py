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
READABLE: Expect = {"open": ACCEPT, "decode": ACCEPT}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as it was put in: element type, shape and bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file that opens, or about which the description is silent.

    `tensors` are in the order of the header, of a set in that of the index. `rule` is what a
    rejection names, `choice` what we do where the text is silent, and why.
    """

    image: Image
    section: str = "format"
    expect: Expect = field(default_factory=lambda: READABLE)
    tensors: Mapping[str, Stored] = field(default_factory=dict)
    metadata: Mapping[str, str] | None = None
    rule: str | None = None
    choice: str | None = None


def contents(case: Case) -> dict[str, object]:
    """Return the expected JSON of a case."""
    found: dict[str, object] = {} if case.choice is None else {"choice": case.choice}
    if case.expect.get("open") == ACCEPT:
        found["metadata"] = None if case.metadata is None else dict(case.metadata)
        found["tensors"] = {
            name: {
                "dtype": each.dtype,
                "shape": list(each.shape),
                "sha256": hashlib.sha256(each.data).hexdigest(),
            }
            for name, each in case.tensors.items()
        }
    return found
