"""A checkpoint converted into an artifact: recipe, plan and files in one call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.progress import Progress
from tensorark.errors import ReadFailed
from tensorark.files import PathLike
from tensorark.io.inputs import operation
from tensorark.ninfer.pack.artifact import plan_artifact, write_artifact
from tensorark.ninfer.pack.checkpoint import open_checkpoints
from tensorark.ninfer.pack.presets import PRESETS
from tensorark.ninfer.pack.recipe import BASE, Recipe, read_recipe
from tensorark.writing.artifact import plan_set
from tensorark.writing.assembly import require_suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What converting a checkpoint gave: its files, none when nothing was written, and the plan.

    `dropped` are tensors of the checkpoint that became no parameter, `unchosen` the components that
    it has and nobody chose, with the number of their tensors.
    """

    __repr__ = brief

    files: tuple[str, ...]
    recipe: str
    objects: tuple[Mapping[str, Any], ...]
    payload_bytes: int
    dropped: tuple[Loss, ...] = ()
    unchosen: Mapping[str, int] = field(default_factory=dict)


@operation()
def convert_checkpoint(
    folder: PathLike,
    target: PathLike,
    recipe: Recipe | PathLike,
    *,
    components: Sequence[str] = ("text",),
    sources: Mapping[str, PathLike] | None = None,
    resources: Mapping[str, PathLike] | None = None,
    name: str | None = None,
    artifact_id: bytes | None = None,
    max_file_bytes: int | None = None,
    drop: Collection[str] = (),
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda _done: None,
) -> Converted:
    """Write the checkpoint in `folder` as the artifact `target`, by a recipe.

    `recipe` is a recipe, the name of a preset or a file. `sources` are further checkpoints by name:
    ``dflash``, ``dflash2`` and ``mtp`` for those components, others as the recipe names them.
    `resources` are files by role that take the place of those in the folder. Tensors that become no
    parameter are refused, unless `drop` has ``tensors``. With `dry_run` all is decided and nothing
    is written.

    Raises:
        Unsupported: when a checkpoint is of another architecture, quantized in unknown ways, or has
            tensors that would be lost.
        InvalidInput: when config, recipe, resources or values do not fit, the target exists, or its
            suffix is that of another format.
        NotFound: when a tensor is missing, or a pattern of the recipe matches nothing.
        ReadFailed: when something cannot be read or written.
    """
    chosen = recipe_of(recipe)
    with open_checkpoints({BASE: folder, **(sources or {})}) as checkpoints:
        require_suffix(target, ".ninfer")
        made = plan_artifact(
            checkpoints, chosen, components=components, resources=resources, name=name, drop=drop
        )
        files: list[str] = []
        if dry_run and max_file_bytes is not None:  # the limit may leave no room
            plan_set(
                made.directory, made.payload_bytes, Path(target), max_file_bytes=max_file_bytes
            )
        if not dry_run:
            files = write_artifact(
                made,
                target,
                artifact_id=artifact_id,
                max_file_bytes=max_file_bytes,
                overwrite=overwrite,
                progress=progress,
            )
        return Converted(
            files=tuple(files),
            recipe=chosen.name,
            objects=tuple(made.table()),
            payload_bytes=made.payload_bytes,
            dropped=made.dropped,
            unchosen=made.unchosen,
        )


def recipe_of(recipe: Recipe | PathLike) -> Recipe:
    """Return a recipe: itself, one of the presets by name, or that of a file.

    Raises:
        InvalidInput: when a file holds none.
        ReadFailed: when there is neither a preset nor a file of that name.
    """
    if isinstance(recipe, Recipe):
        return recipe
    if str(recipe) in PRESETS:
        return PRESETS[str(recipe)]
    try:
        return read_recipe(recipe, PRESETS)
    except ReadFailed as error:
        error.hint = "presets are " + " ".join(PRESETS)
        raise
