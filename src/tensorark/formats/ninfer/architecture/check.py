"""Whether an artifact is what its architecture calls for: the binder's checks, without payload.

Judges what the generic reader leaves to others (§11.3): configs, relations of components, shapes
and coverage of parameters, uses with their policies and auxiliary inputs. Whether a native
operation can run it is not asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from tensorark.core.rules import Fault, Finding, Reading, Rule, rule
from tensorark.errors import Rejected, Unsupported, quoted
from tensorark.formats.ninfer.architecture import model, text
from tensorark.formats.ninfer.architecture.fields import Fields
from tensorark.formats.ninfer.architecture.parameter import Parameter
from tensorark.formats.ninfer.directory import Binding, Directory, StoredTensor, Use
from tensorark.formats.ninfer.schema import show
from tensorark.formats.ninfer.uses import COLUMNS, DIVISOR, SIGNS, USE_RULES, auxiliaries

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Model:
    """A directory, and what its components call for; configs were found to be in order."""

    directory: Directory

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters that are called for, by name."""
        components = self.directory.components
        configs = {name: each.config for name, each in components.items()}
        proposal = components["text"].proposal if "text" in components else None
        return model.parameters(configs, proposal)

    @cached_property
    def bindings(self) -> Mapping[str, Binding]:
        """The bindings of parameters that are called for."""
        bindings = self.directory.bindings
        return {name: bindings[name] for name in self.parameters if name in bindings}

    @cached_property
    def uses(self) -> Sequence[Use]:
        """The uses, in order."""
        return tuple(self.directory.uses)

    def objects(self, binding: Binding) -> Iterator[StoredTensor]:
        """Yield the objects that a binding is made of."""
        for each in binding.ranges:
            found = self.directory.object(each.object)
            if isinstance(found, StoredTensor):
                yield found


# --------------------------------------------------------------------------------------- components


@rule("ninfer.arch-component", section="4.2", stage="architecture")
def arch_component(directory: Directory) -> Iterator[Fault]:
    """A component is one we know; a text model is there, unless there is an n-gram table alone."""
    components = directory.components
    for name in components:
        if name not in model.COMPONENTS:
            detail = f"the component {quoted(name)} is unknown"
            yield Fault(("components", name), detail, " ".join(model.COMPONENTS), quoted(name))
    if model.TEXT not in components and set(components) != {model.NGRAM}:
        detail = "there is no text model"
        yield Fault(("components",), detail, "the component text", ", ".join(components))


@rule("ninfer.arch-target", section="4.2", stage="architecture")
def arch_target(directory: Directory) -> Iterator[Fault]:
    """The target of every component but `text` is `text`; `text` and a lone table have none."""
    components = directory.components
    if model.TEXT not in components:
        return  # another rule's matter
    for name, each in components.items():
        alone = name in {model.TEXT, model.NGRAM}
        if each.target != model.TEXT and not (alone and each.target is None):
            where = ("components", name, "target")
            detail = f"{quoted(name)} has another target"
            yield Fault(where, detail, model.TEXT, each.target or "nothing")
        elif name == model.TEXT and each.target is not None:
            where = ("components", name, "target")
            yield Fault(where, "the text model has a target", "nothing", each.target)


@rule("ninfer.arch-config", section="4.2", stage="architecture")
def arch_config(directory: Directory) -> Iterator[Fault]:
    """The config of a component states the geometry of its architecture."""
    configs = {name: each.config for name, each in directory.components.items()}
    for name, each in model.problems(configs):
        where: Place = ("components", name, "config", *each.place)
        found: object = configs[name]
        for key in each.place:
            found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        words = "nothing" if found is _ABSENT else show(found)
        yield Fault(where, f"{'.'.join(each.place)}: {each.detail}", each.expected, words)


_ABSENT: Final = object()


COMPONENT_RULES: Final[tuple[Rule[Directory], ...]] = (arch_component, arch_target)
CONFIG_RULES: Final[tuple[Rule[Directory], ...]] = (arch_config,)


# --------------------------------------------------------------------------------------- parameters


@rule("ninfer.arch-parameter", section="7.1", stage="architecture")
def arch_parameter(doc: Model) -> Iterator[Fault]:
    """Every parameter that the components call for is bound."""
    for name in doc.parameters:
        if name not in doc.bindings:
            yield Fault(("bindings",), f"{quoted(name)} is not bound", "a binding", "nothing")


@rule("ninfer.arch-name", section="7.1", stage="architecture")
def arch_name(doc: Model) -> Iterator[Fault]:
    """Nothing else is bound: the architecture defines the names."""
    for name in doc.directory.bindings:
        if name not in doc.parameters:
            detail = f"{quoted(name)} is no parameter of the components"
            yield Fault(("bindings", name), detail, "a name the architecture defines", quoted(name))


@rule("ninfer.arch-shape", section="7.1", stage="architecture")
def arch_shape(doc: Model) -> Iterator[Fault]:
    """A whole object that is bound has the shape of the parameter."""
    for name, binding in doc.bindings.items():
        if not binding.whole:
            continue
        shape = doc.parameters[name].shape
        for stored in doc.objects(binding):
            if stored.shape != shape:
                where = ("bindings", name, "object")
                detail = f"{quoted(stored.id)} has another shape than {quoted(name)}"
                yield Fault(where, detail, list(shape), list(stored.shape))


@rule("ninfer.arch-coverage", section="7.1", stage="architecture")
def arch_coverage(doc: Model) -> Iterator[Fault]:
    """The parts that are bound have as many elements as the parameter."""
    for name, binding in doc.bindings.items():
        expected = doc.parameters[name].elements
        if not binding.whole and binding.elements != expected:
            detail = f"the parts do not cover {quoted(name)}"
            yield Fault(("bindings", name), detail, f"{expected} elements", binding.elements)


@rule("ninfer.arch-words", section="7.1", stage="architecture")
def arch_words(doc: Model) -> Iterator[Fault]:
    """What has words of its own is stored in them: fp32 controls, int32 ids, the n-gram table."""
    for name, binding in doc.bindings.items():
        words = doc.parameters[name].words
        for stored in doc.objects(binding) if words else ():
            if stored.format != words:
                detail = f"{quoted(name)} is stored in other words"
                yield Fault(("bindings", name), detail, words, quoted(stored.format))


@rule("ninfer.arch-parent", section="5.3", stage="architecture")
def arch_parent(doc: Model) -> Iterator[Fault]:
    """No object holds what is private to two components, so that each can be left out."""
    owned: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for name, binding in doc.bindings.items():
        for each in binding.ranges:
            owned[each.object][doc.parameters[name].component].append((each.begin, each.end))
    for object_, ranges in owned.items():
        private = [name for name in ranges if _has_private(ranges, name)] if len(ranges) > 1 else []
        if len(private) > 1:
            where = ("objects", doc.directory.rows[object_])
            detail = f"{quoted(object_)} holds private data of several components"
            yield Fault(where, detail, "one component", ", ".join(private))


def _has_private(ranges: Mapping[str, list[tuple[int, int]]], name: str) -> bool:
    """Tell whether a component has elements of an object to itself."""
    others = sorted(each for other, found in ranges.items() if other != name for each in found)
    for begin, end in ranges[name]:
        reached = begin
        for first, last in others:
            if first > reached:
                break
            reached = max(reached, last)
        if reached < end:
            return True
    return False


# --------------------------------------------------------------------------------------------- uses


@rule("ninfer.arch-use", section="8", stage="architecture")
def arch_use(doc: Model) -> Iterator[Fault]:
    """Every place where a projection takes its input has a use."""
    found = {(each.parameter, each.input) for each in doc.uses}
    shared = model.HEAD in doc.parameters
    for name, parameter in doc.parameters.items():
        for each in parameter.inputs:
            # Where there is a proposal head, proposals need not go through that of the text model.
            if shared and name == "text/output_head" and each != "text/final_hidden":
                continue
            if (name, each) not in found:
                detail = f"{quoted(name)} has no use at {quoted(each)}"
                yield Fault(("uses",), detail, "a use", "nothing")


@rule("ninfer.arch-input", section="8", stage="architecture")
def arch_input(doc: Model) -> Iterator[Fault]:
    """A use names a place where the architecture takes the parameter."""
    for index, each in enumerate(doc.uses):
        parameter = doc.parameters.get(each.parameter)
        if parameter is None:
            continue  # not bound by the architecture: another rule's matter
        known = set(parameter.inputs)
        if each.parameter in {"text/output_head", model.HEAD}:
            known |= {f"{name}/final_hidden" for name in model.SPECULATIVE}
        if each.input not in known:
            detail = f"{quoted(each.parameter)} is not taken at {quoted(each.input)}"
            expected = " or ".join(sorted(known)) or "no use"
            yield Fault(("uses", index, "input"), detail, expected, quoted(each.input))


@rule("ninfer.arch-policy", section="8", stage="architecture")
def arch_policy(doc: Model) -> Iterator[Fault]:
    """The use of a projection states its policy."""
    for index, each in enumerate(doc.uses):
        parameter = doc.parameters.get(each.parameter)
        if parameter is not None and parameter.inputs and each.activation_policy is None:
            detail = f"the use of {quoted(each.parameter)} has no policy"
            yield Fault(("uses", index), detail, "A16Only, AllowA8 or AllowA4", "nothing")


@rule("ninfer.arch-auxiliary", section="8", stage="architecture")
def arch_auxiliary(doc: Model) -> Iterator[Fault]:
    """An auxiliary input has a role that is known."""
    for index, each in enumerate(doc.uses):
        for role in each.auxiliaries:
            if role not in _ROLES:
                where = ("uses", index, "auxiliaries", role)
                detail = f"the role {quoted(role)} is unknown"
                yield Fault(where, detail, " ".join(_ROLES), quoted(role))


_ROLES: Final = (DIVISOR, SIGNS, COLUMNS)


PARAMETER_RULES: Final[tuple[Rule[Model], ...]] = (
    arch_parameter,
    arch_name,
    arch_shape,
    arch_coverage,
    arch_words,
    arch_parent,
    arch_use,
    arch_input,
    arch_policy,
    arch_auxiliary,
)


def check(directory: Directory) -> list[Finding]:
    """Return what keeps an artifact from being what its architecture calls for; empty if nothing.

    Raises:
        Unsupported: when its architecture is one we do not know (code ``unknown-architecture``).
        LimitExceeded: when its components call for millions of parameters.
    """
    _require_known(directory)
    gathered: list[Finding] = []
    reading = Reading(gathered=gathered)
    try:
        reading.require(COMPONENT_RULES, directory, directory.offset_of)
        reading.require(CONFIG_RULES, directory, directory.offset_of)
        reading.require(PARAMETER_RULES, Model(directory), directory.offset_of)
        for each in auxiliaries(directory):
            reading.require(USE_RULES, each, directory.offset_of)
    except Rejected:
        pass  # gathered
    return gathered


def _require_known(directory: Directory) -> None:
    component = directory.components.get(model.TEXT)
    if component is None:
        return
    found = Fields(component.config).architecture()
    if found and found not in text.ARCHITECTURES:
        raise Unsupported(
            "the architecture is unknown, so nothing is known of its parameters",
            code="unknown-architecture",
            section="4.2",
            where=("components", model.TEXT, "config", "architectures"),
            expected=" or ".join(text.ARCHITECTURES),
            found=quoted(found),
        )
