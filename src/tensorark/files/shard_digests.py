"""Proving that the shards of an opened `.zt` are the ones it means, by whole-file digest (§7.3).

Owns the last rung of the ladder; the frame and the size of a shard are checked whenever one is
opened. Must never look at a shard's own manifest: to the file that names it, it is a heap of blobs.
"""

from __future__ import annotations

from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from tensorark.core.model import Shard, Span
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, difference
from tensorark.errors import ReadFailed, Unsupported
from tensorark.files.file import File
from tensorark.files.hashes import HASHES, hash_pieces

WRONG: Final = "wrong-shard"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCheck:
    """What reading every shard whole has shown.

    `checked` digests were compared and `nbytes` read; `findings` name shards that are something
    else; `refused` those whose digest is of an algorithm that is not known.
    """

    checked: int = 0
    nbytes: int = 0
    findings: tuple[Finding, ...] = ()
    refused: tuple[Unsupported, ...] = ()


def check_shards(
    file: File, *, threads: int, progress: Progress, labels: Container[str] | None = None
) -> ShardCheck:
    """Compare shards of `file`, all by default, with the size and the whole-file digest given.

    One shard for each of `threads` at a time, in pieces.

    Raises:
        ReadFailed: when a shard is missing, or cannot be read.
    """
    declared = {
        label: each
        for label, each in file.catalog.shards.items()
        if labels is None or label in labels
    }

    def check(label: str) -> ShardCheck:
        return _check(file, label, declared[label], progress)

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(check, declared))
    return ShardCheck(
        checked=sum(each.checked for each in found),
        nbytes=sum(each.nbytes for each in found),
        findings=tuple(one for each in found for one in each.findings),
        refused=tuple(one for each in found for one in each.refused),
    )


def _check(file: File, label: str, wanted: Shard, progress: Progress) -> ShardCheck:
    algorithm, _, _ = wanted.digest.partition(":")
    if algorithm not in HASHES:
        return ShardCheck(refused=(_unknown(file, label, algorithm),))
    try:
        pieces = file.source.passing(Span(0, wanted.size, label))
        found = f"{algorithm}:{hash_pieces(pieces, algorithm, progress)}"
    except ReadFailed as error:
        if error.code != WRONG:
            raise
        return ShardCheck(findings=(_wrong(label, error.detail),))
    if found == wanted.digest:
        return ShardCheck(checked=1, nbytes=wanted.size)
    name = file.source.path_of(label).name
    detail = f"{name} is not this shard: its bytes are others"
    return ShardCheck(
        checked=1, nbytes=wanted.size, findings=(_wrong(label, detail, wanted.digest, found),)
    )


def _wrong(label: str, detail: str, expected: object = None, found: object = None) -> Finding:
    return difference(
        WRONG, ("shards", label), detail, section="7.3", expected=expected, found=found
    )


def _unknown(file: File, label: str, algorithm: str) -> Unsupported:
    return Unsupported(
        "the digest's algorithm is unknown, so the shard is not checked",
        code="unknown-algorithm",
        section="7.1",
        path=file.path,
        where=("shards", label, "digest"),
        expected="one of " + " ".join(HASHES),
        found=algorithm,
    )
