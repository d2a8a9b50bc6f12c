"""Pruning on purpose: of each M weights the N largest stay, with a report of what that took away.

Nothing else in the library changes weights to zero. Which tensors are pruned, and how, is chosen by
patterns of names; what is not pruned is kept bit for bit and listed with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.config import left_beside
from tensorark.conversion.ledger import settle
from tensorark.conversion.pipeline import target_of
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.matching import near, require_matches
from tensorark.core.model import Tensor
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.edit.prune.choice import Given, choose
from tensorark.edit.prune.report import Pruned
from tensorark.edit.prune.weights import Pruner
from tensorark.errors import InvalidInput, NotFound, quoted
from tensorark.files import File, PathLike
from tensorark.files.derived import derive_file
from tensorark.files.view import TensorView
from tensorark.io.inputs import operation
from tensorark.layouts.nm.rules import Pattern, parse_pattern

Recipe = Literal["magnitude", "tensorbit"]
"""`magnitude` keeps the N largest of each group. `tensorbit` first sets the smaller half of the
whole tensor to zero, as the public pruning tool does, so more than (M - N) / M end as zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What pruning did: the files written, the tensors pruned, those left dense and why.

    `dropped` is what the target does not keep, `beside` the configurations that lie beside the
    model and are not carried.
    After a dry run there are no files, and nothing was read of which zeros or errors would tell.
    """

    __repr__ = brief

    source: str
    target_format: str
    files: tuple[str, ...]
    pruned: tuple[Pruned, ...]
    dense: Mapping[str, str]
    dense_elements: int
    dropped: tuple[Loss, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def total(self) -> Pruned:
        """The account of all pruned tensors together."""
        total = Pruned("", "", 0)
        for each in self.pruned:
            total.join(each)
        return total


@operation()
def prune(
    source: PathLike,
    target: PathLike,
    *,
    pattern: str = "2:4",
    choices: Sequence[tuple[str, str]] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    recipe: Recipe = "magnitude",
    scores: PathLike | None = None,
    masks: PathLike | None = None,
    axis: int = -1,
    format: str | None = None,  # noqa: A002 - the word users know
    drop: Collection[str] = (),
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda _done: None,
) -> Pruning:
    """Prune the model at `source` into `target`: N of each M weights along `axis` are kept.

    Matrices of floats are pruned to `pattern`, except norms, embeddings, heads and routers. Names
    are matched by shell patterns, exactly as spelled: `exclude` keeps tensors dense, `include`
    prunes tensors that would stay dense, `choices` gives pairs of a name pattern and an ``N:M`` or
    ``dense``, of which the first that matches decides. Tensors of `include` are cut into flat
    groups where their rows hold no whole ones.

    `scores` and `masks` are models whose tensors have names and shapes of `source`: of each group
    those weights stay that have the largest scores, or whose value in the mask is not zero. Tensors
    for which neither is given stay dense then.

    A `.zt` or Tensorbit target gets masks, any other, and any along another axis than the last,
    the zeros alone. What the target does not keep is refused unless `drop` names its kind
    (`conversion.ledger`), such as ``tensors`` for those that it cannot hold. With `dry_run` nothing
    is read but names, and nothing is written.

    Raises:
        InvalidInput: when a pattern is none, source and target are one file, or scores or masks
            do not fit.
        NotFound: when a pattern matches no tensor, or what is given is of no tensor of the model.
        Unsupported: when the target cannot hold something.
    """
    kind = target_of(target, format)
    default = parse_pattern(pattern)
    chosen = [(glob, None if text == "dense" else parse_pattern(text)) for glob, text in choices]
    if recipe not in ("magnitude", "tensorbit"):
        expected = "magnitude or tensorbit"
        raise InvalidInput("no such recipe", code="recipe", expected=expected, found=recipe)
    if sum((scores is not None, masks is not None, recipe == "tensorbit")) > 1:
        detail = "weights are chosen by scores, by masks or by a recipe"
        raise InvalidInput(detail, code="option", expected="one of them")
    with ExitStack() as opened:
        file = opened.enter_context(files.open(source))
        if kind.holds_resources:
            file = as_zt_model(file)
        given = Given(*(_open_given(opened, each, file) for each in (scores, masks)))
        require_matches([*(glob for glob, _ in choices), *include, *exclude], file)
        pruners: list[Pruner] = []
        dense: dict[str, str] = {}
        tensors: dict[str, Tensor] = {}
        for name, tensor in file.catalog.tensors.items():
            found = choose(
                tensor,
                default,
                choices=chosen,
                include=include,
                exclude=exclude,
                axis=axis,
                given=given if scores is not None or masks is not None else None,
            )
            if isinstance(found, str):
                dense[name] = found
                tensors[name] = tensor
                continue
            pruner = _pruner(file, tensor, found, axis, recipe, given)
            pruners.append(pruner)
            tensors[name] = pruner.prune(masked=kind.holds_masks)
        options = Options(overwrite=overwrite, drop=frozenset(drop), progress=progress)
        settled = settle(derive_file(file, tensors), kind, Path(target), options)
        if dry_run:
            settled.require()
        written = () if dry_run else tuple(settled.write())
        held = settled.file.catalog.tensors
        dense = {name: reason for name, reason in dense.items() if name in held}
        return Pruning(
            source=file.path,
            target_format=kind.name,
            files=written,
            pruned=tuple(each.report for each in pruners if each.report.name in held),
            dense=dense,
            dropped=settled.dropped,
            beside=left_beside(file.path, Path(target)),
            dense_elements=sum(file.catalog.tensors[name].elements for name in dense),
        )


def _open_given(opened: ExitStack, path: PathLike | None, model: File) -> Mapping[str, TensorView]:
    """Open scores or masks, each of a tensor of the model and of its shape."""
    if path is None:
        return {}
    file = opened.enter_context(files.open(path))
    for name, view in file.items():
        if name not in model:
            detail = "the model has no tensor of this name"
            hint = near(name, model)
            raise NotFound(detail, code="no-tensor", path=file.path, found=quoted(name), hint=hint)
        if view.shape != model[name].shape:
            raise InvalidInput(
                f"{quoted(name)} has another shape than in the model",
                code="shape",
                path=file.path,
                expected=model[name].shape,
                found=view.shape,
            )
    return file


def _pruner(
    file: File, tensor: Tensor, pattern: Pattern, axis: int, recipe: Recipe, given: Given
) -> Pruner:
    pruner = Pruner(file, tensor, pattern, axis % len(tensor.shape))
    if recipe == "tensorbit":
        pruner.stage()
    if tensor.name in given.scores:
        pruner.take_scores(given.scores[tensor.name])
    if tensor.name in given.masks:
        pruner.take_mask(given.masks[tensor.name])
    return pruner
