"""What a builder of a file outside `reject/` returns: its image, contents and expected answers.

Owns the expected JSON. It is computed from the values a builder put in, never by reading a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ACCEPT, REJECT, REFUSE = "accept", "reject", "refuse"

Expect = Mapping[str, str]
READABLE: Expect = {"open": ACCEPT, "decode": ACCEPT, "verify": ACCEPT}
FAULTY: Expect = {"open": ACCEPT, "decode": REJECT, "verify": REJECT}


@dataclass(frozen=True, slots=True)
class Stored:
    """An array as it was put in: numpy's name of its type, shape, and row-major bytes.

    The bytes are little-endian, whatever the order in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file that opens, or about which the descriptions are silent.

    `tensors` are in the order of the directory, `others` members that are no arrays. `rule` is what
    a rejection names, `choice` what we do where the text is silent, and why.
    """

    image: bytes
    section: str = "zip"
    expect: Expect = field(default_factory=lambda: READABLE)
    tensors: Mapping[str, Stored] = field(default_factory=dict)
    others: Sequence[str] = ()
    rule: str | None = None
    choice: str | None = None


def contents(case: Case) -> dict[str, object]:
    """Return the expected JSON of a case."""
    found: dict[str, object] = {} if case.choice is None else {"choice": case.choice}
    if case.expect.get("open") == ACCEPT:
        found["tensors"] = {
            name: {
                "dtype": each.dtype,
                "shape": list(each.shape),
                "values": hashlib.sha256(each.data).hexdigest(),
            }
            for name, each in case.tensors.items()
        }
        found["others"] = list(case.others)
    return found
