"""Explaining a file that is broken, and telling the history of one that is not. Never repairs.

Owns the words. Of a `.zt` whose last append did not finish (§2.5) it tells the longest beginning
that is a valid file; what is done about it is the user's to decide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from tensorark import files
from tensorark.core.brief import brief
from tensorark.core.model import Span
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding
from tensorark.errors import Error, LimitExceeded, ReadFailed, Rejected, Unsupported, quoted
from tensorark.files import PathLike
from tensorark.files.folder import entry_of, members_of
from tensorark.formats.zt.frame import FOOTER_SIZE, MAGIC, MIN_SIZE
from tensorark.formats.zt.manifest import Manifest
from tensorark.io.local import LocalSource
from tensorark.report.zt_history import FooterSearch, PastGeneration

_MOST_SHARDS: Final = 20  # that are named
_MOST_FAULTS: Final = 20  # that are told in words; all that are gathered stand in `findings`


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
            return _of_another_format(name, size, *_validate(name))
        name = entry_of(name)
    with LocalSource(name) as source:
        return _diagnose(name, source, progress)


def _validate(path: str) -> tuple[tuple[Finding, ...], Error | None]:
    """Return the faults of a file, and the refusal where it could not be read to its end."""
    try:
        return tuple(files.validate(path)), None
    except (Unsupported, LimitExceeded, ReadFailed) as refusal:
        # Without the calls that raised it, whose values are what was read of the file.
        return (), refusal.with_traceback(None)


def _diagnose(path: str, source: LocalSource, progress: Progress) -> Diagnosis:
    size = source.size()
    head, tail = source.read((Span(0, min(size, 64)), Span(max(0, size - 64), min(size, 64))))
    findings, error = _validate(path)
    if error is not None or not (bytes(head).startswith(MAGIC) or path.endswith(".zt")):
        return _of_another_format(path, size, findings, error)
    search = FooterSearch(source, progress)
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


def _of_valid(path: str, size: int, search: FooterSearch) -> Diagnosis:
    with files.open(path) as file:
        manifest, missing = file.catalog.native, file.missing()
        if not file.describes_tensors:
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
    path: str, head: bytes, tail: bytes, findings: tuple[Finding, ...], search: FooterSearch
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


def _of_last(last: Manifest, size: int, search: FooterSearch) -> list[str]:
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
