"""Comparing the values of two tensors, block by block: which elements differ, and by how much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tensorark.core.model import Part, Raw, Tensor
from tensorark.errors import Unsupported
from tensorark.files import File
from tensorark.integrity.change import Change

if TYPE_CHECKING:
    from tensorark.files.parameters import ParameterView
    from tensorark.files.view import TensorView
    from tensorark.layouts.numbers.dtypes import Array

Place = tuple[str | int, ...]
Pairs = Iterator[tuple[memoryview, memoryview]]

_BLOCK: Final = 8 << 20
"""Bytes that are compared at a time: a multiple of the width of every element."""
_MOST_ELEMENTS: Final = 1 << 22
"""Decoded elements that are compared at a time."""


@dataclass(slots=True)
class _Differing:
    """The elements that differ so far: how many, the first, and the largest distance."""

    elements: int = 0
    first: int | None = None
    largest: float | None = None

    def add(self, first: int, x: Array, y: Array) -> None:
        """Add elements that differ, of which the first has the flat index `first`."""
        import numpy as np

        with np.errstate(all="ignore"):
            kind = np.complex128 if x.dtype.kind == "c" else np.float64
            gaps = np.abs(x.astype(kind) - y.astype(kind))
        found = float(np.max(gaps[np.isfinite(gaps)], initial=0.0))
        self.elements += x.size
        self.first = first if self.first is None else self.first
        self.largest = found if self.largest is None else max(self.largest, found)

    def change(self, name: str, left: object = None, right: object = None) -> Change:
        """Return what they are, of the tensor `name`."""
        return Change(
            name=name,
            what="values",
            left=left,
            right=right,
            elements=self.elements,
            first=self.first,
            largest=self.largest,
        )


def compare_payload(left: File, right: File, a: Tensor, b: Tensor) -> list[Change]:
    """Compare the payload of two tensors of one description."""
    changes = []
    for role, part in a.parts.items():
        where = ("objects", a.name, "parts", role)
        other = b.parts[role]

        def pairs(part: Part = part, other: Part = other, where: Place = where) -> Pairs:
            return zip(_blocks(left, part, where), _blocks(right, other, where), strict=True)

        if part.nbytes == other.nbytes and all(_equal_bytes(x, y) for x, y in pairs()):
            continue
        if role == "data" and a.layout == "dense" and part.nbytes == other.nbytes:
            changes.append(_measure(a, part, pairs()))
        elif role == "data" and a.layout == "dense":  # opened without judging sizes
            changes.append(Change(name=a.name, what="values"))
        else:
            changes.append(Change(name=a.name, what="values", left=role, right=role))
    return changes


def compare_decoded(a: TensorView, b: TensorView) -> list[Change]:
    """Compare the decoded values of two tensors of one shape; another type is a change."""
    import numpy as np

    found = _Differing()
    for start in range(0, a.size, _MOST_ELEMENTS):
        stop = min(start + _MOST_ELEMENTS, a.size)
        x, y = (np.ascontiguousarray(each.elements(start, stop)) for each in (a, b))
        if x.dtype != y.dtype:
            return [Change(name=a.name, what="type", left=str(x.dtype), right=str(y.dtype))]
        _compare_elements(start, x, y, found)
    return [found.change(a.name)] if found.elements else []


def compare_parameters(name: str, a: ParameterView, b: ParameterView) -> list[Change]:
    """Compare the elements of two parameters of one size, as doubles where types are others."""
    import numpy as np

    found = _Differing()
    for start in range(0, a.size, _MOST_ELEMENTS):
        stop = min(a.size, start + _MOST_ELEMENTS)
        x, y = a.elements(start, stop), b.elements(start, stop)
        if x.dtype != y.dtype:
            x, y = x.astype(np.float64), y.astype(np.float64)
        _compare_elements(start, x, y, found)
    formats = ("+".join(a.formats), "+".join(b.formats))
    return [found.change(name, *formats)] if found.elements else []


def _compare_elements(start: int, x: Array, y: Array, found: _Differing) -> None:
    """Compare elements bit for bit, the first of which has the flat index `start`."""
    import numpy as np

    word = f"V{x.dtype.itemsize}"
    differ = np.flatnonzero(x.view(word) != y.view(word))
    if differ.size:
        found.add(start + int(differ[0]), x[differ], y[differ])


def _blocks(file: File, part: Part, where: Place) -> Iterator[memoryview]:
    """Yield the decoded bytes of a part in blocks of `_BLOCK`, the last of which may be shorter."""
    file.prove_part(part)
    if part.nbytes <= _BLOCK or (file.is_mapped and isinstance(part.blob, Raw)):
        data = file.payload(part, where)
        yield from (data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK))
        return
    held = bytearray()
    for piece in file.pieces(part, where):
        rest = piece
        if not held and len(rest) == _BLOCK:
            yield rest
            continue
        while rest:
            taken = _BLOCK - len(held)
            held += rest[:taken]
            rest = rest[taken:]
            if len(held) == _BLOCK:
                yield memoryview(held)
                held = bytearray()
    if held:
        yield memoryview(held)


def _equal_bytes(x: memoryview, y: memoryview) -> bool:
    import numpy as np

    return len(x) == len(y) and bool(np.array_equal(np.frombuffer(x, "u1"), np.frombuffer(y, "u1")))


def _measure(tensor: Tensor, part: Part, pairs: Pairs) -> Change:
    """Count and measure the elements of a dense tensor that differ."""
    import numpy as np

    from tensorark.layouts.numbers.dtypes import is_packed, numpy_dtype, unpack_nibbles

    try:
        element = numpy_dtype(part.dtype, part.type)
    except Unsupported:
        return Change(name=tensor.name, what="values")
    packed = is_packed(part.type)
    if part.type == "bool":
        element = np.dtype(np.uint8)
    width = element.itemsize

    def split(piece: memoryview) -> Array:
        return unpack_nibbles(piece) if packed else np.frombuffer(piece, f"V{width}")

    found = _Differing()
    for index, pair in enumerate(pairs):
        x, y = map(split, pair)
        differ = np.flatnonzero(x != y)
        if differ.size:
            start = index * _BLOCK
            first = (2 * start if packed else start // width) + int(differ[0])
            found.add(first, x[differ].view(element), y[differ].view(element))
    return found.change(tensor.name)
