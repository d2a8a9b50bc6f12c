"""The expected JSON of NInfer, computed from what a builder put in, never by reading a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from conformance.build.case import READABLE, Case, Expect, chosen

from .image import ARTIFACT, Set


@dataclass(frozen=True, slots=True)
class Plain:
    """The expected values of a parameter stored as plain words, of `width` bytes each."""

    words: bytes
    width: int


def case(
    image: bytes | Set,
    section: str,
    *,
    expect: Expect = READABLE,
    objects: Mapping[str, bytes] | None = None,
    parameters: Mapping[str, Plain] | None = None,
    rule: str | None = None,
    choice: str | None = None,
) -> Case:
    """Return the case of the bytes of `objects` by id, and the words of `parameters`.

    `rule` is what a rejection names, `choice` what we do where the text is silent, and why.
    """
    contents = {
        "artifact_id": ARTIFACT.hex(),
        "objects": {
            name: hashlib.sha256(data).hexdigest() for name, data in (objects or {}).items()
        },
        "parameters": {
            name: {
                "elements": len(each.words) // each.width,
                "sha256": hashlib.sha256(each.words).hexdigest(),
            }
            for name, each in (parameters or {}).items()
        },
    }
    return Case(
        image=image,
        section=section,
        expect=expect,
        contents=contents,
        rule=rule,
        notes=chosen(choice),
    )
