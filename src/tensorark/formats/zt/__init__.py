"""zTensor v2 (`.zt`): frame, manifest, rules, reading, writing, canonical form, content digest."""

from typing import Any, Final

from tensorark.core.ledger import BY_MODEL, Keeps
from tensorark.core.rules import Rule
from tensorark.formats.format import Format
from tensorark.formats.zt.canonical import CANONICAL_RULES, judge
from tensorark.formats.zt.frame import FRAME_RULES, file_size, shard_fault
from tensorark.formats.zt.layouts import LAYOUT_RULES
from tensorark.formats.zt.read import NAME, holds, read, sniff
from tensorark.formats.zt.rules import (
    CBOR_RULES,
    PLACEMENT_RULES,
    REFERENCE_RULES,
    SCHEMA_RULES,
    manifest_hash,
)
from tensorark.formats.zt.write import refusals, write

RULES: Final[tuple[Rule[Any], ...]] = (
    file_size,
    *FRAME_RULES,
    manifest_hash,
    *CBOR_RULES,
    *SCHEMA_RULES,
    *REFERENCE_RULES,
    *LAYOUT_RULES,
    *PLACEMENT_RULES,
    *CANONICAL_RULES,
)

ZT: Final = Format(
    name=NAME,
    title="zTensor v2",
    suffixes=(".zt",),
    sniff=sniff,
    read=read,
    rules=RULES,
    judge_shard=shard_fault,
    has_digests=True,
    canonical=lambda catalog, reading, *, digests: judge(catalog.native, reading, digests=digests),
    holds=holds,
    write=write,
    options=frozenset({"align", "encoding", "level", "frame_size", "digest"}),
    keeps=Keeps(BY_MODEL),
    refusals=refusals,
    holder="a .zt",
    holds_masks=True,
    holds_resources=True,
    grows=True,
)
