"""The generations of a `.zt`: searching for what was valid before the last append (§2.5).

Owns the search for footers, which a hostile file may consist of, and its limits. The format has no
recovery by readers (§10): what is found is told, and nothing is done about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tensorark.core.brief import brief
from tensorark.core.conversation import drive
from tensorark.core.model import Span
from tensorark.core.progress import Progress
from tensorark.core.rules import Reading
from tensorark.errors import LimitExceeded, Rejected, Unsupported
from tensorark.formats.zt.frame import (
    FOOTER_SIZE,
    FRAME_RULES,
    MAGIC,
    MIN_SIZE,
    RawFrame,
    parse_frame,
)
from tensorark.formats.zt.manifest import Manifest
from tensorark.formats.zt.read import read
from tensorark.io.local import LocalSource

_WINDOW: Final = 8 << 20
_MOST_CANDIDATES: Final = 20_000
"""Footers that are looked at: a hostile file may consist of nothing else."""
_FREE_HASHED: Final = 1 << 20
"""Bytes of manifests that are read beyond the size of the file, in which those of its generations
lie behind each other: a hostile file has them overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastGeneration:
    """A generation of a `.zt`: the first `length` bytes of the file are the file it was.

    `number` counts from 1. `added`, `superseded` and `removed` are the tensors that changed.
    """

    __repr__ = brief

    number: int
    length: int
    tensors: int
    added: tuple[str, ...]
    superseded: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(slots=True)
class FooterSearch:
    """Looks for footers in a file, under limits."""

    source: LocalSource
    progress: Progress
    candidates: int = 0
    hashed: int = 0
    refused: set[tuple[int, int, int]] = field(default_factory=set)

    def last(self) -> Manifest | None:
        """Return the manifest of the longest valid beginning that is shorter than the file."""
        size = self.source.size()
        return next(self._manifests(len(MAGIC), size), None)

    def history(self, manifest: Manifest) -> tuple[PastGeneration, ...]:
        """Return the generations up to that of `manifest`.

        The footer of an older one lies before the newer manifest, and where nothing is used: each
        blob was there before that footer, or came behind it.
        """
        found = [manifest]
        while (older := self._before(found[-1])) is not None:
            found.append(older)
        return _compare(found[::-1])

    def seam(self) -> int | None:
        """Return where a data shard ends and another file begins; None where that is nowhere."""
        size = self.source.size()
        for start in range(0, size, _WINDOW):
            window = self.bytes_at(start, _WINDOW + len(MAGIC))
            found = window.find(MAGIC + MAGIC)
            while found >= 0 and self.candidates < _MOST_CANDIDATES:
                self.candidates += 1
                end = start + found + len(MAGIC)
                if end >= MIN_SIZE and self._ends_a_data_shard(end):
                    return end
                found = window.find(MAGIC + MAGIC, found + 1)
        return None

    def _ends_a_data_shard(self, end: int) -> bool:
        frame = parse_frame(MAGIC, self.bytes_at(end - FOOTER_SIZE, FOOTER_SIZE), end)
        return frame.is_data_shard and not any(True for each in FRAME_RULES for _ in each(frame))

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Return the bytes at `offset`, fewer at the end of the file."""
        length = max(0, min(length, self.source.size() - offset))
        return bytes(self.source.read([Span(offset, length)])[0])

    def zeros(self) -> int:
        """Count the zeros at the end of the file."""
        size = self.source.size()
        for end in range(size, 0, -_WINDOW):
            start = max(0, end - _WINDOW)
            rest = self.bytes_at(start, end - start).rstrip(b"\0")
            if rest:
                return size - start - len(rest)
        return size

    def _before(self, manifest: Manifest) -> Manifest | None:
        for start, end in _gaps(manifest):
            older = next(self._manifests(start, end), None)
            if older is not None:
                return older
        return None

    def _manifests(self, start: int, end: int) -> Iterator[Manifest]:
        """Yield the manifests of the valid footers that lie in [start, end), the last one first."""
        most = self.source.size() + _FREE_HASHED
        for length in self._ends(start, end):
            if self.candidates >= _MOST_CANDIDATES or self.hashed > most:
                return
            self.candidates += 1
            frame = parse_frame(MAGIC, self.bytes_at(length - FOOTER_SIZE, FOOTER_SIZE), length)
            if frame.is_data_shard or any(True for each in FRAME_RULES for _ in each(frame)):
                continue
            # From the back, ever less of the file is left: what was refused is refused again.
            key = (frame.manifest_offset, frame.manifest_length, frame.manifest_hash)
            if key in self.refused:
                continue
            self.hashed += frame.manifest_length
            manifest = self._read_until(frame)
            if manifest is None:
                self.refused.add(key)
            else:
                yield manifest

    def _ends(self, start: int, end: int) -> Iterator[int]:
        """Yield where the magic ends in [start + 40, end), from the back."""
        first = start + FOOTER_SIZE - len(MAGIC)
        upper = end
        while upper - first >= len(MAGIC):
            lower = max(first, upper - _WINDOW)
            window = self.bytes_at(lower, upper - lower)
            at = window.rfind(MAGIC)
            while at >= 0:
                yield lower + at + len(MAGIC)
                at = window.rfind(MAGIC, 0, at + len(MAGIC) - 1)
            self.progress(upper - lower)
            upper = lower + len(MAGIC) - 1 if lower > first else first

    def _read_until(self, frame: RawFrame) -> Manifest | None:
        """Read the file as if it ended with the footer of `frame`; None when that is not valid."""
        try:
            catalog = drive(read(lambda _file: frame.size, Reading()), self.source)
        except (Rejected, Unsupported, LimitExceeded):
            return None
        found: Manifest = catalog.native
        return found


def _gaps(manifest: Manifest) -> Iterator[tuple[int, int]]:
    """Yield the ranges before a manifest that belong to nothing, the last one first."""
    columns = zip(manifest.offsets, manifest.lengths, manifest.part_shards, strict=True)
    used = {(offset, length) for offset, length, shard in columns if shard is None}
    end = manifest.frame.manifest_offset
    for offset, length in sorted(used, reverse=True):
        if offset + length < end:
            yield offset + length, end
        end = min(end, offset)
    if end > len(MAGIC):
        yield len(MAGIC), end


def _compare(manifests: list[Manifest]) -> tuple[PastGeneration, ...]:
    told = []
    before: dict[str, tuple[object, ...]] = {}
    for number, manifest in enumerate(manifests, 1):
        now = _identify(manifest)
        told.append(
            PastGeneration(
                number=number,
                length=manifest.frame.size,
                tensors=len(now),
                added=tuple(name for name in now if name not in before),
                superseded=tuple(n for n in now if n in before and now[n] != before[n]),
                removed=tuple(name for name in before if name not in now),
            )
        )
        before = now
    return tuple(told)


def _identify(manifest: Manifest) -> dict[str, tuple[object, ...]]:
    """Return what tells whether a tensor is that of another generation, by name."""
    parts = list(
        zip(
            manifest.roles,
            manifest.offsets,
            manifest.lengths,
            manifest.part_shards,
            manifest.dtypes,
            manifest.types,
            strict=True,
        )
    )
    return {
        name: (
            manifest.layouts[at],
            tuple(manifest.shapes[at]),
            tuple(parts[manifest.firsts[at] : manifest.firsts[at + 1]]),
            repr(manifest.object_attributes[at]),
        )
        for at, name in enumerate(manifest.names)
    }
