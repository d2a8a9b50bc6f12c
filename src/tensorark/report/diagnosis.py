"""Explaining a file that is broken, and telling the history of one that is not. Never repairs.

Owns the words, and the search for what is left of a `.zt` whose last append did not finish (§2.5):
the longest beginning of it that is a valid file. The format has no recovery by readers (§10); what
is done about it is the user's to decide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from tensorark import files
from tensorark.core.brief import brief
from tensorark.core.conversation import drive
from tensorark.core.model import Span
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, Reading
from tensorark.errors import Error, LimitExceeded, ReadFailed, Rejected, Unsupported, quoted
from tensorark.files import PathLike
from tensorark.files.folder import entry_of, members_of
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
_MOST_SHARDS: Final = 20  # that are named
_MOST_FAULTS: Final = 20  # that are told in words; all that are gathered stand in `findings`
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is known about a file.

    `words` say it in sentences. `findings` are the faults, `error` the refusal where it is of a
    format that is not read. `generations` are those of a `.zt`, the oldest first; of a broken one,
    those of its longest valid beginning. `missing` are shards and the tensors they hold.
    """

    __repr__ = brief

    path: str
    size: int
    format: str | None
    words: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    error: Error | None = None
    generations: tuple[PastGeneration, ...] = ()
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong with the file, and nothing that it needs is missing."""
        return not (self.findings or self.error or self.missing)

    @property
    def last_good(self) -> PastGeneration | None:
        """The newest generation that is valid; None where there is none."""
        return self.generations[-1] if self.generations else None


def diagnose(path: PathLike, *, progress: Progress = lambda _done: None) -> Diagnosis:
    """Say what is wrong with the file at `path`, and what is left of it; reads no more than needed.

    Of a broken `.zt` the whole file is searched for the last footer that is good; of a valid one,
    what no tensor uses, for the generations before. Nothing is changed.

    Raises:
        ReadFailed: when it cannot be read at all.
    """
    name = os.fspath(path)
    if os.path.isdir(name):  # noqa: PTH112 - unlike that of `Path`, it never raises
        if members := members_of(name):
            size = sum(Path(name, each).stat().st_size for each in members)
            return _of_another_format(name, size, *_judged(name))
        name = entry_of(name)
    with LocalSource(name) as source:
        return _diagnosed(name, source, progress)


def _judged(path: str) -> tuple[tuple[Finding, ...], Error | None]:
    """Return the faults of a file, and the refusal where it could not be read to its end."""
    try:
        return tuple(files.validate(path)), None
    except (Unsupported, LimitExceeded, ReadFailed) as refusal:
        # Without the calls that raised it, whose values are what was read of the file.
        return (), refusal.with_traceback(None)


def _diagnosed(path: str, source: LocalSource, progress: Progress) -> Diagnosis:
    size = source.size()
    head, tail = source.read((Span(0, min(size, 64)), Span(max(0, size - 64), min(size, 64))))
    findings, error = _judged(path)
    if error is not None or not (bytes(head).startswith(MAGIC) or path.endswith(".zt")):
        return _of_another_format(path, size, findings, error)
    search = _Search(source, progress)
    if findings:
        return _of_broken(path, bytes(head), bytes(tail), findings, search)
    return _of_valid(path, size, search)


def _of_another_format(
    path: str, size: int, findings: tuple[Finding, ...], error: Error | None
) -> Diagnosis:
    known = None
    missing: Mapping[str, tuple[str, ...]] = {}
    words = [f"{each.detail}." for each in findings[:_MOST_FAULTS]]
    if len(findings) > _MOST_FAULTS:
        words.append(f"{len(findings) - _MOST_FAULTS} more faults are listed by `tark validate`.")
    if error is not None:
        words = [f"{error.detail}.", *([f"{error.hint}."] if error.hint else [])]
    if not words:
        with files.open(path) as file:
            known, missing = file.format.name, file.missing()
            words = [f"The file is a valid {file.format.title} of {_count(len(file), 'tensor')}."]
            words += _of_missing(missing)
    words += _of_tensorbit(path, known, findings)
    return Diagnosis(
        path=path,
        size=size,
        format=known,
        words=(*words, *_of_name(path, whole=not findings and error is None)),
        findings=findings,
        error=error,
        missing=missing,
    )


def _of_missing(missing: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [
        f"Shard {quoted(label)} is missing, or another file has its name: "
        f"{_count(len(names), 'tensor')} cannot be read."
        for label, names in islice(missing.items(), _MOST_SHARDS)
    ] + [
        f"{len(missing) - _MOST_SHARDS} more shards are missing."
        for _ in range(len(missing) > _MOST_SHARDS)
    ]


def _of_tensorbit(path: str, known: str | None, findings: tuple[Finding, ...]) -> list[str]:
    """Say how a broken Tensorbit index can be made right, and what the public runtime does."""
    if known not in _TENSORBIT and not any(each.rule.startswith("tb.") for each in findings):
        return []
    from tensorark.report.tensorbit import explain, remains

    try:
        words = explain(path).words
    except Rejected:  # said already: its index cannot be read
        return remains(path)
    told = tuple(f"({each})" for each in {each.rule for each in findings})
    return [each for each in words if not any(rule in each for rule in told)]


_TENSORBIT: Final = frozenset({"tbm", "tb", "tensorbit-directory", "tensorbit-folder"})


def _of_valid(path: str, size: int, search: _Search) -> Diagnosis:
    with files.open(path) as file:
        manifest, missing = file.catalog.native, file.missing()
        if not isinstance(manifest, Manifest):
            words = ["The file is a data shard: it means something only to the root that names it."]
            return Diagnosis(path=path, size=size, format="zt", words=tuple(words))
    generations = search.history(manifest)
    words = [f"The file is a valid `.zt` of {_count(len(manifest.names), 'tensor')}."]
    behind = size - FOOTER_SIZE - manifest.frame.manifest_offset - manifest.frame.manifest_length
    if behind:
        words.append(
            f"The {behind} bytes between its manifest and its footer belong to nothing: perhaps "
            "another file was joined to it."
        )
    if len(generations) > 1:
        words.append(
            f"It has {len(generations)} generations; the first {generations[-2].length} bytes are "
            "the file before the last one. `tark repack` makes a file without them."
        )
    words += _of_missing(missing)
    return Diagnosis(
        path=path,
        size=size,
        format="zt",
        words=tuple(words),
        generations=generations,
        missing=missing,
    )


def _of_broken(
    path: str, head: bytes, tail: bytes, findings: tuple[Finding, ...], search: _Search
) -> Diagnosis:
    words = [f"{findings[0].detail[:1].upper()}{findings[0].detail[1:]} ({findings[0].rule})."]
    size = search.source.size()
    generations: tuple[PastGeneration, ...] = ()
    version = next((each for each in findings if each.rule == "zt.version"), None)
    if not head.startswith(MAGIC):
        words += _of_beginning(head, tail)
    elif version is not None:
        words.append(
            f"Its footer is of version {version.found}: a later draft of the format wrote it, or "
            "it is damaged. What writes this version reads it."
        )
    elif size >= MIN_SIZE:
        last = search.last()
        if last is None and (seam := search.seam()) is not None:
            words.append(
                f"The first {seam} bytes are a data shard, and another file begins right behind "
                "it: files were joined that are shards or models of their own. Take them apart."
            )
        elif last is None:
            words.append(
                "No valid footer is left in the file. A `.zt` says at its end what it holds, so "
                "nothing of it can be told: fetch the file again."
            )
        else:
            generations = search.history(last)
            words += _of_last(last, size, search)
    zeros = search.zeros()
    if zeros > FOOTER_SIZE:
        words.append(f"The last {zeros} bytes are zeros: room was made for what never came.")
    return Diagnosis(
        path=path,
        size=size,
        format="zt",
        words=(*words, *_of_name(path, whole=False)),
        findings=findings,
        generations=generations,
    )


def _of_last(last: Manifest, size: int, search: _Search) -> list[str]:
    length = last.frame.size
    words = [f"The first {length} bytes are a valid `.zt` of {_count(len(last.names), 'tensor')}."]
    if search.bytes_at(length, len(MAGIC)) == MAGIC:
        words.append(
            "Another one begins right behind it: files were joined that are shards or models of "
            "their own. Take them apart again."
        )
        return words
    words.append(
        f"The {size - length} bytes behind it are what an append left that did not finish, or "
        "what damage has left of it."
    )
    words.append(f"To go back to it, work on a copy: cp FILE COPY && truncate -s {length} COPY")
    return words


def _of_beginning(head: bytes, tail: bytes) -> list[str]:
    if head.startswith(MAGIC[:4] + b"\n"):
        return ["It was copied as text: line ends were changed. Fetch it again, as binary."]
    if head[:4] == bytes([MAGIC[0] & 0x7F]) + MAGIC[1:4]:
        return ["Its bytes have lost their highest bit on the way. Fetch it again, as binary."]
    if tail.endswith(MAGIC):
        return ["Its end is that of a `.zt`: the beginning is missing or was overwritten."]
    return []


_PIECE: Final = re.compile(r"\.part(\d+of\d+|\d+|[a-z]{2})\Z|\.\d{3}\Z|[-.]split-?[a-z]{2}\Z")


def _of_name(path: str, *, whole: bool) -> list[str]:
    if whole or not _PIECE.search(Path(path).name):
        return []
    return ["By its name it is one piece of a file that was cut up: join the pieces with `cat`."]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


@dataclass(slots=True)
class _Search:
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
        return _told(found[::-1])

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
            manifest = self._opened(frame)
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

    def _opened(self, frame: RawFrame) -> Manifest | None:
        """Read the file as if it ended with the footer of `frame`; None when that is not valid."""
        try:
            catalog = drive(read(lambda _file: frame.size, Reading()), self.source)
        except (Rejected, Unsupported, LimitExceeded):
            return None
        return catalog.native if isinstance(catalog.native, Manifest) else None


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


def _told(manifests: list[Manifest]) -> tuple[PastGeneration, ...]:
    told = []
    before: dict[str, tuple[object, ...]] = {}
    for number, manifest in enumerate(manifests, 1):
        now = _described(manifest)
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


def _described(manifest: Manifest) -> dict[str, tuple[object, ...]]:
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
