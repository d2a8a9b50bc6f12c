"""NInfer v3 (`.ninfer`): artifacts of one file or several, with logical parameters on top.

Frame, directory, rules, reading, address space, layouts, logical parameters and writing. Knows no
other format, touches no file and no number.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tensorark.core.conversation import Steps
from tensorark.core.ledger import BY_ARTIFACT, Keeps
from tensorark.core.model import Catalog
from tensorark.core.rules import Finding, Reading, Rule
from tensorark.errors import Unsupported
from tensorark.formats.format import Format
from tensorark.formats.ninfer.frame import (
    FRAME_RULES,
    PART_RULES,
    file_size,
    part_header,
    sniff,
)
from tensorark.formats.ninfer.holdings import gaps, holds, resources
from tensorark.formats.ninfer.read import NAME, ContinuationCheck, judge, read
from tensorark.formats.ninfer.rules import OBJECT_RULES, OPEN_RULES
from tensorark.formats.ninfer.schema import SCHEMA_RULES
from tensorark.formats.ninfer.syntax import JSON_RULES
from tensorark.formats.ninfer.uses import USE_RULES
from tensorark.formats.ninfer.write import keeps, write

RULES: Final[tuple[Rule[Any], ...]] = (
    file_size,
    *FRAME_RULES,
    *JSON_RULES,
    *SCHEMA_RULES,
    *OPEN_RULES,
    *OBJECT_RULES,
    part_header,
    *PART_RULES,
    *USE_RULES,
)


def _architecture(catalog: Catalog) -> list[Finding]:
    from tensorark.formats.ninfer.architecture import check

    return check(catalog.native)


def _survey(catalog: Catalog, reading: Reading) -> Steps[None]:
    from tensorark.formats.ninfer.survey import survey

    return survey(catalog.native, reading)


def _normalize(catalog: Catalog) -> tuple[Catalog, Mapping[str, bytes]]:
    from tensorark.formats.ninfer.normal_form import normalize

    return normalize(catalog)


def _carry(catalog: Catalog) -> Steps[Mapping[str, object]]:
    from tensorark.formats.ninfer.normal_form import carry

    return carry(catalog)


def _payload_rules(catalog: Catalog, reading: Reading) -> Steps[Sequence[Unsupported]]:
    from tensorark.formats.ninfer.payload import payload_rules

    return payload_rules(catalog, reading)


def _artifact(catalog: Catalog) -> dict[str, object]:
    from tensorark.formats.ninfer.describe import summary

    return summary(catalog.native)


NINFER: Final = Format(
    name=NAME,
    title="NInfer v3",
    suffixes=(".ninfer",),
    sniff=sniff,
    read=read,
    rules=RULES,
    judge=judge,
    continuation=lambda catalog: ContinuationCheck.of(catalog.native),
    architecture=_architecture,
    survey=_survey,
    payload_rules=_payload_rules,
    normalize=_normalize,
    carry=_carry,
    resources=resources,
    holds=holds,
    gaps=gaps,
    artifact=_artifact,
    write=write,
    options=frozenset({"max_shard_size", "artifact_id"}),
    keeps=Keeps(BY_ARTIFACT | {"names", "shapes"}, keeps),
    holder="an artifact",
)
