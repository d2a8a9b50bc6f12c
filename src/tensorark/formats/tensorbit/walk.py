"""Finds the blobs of a container by themselves, for containers whose index is wrong.

Walks from blob to blob: each says in its header where it ends. Reads headers only, and trusts no
number that does not fit the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Final

from tensorark.core.conversation import Steps
from tensorark.core.model import Span
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
from tensorark.layouts.nm.rules import QUANTIZED, Pattern, packing_of, weight_size

SEARCH: Final = 1 << 20
"""Bytes that are searched at a time, at most, for the next blob."""
_FIRST: Final = 1 << 14
"""Bytes that are searched first: the next blob mostly is near."""
_MOST_REFUSED: Final = 20_000
"""Places that look like the beginning of a blob and are none: a hostile file consists of them."""
_LIKELY: Final = re.compile(rb"TB01[\x01-\xff]\0\0\0")


@dataclass(frozen=True, slots=True)
class FoundBlob:
    """A blob that was found: where it begins, where it ends, and its header."""

    offset: int
    end: int
    header: Header


def walk(limit: int) -> Steps[list[FoundBlob]]:
    """Return the blobs that lie before byte `limit`, in order of their offsets.

    A blob ends where its mask does; where that leads to no other blob, not over zeros either, the
    next one is searched for. One round trip for each blob.
    """
    search = Search(limit)
    found: list[FoundBlob] = []
    at = yield from search.next(0)
    while at is not None:
        (data,) = yield [Span(at, FIELDS.size)]
        header = parse_header(data)
        ends = [end for end in _ends(at, header) if end <= limit]
        following = yield from search.behind(ends)
        if following is None:
            following = yield from search.next(at + HEADER_SIZE)
        stop = limit if following is None else following
        found.append(FoundBlob(at, extent(at, header, stop), header))
        at = None if stop >= limit else stop
    return found


def extent(at: int, header: Header, limit: int) -> int:
    """Return where a blob ends by what its header says; `limit` where it would be further back."""
    return next((end for end in _ends(at, header) if end <= limit), limit)


def _ends(at: int, header: Header) -> list[int]:
    """Return where a blob may end: behind its mask, or behind weights of its precision.

    A mask that begins inside of weights that are as small as int4 is not where the header says.
    """
    code = header.precision if header.precision < len(PRECISIONS) else 0
    size = weight_size(STORAGE[PRECISIONS[code]], header.weights)
    ends = [
        at + header.masks_offset + header.mask_bytes,
        at + header.weights_offset + size + header.mask_bytes,
    ]
    if header.masks_offset < header.weights_offset + weight_size("int4", header.weights):
        ends.reverse()
    return [end for end in dict.fromkeys(ends) if end >= at + HEADER_SIZE]


def is_plausible(header: Header) -> bool:
    """Whether a header is one that a writer would write: magic, version, and sizes that fit."""
    return (
        header.magic == MAGIC
        and 0 < header.version < 256
        and header.n <= header.m
        and header.weights_offset >= HEADER_SIZE
        and packing_of(header.weights, Pattern(header.n, header.m), header.mask_bytes) is not None
    )


@dataclass(slots=True)
class Search:
    """Searches bytes before `limit` for blobs, and passes over zeros; bounded in what it reads."""

    limit: int
    refused: int = 0
    passed: int = 0

    def next(self, start: int) -> Steps[int | None]:
        """Return where the next plausible header begins, from `start` on."""
        at, size = start, _FIRST
        while at + HEADER_SIZE <= self.limit:
            # Reads overlap by the fields of a header: one that begins in this read is whole in it.
            (data,) = yield [Span(at, min(size + FIELDS.size, self.limit - at))]
            text = bytes(data)
            for match in _LIKELY.finditer(text):
                place = match.start()
                if place >= size or at + place + HEADER_SIZE > self.limit:
                    break
                if is_plausible(parse_header(text[place : place + FIELDS.size])):
                    return at + place
                self.refused += 1
                if self.refused > _MOST_REFUSED:
                    return None
            at, size = at + size, min(2 * size, SEARCH)
        return None

    def behind(self, ends: Sequence[int]) -> Steps[int | None]:
        """Return where the next blob begins if it follows one of `ends`, perhaps after zeros."""
        for end in ends:
            if end == self.limit or (yield from self.is_blob(end)):
                return end
        for end in ends:
            start = yield from self.past_zeros(end)
            if start == self.limit or (yield from self.is_blob(start)):
                return start
        return None

    def is_blob(self, at: int) -> Steps[bool]:
        """Whether a plausible header begins at a byte."""
        if at + HEADER_SIZE > self.limit:
            return False
        (data,) = yield [Span(at, FIELDS.size)]
        return is_plausible(parse_header(data))

    def past_zeros(self, start: int) -> Steps[int]:
        """Return where the first byte from `start` on lies that is not zero, or the limit."""
        at, size = start, FIELDS.size
        while at < self.limit and self.passed <= 2 * self.limit:
            size = min(2 * size, SEARCH)
            (data,) = yield [Span(at, min(size, self.limit - at))]
            zeros = len(data) - len(bytes(data).lstrip(b"\0"))
            self.passed += zeros
            at += zeros
            if zeros < len(data):
                return at
        return at


@dataclass(frozen=True, slots=True)
class Repair:
    """What is to be written in place of an index that is wrong, and every change that makes.

    `claims` are those that are wanted, by their rows, each at the offset of its blob; `others` is
    where the blobs of the others lie, as far as that can be told.
    """

    claims: Mapping[int, Claim]
    changes: tuple[str, ...]
    others: tuple[Span, ...] = ()


def match(
    claims: Sequence[Claim], found: Sequence[FoundBlob], rows: Sequence[int] | None = None
) -> Repair | None:
    """Give each claim of `rows` (all) the blob that is its own; None where there is no telling.

    Claims whose offset leads to a blob keep it. Where some do not, there must be as many blobs as
    there are different offsets, their order is that of the offsets claimed, and each header
    elsewhere than claimed must say what the index says of it; or else the blobs that are wanted
    must be where they are claimed, and surely the claim's own.
    """
    wanted = range(len(claims)) if rows is None else rows
    places = _places(claims, found, wanted)
    if places is None:
        return None
    changes: list[str] = []
    repaired = {
        row: _repair_claim(claims[row], places[claims[row].offset], changes) for row in wanted
    }
    rest = [claims[row] for row in sorted({*range(len(claims))} - {*wanted})]
    others = [_extent(each, places.get(each.offset), found) for each in rest]
    return Repair(repaired, tuple(changes), tuple(each for each in others if each is not None))


def _places(
    claims: Sequence[Claim], found: Sequence[FoundBlob], rows: Sequence[int]
) -> Mapping[int, FoundBlob] | None:
    """Return the blobs by the offsets that are claimed of them."""
    starts = {each.offset: each for each in found}
    offsets = list(dict.fromkeys(claim.offset for claim in claims))
    if all(offset in starts for offset in offsets):
        return starts
    if len(offsets) == len(found):
        places = dict(zip(sorted(offsets), found, strict=True))
        pairs = [(claim, places[claim.offset]) for claim in claims]
        if all(claim.offset == its.offset or _agree(claim, its.header) for claim, its in pairs):
            return places
    blobs = {
        row: Blob(header=starts[claim.offset].header, claim=claim, limit=0, row=row)
        for row, claim in enumerate(claims)
        if claim.offset in starts
    }
    doubtful = unsure(dict(enumerate(claims)), blobs)
    return starts if all(row in blobs and row not in doubtful for row in rows) else None


def _extent(claim: Claim, blob: FoundBlob | None, found: Sequence[FoundBlob]) -> Span | None:
    """Return where the blob of a claim lies: where it was found, or where it is said to be."""
    if blob is not None:
        return Span(blob.offset, blob.end - blob.offset)
    size = _size(claim)
    if size is None:
        return None
    row = bisect_right(found, claim.offset, key=lambda each: each.offset)
    return Span(
        claim.offset, min([size, *(each.offset - claim.offset for each in found[row:][:1])])
    )


def unsure(claims: Mapping[int, Claim], blobs: Mapping[int, Blob]) -> set[int]:
    """Return the rows of `blobs` that may be another claim's, where some claims lead to no blob.

    Offsets may then be shifted, and one of them onto a neighbor. A blob is the claim's own when
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


def _repair_claim(claim: Claim, blob: FoundBlob, changes: list[str]) -> Claim:
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


def guess_shape(name: str, weights: int, side: int) -> tuple[int, int] | None:
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
