"""Which parameter gets which format, and what is fused: recipes, built in or from a file.

Owns the recipe as a value and its TOML and JSON form. Patterns are those of a shell, and ``*``
stands for anything, slashes too; of the assignments that match, each later one overrides.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tensorark.core import matching
from tensorark.core.matching import matcher
from tensorark.errors import InvalidInput, ReadFailed, quoted
from tensorark.formats.ninfer.architecture import SPECULATIVE, Parameter
from tensorark.formats.ninfer.directory import POLICIES, Policy
from tensorark.io.inputs import note_path
from tensorark.layouts.ninfer.geometry import LAYOUT_OF

IMPORT: Final = "import_encoded"
"""The method that takes codes and scales as the checkpoint has them."""

COMPONENTS: Final = frozenset({"text", "vision", *SPECULATIVE})
"""What an artifact may consist of, by the first step of the names of its parameters."""

BASE: Final = "base"
"""The source that parameters come from unless a recipe names another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What parameters that match get; a field that is None says nothing.

    A format without a method is made by its default one, whatever was said before.

    `layers` limits them to some layers, `projections` to parameters with an input. `separate` keeps
    a parameter out of the standard groups.
    """

    parameters: tuple[str, ...]
    layers: tuple[int, ...] | None = None
    projections: bool = False
    format: str | None = None
    method: str | None = None
    policy: Policy | None = None
    source: str | None = None
    separate: bool | None = None

    def matches(self, parameter: Parameter) -> bool:
        """Tell whether the assignment is about `parameter`."""
        if self.projections and not parameter.inputs:
            return False
        if self.layers is not None and layer_of(parameter.name) not in self.layers:
            return False
        return matcher(self.parameters)(parameter.name)


def require_matches(assignments: Iterable[Assignment], names: Sequence[str]) -> None:
    """Require every pattern of `assignments` to match a parameter, in each layer that they name.

    Patterns of components that the artifact does not have are passed over.

    Raises:
        NotFound: for the first that matches none.
        InvalidInput: for a layer that is not there.
    """
    components = {name.partition("/")[0] for name in names}
    for each in assignments:
        globs = [
            glob
            for glob in each.parameters
            if (head := glob.partition("/")[0]) in components or head not in COMPONENTS
        ]
        matching.require_matches(globs, names, "parameter of the artifact")
        held = {layer_of(name) for name in filter(matcher(globs), names)}
        for layer in each.layers or () if globs else ():
            if layer not in held:
                raise InvalidInput(
                    "a recipe names a layer that is not there",
                    code="recipe",
                    expected=f"a layer of {' '.join(globs)}",
                    found=layer,
                )


def layer_of(name: str) -> int | None:
    """Return the number of the layer that a parameter belongs to."""
    _, found, rest = name.partition("/layers/")
    number = rest.partition("/")[0]
    return int(number) if found and number.isdecimal() and number.isascii() else None


Domain = Literal["full", "indexed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A second output head (§9.2): all rows, or those of `token_ids`, in `format`."""

    domain: Domain
    token_ids: tuple[int, ...] = ()
    format: str = "q4_g64_fp16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a checkpoint becomes an artifact.

    `fuse` are groups that must be fused, before the standard groups, which `standard` turns off;
    `{}` in their names stands for every layer. `share` are pairs: the first has the binding of the
    second.
    """

    name: str
    assignments: tuple[Assignment, ...] = ()
    fuse: tuple[tuple[str, ...], ...] = ()
    share: tuple[tuple[str, str], ...] = ()
    standard: bool = True
    experts: bool | None = None
    proposal: Proposal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a recipe says of one parameter."""

    format: str
    method: str | None = None
    policy: Policy | None = None
    source: str = BASE
    separate: bool = False


def choose(recipe: Recipe, parameter: Parameter) -> Choice:
    """Return what `recipe` says of `parameter`; without a word, it is stored as plain words.

    Raises:
        InvalidInput: when it asks for another format than the parameter's own words.
    """
    found = Choice(format=parameter.words or "bf16")
    for each in recipe.assignments:
        if each.matches(parameter):
            said = {key: getattr(each, key) for key in _CHOSEN if getattr(each, key) is not None}
            if each.format is not None:  # another format has another method
                said.setdefault("method", None)
            found = replace(found, **said)
    if parameter.words is not None and found.format != parameter.words:
        raise InvalidInput(
            f"{parameter.name} is only stored as {parameter.words}",
            code="recipe",
            where=(parameter.name,),
            expected=parameter.words,
            found=found.format,
        )
    return found


_CHOSEN: Final = ("format", "method", "policy", "source", "separate")


# -------------------------------------------------------------------------------------------- files

_MEMBERS: Final = {"name", "extends", "assign", "fuse", "share", "standard_groups", "proposal"}
_ASSIGN: Final = {*_CHOSEN, "parameters", "layers", "projections"}
_PROPOSAL: Final = {"domain", "token_ids", "format"}


def read_recipe(path: str | PathLike[str], presets: Mapping[str, Recipe]) -> Recipe:
    """Read a recipe file, TOML or JSON by its suffix; it may extend one of `presets`.

    Raises:
        ReadFailed: when it cannot be read.
        InvalidInput: when it is no recipe.
    """
    note_path(path)
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise ReadFailed(error.strerror or str(error), path=str(path)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("the recipe is not UTF-8", code="recipe", path=str(path)) from error
    try:
        parsed = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not a recipe: {error}", code="recipe", path=str(path)) from error
    try:
        return parse_recipe(parsed, presets, Path(path).stem)
    except InvalidInput as error:
        error.located(str(path))
        raise


def parse_recipe(value: object, presets: Mapping[str, Recipe], name: str) -> Recipe:
    """Return the recipe that a parsed file states.

    Raises:
        InvalidInput: when it is none.
    """
    table = _table(value, _MEMBERS, ())
    extends = table.get("extends")
    if extends is not None and extends not in presets:
        known = " ".join(presets)
        raise _wrong(("extends",), "no such recipe", "one of " + known, quoted(str(extends)))
    base = presets[extends] if extends is not None else Recipe(name=name)
    proposal = base.proposal
    if "proposal" in table:
        proposal = _proposal(table["proposal"])
    assigned = [
        _assignment(each, ("assign", index))
        for index, each in enumerate(_list(table.get("assign", []), ("assign",)))
    ]
    pairs = [_names(each, ("share",)) for each in _list(table.get("share", []), ("share",))]
    if any(len(pair) != 2 for pair in pairs):
        raise _wrong(("share",), "not pairs", "two parameters each", "another number")
    groups = [_names(each, ("fuse",)) for each in _list(table.get("fuse", []), ("fuse",))]
    standard = table.get("standard_groups", base.standard)
    if not isinstance(standard, bool):
        raise _wrong(("standard_groups",), "not a truth value", "true or false", repr(standard))
    return Recipe(
        name=_text(table.get("name", name), ("name",)),
        assignments=(*base.assignments, *assigned),
        fuse=(*base.fuse, *groups),
        share=(*base.share, *((pair[0], pair[1]) for pair in pairs)),
        standard=standard,
        experts=base.experts,
        proposal=proposal,
    )


Place = tuple[str | int, ...]


def _assignment(value: object, where: Place) -> Assignment:
    table = _table(value, _ASSIGN, where)
    named = table.get("parameters")
    names = (named,) if isinstance(named, str) else _names(named, (*where, "parameters"))
    layers = table.get("layers")
    if layers is not None and not _are_integers(layers):
        raise _wrong((*where, "layers"), "not layers", "a list of integers", repr(layers)[:40])
    for key in ("projections", "separate"):
        if not isinstance(table.get(key, False), bool):
            raise _wrong((*where, key), "not a truth value", "true or false", repr(table[key])[:40])
    known = {"format": tuple(LAYOUT_OF), "policy": POLICIES}
    for key, values in known.items():
        if key in table and table[key] not in values:
            expected = "one of " + " ".join(values)
            raise _wrong((*where, key), f"no such {key}", expected, repr(table[key])[:40])
    for key in ("method", "source"):
        if key in table:
            _text(table[key], (*where, key))
    return Assignment(
        parameters=names,
        layers=None if layers is None else tuple(layers),
        projections=table.get("projections", False),
        **{key: table.get(key) for key in _CHOSEN},
    )


def _proposal(value: object) -> Proposal:
    table = _table(value, _PROPOSAL, ("proposal",))
    domain: Any = table.get("domain")
    ids = table.get("token_ids", [])
    if domain not in get_args(Domain):
        raise _wrong(("proposal", "domain"), "no domain", "full or indexed", repr(domain)[:40])
    if not _are_integers(ids) or (domain == "indexed") != bool(ids):
        expected = "token ids for an indexed domain, none for a full one"
        raise _wrong(("proposal", "token_ids"), "not the rows of the domain", expected, len(ids))
    format_ = table.get("format", Proposal(domain="full").format)
    if format_ not in LAYOUT_OF:
        expected = "one of " + " ".join(LAYOUT_OF)
        raise _wrong(("proposal", "format"), "no such format", expected, repr(format_)[:40])
    return Proposal(domain=domain, token_ids=tuple(ids), format=format_)


def _are_integers(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _table(value: object, members: set[str], where: Place) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "not a table", "a table", type(value).__name__)
    unknown = value.keys() - members
    if unknown:
        expected = "of " + " ".join(sorted(members))
        raise _wrong(where, "unknown members", expected, " ".join(sorted(map(str, unknown)))[:80])
    return value


def _list(value: object, where: Place) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, "not a list", "a list", type(value).__name__)
    return value


def _names(value: object, where: Place) -> tuple[str, ...]:
    found = _list(value, where)
    if not found:
        raise _wrong(where, "no names", "at least one name", "none")
    return tuple(_text(each, where) for each in found)


def _text(value: object, where: Place) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(where, "not text", "text", repr(value)[:40])
    return value


def _wrong(where: Place, detail: str, expected: str, found: object) -> InvalidInput:
    return InvalidInput(
        f"the recipe: {detail}", code="recipe", where=where, expected=expected, found=found
    )
