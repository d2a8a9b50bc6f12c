"""The rule table of npy."""

from __future__ import annotations

from conformance.build.ruletable import table

RULES = table(
    "npy",
    """
schema
header | npy | A file begins with a header of version 1 to 3 whose three members have their types.

open
data-size | npy | Behind the header lie as many bytes as shape and dtype call for.
""",
)
