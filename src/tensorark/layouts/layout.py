"""What a layout is, as far as metadata goes: how an object is read, and the rules it obeys.

Owns the neutral description of an object that rules judge, whatever file it comes from. Reads no
payload and makes no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from tensorark.core.model import Tensor
from tensorark.core.rules import Fault, Reading, Rule
from tensorark.core.types import DTYPES, size_of

PartFacts = tuple[str, str | None, int]
"""Storage type, logical type or None, and decoded size in bytes of a part."""

FLOATS: Final = frozenset({"f64", "f32", "f16", "bf16"})

_NONE: Final[Mapping[str, object]] = {}


class Bytes(Protocol):
    """Gives decoded bytes of a part: all of them, or those from `start` up to `stop`."""

    def __call__(self, role: str, start: int = 0, stop: int | None = None) -> memoryview:
        """Return the bytes [start, stop) of the part with this role."""
        ...


# Not frozen: a file may have a hundred thousand of them, and freezing triples the cost of one.
@dataclass(slots=True)
class Description:
    """What a file says of one object, without its bytes; `where` is its place in the catalog."""

    where: tuple[str | int, ...]
    shape: Sequence[int]
    attributes: Mapping[str, object]
    parts: Mapping[str, PartFacts]

    def place(self, *rest: str | int) -> tuple[str | int, ...]:
        """Return a place below the object."""
        return (*self.where, *rest)

    def attribute(self, *keys: str) -> tuple[str | int, ...]:
        """Return the place of an attribute."""
        return (*self.where, "attributes", *keys)


def describe(tensor: Tensor) -> Description:
    """Return the description of a tensor of the model."""
    return Description(
        ("objects", tensor.name),
        tensor.shape,
        tensor.attributes or _NONE,
        {role: (part.dtype, part.type, part.nbytes) for role, part in tensor.parts.items()},
    )


R = TypeVar("R")


_ALONE: Final = Reading()


@dataclass(frozen=True, slots=True)
class Layout(Generic[R]):
    """A layout, or a family of them: its id, and rules over all objects of a file that have it.

    `parse` turns what a file says of an object into a record, which may hold nonsense. `element` is
    the id of the elements that decoding gives, or what tells it from the record of an object; None
    where it is that of the stored values. `judges_payload` says whether a payload can break it,
    beyond what types forbid. A family lists its `members`, or has a `pattern` for their ids.
    """

    id: str
    parse: Callable[[Description], R]
    rules: tuple[Rule[Sequence[R]], ...]
    element: str | Callable[[R], str | None] | None = None
    judges_payload: bool = field(default=False, kw_only=True)
    members: tuple[str, ...] = field(default=(), kw_only=True)
    pattern: re.Pattern[str] | None = field(default=None, kw_only=True)

    def element_of(self, tensor: Tensor) -> str | None:
        """Return the id of the elements that decoding gives; None where it is that stored."""
        if callable(self.element):
            return self.element(self.parse(describe(tensor)))
        return self.element

    def check(self, tensor: Tensor, reading: Reading = _ALONE) -> R:
        """Judge what the file says of `tensor` by the rules of the layout; return its record.

        Opening has done that already, unless it was told to read structurally.

        Raises:
            Rejected: for the first rule that it breaks.
        """
        record = self.parse(describe(tensor))
        reading.require(self.rules, [record])
        return record


AnyLayout = Layout[Any]


def is_count(value: object) -> bool:
    """Tell whether an attribute is an unsigned integer; booleans are none."""
    return type(value) is int and value >= 0


def parts_fault(each: Description, expected: str) -> Fault:
    """Return the fault of an object with other parts than `expected`."""
    return Fault(each.place("parts"), "other parts", expected, ", ".join(each.parts) or "none")


def whole(objects: Iterable[Description], roles: set[str]) -> Iterator[Description]:
    """Yield the objects whose parts are exactly those of `roles`: of others, that is the fault."""
    return (each for each in objects if each.parts.keys() == roles)


def ids_fault(each: Description, role: str, expected: str) -> Fault:
    """Return the fault of a part with another storage or logical type than `expected`."""
    dtype, type_, _ = each.parts[role]
    found = dtype if type_ is None else f"{type_} over {dtype}"
    return Fault(each.place("parts", role), f"`{role}` has the wrong type", expected, found)


def attribute_fault(each: Description, key: str, expected: str) -> Fault:
    """Return the fault of an attribute that is missing, or is not `expected`."""
    found = each.attributes.get(key, "nothing")
    return Fault(each.attribute(key), f"`{key}` is not usable", expected, found)


def size_fault(each: Description, role: str, expected: int, why: str) -> Fault:
    """Return the fault of a part whose size is not `expected` bytes."""
    detail = f"`{role}` does not hold {why}"
    return Fault(each.place("parts", role), detail, f"{expected} bytes", each.parts[role][2])


def values_size(part: PartFacts, elements: int) -> int | None:
    """Return the bytes of `elements` elements of a part; None where its type is not registered."""
    return size_of(part[0], part[1], elements)


def width(part: PartFacts) -> int:
    """Return the bytes of one element of a part's storage type."""
    return DTYPES[part[0]]
