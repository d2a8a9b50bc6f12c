"""Finds the blobs of a container by themselves, for containers whose index is wrong.

Walks from blob to blob: each says in its header where it ends. Reads headers only, and trusts no
number that does not fit the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Final

from tensorark.formats.tensorbit.frame import (
    FIELDS,
    HEADER_SIZE,
    MAGIC,
    PRECISIONS,
    QUANTIZED_CODES,
    Header,
    parse_header,
)
from tensorark.formats.tensorbit.index import Claim, shape_of
from tensorark.formats.tensorbit.layouts import STORAGE, Blob
from tensorark.model import Span
from tensorark.steps import Steps
from tensorark.vocab.layouts.nm import QUANTIZED, Pattern, packing_of, weight_size

SEARCH: Final = 1 << 20
"""Bytes that are searched at a time for the next blob, where one does not say where it ends."""


@dataclass(frozen=True, slots=True)
class Found:
    """A blob that was found: where it begins, where it ends, and its header."""

    offset: int
    end: int
    header: Header


def walk(limit: int) -> Steps[list[Found]]:
    """Return the blobs that lie before byte `limit`, in order of their offsets.

    A blob ends where its mask does; where that leads to no other blob, the next one is searched
    for. One round trip for each blob.
    """
    found: list[Found] = []
    at = yield from _next(0, limit)
    while at is not None:
        (data,) = yield [Span(at, FIELDS.size)]
        header = parse_header(data)
        ends = [end for end in _ends(at, header) if end <= limit]
        following: int | None = None
        for end in ends:
            if end == limit or (yield from _is_blob(end, limit)):
                following = end
                break
        if following is None:
            following = yield from _next(at + HEADER_SIZE, limit)
        stop = limit if following is None else following
        found.append(Found(at, min([*ends, stop], key=lambda end: abs(end - stop)), header))
        at = None if following is None or following >= limit else following
    return found


def _ends(at: int, header: Header) -> list[int]:
    """Return where a blob may end: behind its mask, or behind weights of its precision."""
    code = header.precision if header.precision < len(PRECISIONS) else 0
    size = weight_size(STORAGE[PRECISIONS[code]], header.weights)
    ends = [
        at + header.masks_offset + header.mask_bytes,
        at + header.weights_offset + size + header.mask_bytes,
    ]
    return [end for end in dict.fromkeys(ends) if end >= at + HEADER_SIZE]


def _is_blob(at: int, limit: int) -> Steps[bool]:
    if at + HEADER_SIZE > limit:
        return False
    (data,) = yield [Span(at, FIELDS.size)]
    return is_plausible(parse_header(data))


def is_plausible(header: Header) -> bool:
    """Whether a header is one that a writer would write: magic, version, and sizes that fit."""
    return (
        header.magic == MAGIC
        and 0 < header.version < 256
        and header.n <= header.m
        and header.weights_offset >= HEADER_SIZE
        and packing_of(header.weights, Pattern(header.n, header.m), header.mask_bytes) is not None
    )


def _next(start: int, limit: int) -> Steps[int | None]:
    """Search for the next plausible header from `start` on."""
    at = start
    while at + HEADER_SIZE <= limit:
        length = min(SEARCH, limit - at)
        (data,) = yield [Span(at, length)]
        text = bytes(data)
        place = text.find(MAGIC)
        while place >= 0:
            if (yield from _is_blob(at + place, limit)):
                return at + place
            place = text.find(MAGIC, place + 1)
        at += max(length - len(MAGIC) + 1, 1)
    return None


@dataclass(frozen=True, slots=True)
class Repair:
    """What is to be written in place of an index that is wrong, and every change that makes."""

    claims: tuple[Claim, ...]
    changes: tuple[str, ...]


def match(claims: Sequence[Claim], found: Sequence[Found]) -> Repair | None:
    """Give each claim the blob that is its own; None where there is no telling which.

    Claims whose offset leads to a blob keep it. Where some do not, there must be as many blobs as
    there are different offsets, their order is that of the offsets claimed, and each header
    elsewhere than claimed must say what the index says of it.
    """
    starts = {each.offset: each for each in found}
    wanted = list(dict.fromkeys(claim.offset for claim in claims))
    if all(offset in starts for offset in wanted):
        places = {offset: starts[offset] for offset in wanted}
    elif len(wanted) == len(found):
        places = dict(zip(sorted(wanted), found, strict=True))
        pairs = [(claim, places[claim.offset]) for claim in claims]
        if not all(claim.offset == its.offset or _agree(claim, its.header) for claim, its in pairs):
            return None
    else:
        return None
    changes: list[str] = []
    repaired = tuple(_repaired(claim, places[claim.offset], changes) for claim in claims)
    return Repair(repaired, tuple(changes))


def unsure(claims: Mapping[int, Claim], blobs: Mapping[int, Blob]) -> set[int]:
    """Return the rows of `blobs` that may be another claim's, where some claims lead to no blob.

    Offsets may then be shifted, and one of them onto a neighbour. A blob is the claim's own when
    its header says what the index says of it, and either no other claim says the same, or the bytes
    before it hold all that is claimed there and have no room for another blob.
    """
    alike = Counter(said for _, said in {(each.offset, _said(each)) for each in claims.values()})
    sure: set[int] = set()
    reached: int | None = 0
    last = -1
    for row, claim in sorted(claims.items(), key=lambda each: each[1].offset):
        blob = blobs.get(row)
        if blob is None:
            size = _size(claim)
            reached = None if reached is None or size is None else reached + size
            continue
        said, agrees = _said(claim), _agree(claim, blob.header)
        follows = reached is not None and 0 <= claim.offset - reached < HEADER_SIZE
        if agrees and (follows or claim.offset == last or (None not in said and alike[said] == 1)):
            sure.add(row)
        if claim.offset != last:
            reached, last = (blob.end, claim.offset) if agrees and follows else (None, -1)
    return blobs.keys() - sure


def _said(claim: Claim) -> tuple[object, ...]:
    return claim.n, claim.m, claim.weights, claim.mask_bytes, claim.dtype


def _size(claim: Claim) -> int | None:
    """Return the bytes of a blob as the index has them; None where it does not say."""
    if claim.weights is None or claim.mask_bytes is None or claim.dtype is None:
        return None
    size = weight_size(STORAGE.get(claim.dtype, claim.dtype), claim.weights)
    return HEADER_SIZE + size + 4 * claim.scale_count + claim.mask_bytes


def _agree(claim: Claim, header: Header) -> bool:
    """Whether a header says nothing else than the index: pattern, counts and type."""
    said = (header.n, header.m, header.weights, header.mask_bytes, _dtype(claim, header))
    return all(ours in {None, theirs} for ours, theirs in zip(_said(claim), said, strict=True))


def _repaired(claim: Claim, blob: Found, changes: list[str]) -> Claim:
    """Return a claim that agrees with its blob, noting each change."""
    header = blob.header
    dtype = _dtype(claim, header)
    right = replace(
        claim,
        offset=blob.offset,
        n=header.n,
        m=header.m,
        weights=header.weights,
        mask_bytes=header.mask_bytes,
        dtype=dtype,
    )
    if shape_of(right, header.weights) is None:
        right = replace(right, shape=(header.weights, 1), full_shape=None)
    for name in ("offset", "n", "m", "weights", "mask_bytes", "dtype", "shape"):
        before, after = getattr(claim, name), getattr(right, name)
        if before is not None and before != after:
            changes.append(f"{claim.name}: {_LABELS.get(name, name)} {before} → {after}")
    return right


_LABELS: Final = {
    "n": "nm_n",
    "m": "nm_m",
    "weights": "num_weights",
    "mask_bytes": "num_mask_bytes",
}


def _dtype(claim: Claim, header: Header) -> str:
    if claim.dtype in QUANTIZED and header.precision in QUANTIZED_CODES[str(claim.dtype)]:
        return str(claim.dtype)
    return PRECISIONS[header.precision] if header.precision < len(PRECISIONS) else PRECISIONS[0]


_SIDE: Final = 512
"""The least size of a square that a projection is taken for."""


def guessed_shape(name: str, weights: int, side: int) -> tuple[int, int] | None:
    """Return the shape that a projection of this name must have in a model of this hidden size.

    None for a name that says nothing, or a size that does not divide.
    """
    if not side or weights % side:
        return None
    words = name.split(".")
    if any("norm" in word for word in words):
        return None
    if any(word in {"down_proj", "fc_out", "dense_4h_to_h"} for word in words):
        return side, weights // side
    return weights // side, side


def hidden_size(sizes: Sequence[tuple[str, int]]) -> int:
    """Return the hidden size that square projections give away; 0 where there is none.

    The largest of queries and outputs; without one, the smallest of keys and values.
    """
    outer, inner = (
        [
            isqrt(weights)
            for name, weights in sizes
            if any(part in name for part in parts) and _is_square(weights)
        ]
        for parts in (("q_proj", "o_proj"), ("k_proj", "v_proj"))
    )
    return max(outer) if outer else min(inner, default=0)


def _is_square(value: int) -> bool:
    root = isqrt(value)
    return root * root == value and root >= _SIDE
