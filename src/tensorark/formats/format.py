"""What a format is: a value with a name, a way to recognize it, a conversation, and its rules.

Formats never import each other, never read files and never import numpy. Nobody outside of a format
asks which one a file is of: what differs between formats is a field here, None or empty where a
format has no such thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tensorark.core.conversation import Steps
from tensorark.core.ledger import Keeps, Names
from tensorark.core.model import Catalog, Part, Span
from tensorark.core.rules import Finding, Reading, Rule
from tensorark.core.writing import Goal, Options, Writing
from tensorark.errors import Unsupported

SizeOf = Callable[[str | None], int]
"""Size in bytes of the opened file (None) or of the file labeled so; raises `ReadFailed`."""


class Checksum(Protocol):
    """A checksum that runs over the bytes of one part, to be judged at their end."""

    def after(self, data: memoryview) -> Checksum:
        """Return the same with more bytes."""
        ...

    def require(self, reading: Reading, path: str | None = None) -> None:
        """Judge it.

        Raises:
            Rejected: when the bytes are not those that were written.
        """
        ...


class Canonical(Protocol):
    """Judges canonical form, with `digests` those of all parts too, which reads all payload."""

    def __call__(self, catalog: Catalog, reading: Reading, *, digests: bool) -> Steps[None]:
        """Judge it.

        Raises:
            Rejected: for the first broken rule, unless `reading` gathers.
        """
        ...


def _refuse_nothing(_catalog: Catalog, _options: Options) -> Iterable[tuple[str, str]]:
    return ()


NOTHING: Final = Keeps()


def _hold_nothing(_origin: Catalog, _now: Catalog) -> Mapping[str, Names]:
    return {}


def _hold_no_resources(_catalog: Catalog) -> Iterable[tuple[tuple[str, ...], Part]]:
    return ()


def _leave_no_gaps(_origin: Catalog, _now: Catalog) -> Iterable[tuple[str, Sequence[Span]]]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A container format.

    `sniff(head, tail, size)` says whether a file with these first `head` bytes, last 64 bytes and
    size is meant to be one; it is total and never raises. `read` is the conversation that opens it.

    Opening: `folder` is the format of a folder of such files that no file lists, and `has_root`
    says whether the opened file stands for the others. Files of a format that is `numbered` may be
    pieces of a model, and say so by their names. Siblings are found by `judge_shard`, which
    says from both ends of a file why it is no shard, where the catalog tells size and digest; else
    by the judge that `continuation` gives, of a label, a head and a size.

    Judging: `judge` judges one tensor by the rules that are deferred until it is interpreted.
    `checksum` gives that of a raw part over more than its payload. `has_digests` says whether its
    catalog is hashed and parts can carry digests, so that none is made up where one is missing.
    `canonical` judges canonical form, `architecture` what a model of a known family calls for.
    `survey` gathers notes about what no rule forbids. `payload_rules` judges payload that is no
    tensor's, and returns what cannot be.

    Keeping: `normalize` says a catalog in the terms of a `.zt`, where that is more than tensors and
    attributes, with bytes by label that no file has; `carry` gives the attributes that it takes to
    come back. `metadata` is the text that carries attributes, as it stands in the file. `resources`
    are parts that belong to no tensor, each with its place. `holds` states, by kind, the names of
    what a model of this format holds beside tensors and attributes; it is given the catalog as it
    was opened, and what a step has made of it. `gaps` are the ranges that no entry speaks of, by
    how they are called. `artifact` is what the record of the format says beside all that, for
    reports.

    Writing: `write` is the conversation that writes a model, None where a format is only read, and
    takes those of `options`; `keeps` says what it keeps beside tensors, `refusals` gives the names
    of tensors that it cannot hold, with reasons, and `holder` is how it is called there.
    `rehead` gives another header for a file whose data stays, and where the old data begin; a file
    that `grows` takes another generation instead.
    `holds_masks` says whether N:M tensors stay what they are, `holds_resources` whether what is no
    tensor becomes one.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Callable[[bytes, bytes, int], bool]
    read: Callable[[SizeOf, Reading], Steps[Catalog]]
    rules: tuple[Rule[Any], ...]
    head: int = 64

    folder: Format | None = None
    has_root: bool = True
    numbered: bool = False
    judge_shard: Callable[[bytes, bytes], str | None] | None = None
    continuation: Callable[[Catalog], Callable[[str, bytes, int], None]] | None = None

    judge: Callable[[Catalog, str, Reading], None] | None = None
    checksum: Callable[[Catalog, str], Checksum | None] | None = None
    has_digests: bool = False
    canonical: Canonical | None = None
    architecture: Callable[[Catalog], list[Finding]] | None = None
    survey: Callable[[Catalog, Reading], Steps[None]] | None = None
    payload_rules: Callable[[Catalog, Reading], Steps[Sequence[Unsupported]]] | None = None

    metadata: Callable[[Catalog], Mapping[str, str] | None] | None = None
    normalize: Callable[[Catalog], tuple[Catalog, Mapping[str, bytes]]] | None = None
    carry: Callable[[Catalog], Steps[Mapping[str, object]]] | None = None
    resources: Callable[[Catalog], Iterable[tuple[tuple[str, ...], Part]]] = _hold_no_resources
    holds: Callable[[Catalog, Catalog], Mapping[str, Names]] = _hold_nothing
    gaps: Callable[[Catalog, Catalog], Iterable[tuple[str, Sequence[Span]]]] = _leave_no_gaps
    artifact: Callable[[Catalog], Mapping[str, object]] | None = None

    write: Callable[[Catalog, Options, Goal], Writing] | None = None
    options: frozenset[str] = frozenset()
    keeps: Keeps = NOTHING
    refusals: Callable[[Catalog, Options], Iterable[tuple[str, str]]] = _refuse_nothing
    holder: str = ""
    rehead: Callable[[Catalog], tuple[bytes, int]] | None = None
    grows: bool = False
    holds_masks: bool = False
    holds_resources: bool = False
