"""What a builder of a file outside `reject/` returns: its files, contents and expected answers.

Owns the expected JSON. It is computed from the values a builder put in, never by reading a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from .image import ARTIFACT, Files

ACCEPT, REJECT, REFUSE = "accept", "reject", "refuse"

Expect = Mapping[str, str]
READABLE: Expect = {"open": ACCEPT, "decode": ACCEPT, "verify": ACCEPT}


@dataclass(frozen=True, slots=True)
class Plain:
    """The words of a parameter, of `width` bytes each."""

    words: bytes
    width: int


def plain(words: bytes, width: int) -> Plain:
    """Return the expected values of a parameter stored as plain words."""
    return Plain(words, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A set that opens, or about which the specification is silent.

    `objects` are the bytes of objects by id, `parameters` the words of parameters; `rule` is what a
    rejection names, `choice` what we do where the text is silent, and why.
    """

    files: Files
    section: str
    expect: Expect = field(default_factory=lambda: READABLE)
    objects: Mapping[str, bytes] = field(default_factory=dict)
    parameters: Mapping[str, Plain] = field(default_factory=dict)
    rule: str | None = None
    choice: str | None = None


def contents(case: Case) -> dict[str, object]:
    """Return the expected JSON of a case."""
    found: dict[str, object] = {} if case.choice is None else {"choice": case.choice}
    if case.expect.get("open") == ACCEPT:
        found |= {
            "artifact_id": ARTIFACT.hex(),
            "objects": {
                name: hashlib.sha256(data).hexdigest() for name, data in case.objects.items()
            },
            "parameters": {
                name: {
                    "elements": len(each.words) // each.width,
                    "sha256": hashlib.sha256(each.words).hexdigest(),
                }
                for name, each in case.parameters.items()
            },
        }
    return found
