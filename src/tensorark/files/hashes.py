"""The digests that files are told apart by, over whatever comes in pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import xxhash

from tensorark.core.progress import Progress

HASHES: Final[Mapping[str, Callable[[], hashlib._Hash | xxhash.xxh3_64]]] = {
    "xxh3": xxhash.xxh3_64,
    "sha256": hashlib.sha256,
}
"""The algorithms of digests, each giving a running one."""


def hash_pieces(
    pieces: Iterable[memoryview], algorithm: str, progress: Progress = lambda _done: None
) -> str:
    """Return the digest of all pieces, one after the other, in lowercase hexadecimal."""
    state = HASHES[algorithm]()
    for piece in pieces:
        state.update(piece)
        progress(len(piece))
    return state.hexdigest()
