"""Which tensors are pruned, to which pattern; and why the others stay dense."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tensorark.core.matching import matcher
from tensorark.core.model import Tensor
from tensorark.files.view import TensorView
from tensorark.layouts.nm.rules import ID, Pattern

DENSE_NAMES: Final = re.compile(
    r"(^|[._/])("
    # vectors and matrices that are read under a name of their own
    r"(\w*norm\w*|ln(_\w+)?|\w*embed\w*|\w*embd|wte|wpe|shared|rotary\w*"
    r"|lm_head(\.\w+)?|\w*head|output|embed_out|score|classifier|predictions\.decoder"
    r"|\w*router(\.\w+)?|gate|shared_expert_gate)\.(weight|bias)"
    # and parameters without a module
    r"|\w*pos(ition)?_emb\w*|\w*embed(ding)?s?|\w*(cls|class|mask|dist|register|query)_tokens?"
    r"|A_log|\w*position_bias_table|\w*bias|position_ids)$"
)
"""Names that are pruned only when `include` names them: norms, embeddings, heads, routers."""

_FLOATS: Final = frozenset({"f64", "f32", "f16", "bf16"})


class Given(NamedTuple):
    """What a caller knows better than magnitudes: scores or masks of tensors, by their names."""

    scores: Mapping[str, TensorView]
    masks: Mapping[str, TensorView]

    def has(self, name: str) -> bool:
        """Tell whether something is given for tensor `name`."""
        return name in self.scores or name in self.masks


def choose(
    tensor: Tensor,
    default: Pattern,
    *,
    choices: Sequence[tuple[str, Pattern | None]] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    axis: int = -1,
    given: Given | None = None,
) -> Pattern | str:
    """Return the pattern to which `tensor` is pruned, or the reason why it stays dense."""
    name = tensor.name
    reason = _unfit(tensor)
    if reason is not None:
        return reason
    pattern = next((found for glob, found in choices if matcher([glob])(name)), default)
    if pattern is None or matcher(exclude)(name):
        return "excluded"
    if given is not None and not given.has(name):
        return "nothing is given for it"
    wanted = given is not None or matcher(include)(name)
    if not wanted:
        if len(tensor.shape) != 2:
            return "no matrix"
        if DENSE_NAMES.search(name):
            return "norms, embeddings, heads and routers stay dense"
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        return f"no axis {axis}"
    length = tensor.shape[axis]
    is_last = axis % rank == rank - 1
    if length % pattern.m and not (wanted and is_last and not tensor.elements % pattern.m):
        what = "rows" if is_last else f"an axis {axis}"
        return f"{what} of {length} are no multiple of {pattern.m}"
    return pattern


def _unfit(tensor: Tensor) -> str | None:
    """Say why a tensor cannot be pruned at all; None if it can."""
    if tensor.layout == ID:
        return "has a mask already"
    part = tensor.parts.get("data")
    if tensor.layout != "dense" or part is None:
        return f"layout {tensor.layout}"
    if part.type is not None or part.dtype not in _FLOATS:
        return f"type {part.type or part.dtype}"
    return None if tensor.shape and tensor.elements else "no rows"
