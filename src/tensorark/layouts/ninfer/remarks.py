"""What is legal in an encoded object and still worth telling (§6): negative scales.

The oldest contract of the format forbade them, so that an old reader may stumble; no rule does now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np

from tensorark.core.model import Tensor
from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.errors import Rejected
from tensorark.layouts.layout import Bytes
from tensorark.layouts.ninfer.content import Payload
from tensorark.layouts.ninfer.geometry import GROUPED, geometry_of


@rule("ninfer.negative-scale", section="6.1", stage="content")
def negative_scale(doc: Payload) -> Iterator[Fault]:
    """No scale of a grouped format but q2 is negative."""
    if doc.whole.format not in GROUPED or doc.whole.format.startswith("q2_"):
        return
    scales = doc.group_scales[:, : doc.used]
    count = int(np.count_nonzero(scales > 0x8000))
    if count:
        detail = f"{count} of {scales.size} scales are negative, which old readers refuse"
        yield Fault(doc.where, detail, "none", count)


NOTES: Final[tuple[Rule[Payload], ...]] = (negative_scale,)


def remark(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Gather the notes about an object that was judged and found legal."""
    where = ("objects", tensor.name, "parts", "data")
    with suppress(Rejected):
        reading.require(NOTES, Payload(where, geometry_of(tensor), read("data")))
