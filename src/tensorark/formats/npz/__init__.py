"""npz, numpy's archive of arrays, both ways.

Reads by rules stricter than numpy's (`rules`), without evaluating or unpickling anything (`read`),
and plans archives whose bytes are the same every time (`write`). What arrays cannot say stands in a
member of its own (`marker`). Knows no other format and touches no file.
"""

from typing import Final

from tensorark.core.ledger import BY_MODEL, Keeps
from tensorark.formats.format import Format
from tensorark.formats.npz import read, rules
from tensorark.formats.npz.marker import Marker
from tensorark.formats.npz.plan import (
    ALIGNMENT,
    CRC_AT,
    Member,
    end_records,
    plan,
    plan_marker,
    refusals,
    void_types,
)
from tensorark.formats.npz.read import Archive
from tensorark.formats.npz.write import write
from tensorark.wire.npy_types import PREFIX

NPZ: Final = Format(
    name=read.NAME,
    title="npz",
    suffixes=(".npz",),
    sniff=read.sniff,
    read=read.read,
    metadata=lambda catalog: catalog.native.metadata,
    checksum=read.checksum,
    holds=read.holds,
    write=write,
    keeps=Keeps(BY_MODEL),
    refusals=lambda catalog, _: refusals(catalog.tensors.values()),
    holder="npz",
    rules=(
        rules.directory,
        *rules.LISTED_RULES,
        *rules.MEMBER_RULES,
        rules.data_bounds,
        rules.header,
        rules.data_size,
        rules.crc,
    ),
)

FORMATS: Final = (NPZ,)

__all__ = [
    "ALIGNMENT",
    "CRC_AT",
    "FORMATS",
    "NPZ",
    "PREFIX",
    "Archive",
    "Marker",
    "Member",
    "end_records",
    "plan",
    "plan_marker",
    "refusals",
    "void_types",
]
