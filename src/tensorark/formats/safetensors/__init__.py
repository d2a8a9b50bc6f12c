"""safetensors, single file and sharded set, both ways.

Reads by the rules of the format's public description, a little stricter than the public library
(`rules`, `extents`, `syntax`, `index`), and plans files whose tensors are aligned and whose bytes
are the same every time (`write`, `shards`). Knows no other format and touches no file.
"""

from typing import Final

from tensorark.core.ledger import BY_MODEL, Keeps
from tensorark.formats.format import Format
from tensorark.formats.safetensors import index, read
from tensorark.formats.safetensors.identity import UNKNOWN, place, stamp
from tensorark.formats.safetensors.index import list_shards, merge
from tensorark.formats.safetensors.plan import Plan, plan, plan_header, refusals
from tensorark.formats.safetensors.shards import index_bytes, index_name, plan_shards, shard_names
from tensorark.formats.safetensors.write import rehead, write

SAFETENSORS: Final = Format(
    name="safetensors",
    title="safetensors",
    suffixes=(".safetensors",),
    sniff=read.sniff,
    read=read.read,
    rules=read.RULES,
    numbered=True,
    metadata=lambda catalog: catalog.native.metadata,
    holds=read.holds,
    write=write,
    options=frozenset({"max_shard_size"}),
    keeps=Keeps(BY_MODEL),
    refusals=lambda catalog, _: refusals(catalog.tensors.values()),
    holder="safetensors",
    rehead=rehead,
)
SAFETENSORS_INDEX: Final = Format(
    name="safetensors-index",
    title="safetensors, sharded",
    suffixes=(".safetensors.index.json",),
    sniff=index.sniff,
    read=index.read,
    rules=index.RULES,
    head=4096,  # metadata may come first
    metadata=lambda catalog: merge([each.metadata for each in catalog.native.headers.values()]),
    holds=index.holds,
)
FORMATS: Final[tuple[Format, ...]] = (SAFETENSORS_INDEX, SAFETENSORS)

__all__ = [
    "FORMATS",
    "SAFETENSORS",
    "SAFETENSORS_INDEX",
    "UNKNOWN",
    "Plan",
    "index_bytes",
    "index_name",
    "list_shards",
    "place",
    "plan",
    "plan_header",
    "plan_shards",
    "refusals",
    "shard_names",
    "stamp",
]
