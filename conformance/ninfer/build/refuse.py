"""Files of `refuse/`: of another version, or valid in a vocabulary nobody defined."""

from __future__ import annotations

from conformance.build.case import REFUSE, Case

from .case import case
from .image import WORDS, directory, entry, tensor, usual

_DEFERRED = {"open": "accept", "decode": REFUSE, "verify": REFUSE}


def version_1() -> Case:
    """The magic is that of version 1."""
    file = entry(usual(), magic=b"NINFER\0\x01")
    return case(file, "3.1", expect={"open": REFUSE})


def version_2() -> Case:
    """The magic is that of version 2."""
    file = entry(usual(), magic=b"NINFER\0\x02")
    return case(file, "3.1", expect={"open": REFUSE})


def version_4() -> Case:
    """The magic is that of a version to come."""
    file = entry(usual(), magic=b"NINFER\0\x04")
    return case(file, "3.1", expect={"open": REFUSE})


def _one(format_: str, layout: str) -> Case:
    found = directory([tensor("w", [2, 2], format_, layout, 0, 8)], 8)
    return case(entry(found, WORDS), "11.1", expect=_DEFERRED)


def unknown_format() -> Case:
    """A tensor has a format nobody defined."""
    return _one("z9_g64", "row_split_k128_v1")


def unknown_layout() -> Case:
    """A tensor has a layout nobody defined."""
    return _one("bf16", "contiguous_be_v1")


def unknown_auxiliary() -> Case:
    """A use has an auxiliary of a role nobody defined."""
    found = usual()
    found["uses"] = [
        {"parameter": "text/whole", "input": "x", "auxiliaries": {"rotation": {"object": "w"}}}
    ]
    expect = {"open": "accept", "decode": "accept", "verify": REFUSE}
    return case(entry(found), "8", expect=expect)
