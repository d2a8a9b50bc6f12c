"""What an artifact of a checkpoint will hold, before a weight is read: objects, bindings, uses.

Owns the decisions: which parameters share an object, in which format, at what size. Only the
divisors that come with quantized checkpoints are read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tensorark.errors import InvalidInput, NotFound
from tensorark.formats.ninfer.architecture import Parameter
from tensorark.formats.ninfer.architecture.model import HEAD, TOKEN_IDS
from tensorark.layouts.ninfer.geometry import LAYOUT_OF, NVFP4, geometry, misfit
from tensorark.ninfer.pack.checkpoint import Checkpoint, Rows, rows_of
from tensorark.ninfer.pack.packing import Group, expand, pack, standard_groups
from tensorark.ninfer.pack.recipe import BASE, IMPORT, Choice, Recipe, choose

DEFAULT_POLICY: Final = "A16Only"


@dataclass(frozen=True, slots=True)
class Member:
    """A parameter inside a parent: its rows in a checkpoint, or `ids`, which the recipe gave."""

    parameter: Parameter
    rows: Rows | None
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A tensor object to be made: its members follow each other along the first axis."""

    id: str
    members: tuple[Member, ...]
    shape: tuple[int, ...]
    format: str
    method: str
    divisors: int = 1

    @property
    def layout(self) -> str:
        """Layout of the format."""
        return LAYOUT_OF[self.format]

    @property
    def nbytes(self) -> int:
        """Encoded size."""
        return geometry(self.format, self.layout, self.shape, self.divisors).nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The objects of an artifact and what refers to them; `bindings` and `uses` are records.

    `divisors` are the scalars that go with uses, by object: an fp32 divisor of an input each.
    """

    parents: tuple[Parent, ...]
    divisors: Mapping[str, float]
    bindings: Mapping[str, Any]
    uses: Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class _Facts:
    """The parameters of an artifact, and what was found out about each."""

    parameters: Mapping[str, Parameter]
    recipe: Recipe
    choices: dict[str, Choice] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    """Parameters that have the binding of another one."""


def draft_of(
    parameters: Mapping[str, Parameter],
    recipe: Recipe,
    checkpoints: Mapping[str, Checkpoint],
) -> Draft:
    """Decide what becomes of each parameter.

    Raises:
        NotFound: when a tensor or a named source is missing.
        InvalidInput: when the recipe asks for what cannot be, naming the parameter.
        Unsupported: when a checkpoint is quantized in a way that is not known.
    """
    facts = _Facts(parameters, recipe)
    for name, parameter in parameters.items():
        facts.choices[name] = _choice(recipe, parameter)
        facts.members[name] = _member(facts, checkpoints, parameter)
    _share(facts)
    own = [name for name in parameters if name not in facts.shared]
    parents = _parents(facts, own)
    return _bind(facts, parents)


def _choice(recipe: Recipe, parameter: Parameter) -> Choice:
    if parameter.name == HEAD and recipe.proposal is not None:
        return Choice(format=recipe.proposal.format)
    return choose(recipe, parameter)


def _member(facts: _Facts, checkpoints: Mapping[str, Checkpoint], parameter: Parameter) -> Member:
    choice, proposal = facts.choices[parameter.name], facts.recipe.proposal
    if parameter.name == TOKEN_IDS and proposal is not None:
        return Member(parameter, None, proposal.token_ids)
    source = choice.source
    if source == BASE:  # a component with a checkpoint of its own comes from that
        source = parameter.component if parameter.component in checkpoints else BASE
    if source not in checkpoints:
        raise NotFound(
            f"the recipe takes {parameter.name} from a checkpoint that is not given",
            code="no-source",
            where=(parameter.name,),
            expected=source,
            found=" ".join(checkpoints),
        )
    if parameter.name == HEAD and proposal is not None and proposal.token_ids:
        parameter = _select(parameter, proposal.token_ids)
    found = rows_of(checkpoints[source], _reroot(parameter, checkpoints, source))
    if choice.method == IMPORT and found.encoding != choice.format:
        raise InvalidInput(
            f"the checkpoint does not hold {parameter.name} as {choice.format}",
            code="import-encoding",
            where=(parameter.name,),
            expected=choice.format,
            found=found.dtype,
        )
    return Member(parameter, found)


def _select(parameter: Parameter, ids: tuple[int, ...]) -> Parameter:
    """Return a proposal head as the rows of some tokens, in their order."""
    source = parameter.source
    if source is None:
        return parameter
    return replace(parameter, source=replace(source, rows=tuple((each, each + 1) for each in ids)))


def _reroot(parameter: Parameter, checkpoints: Mapping[str, Checkpoint], source: str) -> Parameter:
    """Return a parameter of the text model with the names that another checkpoint gives it."""
    old, new = checkpoints[BASE].text_root, checkpoints[source].text_root
    found = parameter.source
    if source == BASE or old == new or found is None or not found.tensor.startswith(old):
        return parameter
    alone = None if found.alone is None else new + found.alone.removeprefix(old)
    moved = replace(found, tensor=new + found.tensor.removeprefix(old), alone=alone)
    return replace(parameter, source=moved)


# ------------------------------------------------------------------------------------------ sharing


def _share(facts: _Facts) -> None:
    """Give tied and shared parameters one binding, where they come out as the same bytes."""
    names = list(facts.parameters)
    head, table = "text/output_head", "text/token_embedding"
    if head in facts.parameters and _same(facts, head, table):
        facts.shared[head] = table
    for pair in facts.recipe.share:
        component = pair[0].partition("/")[0]
        if not any(name.startswith(component + "/") for name in names):
            continue  # a component that is not converted
        for second, first in expand(pair, names):
            if not _same(facts, second, first):
                raise InvalidInput(
                    f"{second} and {first} cannot be shared: they are not the same weights",
                    code="recipe",
                    where=(second,),
                )
            facts.shared[second] = first


def _same(facts: _Facts, second: str, first: str) -> bool:
    """Tell whether two parameters are the same weights in the same format."""
    one, other = facts.members[first], facts.members[second]
    if one.rows is None or other.rows is None:
        return False
    a, b = facts.choices[first], facts.choices[second]
    return (
        (one.rows.checkpoint.folder, one.rows.name, one.rows.runs)
        == (other.rows.checkpoint.folder, other.rows.name, other.rows.runs)
        and (a.format, a.method) == (b.format, b.method)
        and one.parameter.shape == other.parameter.shape
    )


# ------------------------------------------------------------------------------------------ parents


def _parents(facts: _Facts, names: list[str]) -> list[Parent]:
    def groups() -> Iterator[Group]:
        for group in facts.recipe.fuse:
            for each in expand(group, names):
                reason = _misfits(facts, each)
                if reason is not None:
                    raise InvalidInput(
                        f"the recipe fuses what does not fit together: {reason}",
                        code="recipe",
                        where=(each[0],),
                        found=" ".join(each[:4]),
                    )
                yield each
        if facts.recipe.standard:
            yield from standard_groups(names)

    def fits(group: Group) -> bool:
        explicit = group in fused
        apart = any(facts.choices[each].separate for each in group)
        return explicit or (not apart and _misfits(facts, group, strict=True) is None)

    fused = {each for group in facts.recipe.fuse for each in expand(group, names)}
    packed = pack(names, groups(), fits)
    return [_parent(facts, index, group) for index, group in enumerate(packed)]


def _misfits(facts: _Facts, group: Group, *, strict: bool = False) -> str | None:
    """Say why parameters cannot share a parent; `strict` asks for the same nvfp4 divisor too."""
    first = group[0]
    for name in group:
        a, b = facts.choices[first], facts.choices[name]
        if (a.format, a.method) != (b.format, b.method):
            return f"{name} has another format or method than {first}"
        if facts.parameters[name].component != facts.parameters[first].component:
            return f"{name} belongs to another component than {first}"
        if facts.parameters[name].shape[1:] != facts.parameters[first].shape[1:]:
            return f"{name} has other columns than {first}"
        if name == TOKEN_IDS:
            return f"{name} is stored alone"
    if facts.choices[first].method == IMPORT and facts.choices[first].format == NVFP4:
        divisors = {_divisor(facts, name) for name in group}
        rows = {facts.parameters[name].shape[0] for name in group}
        if len(divisors) > 1 and strict:
            return "the divisors differ"
        if len(divisors) > 1 and len(rows) > 1:
            return "the divisors differ, and so do the numbers of rows"
    return None


def _divisor(facts: _Facts, name: str) -> bytes:
    rows = facts.members[name].rows
    return b"" if rows is None else rows.divisor.tobytes()


def _parent(facts: _Facts, index: int, group: Group) -> Parent:
    from tensorark.layouts.ninfer.make import method_of

    members = tuple(facts.members[name] for name in group)
    choice, shape = facts.choices[group[0]], members[0].parameter.shape
    if len(group) > 1:
        shape = (sum(each.parameter.shape[0] for each in members), *shape[1:])
    divisors = 1
    if choice.method == IMPORT and choice.format == NVFP4:
        different = {_divisor(facts, name) for name in group}
        divisors = len(group) if len(different) > 1 else 1
    reason = misfit(choice.format, LAYOUT_OF[choice.format], shape, divisors)
    if reason is not None:
        raise InvalidInput(
            f"{group[0]} cannot be stored as {choice.format}: {reason}",
            code="recipe-format",
            section="6.2",
            where=(group[0],),
            found=list(shape),
        )
    method = IMPORT if choice.method == IMPORT else method_of(choice.format, choice.method)
    return Parent(
        id=f"weight/{index:06}",
        members=members,
        shape=shape,
        format=choice.format,
        method=method,
        divisors=divisors,
    )


# ----------------------------------------------------------------------------------------- bindings


def _bind(facts: _Facts, parents: list[Parent]) -> Draft:
    held: dict[str, dict[str, Any]] = {}
    for parent in parents:
        begin = 0
        for member in parent.members:
            end = begin + member.parameter.elements
            if len(parent.members) == 1:
                held[member.parameter.name] = {"object": parent.id}
            else:
                part = {"object": parent.id, "range": [begin, end]}
                held[member.parameter.name] = {"parts": [part]}
            begin = end
    bindings = {name: held[facts.shared.get(name, name)] for name in facts.parameters}
    uses, divisors = _uses(facts, parents)
    return Draft(parents=tuple(parents), divisors=divisors, bindings=bindings, uses=uses)


def _uses(facts: _Facts, parents: list[Parent]) -> tuple[list[dict[str, Any]], dict[str, float]]:
    known = _input_divisors(parents)
    divisors: dict[str, float] = {}
    uses = []
    for name, parameter in facts.parameters.items():
        for given in parameter.inputs:
            use: dict[str, Any] = {
                "parameter": name,
                "input": given,
                "activation_policy": facts.choices[name].policy or DEFAULT_POLICY,
            }
            divisor = known.get(facts.shared.get(name, name))
            if divisor is not None and use["activation_policy"] == "AllowA4":
                object_ = f"auxiliary/{len(divisors):06}"
                divisors[object_] = divisor
                use["auxiliaries"] = {"activation_input_divisor": {"object": object_}}
            uses.append(use)
    return uses, divisors


def _input_divisors(parents: list[Parent]) -> dict[str, float]:
    """Return the divisor of the input of each imported parameter: in a parent, the smallest."""
    found: dict[str, float] = {}
    for parent in parents:
        if parent.method != IMPORT or parent.format != NVFP4:
            continue
        known = [each.rows.input_divisor for each in parent.members if each.rows is not None]
        values = [float(each) for each in known if each is not None]
        if values:
            found |= {each.parameter.name: min(values) for each in parent.members}
    return found
