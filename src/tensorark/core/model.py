"""What every format is read into: where bytes are, and by which ids they are to be understood.

Addresses, not meaning: nothing here reads, translates or interprets. What does not fit stays in
`Catalog.native`, typed by the format's own module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tensorark.core.brief import brief
from tensorark.errors import Unsupported


@dataclass(frozen=True, slots=True)
class Span:
    """A byte range [offset, offset + length) of a file.

    `file` is None for the file that was opened, else the label of a shard, which the source
    resolves. A label is never a path.
    """

    offset: int
    length: int
    file: str | None = None

    @property
    def end(self) -> int:
        """First byte after the range."""
        return self.offset + self.length


def cut(spans: Sequence[Span], start: int, length: int) -> list[Span]:
    """Return where the bytes [start, start + length) of what lies in `spans` are, in order."""
    found = []
    for span in spans:
        first, last = max(start, 0), min(start + length, span.length)
        if first < last:
            found.append(Span(span.offset + first, last - first, span.file))
        start -= span.length
    return found


@dataclass(frozen=True, slots=True)
class Raw:
    """Decoded bytes lie exactly in these spans, in this order."""

    spans: tuple[Span, ...]

    @property
    def nbytes(self) -> int:
        """Decoded size in bytes."""
        spans = self.spans
        return spans[0].length if len(spans) == 1 else sum([span.length for span in spans])


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes are stored under a named encoding and decode to exactly `nbytes` bytes."""

    spans: tuple[Span, ...]
    encoding: str
    nbytes: int


Blob = Raw | Encoded


@dataclass(frozen=True, slots=True)
class Part:
    """One data blob of a tensor.

    `dtype` is a storage type of `tensorark.core.types`; `type` a logical type id or None, which
    means that the logical type is the storage type; `digest` is ``<algorithm>:<hex>`` over the
    decoded bytes, or None.
    """

    blob: Blob
    dtype: str
    type: str | None = None
    digest: str | None = None

    @property
    def nbytes(self) -> int:
        """Decoded size in bytes."""
        return self.blob.nbytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor: logical row-major shape, layout id, parts by role, attributes if any.

    `attributes` is None where the file has none, which differs from an empty map (`.zt` §6.4).
    """

    name: str
    shape: tuple[int, ...]
    layout: str
    parts: Mapping[str, Part]
    attributes: Mapping[str, object] | None = None

    @property
    def elements(self) -> int:
        """Number of logical elements; 1 for a scalar."""
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count

    @property
    def nbytes(self) -> int:
        """Decoded size of all parts, in bytes."""
        return sum([part.nbytes for part in self.parts.values()])


class Undescribed(Mapping[str, Tensor]):
    """The tensors of a file that holds bytes but describes none: asking for them is refused.

    A data shard (`.zt` §7.2) is no empty model, so nothing can take it for one without noticing.
    """

    __slots__ = ("path",)

    def __init__(self, path: str | None = None) -> None:
        self.path = path

    def _refusal(self) -> Unsupported:
        return Unsupported(
            "a data shard describes no tensors: its root does",
            code="data-shard",
            section="7.2",
            path=self.path,
            hint="open the file that names it as a shard",
        )

    def __getitem__(self, _name: str) -> Tensor:
        raise self._refusal()

    def __contains__(self, _name: object) -> bool:
        raise self._refusal()

    def __iter__(self) -> Iterator[str]:
        raise self._refusal()

    def __len__(self) -> int:
        raise self._refusal()

    def __bool__(self) -> bool:
        raise self._refusal()


@dataclass(frozen=True, slots=True)
class Shard:
    """What a file says of another one that it needs: exact size in bytes and whole-file digest.

    `digest` is ``<algorithm>:<hex>``.
    """

    size: int
    digest: str


NORMAL: Final = "zt"
"""The format in whose terms any model can be said."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything a file holds, found without reading payload.

    `files` names the shards that tensors may refer to; `shards` says size and digest of each, where
    the file does. `native` is the format's own record. The mapping of tensors may build its values
    on access.
    """

    __repr__ = brief

    format: str
    tensors: Mapping[str, Tensor]
    attributes: Mapping[str, object] | None = None
    native: Any = None
    files: tuple[str, ...] = field(default=())
    shards: Mapping[str, Shard] = field(default_factory=dict)

    @property
    def is_normal(self) -> bool:
        """Whether it is said in the terms of a `.zt`."""
        return self.format == NORMAL

    @property
    def layouts(self) -> Collection[str]:
        """The layouts of the tensors; mappings that know them build no tensor for it."""
        known: Collection[str] | None = getattr(self.tensors, "layouts", None)
        return {each.layout for each in self.tensors.values()} if known is None else known

    @property
    def tensor_attributes(self) -> Mapping[str, Mapping[str, object]]:
        """The attributes of the tensors that have some, by name; likewise."""
        known: Mapping[str, Mapping[str, object]] | None
        known = getattr(self.tensors, "attributes", None)
        if known is None:
            tensors = self.tensors.values()
            known = {each.name: each.attributes for each in tensors if each.attributes is not None}
        return known
