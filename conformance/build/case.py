"""What a builder returns of a file: its image, what is expected of readers, what they find in it.

Owns the form of an answer. What is found is computed from the values that a builder put in, never
by reading a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ACCEPT, REJECT, REFUSE = "accept", "reject", "refuse"

Expect = Mapping[str, str]
READABLE: Expect = {"open": ACCEPT, "decode": ACCEPT, "verify": ACCEPT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file, or a set of them.

    `expect` maps operations to outcomes, in the order they are run; `rule` is the one a rejection
    names; `contents` are what a reader finds, and `notes` go before them into the expected JSON.
    Builders of `reject/` return the image alone: all else follows from the rule.
    """

    image: object
    section: str
    expect: Expect
    contents: Mapping[str, object] | None = None
    rule: str | None = None
    notes: Mapping[str, object] = field(default_factory=dict)

    def known(self) -> dict[str, object]:
        """Return the expected JSON: of what does not open, the notes alone."""
        found = self.contents if self.expect["open"] == ACCEPT else None
        return {**self.notes, **(found or {})}


def chosen(choice: str | None) -> Mapping[str, object]:
    """Return the note that says what we do where the text is silent, and why."""
    return {} if choice is None else {"choice": choice}
