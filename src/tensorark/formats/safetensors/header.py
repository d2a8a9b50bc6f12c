"""The header of a safetensors file: its frame, its raw JSON members, and its trusted columns.

A header may hold a million tensors, so everything about them is kept in columns and worked on by
list; `Tensor` values are made when asked for. Judging belongs to `rules`, reading to `read`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.formats.safetensors.dtypes import DTYPES, dtype_of
from tensorark.wire.attributes import NONE, TensorAttributes

METADATA: Final = "__metadata__"
U64: Final = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What the first nine bytes say: size of the file, length of the header, first byte of it."""

    size: int
    length: int
    first: bytes

    @property
    def data_start(self) -> int:
        """Offset of the first byte after the header."""
        return 8 + self.length


@dataclass(frozen=True, slots=True)
class RawHeader:
    """The members of a header as JSON has them: anything at all may stand there."""

    metadata: object
    tensors: Mapping[str, object]
    entries: Mapping[str, Mapping[str, Any]]
    """Those of `tensors` that are maps."""


_KNOWN: Final = frozenset({"dtype", "shape", "data_offsets"})


def strange_members(raw: RawHeader) -> tuple[str, ...]:
    """Return the members of entries that the format does not know, and that readers ignore."""
    if sum(map(len, raw.entries.values())) == len(_KNOWN) * len(raw.entries):
        return ()
    found = ((name, key) for name, entry in raw.entries.items() for key in entry)
    return tuple(f"{name}: {key}" for name, key in found if key not in _KNOWN)


def raw_header(members: dict[str, object]) -> RawHeader:
    """Sort the members of a header; `members` is taken over."""
    metadata = members.pop(METADATA, None)
    tensors: dict[str, Any] = members
    entries = tensors
    if set(map(type, tensors.values())) - {dict}:
        entries = {name: entry for name, entry in tensors.items() if type(entry) is dict}
    return RawHeader(metadata, tensors, entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A header whose every field has the right type: one row per tensor, in header order.

    `elements` is inexact from 2^64 on. `order` is the rows by place in the data, `exact` says
    that every byte length fits its shape, `tiled` that the tensors cover the data exactly.
    """

    names: Sequence[str]
    dtypes: Sequence[str]
    shapes: Sequence[tuple[int, ...]]
    begins: Sequence[int]
    ends: Sequence[int]
    elements: Sequence[int]
    order: Sequence[int]
    exact: bool
    tiled: bool
    data_start: int
    data_length: int


def columns(raw: RawHeader, frame: Frame) -> Columns:
    """Turn a header that passed the schema rules into columns."""
    entries = raw.entries.values()
    spellings = {name: name for name in [entry["dtype"] for entry in entries]}
    dtypes = [spellings[entry["dtype"]] for entry in entries]
    # Not interned: tuples of numbers hash without a seed, so a file could make all of them collide.
    shapes = [tuple(entry["shape"]) for entry in entries]
    pairs = [entry["data_offsets"] for entry in entries]
    begins = [pair[0] for pair in pairs]
    ends = [pair[1] for pair in pairs]
    elements = list(map(math.prod if max(map(len, shapes), default=0) <= 64 else _count, shapes))
    length = frame.size - frame.data_start
    order: Sequence[int] = range(len(begins))
    tiled = _covers(begins, ends, length)
    if not tiled:
        order = sorted(order, key=list(zip(begins, ends, strict=True)).__getitem__)
        tiled = _covers([begins[row] for row in order], [ends[row] for row in order], length)
    return Columns(
        names=list(raw.entries),
        dtypes=dtypes,
        shapes=shapes,
        begins=begins,
        ends=ends,
        elements=elements,
        order=order,
        exact=_exact(dtypes, elements, begins, ends),
        tiled=tiled,
        data_start=frame.data_start,
        data_length=length,
    )


def _count(shape: tuple[int, ...]) -> int:
    """Multiply without making a number of a thousand hostile dimensions."""
    count = 1
    for dimension in shape:
        count = min(count * dimension, U64)
    return count


def overflows(shape: tuple[int, ...]) -> bool:
    """Whether a product of leading dimensions leaves 64 bits, even if a later one is 0."""
    product = 1
    for dimension in shape:
        product *= dimension
        if product >= U64:
            return True
    return False


def _covers(begins: list[int], ends: list[int], length: int) -> bool:
    """Whether ranges sorted by place begin at 0, follow each other and end at `length`."""
    # Cut to length, because of no tensors none begins at 0.
    return begins == [0, *ends[:-1]][: len(begins)] and (ends[-1] if ends else 0) == length


def _exact(dtypes: list[str], elements: list[int], begins: list[int], ends: list[int]) -> bool:
    widths = {name: dtype_of(name).bits for name in set(dtypes)}
    if None in widths.values():
        return False
    needed = [widths[name] * count for name, count in zip(dtypes, elements, strict=True)]  # type: ignore[operator]
    return needed == [(end - begin) * 8 for begin, end in zip(begins, ends, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The format's own record of a file: where the data starts and what the header said.

    `members` are the names in header order, ``__metadata__`` included. `set_id` is the identity of
    the set that the file says it is a shard of (see `identity`); `metadata` is without it.
    `strange` are members of entries that the format does not know.
    """

    length: int
    data_start: int
    metadata: Mapping[str, str] | None
    members: tuple[str, ...]
    set_id: str | None = None
    strange: tuple[str, ...] = ()


class Tensors(Mapping[str, Tensor]):
    """The tensors of one file, in header order; each value is made on access.

    `attributes` are those that metadata carries for tensors, by name.
    """

    layouts: ClassVar = ("dense",)

    __slots__ = ("_begins", "_dtypes", "_ends", "_file", "_rows", "_shapes", "_start", "attributes")

    def __init__(self, judged: Columns, file: str | None) -> None:
        self.attributes: TensorAttributes = NONE
        self._rows = {name: row for row, name in enumerate(judged.names)}
        self._dtypes = judged.dtypes
        self._shapes = judged.shapes
        self._begins = array("Q", judged.begins)
        self._ends = array("Q", judged.ends)
        self._start = judged.data_start
        self._file = file

    def __getitem__(self, name: str) -> Tensor:
        row = self._rows[name]
        begin = self._begins[row]
        span = Span(self._start + begin, self._ends[row] - begin, self._file)
        dtype = dtype_of(self._dtypes[row])
        parts = {"data": Part(Raw((span,)), dtype.dtype, dtype.type)}
        return Tensor(name, self._shapes[row], "dense", parts, self.attributes.get(name))

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


__all__ = [
    "DTYPES",
    "METADATA",
    "U64",
    "Columns",
    "Frame",
    "Header",
    "RawHeader",
    "Tensors",
    "columns",
    "overflows",
    "raw_header",
]
