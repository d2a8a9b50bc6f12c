"""The digest of a part (§3.4): the rule that its bytes are those that were written.

It holds for whatever computed the digest that the stored one is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tensorark.core.model import Span
from tensorark.core.rules import Fault, rule
from tensorark.errors import Where, quoted


@dataclass(frozen=True, slots=True)
class PartDigest:
    """A stored digest beside the one that was computed, without the algorithm's name.

    `spans` are where the bytes lie in the file, or in its shards.
    """

    where: Where
    stored: str
    computed: str
    spans: Sequence[Span] = ()


@rule("zt.digest", section="3.4", stage="content")
def digest(part: PartDigest) -> Iterator[Fault]:
    """The digest of a part is that of its decoded bytes."""
    if part.stored != part.computed:
        detail = "the bytes do not match their digest"
        places = ", ".join(map(_span_text, part.spans[:_SHOWN]))
        offset = part.spans[0].offset if part.spans else None
        yield Fault(
            part.where,
            f"{detail} ({places})" if places else detail,
            part.stored,
            part.computed,
            offset,
        )


_SHOWN: Final = 4


def _span_text(span: Span) -> str:
    of = "" if span.file is None else f" of {quoted(span.file)}"
    return f"bytes {span.offset} to {span.end}{of}"
