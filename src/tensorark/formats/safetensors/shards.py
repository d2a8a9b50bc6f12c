"""Plans a sharded set: which tensor goes into which file, and the index that says so.

Pure, like `write`. File names and index follow what the public tools write and expect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tensorark.core.model import Tensor
from tensorark.errors import InvalidInput, quoted
from tensorark.formats.safetensors.identity import KEY, UNKNOWN, stamp
from tensorark.formats.safetensors.plan import ALIGNMENT, entry, plan


def plan_shards(
    tensors: Sequence[Tensor], max_bytes: int, metadata: Mapping[str, str] | None = None
) -> tuple[tuple[Tensor, ...], ...]:
    """Distribute `tensors` in order of their names, bytewise, filling one shard after the other.

    No file of `max_bytes` is exceeded, header included, when each shard gets a `plan` of its own
    with `metadata`. No tensors make one empty shard.

    Raises:
        InvalidInput: when a tensor does not fit into a file of its own, or cannot be stored at all.
    """
    plan(tensors, metadata)  # refuses what cannot be stored
    metadata = stamp(metadata, UNKNOWN)
    # Every header is a multiple of 64: at most this much beside its entries.
    fixed = plan((), metadata).size + ALIGNMENT
    shards: list[list[Tensor]] = [[]]
    used = fixed
    for tensor in sorted(tensors, key=lambda each: each.name.encode("utf-8")):
        # No tensor lies further back than this, so no place is written with more digits.
        nbytes = tensor.nbytes
        furthest = max(max_bytes - nbytes, 0)
        text = entry(tensor, furthest, furthest + nbytes)
        needed = len(text.encode("utf-8")) + len(",") + nbytes
        if fixed + needed > max_bytes:
            _refuse_alone(tensor, max_bytes, metadata)
        if shards[-1] and used + needed > max_bytes:
            shards.append([])
            used = fixed
        shards[-1].append(tensor)
        used += needed
    return tuple(map(tuple, shards))


def _refuse_alone(tensor: Tensor, max_bytes: int, metadata: Mapping[str, str] | None) -> None:
    size = plan((tensor,), metadata).size
    if size > max_bytes:
        raise InvalidInput(
            f"{quoted(tensor.name)} does not fit into one shard",
            where=(tensor.name,),
            expected=f"a limit of at least {size} bytes",
            found=max_bytes,
        )


def shard_names(stem: str, count: int) -> tuple[str, ...]:
    """Name `count` files: ``<stem>-00001-of-00003.safetensors`` and so on."""
    return tuple(f"{stem}-{at:05}-of-{count:05}.safetensors" for at in range(1, count + 1))


def index_name(stem: str) -> str:
    """Name the index of a set: ``<stem>.safetensors.index.json``."""
    return f"{stem}.safetensors.index.json"


def index_bytes(shards: Mapping[str, Sequence[Tensor]], identity: str) -> bytes:
    """Return the index of the files in `shards`, in the form that transformers writes.

    ``total_size`` counts the bytes of all tensors, without headers; `identity` is that of the set.
    """
    total = sum(t.nbytes for held in shards.values() for t in held)
    index = {
        "metadata": {KEY: identity, "total_size": total},
        "weight_map": {t.name: file for file, held in shards.items() for t in held},
    }
    return (json.dumps(index, indent=2, sort_keys=True) + "\n").encode("ascii")
