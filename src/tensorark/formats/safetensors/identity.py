"""The identity of a set: what its shards and its index say alike, so that a mixture is seen.

It is the content digest of the model, so the same model makes the same files. It stands in the
metadata, where every reader lets it pass, and is no attribute of the model: it is taken off when a
file is read. transformers refuses metadata without a ``format``; where there was none, ``pt`` is
added and the identity says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

KEY: Final = "tensorark.set"

UNKNOWN: Final = "xxh3:" + 16 * "0"
"""Stands for an identity, in the same number of bytes, until all tensors have passed."""

_FORMAT: Final = "format"
_VALUE: Final = re.compile(r"(?P<id>xxh3:[0-9a-f]{16})(?P<added>| format| all)")


def stamp(metadata: Mapping[str, str] | None, identity: str) -> dict[str, str]:
    """Return the metadata of a shard that belongs to the set `identity`."""
    if metadata is None:
        return {_FORMAT: "pt", KEY: f"{identity} all"}
    if _FORMAT not in metadata:
        return {**metadata, _FORMAT: "pt", KEY: f"{identity} format"}
    return {**metadata, KEY: identity}


def unstamp(
    metadata: Mapping[str, str] | None,
) -> tuple[Mapping[str, str] | None, str | None]:
    """Return the metadata that the model has, and the identity of the set, if there is one."""
    match = _VALUE.fullmatch((metadata or {}).get(KEY, ""))
    if metadata is None or match is None:
        return metadata, None
    taken = {KEY} if match["added"] == "" else {KEY, _FORMAT}
    kept = {key: value for key, value in metadata.items() if key not in taken}
    return (None if match["added"] == " all" and not kept else kept), match["id"]


def place(header: bytes) -> int:
    """Return where the identity stands in a header that was written with one."""
    before = f'"{KEY}":"'.encode("ascii")
    return header.index(before) + len(before)
