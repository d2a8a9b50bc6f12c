"""What a target of a conversion is: a value with a name, its suffixes, and how to write it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tensorark.conversion.ledger import Keeps, Loss, settle
from tensorark.core.progress import Progress
from tensorark.errors import Hint, Unsupported, quoted
from tensorark.files import File

LEAVE_OUT: Final = Hint(
    'drop=["tensors"] leaves them out and lists them',
    tark="--drop tensors leaves them out and lists them",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller may choose; a target refuses options that do not fit it.

    `align` is the placement of blobs in a `.zt`, a multiple of 4096, None for canonical form;
    `max_shard_size` the most bytes of one file of a shard set, None for a single file; `encoding`
    how the parts of a `.zt` are stored, with zstd's `level` and decoded bytes for each frame in
    `frame_size`, None for raw parts; `digest` the algorithm of its digests, None to keep those that
    are there; `artifact_id` the 16 bytes that name a NInfer set, None for a new one. `drop` names
    the kinds of what may be lost (`conversion.ledger`).
    """

    overwrite: bool = False
    align: int | None = None
    max_shard_size: int | None = None
    encoding: str | None = None
    level: int | None = None
    frame_size: int | None = None
    digest: str | None = None
    artifact_id: bytes | None = None
    drop: frozenset[str] = frozenset()
    progress: Progress = lambda _done: None


def _hold_anything(_file: File, _options: Options) -> None:
    """Refuse nothing."""


def _refuse_none(_file: File, _options: Options) -> Iterable[tuple[str, str]]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A format that is written: `options` names the options it takes beside `overwrite`.

    `put` writes an opened model to a path and returns the files it made. It refuses what the
    format cannot hold before the first byte, and publishes everything or nothing; `keeps` says what
    it keeps beside tensors.
    `require` makes the same refusals alone, so that a plan can be judged without writing; `refuses`
    gives the tensors that it cannot hold, with reasons.
    """

    name: str
    suffixes: tuple[str, ...]
    options: frozenset[str]
    put: Callable[[File, Path, Options], list[str]]
    keeps: Keeps
    require: Callable[[File, Options], None] = _hold_anything
    refuses: Callable[[File, Options], Iterable[tuple[str, str]]] = _refuse_none

    def settle(self, file: File, path: Path, options: Options) -> Settled:
        """Settle what `file` holds with what is kept of it at `path`; see `conversion.ledger`.

        Raises:
            InvalidInput: when a kind in `options.drop` is none.
            Unsupported: when something is lost that is of no kind in `options.drop`.
        """
        odd = file.format.holds(file.origin, file.catalog).get("objects", tuple)
        kept = without(file, [*odd()] if "objects" in options.drop else ())
        unheld = self.refuses(kept, options) if "tensors" in options.drop else ()
        gone = [name for name, _reason in unheld]
        kept = without(kept, gone)
        lost = settle(kept, self.keeps, self.name, path, options.drop)
        return Settled(
            self, kept, path, options, (*(Loss("tensors", each) for each in gone), *lost)
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """A model that may be written: `dropped` is what is lost of it, all of which is allowed.

    Whatever writes one model from another writes the `file` of one of these.
    """

    target: Target
    file: File
    path: Path
    options: Options
    dropped: tuple[Loss, ...]

    def require(self) -> None:
        """Make the refusals that `write` makes before its first byte.

        Raises:
            Unsupported: when the format cannot hold a tensor.
        """
        self.target.require(self.file, self.options)

    def write(self) -> list[str]:
        """Write the model and return the files made.

        Raises:
            Unsupported: when the format cannot hold a tensor.
        """
        return self.target.put(self.file, self.path, self.options)


def without(file: File, names: Collection[str]) -> File:
    """Return `file` without some of its tensors."""
    if not names:
        return file
    gone = {*names}
    tensors = {name: each for name, each in file.catalog.tensors.items() if name not in gone}
    return file.with_catalog(replace(file.catalog, tensors=tensors))


_SHOWN: Final = 8


def require_none(
    refusals: Sequence[tuple[str, str]],
    total: int,
    *,
    holder: str,
    path: str | None,
    hint: str | None = None,
) -> None:
    """Require that nothing is refused: `refusals` are names of tensors with reasons, of `total`.

    Raises:
        Unsupported: saying which tensors `holder` cannot hold, the first eight with the reason.
    """
    if not refusals:
        return
    reasons = "; ".join(f"{quoted(name)}: {reason}" for name, reason in refusals[:_SHOWN])
    more = f"; and {len(refusals) - _SHOWN} more" if len(refusals) > _SHOWN else ""
    raise Unsupported(
        f"{holder} cannot hold {len(refusals)} of {total} tensors: {reasons}{more}",
        code="refused",
        path=path,
        where=("objects", refusals[0][0]),
        hint=hint,
    )
