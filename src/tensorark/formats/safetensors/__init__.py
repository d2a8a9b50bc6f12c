"""safetensors, single file and sharded set, both ways.

Reads by the rules of the format's public description, a little stricter than the public library
(`rules`, `extents`, `syntax`, `index`), and plans files whose tensors are aligned and whose bytes
are the same every time (`write`, `shards`). Knows no other format and touches no file.
"""

from typing import Final

from tensorark.formats.format import Format
from tensorark.formats.safetensors.identity import UNKNOWN, place, stamped
from tensorark.formats.safetensors.index import SAFETENSORS_INDEX, shards_named
from tensorark.formats.safetensors.read import SAFETENSORS
from tensorark.formats.safetensors.shards import index_bytes, index_name, plan_shards, shard_names
from tensorark.formats.safetensors.write import Plan, plan, refusals, reheaded

FORMATS: Final[tuple[Format, ...]] = (SAFETENSORS_INDEX, SAFETENSORS)

__all__ = [
    "FORMATS",
    "SAFETENSORS",
    "SAFETENSORS_INDEX",
    "UNKNOWN",
    "Plan",
    "index_bytes",
    "index_name",
    "place",
    "plan",
    "plan_shards",
    "refusals",
    "reheaded",
    "shard_names",
    "shards_named",
    "stamped",
]
