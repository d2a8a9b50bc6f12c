"""Writing any model as Tensorbit: a container, a directory with its manifest, a blob."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tensorark.core.model import Catalog, Tensor
from tensorark.core.writing import Copy, Goal, Next, Options, Output, Outputs, Skip, Writing
from tensorark.errors import InvalidInput, Unsupported
from tensorark.formats.tensorbit import plan as planning
from tensorark.formats.tensorbit.plan import BlobPlan
from tensorark.formats.tensorbit.read import MANIFEST, METADATA
from tensorark.layouts.nm.rules import KEY, members
from tensorark.wire.attributes import to_text

_OWN: Final = r"manifest\.json|.*\.tb"
"""What a directory that Tensorbit made may hold."""


def write_container(catalog: Catalog, options: Options, goal: Goal) -> Writing:
    """Write a model as one `.tbm`; each blob begins at a multiple of `options.align`, if given."""
    tensors, facts = contents(catalog)
    align = options.align or 1
    if align < 1:
        raise InvalidInput("an alignment is at least 1", code="align", found=align)
    planned = planning.plan_container(tensors, facts, align=align)
    yield Outputs((Output(goal.name),), goal.name)
    end = 0
    for blob in planned.blobs:
        yield Skip(blob.offset - end)
        yield from _write_blob(blob)
        end = blob.offset + blob.size
    yield planned.tail


def write_blob(catalog: Catalog, _options: Options, goal: Goal) -> Writing:
    """Write the only tensor of a model as a `.tb`, which keeps neither its shape nor attributes."""
    tensors, _ = contents(catalog)
    if len(tensors) != 1:
        raise Unsupported(
            f"a .tb holds one tensor, this model has {len(tensors)}",
            code="refused",
            hint="write a .tbm, or a directory",
        )
    blob = planning.plan_blob(tensors[0])
    yield Outputs((Output(goal.name),), goal.name)
    yield from _write_blob(blob)


def write_directory(catalog: Catalog, _options: Options, _goal: Goal) -> Writing:
    """Write a model as a directory: a `.tb` for each tensor, and ``manifest.json``."""
    planned = planning.plan_directory(*contents(catalog))
    files = [Output(blob.file or "", judged=False) for blob in planned.blobs]
    yield Outputs((*files, Output(MANIFEST)), MANIFEST, kind="folder", owns=_OWN)
    for blob in planned.blobs:
        yield from _write_blob(blob)
        yield Next()
    yield planned.tail


def _write_blob(blob: BlobPlan) -> Writing:
    yield blob.header
    for role in blob.roles:
        yield Copy(blob.tensor.parts[role], ("objects", blob.tensor.name, "parts", role))


def contents(catalog: Catalog) -> tuple[list[Tensor], Mapping[str, object]]:
    """Return tensors in the order to write them, and what the model says of itself.

    Attributes that are not Tensorbit's become text in a member of ours.
    """
    facts = dict(members(catalog.attributes))
    own = catalog.tensor_attributes
    tensors = [
        replace(tensor, attributes=own.get(tensor.name))
        for tensor in planning.restore_order(catalog.tensors, facts)
    ]
    others = {key: value for key, value in (catalog.attributes or {}).items() if key != KEY}
    foreign = {
        tensor.name: kept
        for tensor in tensors
        if (kept := {k: v for k, v in (tensor.attributes or {}).items() if k != KEY})
    }
    text = to_text(others or None, foreign)
    if text is not None:
        extra = facts.get("extra")
        facts["extra"] = {**(extra if isinstance(extra, Mapping) else {}), METADATA: text}
    return tensors, facts


def refusals(catalog: Catalog, _options: Options) -> Iterator[tuple[str, str]]:
    """Yield the name of every tensor that Tensorbit cannot hold, and why."""
    return planning.refusals(contents(catalog)[0])


def keeps(catalog: Catalog, stem: str, kind: str, name: str) -> bool:
    """Tell what a `.tb` keeps: the name that its file has, one dimension, and a pattern."""
    if kind == "names":
        return name == stem
    if kind == "shapes":
        tensor = catalog.tensors[name]
        return tensor.shape == (tensor.elements,)
    if kind != "tensor-attributes":
        return False
    tensor_name, _, key = name.rpartition(": ")
    facts = catalog.tensor_attributes.get(tensor_name, {}).get(KEY)
    return key == KEY and isinstance(facts, Mapping) and facts.keys() <= {"n", "m"}
