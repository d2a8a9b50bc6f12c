"""Which tensor goes into which shard, and where: to the byte, before anything is written."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final, Literal

from tensorark.core.model import Part, Span, Tensor
from tensorark.files import File
from tensorark.formats.zt.encode import align_up, encode_manifest
from tensorark.formats.zt.frame import FOOTER_SIZE, MAGIC
from tensorark.writing.copy import UNKNOWN, length_of, move

By = Literal["layer"]


@dataclass(slots=True)
class Blob:
    """A blob that is stored at `offset` of a shard; `digest`, the xxh3 of its stored bytes."""

    part: Part
    where: tuple[str | int, ...]
    offset: int
    digest: str = UNKNOWN


Places = dict[tuple[Span, ...], tuple[int, Blob]]
"""For every blob by its old place: the number of its shard, and its new place."""
Anywhere = Mapping[tuple[Span, ...], tuple[int, Blob]]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a shard would be with one more tensor."""

    tensor: Tensor
    places: Places
    own: Tensor | None
    end: int
    empty: int | None
    entries: int
    size: int


@dataclass(slots=True)
class Heap:
    """A shard being planned: its number, its blobs so far, and the end of the last of them."""

    number: int
    align: int
    full: bool
    end: int = len(MAGIC)
    empty: int | None = None
    blobs: list[Blob] = field(default_factory=list)
    tensors: list[str] = field(default_factory=list)
    own: list[Tensor] = field(default_factory=list)  # as they are in the source
    entries: int = 0
    exceeds: bool = False

    def offer(self, tensor: Tensor, placed: Places) -> Offer:
        """Work out where the blobs of `tensor` that are not `placed` yet would go."""
        end, empty, places = self.end, self.empty, Places()
        for role in sorted(tensor.parts):
            part = tensor.parts[role]
            if part.blob.spans in placed or part.blob.spans in places:
                continue
            length, offset = length_of(part.blob), align_up(end, self.align)
            if length:
                end = offset + length
            else:  # takes no room, and all of them share one place
                empty = offset if empty is None else empty
                offset, end = empty, max(end, empty)
            where = ("objects", tensor.name, "parts", role)
            places[part.blob.spans] = (self.number, Blob(part, where, offset))
        own = self._own(tensor, ChainMap(places, placed))
        entries = self.entries + (0 if own is None else _length(own))
        size = self._size(end, len(self.own) + (own is not None), entries)
        return Offer(tensor, places, own, end, empty, entries, size)

    def accept(self, offer: Offer, placed: Places) -> None:
        """Make the shard what was offered."""
        self.end, self.empty, self.entries = offer.end, offer.empty, offer.entries
        self.blobs += [blob for _, blob in offer.places.values()]
        self.tensors.append(offer.tensor.name)
        if offer.own is not None:
            self.own.append(offer.tensor)
        placed.update(offer.places)

    @property
    def size(self) -> int:
        """Size of the file, in bytes."""
        return self._size(self.end, len(self.own), self.entries)

    def _size(self, end: int, tensors: int, entries: int) -> int:
        """Return the size of a file whose blobs end at `end`, and which describes `tensors`."""
        if not self.full:
            return end + FOOTER_SIZE
        manifest = _MEMBERS + _head(tensors) + entries
        return align_up(end, self.align) + manifest + FOOTER_SIZE

    def _own(self, tensor: Tensor, placed: Anywhere) -> Tensor | None:
        """Return the tensor as the shard's own manifest has it; None where it has no place."""
        held = {placed[part.blob.spans][0] for part in tensor.parts.values()} if self.full else ()
        return place(tensor, placed, {self.number: None}) if held == {self.number} else None


_MEMBERS: Final = len(encode_manifest(())) - 1
"""Bytes of a manifest beside the head of its objects and the objects."""


def _head(count: int) -> int:
    """Return the length of the head of a map of `count` entries."""
    return next(width for width, most in _HEADS if count < most)


_HEADS: Final = ((1, 24), (2, 1 << 8), (3, 1 << 16), (5, 1 << 32))


def _length(tensor: Tensor) -> int:
    """Return the bytes that a tensor takes in a manifest."""
    return len(encode_manifest((tensor,))) - len(encode_manifest(()))


def place(tensor: Tensor, placed: Anywhere, labels: Mapping[int, str | None]) -> Tensor:
    """Return `tensor` with its parts in their new places, in the files of these labels."""
    parts = {}
    for role, part in tensor.parts.items():
        number, blob = placed[part.blob.spans]
        span = Span(blob.offset, length_of(part.blob), labels[number])
        parts[role] = move(part, span, blob.digest)
    return replace(tensor, parts=parts)


def plan_heaps(
    file: File, max_size: int | None, by: By | None, align: int, *, full: bool
) -> tuple[list[Heap], Places]:
    """Divide the tensors of `file` into shards; return these, and the new place of every blob."""
    placed: Places = {}
    heaps: list[Heap] = []
    for group in _groups(sorted(file), by):
        heaps.append(Heap(len(heaps), align, full))
        for name in group:
            tensor = file.catalog.tensors[name]
            offer = heaps[-1].offer(tensor, placed)
            if max_size is not None and offer.size > max_size:
                if heaps[-1].tensors:
                    heaps.append(Heap(len(heaps), align, full))
                    offer = heaps[-1].offer(tensor, placed)
                heaps[-1].exceeds = offer.size > max_size
            heaps[-1].accept(offer, placed)
    return heaps, placed


def _groups(names: Sequence[str], by: By | None) -> Iterator[list[str]]:
    """Yield names whose tensors may share a shard, in order: layers as numbers, not as text."""
    if by is None:
        yield from [list(names)] if names else []
        return
    ordered = sorted(names, key=lambda name: (_natural(_layer(name)), name))
    for _, group in groupby(ordered, key=_layer):
        yield list(group)


_NUMBER: Final = re.compile(r"(?:\A|[./])[0-9]+(?=[./]|\Z)")


def _layer(name: str) -> str:
    """Return what stands up to the first number of a name; empty where there is none."""
    match = _NUMBER.search(name)
    return name[: match.end()] if match else ""


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts digits as numbers, whatever their count."""
    pieces = re.split(r"([0-9]+)", text)
    return [(len(each.lstrip("0")), each) if each.isdigit() else (0, each) for each in pieces]
