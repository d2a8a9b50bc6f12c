"""What an architecture says of a logical parameter: its shape, its uses, where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a checkpoint of the model's authors keeps a parameter.

    `tensor` has `shape` there. Seen as rows as long as those of the parameter (single elements for
    a vector), `rows` are the ranges it is made of, in order; None for all of them. `axes` reorders
    the axes first. `alone` is a tensor that may hold the parameter by itself instead.
    """

    tensor: str
    shape: tuple[int, ...]
    rows: tuple[tuple[int, int], ...] | None = None
    axes: tuple[int, ...] | None = None
    alone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A logical parameter (§7.1) of an architecture.

    `inputs` are the places where a projection takes its input, each of which needs a use with a
    policy; `words` is the one format that the parameter may be stored in, None for any.
    """

    name: str
    shape: tuple[int, ...]
    source: Source | None
    inputs: tuple[str, ...] = ()
    words: str | None = None

    @property
    def component(self) -> str:
        """Component, or `proposal`, that the parameter belongs to: what is loaded as a whole."""
        return self.name.partition("/")[0]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def plain(
    name: str,
    shape: tuple[int, ...],
    tensor: str,
    *inputs: str,
    words: str | None = None,
) -> Parameter:
    """Return a parameter that is a whole tensor of the checkpoint, of the same shape."""
    source = Source(tensor=tensor, shape=shape)
    return Parameter(name=name, shape=shape, source=source, inputs=inputs, words=words)


def cut(
    name: str,
    shape: tuple[int, ...],
    source: tuple[str, tuple[int, ...]],
    rows: tuple[tuple[int, int], ...],
    *inputs: str,
    alone: str | None = None,
) -> Parameter:
    """Return a parameter that is some rows of a tensor of the checkpoint."""
    tensor, whole = source
    found = Source(tensor=tensor, shape=whole, rows=rows, alone=alone)
    return Parameter(name=name, shape=shape, source=found, inputs=inputs)
