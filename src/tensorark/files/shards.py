"""Finding the file that a shard's name stands for: by name, by digest as a name, by identity.

Owns the conventions of `.zt` Appendix B. A name is a label and never a path: each becomes one
through `io.safe_names` alone. Must never hand out a file whose size or frame is not that of
the shard, and never read a file whole unless its size is right and every convention failed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tensorark.core.model import Shard, Span
from tensorark.errors import Error, ReadFailed, Unsupported, quoted
from tensorark.files.hashes import HASHES, hash_pieces
from tensorark.io.open_file import OpenFile
from tensorark.io.safe_names import beside

STORE: Final = "blobs"
"""The folder beside a root in which shards may lie under ``<algorithm>/<hex>``."""

Judge = Callable[[bytes, bytes], str | None]
"""Says from the first 64 and the last 64 bytes why a file is no shard; None where it may be."""

_END: Final = 64


_FRESH: Final = 1.0  # seconds
_TICK: Final = 100_000_000  # nanoseconds between two times that a filesystem tells apart


@dataclass(frozen=True, slots=True)
class _Listing:
    """The names in a folder by size, as they were `at` a time; `changed` is that of the folder."""

    changed: int
    at: float
    names: dict[int, list[str]]
    folded: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Finds the shards of the file `root` by what it says of them; picklable.

    Asked for a label, the conventions are tried in this order: ``<stem>-<label>.zt`` beside the
    root; ``<algorithm>/<hex>`` in `store`, then in ``blobs`` beside the root; ``<label>.zt`` beside
    the root, then in `store`; any file beside the root, then in `store`, of the right size and
    digest. Only the last one reads more than the ends of a file. A wrong file under the first name
    is an error, not a reason to look on.
    """

    root: Path
    expected: Mapping[str, Shard]
    judge: Judge
    store: Path | None = None
    _digests: dict[tuple[object, ...], str] = field(default_factory=dict, compare=False, repr=False)
    _listings: dict[Path, _Listing] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, label: str) -> Path:
        """Return the path of the shard `label`, its size and frame checked.

        Raises:
            LookupError: for a label that the root does not declare.
            ReadFailed: when it is nowhere (code ``missing-shard``) or another file has its name
                (``wrong-shard``).
        """
        wanted = self.expected[label]
        name = f"{self.root.stem}-{label}.zt"
        if not self._is_gone(name, self.root.parent) or set(name) & {"/", "\\", "\0"}:
            named = self.positional(label)
            fault = self._fault(named, wanted)
            if fault is None:
                return named
            if fault:
                raise self._wrong(label, named, fault)
        faults = []
        for candidate in (*self._in_stores(wanted), *self._plain(label)):
            fault = self._fault(candidate, wanted)
            if fault is None:
                return candidate
            faults += [(candidate, fault)] if fault else []
        found = self._identical(wanted)
        if found is None:
            for candidate, fault in faults:
                raise self._wrong(label, candidate, fault)
            raise ReadFailed(
                f"shard {quoted(label)} is missing",
                code="missing-shard",
                path=str(self.root),
                where=("shards", label),
                expected=f"{name} beside it, {wanted.size} bytes",
                hint="put the shard into the folder of the file that names it, under any name",
            )
        return found

    def absent(self, labels: Iterable[str]) -> set[str]:
        """Return those of `labels` of which nothing is there, by one look at the folder.

        Of the others some may be missing all the same.
        """
        beside = self._listing(self.root.parent)
        if beside is None or self.store is not None or not self._is_gone(STORE, self.root.parent):
            return set()
        stem = self.root.stem.casefold()
        return {
            label
            for label in labels
            if f"{stem}{label}".isascii()
            and f"{stem}-{label.casefold()}.zt" not in beside.folded
            and f"{label.casefold()}.zt" not in beside.folded
            and self.expected[label].size not in beside.names
        }

    def prove(self, label: str, opened: OpenFile) -> None:
        """Require an opened file to be the shard `label` by its digest, which is read whole.

        Raises:
            ReadFailed: when it is another file (code ``wrong-shard``), or cannot be read.
            Unsupported: when the digest is of an algorithm that is not known.
        """
        algorithm, _, digits = self.expected[label].digest.partition(":")
        if algorithm not in HASHES:
            raise Unsupported(
                "the digest of the shard is of an unknown algorithm, and parts in it carry none",
                code="unknown-algorithm",
                section="7.1",
                where=("shards", label, "digest"),
                expected="one of " + " ".join(HASHES),
                found=algorithm,
            )
        if digest_of(opened, algorithm) != digits:
            raise self._wrong(label, Path(opened.path), "its bytes are others")

    def positional(self, label: str) -> Path:
        """Return where the shard `label` lies by the convention of names, whether or not it does.

        Raises:
            Rejected: when the label cannot be part of a file name.
            ReadFailed: when a link of that name leads elsewhere (code ``unsafe-link``).
        """
        return beside(self.root.parent, f"{self.root.stem}-{label}.zt")

    def _plain(self, label: str) -> list[Path]:
        """Return the files that a label names by its stem: how an overlay names its base."""
        found = []
        for folder in self._folders:
            if self._is_gone(f"{label}.zt", folder):
                continue
            with suppress(Error):
                found.append(beside(folder, f"{label}.zt"))
        return found

    @property
    def _folders(self) -> list[Path]:
        return [self.root.parent, *([self.store] if self.store is not None else [])]

    def _in_stores(self, wanted: Shard) -> list[Path]:
        algorithm, _, digits = wanted.digest.partition(":")
        stores = [self.store] if self.store is not None else []
        stores += [] if self._is_gone(STORE, self.root.parent) else [self.root.parent / STORE]
        found = []
        for store in stores:
            with suppress(Error):
                found.append(beside(beside(store, algorithm), digits))
        return found

    def _identical(self, wanted: Shard) -> Path | None:
        """Return a file beside the root or in `store` that has the shard's size and digest."""
        algorithm, _, digits = wanted.digest.partition(":")
        if algorithm not in HASHES:
            return None
        for folder in self._folders:
            for name in self._of_size(folder, wanted.size):
                with suppress(Error):
                    path = beside(folder, name)
                    is_one = self._fault(path, wanted) is None
                    if is_one and self._digest(path, algorithm) == digits:
                        return path
        return None

    def _of_size(self, folder: Path, size: int) -> list[str]:
        """Return the files of a folder that have `size` bytes."""
        listing = self._listing(folder)
        return [] if listing is None else listing.names.get(size, [])

    def _listing(self, folder: Path) -> _Listing | None:
        """List a folder, once a second at most while it does not change.

        Of very many shards all may be missing.
        """
        try:
            changed, now = folder.stat().st_mtime_ns, time.monotonic()
            last = self._listings.get(folder)
            if last is None or last.changed != changed or not 0 <= now - last.at < _FRESH:
                is_sure = time.time_ns() - changed > _TICK  # else another change could not be told
                names, folded = _names_in(folder)
                last = _Listing(changed, now, names, folded)
                self._listings.pop(folder, None)
                if is_sure:
                    self._listings[folder] = last
        except OSError:
            return None
        return last

    def _is_gone(self, name: str, folder: Path) -> bool:
        """Whether nothing of this name lies in a folder, without a call for each name.

        Case counts nowhere, and only names that all systems spell alike are told.
        """
        listing = self._listing(folder) if name.isascii() else None
        return listing is not None and name.casefold() not in listing.folded

    def _fault(self, path: Path, wanted: Shard) -> str | None:
        """Say why the file at `path` is not the shard: "" where there is none, None if it may be.

        Raises:
            ReadFailed: when it is there and cannot be read.
        """
        try:
            opened = OpenFile(path, mapped=False)
        except ReadFailed as error:
            if error.code in {"missing-file", "not-a-file"} or _is_unspeakable(error):
                return ""
            raise
        if opened.size != wanted.size:
            return f"it has {opened.size} bytes, the shard {wanted.size}"
        ends = min(_END, opened.size)
        head = opened.view(Span(0, ends))
        tail = opened.view(Span(opened.size - ends, ends))
        return self.judge(bytes(head), bytes(tail))

    def _digest(self, path: Path, algorithm: str) -> str:
        """Return the digest of a whole file; each is read once in the life of this value."""
        status = path.stat()
        key = (path, status.st_ino, status.st_size, status.st_mtime_ns, algorithm)
        if key not in self._digests:
            self._digests[key] = digest_of_file(path, algorithm)
        return self._digests[key]

    def _wrong(self, label: str, path: Path, fault: str) -> ReadFailed:
        right = self._identical(self.expected[label])
        hint = "the file was replaced or renamed: fetch the shard again"
        if right is not None:
            hint = f"{quoted(right.name)} is the shard: the two names were mixed up"
        return ReadFailed(
            f"this is not shard {quoted(label)}: {fault}",
            code="wrong-shard",
            path=str(path),
            where=("shards", label),
            hint=hint,
        )


def digest_of_file(path: str | os.PathLike[str], algorithm: str) -> str:
    """Return the digest of a whole file in lowercase hexadecimal, read in pieces.

    Raises:
        ReadFailed: when it cannot be read, or is changed meanwhile.
    """
    return digest_of(OpenFile(path, mapped=False), algorithm)


def digest_of(opened: OpenFile, algorithm: str) -> str:
    """Return the digest of an opened file (see `digest_of_file`)."""
    digest = hash_pieces(opened.passing(Span(0, opened.size)), algorithm)
    opened.recheck()
    return digest


def _names_in(folder: Path) -> tuple[dict[int, list[str]], frozenset[str]]:
    """Return the files in a folder by size, and all names there without case."""
    names: dict[int, list[str]] = {}
    folded = set()
    with os.scandir(folder) as entries:
        for each in entries:
            folded.add(each.name.casefold())
            with suppress(OSError):
                if each.is_file():
                    names.setdefault(each.stat().st_size, []).append(each.name)
    return {size: sorted(found) for size, found in names.items()}, frozenset(folded)


def _is_unspeakable(error: ReadFailed) -> bool:
    """Whether no file has this name: digits may be of any number, and a link may lead to itself."""
    import errno

    cause = error.__cause__
    unusable = {errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP}
    return isinstance(cause, OSError) and cause.errno in unusable
