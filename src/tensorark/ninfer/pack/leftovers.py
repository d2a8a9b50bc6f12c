"""What a checkpoint holds and an artifact does not take: a bias of a layer that knows none, say.

Without it the model computes something else, so it is no matter of taste: it is refused, or named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tensorark.formats.ninfer.architecture import Parameter
from tensorark.ninfer.pack.checkpoint import Checkpoint
from tensorark.ninfer.pack.recipe import BASE

_OF_COMPONENT = {"mtp": "mtp.", "vision": "model.visual."}
"""Where the tensors begin of components that are converted only when they are chosen."""

_BESIDE_WEIGHTS = (
    "weight_packed",
    "weight_scale",
    "weight_scale_2",
    "weight_global_scale",
    "weight_shape",
    "input_global_scale",
    "input_scale",
)
"""What compressed-tensors and ModelOpt put beside a quantized weight."""


def find_untaken(
    checkpoints: Mapping[str, Checkpoint],
    parameters: Collection[Parameter],
    components: Collection[str],
) -> list[str]:
    """Return the tensors that no parameter of the chosen components is made of, in order.

    Of `base` and of draft models: from other checkpoints a recipe takes what it names.
    """
    known = {*_known(parameters)}
    others = tuple(
        prefix for component, prefix in _OF_COMPONENT.items() if component not in components
    )
    return [
        name
        for called, checkpoint in checkpoints.items()
        if called == BASE or (called in components and called not in _OF_COMPONENT)
        for name in checkpoint.file
        if name not in known and not name.startswith(others)
    ]


def count_unchosen(checkpoint: Checkpoint, components: Collection[str]) -> dict[str, int]:
    """Return the components that a checkpoint has and nobody chose, with their tensors."""
    found = {
        component: sum(name.startswith(prefix) for name in checkpoint.file)
        for component, prefix in _OF_COMPONENT.items()
        if component not in components
    }
    return {component: count for component, count in found.items() if count}


def _known(parameters: Collection[Parameter]) -> Iterator[str]:
    for parameter in parameters:
        source = parameter.source
        for name in () if source is None else (source.tensor, source.alone):
            if name is not None:
                yield name
                stem = name.removesuffix(".weight")
                yield from (f"{stem}.{each}" for each in _BESIDE_WEIGHTS)
