"""Planning and writing the artifact of a checkpoint.

Owns the directory: components, resources, objects in order, bindings, uses, and what is said of
where it all comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorark.conversion.ledger import allow, check_kinds
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.progress import Progress
from tensorark.errors import InvalidInput
from tensorark.files import PathLike
from tensorark.formats.ninfer import architecture
from tensorark.formats.ninfer.architecture.text import MOE
from tensorark.formats.ninfer.directory import Stored
from tensorark.formats.ninfer.plan import NewResource, NewTensor, object_record, payload_size, place
from tensorark.io.inputs import operation
from tensorark.layouts.ninfer.geometry import CONTIGUOUS
from tensorark.ninfer.pack.checkpoint import Checkpoint
from tensorark.ninfer.pack.config import component_configs
from tensorark.ninfer.pack.leftovers import count_unchosen, find_untaken
from tensorark.ninfer.pack.plan import Draft, Parent, draft_of
from tensorark.ninfer.pack.presets import PRESETS
from tensorark.ninfer.pack.recipe import BASE, Recipe, require_matches
from tensorark.ninfer.pack.resources import find_resources
from tensorark.ninfer.soundness import require_sound
from tensorark.writing.artifact import objects_payload, plan_set, write_set

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactPlan:
    """An artifact that was decided and measured, and not yet written.

    `resources` are bytes by object; `directory` is everything but the files table. `dropped` are
    the tensors that become no parameter, `unchosen` the components that nobody chose, with the
    number of their tensors.
    """

    __repr__ = brief

    recipe: Recipe
    parents: tuple[Parent, ...]
    resources: Mapping[str, bytes]
    divisors: Mapping[str, float]
    objects: tuple[Stored, ...]
    directory: Mapping[str, Any]
    dropped: tuple[Loss, ...] = ()
    unchosen: Mapping[str, int] = field(default_factory=dict)

    @property
    def payload_bytes(self) -> int:
        """Size of the payload."""
        return payload_size(self.objects)

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each object, in order: id, what it is for, format, shape, bytes."""
        made = {each.id: each for each in self.parents}
        rows = []
        for each in self.objects:
            parent = made.get(each.id)
            row: dict[str, Any] = {"object": each.id, "nbytes": each.nbytes}
            if parent is None:
                row |= {"format": "raw" if each.id in self.resources else "fp32"}
            else:
                row |= {
                    "parameters": [member.parameter.name for member in parent.members],
                    "format": parent.format,
                    "layout": parent.layout,
                    "method": parent.method,
                    "shape": list(parent.shape),
                    "source": sorted(
                        {member.rows.dtype for member in parent.members if member.rows is not None}
                    ),
                }
            rows.append(row)
        return rows


def plan_artifact(
    checkpoints: Mapping[str, Checkpoint],
    recipe: Recipe,
    *,
    components: Sequence[str] = ("text",),
    resources: Mapping[str, PathLike] | None = None,
    name: str | None = None,
    drop: Collection[str] = (),
) -> ArtifactPlan:
    """Decide what the artifact of opened checkpoints holds; `checkpoints` has one called `base`.

    `resources` are files by role that take the place of those in the folder of `base`.

    Raises:
        Unsupported: when a checkpoint is of another architecture, quantized in unknown ways, or has
            tensors that become no parameter, unless `drop` has ``tensors``.
        InvalidInput: when config, recipe or resources do not fit.
        NotFound: when a tensor is missing, or a pattern of the recipe matches nothing.
        ReadFailed: when a file is missing.
    """
    base = checkpoints[BASE]
    check_kinds(drop)
    _require_drafts(checkpoints, components)
    drafts = {each: checkpoints[each].config for each in components if each in checkpoints}
    configs = component_configs(base.config, components, drafts)
    _require_family(recipe, configs["text"])
    proposal = _proposal(recipe, configs["text"]["vocab_size"])
    called = architecture.parameters(configs, proposal, root=base.text_root)
    own = [each for each in recipe.assignments if each not in _PRESET]
    require_matches(own, list(called))
    draft = draft_of(called, recipe, checkpoints)
    left = [
        Loss("tensors", each) for each in find_untaken(checkpoints, called.values(), components)
    ]
    dropped = allow(left, "an artifact", str(base.folder), drop)
    found = find_resources(base.folder, configs, resources or {})
    named = {
        f"resource/{component}/{role}": data
        for component, roles in found.items()
        for role, data in roles.items()
    }
    objects = place([*_new_objects(draft, named)])
    members: dict[str, Any] = {
        "components": _components(configs, found, proposal),
        "objects": [object_record(each) for each in objects],
        "bindings": dict(draft.bindings),
        "uses": list(draft.uses),
        "metadata": {} if name is None else {"name": name},
        "provenance": {
            "recipe": recipe.name,
            "methods": sorted({each.method for each in draft.parents}),
        },
    }
    return ArtifactPlan(
        recipe=recipe,
        parents=draft.parents,
        resources=named,
        divisors=draft.divisors,
        objects=objects,
        directory=members,
        dropped=dropped,
        unchosen=count_unchosen(base, components),
    )


_PRESET: Final = frozenset(each for preset in PRESETS.values() for each in preset.assignments)
"""What presets say, which may be of components that an artifact does not have."""


def _require_drafts(checkpoints: Mapping[str, Checkpoint], components: Sequence[str]) -> None:
    if "text" not in components or len(set(components)) != len(components):
        expected = "text, and others once each"
        raise InvalidInput(
            "not the components of an artifact",
            code="component",
            expected=expected,
            found=" ".join(components),
        )
    for each in ("dflash", "dflash2"):
        if each in components and each not in checkpoints:
            raise InvalidInput(
                f"{each} has a checkpoint of its own", code="component", expected=f"{each}=FOLDER"
            )


def _require_family(recipe: Recipe, text: Mapping[str, Any]) -> None:
    experts = text["architectures"] == [MOE]
    if recipe.experts is not None and recipe.experts != experts:
        kind = "with" if recipe.experts else "without"
        raise InvalidInput(
            f"the recipe {recipe.name} is for models {kind} experts",
            code="recipe",
            found=text["architectures"][0],
        )


def _proposal(recipe: Recipe, vocabulary: int) -> dict[str, Any] | None:
    proposal = recipe.proposal
    if proposal is None:
        return None
    if proposal.domain == "full":
        return {"domain": "full"}
    ids = proposal.token_ids
    if not ids or len(set(ids)) != len(ids) or not 0 <= min(ids) <= max(ids) < vocabulary:
        raise InvalidInput(
            "the rows of the proposal head are not different tokens",
            code="recipe",
            section="9.2",
            where=("proposal", "token_ids"),
            expected=f"different ids below {vocabulary}",
        )
    return {"domain": "indexed", "rows": len(ids)}


def _new_objects(draft: Draft, resources: Mapping[str, bytes]) -> Iterator[NewTensor | NewResource]:
    for name, data in resources.items():
        yield NewResource(name, len(data))
    for parent in draft.parents:
        yield NewTensor(
            id=parent.id,
            shape=parent.shape,
            format=parent.format,
            layout=parent.layout,
            divisors=parent.divisors,
        )
    for name in draft.divisors:
        yield NewTensor(id=name, shape=(), format="fp32", layout=CONTIGUOUS)


def _components(
    configs: Mapping[str, Mapping[str, Any]],
    resources: Mapping[str, Mapping[str, bytes]],
    proposal: Mapping[str, Any] | None,
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, config in configs.items():
        record: dict[str, Any] = {"config": dict(config)}
        if name != "text":
            record["target"] = "text"
        if name in resources:
            record["resources"] = {role: f"resource/{name}/{role}" for role in resources[name]}
        if name == "text" and proposal is not None:
            record["proposal"] = dict(proposal)
        found[name] = record
    return found


@operation()
def write_artifact(
    made: ArtifactPlan,
    target: PathLike,
    *,
    artifact_id: bytes | None = None,
    max_file_bytes: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write a planned artifact, whose checkpoints are still open; return the names of its files.

    The same plan and `artifact_id` always give the same bytes.

    Raises:
        InvalidInput: for values that a format cannot hold, or when a target exists.
        ReadFailed: when something cannot be read or written.
    """
    import struct

    from tensorark.ninfer.pack.weights import encode

    parents = {each.id: each for each in made.parents}

    def data(stored: Stored) -> Iterator[Buffer]:
        if stored.id in made.resources:
            return iter((made.resources[stored.id],))
        if stored.id in made.divisors:
            return iter((struct.pack("<f", made.divisors[stored.id]),))
        return encode(parents[stored.id])

    planned = plan_set(
        made.directory,
        made.payload_bytes,
        Path(target),
        artifact_id=artifact_id,
        max_file_bytes=max_file_bytes,
        overwrite=overwrite,
    )
    require_sound(planned.directory)
    return write_set(
        planned,
        objects_payload(made.objects, data),
        Path(target),
        overwrite=overwrite,
        progress=progress,
    )
