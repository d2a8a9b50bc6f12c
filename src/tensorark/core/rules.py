"""Rules as objects: an id, a section, a stage, and the function that finds what breaks it.

Owns `Rule`, `Fault`, `Finding` and the two ways of asking: the first fault raises, or all are
gathered. Knows no format.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Final, Generic, Literal, TypeVar

from tensorark.core.brief import brief
from tensorark.core.limits import DEFAULT, Limits
from tensorark.errors import Rejected, Where

Stage = Literal["frame", "syntax", "schema", "open", "content", "canonical", "architecture"]
STAGES: Final[tuple[Stage, ...]] = (
    "frame",
    "syntax",
    "schema",
    "open",
    "content",
    "canonical",
    "architecture",
)

MOST_FAULTS: Final = 1_000
"""Faults that are gathered of one rule; a last finding says that there are more.

A file may break a rule in each of a million members.
"""

D_contra = TypeVar("D_contra", contravariant=True)
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where a document breaks a rule.

    `where` is the place in the catalog, `offset` a byte offset in the file (left out where the
    document can find it from `where`), `expected` and `found` the two sides of the disagreement.
    """

    where: Where
    detail: str
    expected: object = None
    found: object = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Rule(Generic[D_contra]):
    """A requirement of a specification and the function that finds what breaks it."""

    id: str
    section: str
    stage: Stage
    check: Callable[[D_contra], Iterator[Fault]]

    @property
    def requirement(self) -> str:
        """The requirement in our words: the first paragraph of the function's docstring."""
        return (inspect.getdoc(self.check) or "").split("\n\n")[0].replace("\n", " ")

    def __call__(self, doc: D_contra) -> Iterator[Fault]:
        """Yield every fault of `doc` under this rule."""
        return self.check(doc)

    def rejection(self, fault: Fault, offset: int | None = None) -> Rejected:
        """Turn a fault into the exception that names this rule."""
        return Rejected(
            fault.detail,
            code=self.id,
            section=self.section,
            where=fault.where,
            offset=fault.offset if fault.offset is not None else offset,
            expected=fault.expected,
            found=fault.found,
        )


def rule(
    id_: str, *, section: str, stage: Stage
) -> Callable[[Callable[[D], Iterator[Fault]]], Rule[D]]:
    """Make a generator of faults the rule `id_`; its docstring is the requirement."""

    def make(check: Callable[[D], Iterator[Fault]]) -> Rule[D]:
        return Rule(id_, section, stage, check)

    return make


_HOMES: Final = ("tensorark.encodings", "tensorark.formats", "tensorark.layouts")
"""The packages whose folders hold rules, each a value of a module or in a tuple of one.

Named as text: what stands above this module is loaded when all rules are asked for, never before.
"""
_TORCH: Final = "tensorark.layouts.numbers.torch"
"""The module that loads torch, and holds no rules."""


@cache
def all_rules() -> tuple[Rule[Any], ...]:
    """Return every rule of the library, by id. Loads every format, layout and encoding.

    Raises:
        ValueError: when two rules have one id.
    """
    found: dict[str, Rule[Any]] = {}
    for each in _rules_of_modules():
        if found.setdefault(each.id, each) != each:
            raise ValueError(f"two rules are called {each.id}")
    return tuple(found[id_] for id_ in sorted(found))


def _rules_of_modules() -> Iterator[Rule[Any]]:
    for home in _HOMES:
        for module in pkgutil.walk_packages(import_module(home).__path__, f"{home}."):
            if module.name == _TORCH:
                continue
            for value in vars(import_module(module.name)).values():
                held = value if isinstance(value, tuple) else (value,)
                yield from (each for each in held if isinstance(each, Rule))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault together with the rule that it breaks: one line of a validation report."""

    __repr__ = brief

    rule: str
    section: str
    stage: Stage
    where: tuple[str | int, ...]
    detail: str
    offset: int | None = None
    expected: object = None
    found: object = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read: under which limits, and whether faults stop it or are gathered.

    With `gathered` None the first fault of a stage raises. With a list, all faults of a stage are
    appended to it before the first one raises, so a later stage never sees a broken document; of
    one rule at most `MOST_FAULTS`, and then a finding without a place that says so.
    `structural` leaves the rules of layout profiles out, `lenient` lets pass what a format's public
    readers tolerate. `name` is that of the opened file, for formats that hold no names; `members`
    are the files of a folder that is read without a file that lists them. With `length`, so many
    first bytes are the file: an older generation.
    """

    limits: Limits = DEFAULT
    gathered: list[Finding] | None = None
    structural: bool = field(default=False, kw_only=True)
    lenient: bool = field(default=False, kw_only=True)
    name: str = field(default="", kw_only=True)
    members: tuple[str, ...] = field(default=(), kw_only=True)
    length: int | None = field(default=None, kw_only=True)
    _told: Counter[str] = field(default_factory=Counter, repr=False, compare=False, kw_only=True)

    def require(
        self,
        rules: Sequence[Rule[D]],
        doc: D,
        offset_of: Callable[[Where], int | None] = lambda _where: None,
    ) -> None:
        """Judge `doc` by each of `rules`.

        Raises:
            Rejected: for the first fault found.
        """
        error = self._first(rules, doc, offset_of)
        if error is not None:
            try:
                raise error
            finally:  # else the error, this call and `doc` would keep each other alive
                error = None

    def _first(
        self, rules: Sequence[Rule[D]], doc: D, offset_of: Callable[[Where], int | None]
    ) -> Rejected | None:
        """Return the first fault of `doc`, after all of them where they are gathered."""
        first: Rejected | None = None
        for each in rules:
            for fault in each.check(doc):
                if self.gathered is not None and self._is_told(each, self.gathered):
                    first = first or each.rejection(fault)
                    break
                offset = None if fault.offset is not None else offset_of(fault.where)
                error = each.rejection(fault, offset)
                if self.gathered is None:
                    return error
                self.gathered.append(finding_of(error, each.stage))
                first = first or error
        return first

    def _is_told(self, broken: Rule[D], gathered: list[Finding]) -> bool:
        """Count one more fault of a rule, and say whether enough of them are gathered."""
        self._told[broken.id] += 1
        if self._told[broken.id] == MOST_FAULTS + 1:
            rest = f"more faults of this rule than the {MOST_FAULTS:,} that are listed"
            gathered.append(finding_of(broken.rejection(Fault((), rest)), broken.stage))
        return self._told[broken.id] > MOST_FAULTS

    def reject(self, broken: Rule[D], fault: Fault) -> Rejected:
        """Return the exception for a fault that a parser met, recording it when gathering."""
        error = broken.rejection(fault)
        if self.gathered is not None:
            self.gathered.append(finding_of(error, broken.stage))
        return error


def finding_of(error: Rejected, stage: Stage) -> Finding:
    """Return the finding that says what `error` says, of what was judged at `stage`."""
    return Finding(
        rule=error.code,
        section=error.section or "",
        stage=stage,
        where=error.where,
        detail=error.detail,
        offset=error.offset,
        expected=error.expected,
        found=error.found,
    )


def difference(
    code: str,
    where: Where,
    detail: str,
    *,
    section: str = "",
    offset: int | None = None,
    expected: object = None,
    found: object = None,
) -> Finding:
    """Return what comparing content with a digest has found, which no rule of a format judges."""
    return Finding(
        rule=code,
        section=section,
        stage="content",
        where=tuple(where),
        detail=detail,
        offset=offset,
        expected=expected,
        found=found,
    )
