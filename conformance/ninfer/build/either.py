"""Files of `either/`: the text is silent, and our choice stands in the JSON beside them."""

from __future__ import annotations

from conformance.build.case import READABLE, Case

from .case import case
from .image import TEMPLATE, WORDS, entry, text_of, usual

_OBJECTS = {"w": WORDS, "template": TEMPLATE}


def gap_not_zero() -> Case:
    """The bytes between directory and payload are FF: a writer writes zeros, no reader looks."""
    return case(
        entry(usual(), gap=b"\xff"),
        "3.1",
        objects=_OBJECTS,
        expect=READABLE,
        choice="accepted, and noted when the file is verified",
    )


def json_deep() -> Case:
    """`provenance` is nested 300 deep."""
    text = text_of(usual()).replace(
        b',"uses"', b',"provenance":{"a":' + b"[" * 298 + b"]" * 298 + b'},"uses"', 1
    )
    return case(
        entry(text),
        "1",
        expect={"open": "refuse"},
        choice="refused: a cap of 256 on the depth keeps every reader's stack whole",
    )


def json_long_integer() -> Case:
    """An integer in `config` has 5000 digits."""
    text = text_of(usual()).replace(b"1e-06", b"9" * 5000, 1)
    return case(
        entry(text),
        "1",
        expect={"open": "refuse"},
        choice="refused: reading such a number takes time that grows with its square",
    )
