"""Tensors laid out in parts in memory: read back by the same code that reads files.

What is made here is judged before anybody writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import InvalidInput, Rejected, Unsupported
from tensorark.layouts.layout import Bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

Ids = tuple[str, str | None]
"""A storage type, and a logical type or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorParts:
    """A tensor laid out in parts, ready to be written: `Writer.add_laid` takes it.

    `parts` gives for each role the storage type, the logical type or None, and the decoded bytes in
    pieces, which can be iterated more than once.
    """

    shape: tuple[int, ...]
    layout: str
    parts: Mapping[str, tuple[Ids, Iterable[Buffer]]]
    attributes: Mapping[str, object] | None = None


def as_tensor(laid: TensorParts) -> tuple[Tensor, Bytes]:
    """Return `laid` as a tensor of the model, without a name, and what reads its parts."""
    held = {role: _join([*pieces]) for role, (_, pieces) in laid.parts.items()}
    parts = {
        role: Part(Raw((Span(0, len(held[role])),)), dtype, type_)
        for role, ((dtype, type_), _) in laid.parts.items()
    }

    def read(role: str, start: int = 0, stop: int | None = None) -> memoryview:
        return held[role][start:stop]

    return Tensor("", laid.shape, laid.layout, parts, laid.attributes), read


def _join(pieces: list[object]) -> memoryview:
    views = [memoryview(piece).cast("B") for piece in pieces if memoryview(piece).nbytes]  # type: ignore[arg-type]
    return views[0] if len(views) == 1 else memoryview(b"".join(views))


def check(laid: TensorParts, hint: str | None = None) -> TensorParts:
    """Return `laid`, if it obeys the rules of its layout.

    Raises:
        InvalidInput: for the first one that it breaks; `hint` says what may help.
    """
    from tensorark.layouts.gate import judge

    tensor, read = as_tensor(laid)
    try:
        judge(tensor, read, Reading())
    except (Rejected, Unsupported) as error:
        raise InvalidInput(
            f"this cannot be stored: {error.detail}",
            code=error.code,
            section=error.section,
            where=error.where[2:],
            expected=error.expected,
            found=error.found,
            hint=hint if isinstance(error, Rejected) else error.hint,
        ) from error
    return laid
