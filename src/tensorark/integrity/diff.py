"""Comparing two models, whatever their formats, by their bytes: tensors, and what is said of them.

What is compared is what the content digest covers: the models in the terms of `.zt`, artifacts with
their resources, bindings and uses. Equal means equal values and ids; where they are laid out does
not matter. Stored digests are not trusted: the bytes are compared.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from tensorark import files
from tensorark.conversion.as_zt_model import hub, model_of
from tensorark.core.brief import brief
from tensorark.core.model import Part, Raw, Tensor
from tensorark.core.progress import Progress
from tensorark.errors import Unsupported
from tensorark.files import File, PathLike
from tensorark.files.parameters import ParameterView, directory_of
from tensorark.files.view import TensorView
from tensorark.formats.ninfer.describe import STATEMENTS, describe, parse_description, statements
from tensorark.formats.ninfer.directory import Binding
from tensorark.formats.ninfer.holdings import description_of
from tensorark.formats.ninfer.uses import of_use
from tensorark.wire.attributes import alike

__all__ = ["STATEMENTS", "Change", "Difference", "diff", "diff_parameters"]

Place = tuple[str | int, ...]
Pairs = Iterator[tuple[memoryview, memoryview]]
_MOST_ELEMENTS: Final = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How one tensor differs, or one statement of an artifact.

    `what` is ``shape``, ``type``, ``layout``, ``parts``, ``attributes`` or ``values``; `left` and
    `right` are the two sides. For values, `elements` of them differ, the first at `first` (a flat
    index), by at most `largest`; None where they are no numbers, or of an id that is not known.

    Of an artifact, `what` is also ``binding``, ``use``, ``component``, ``config``, ``role``,
    ``encoding``, ``metadata`` or ``provenance``, and the sides are JSON, None where it is not said.
    """

    __repr__ = brief

    name: str
    what: str
    left: object = None
    right: object = None
    elements: int | None = None
    first: int | None = None
    largest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of two models: names on one side only, changes, and the number of equals.

    True where there is one. `attributes` are the keys of attributes of the file that differ.
    """

    __repr__ = brief

    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    changes: tuple[Change, ...]
    equal: int
    attributes: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether all is the same that the content digest covers.

        Names, shapes, types, layouts, attributes and values of tensors, and whatever an artifact
        says beside them. Attributes of the whole file are listed and do not count.
        """
        return not (self.only_left or self.only_right or self.changes)

    def __bool__(self) -> bool:
        """Tell whether there is a difference."""
        return not self.is_equal


def diff(
    left: PathLike,
    right: PathLike,
    *,
    values: bool = False,
    progress: Progress = lambda _done: None,
) -> Difference:
    """Compare two models.

    With `values` tensors are compared by shapes and decoded values alone, bit for bit, however they
    are stored: dense or masked, sparse or quantised.

    Raises:
        ReadFailed: when payload cannot be read.
        Unsupported: with `values`, when a tensor cannot be decoded.
    """
    with files.open(left) as ours, files.open(right) as theirs:
        return _difference(ours, theirs, progress, by_values=values)


def _difference(left: File, right: File, progress: Progress, *, by_values: bool) -> Difference:
    left, right = _in_terms_of_zt(left), _in_terms_of_zt(right)
    said = _said(left, right)
    ours, theirs = set(left) - {said.left}, set(right) - {said.right}

    def compare(name: str) -> list[Change]:
        a, b = left.catalog.tensors[name], right.catalog.tensors[name]
        if by_values:
            for file, tensor in ((left, a), (right, b)):
                for part in tensor.parts.values():
                    file.prove_part(part)
            changes = _decoded(left[name], right[name])
        else:
            changes = _described(a, b) or _values(left, right, a, b)
        progress(a.nbytes)
        left.evict(a)
        right.evict(b)
        return changes

    def compare_all(names: list[str]) -> list[list[Change]]:
        return [compare(name) for name in names if name in ours and name in theirs]

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        changes = [each for batch in pool.map(compare_all, left.batches()) for each in batch]
    return Difference(
        only_left=tuple(name for name in left if name in ours and name not in theirs),
        only_right=tuple(name for name in right if name in theirs and name not in ours),
        changes=(*said.changes, *(change for each in changes for change in each)),
        equal=sum(not each for each in changes),
        attributes=_attributes(left, right),
    )


def _in_terms_of_zt(file: File) -> File:
    """Return a model as a `.zt` carries it, as far as it can."""
    try:
        return hub(file)
    except Unsupported:  # odd bytes that have no place there, and no meaning
        return model_of(file)


@dataclass(frozen=True, slots=True)
class _Said:
    """How two descriptions of artifacts differ; `left` and `right` are the objects that hold them.

    None where they are compared like any other tensor.
    """

    left: str | None = None
    right: str | None = None
    changes: tuple[Change, ...] = ()


def _said(left: File, right: File) -> _Said:
    """Compare what two artifacts say beside tensors."""
    ours, theirs = _statements(left), _statements(right)
    if ours is None or theirs is None:
        return _Said()
    (name, a, text), (other, b, same) = ours, theirs
    changes = _changed_statements(a, b)
    if text != same and not changes:
        changes.append(Change(name=name, what="values"))
    return _Said(name, other, tuple(changes))


def _changed_statements(
    a: Mapping[tuple[str, str], str], b: Mapping[tuple[str, str], str]
) -> list[Change]:
    return [
        Change(name=key[1], what=key[0], left=a.get(key), right=b.get(key))
        for key in sorted({*a, *b})
        if a.get(key) != b.get(key)
    ]


def _statements(file: File) -> tuple[str, dict[tuple[str, str], str], bytes] | None:
    """Return the object that describes an artifact, what it says, and its bytes."""
    held = description_of(file.catalog)
    if held is None:
        return None
    text = bytes(file.payload(held.parts["data"], ("objects", held.name)))
    root = parse_description(text)
    return None if root is None else (held.name, statements(root), text)


def _attributes(left: File, right: File) -> tuple[str, ...]:
    """Return the keys of file attributes that differ."""
    a, b = left.catalog.attributes or {}, right.catalog.attributes or {}
    return tuple(
        sorted(key for key in {*a, *b} if not _same(a.get(key, _ABSENT), b.get(key, _ABSENT)))
    )


_ABSENT: Final = object()


def _same(a: object, b: object) -> bool:
    """Compare attribute values with their types, or their absence."""
    if a is _ABSENT or b is _ABSENT:
        return a is b
    return alike(a, b)


def _described(a: Tensor, b: Tensor) -> list[Change]:
    """Return how the descriptions of two tensors differ."""
    found: list[tuple[str, Any, Any]] = []
    if a.shape != b.shape:
        found.append(("shape", list(a.shape), list(b.shape)))
    if a.layout != b.layout:
        found.append(("layout", a.layout, b.layout))
    if a.parts.keys() != b.parts.keys():
        found.append(("parts", sorted(a.parts), sorted(b.parts)))
    else:
        for role, part in a.parts.items():
            left, right = _ids(part), _ids(b.parts[role])
            if left != right:
                found.append(("type", left, right))
    if not _same(a.attributes or {}, b.attributes or {}):
        found.append(("attributes", a.attributes, b.attributes))
    return [Change(name=a.name, what=what, left=x, right=y) for what, x, y in found]


def _ids(part: Part) -> str:
    return part.dtype if part.type is None else f"{part.type} over {part.dtype}"


def _values(left: File, right: File, a: Tensor, b: Tensor) -> list[Change]:
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


def _decoded(a: TensorView, b: TensorView) -> list[Change]:
    """Compare the decoded values of two tensors, block by block."""
    import numpy as np

    if a.shape != b.shape:
        return [Change(name=a.name, what="shape", left=list(a.shape), right=list(b.shape))]
    elements, first, largest = 0, None, None
    for start in range(0, a.size, _MOST_ELEMENTS):
        stop = min(start + _MOST_ELEMENTS, a.size)
        x, y = (np.ascontiguousarray(each.elements(start, stop)) for each in (a, b))
        if x.dtype != y.dtype:
            return [Change(name=a.name, what="type", left=str(x.dtype), right=str(y.dtype))]
        word = f"V{x.dtype.itemsize}"
        differ = np.flatnonzero(x.view(word) != y.view(word))
        if differ.size:
            elements += int(differ.size)
            first = start + int(differ[0]) if first is None else first
            largest = _largest(x[differ], y[differ], largest)
    if not elements:
        return []
    return [Change(name=a.name, what="values", elements=elements, first=first, largest=largest)]


_BLOCK: Final = 8 << 20
"""Bytes that are compared at a time: a multiple of the width of every element."""


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
    """Count and measure the elements that differ, block by block."""
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

    def block(piece: memoryview) -> Any:
        return unpack_nibbles(piece) if packed else np.frombuffer(piece, f"V{width}")

    elements, first, largest = 0, None, None
    for index, (x, y) in enumerate(pairs):
        block_x, block_y = block(x), block(y)
        differ = np.flatnonzero(block_x != block_y)
        if not differ.size:
            continue
        elements += int(differ.size)
        if first is None:
            start = index * _BLOCK
            first = (2 * start if packed else start // width) + int(differ[0])
        largest = _largest(block_x[differ].view(element), block_y[differ].view(element), largest)
    return Change(name=tensor.name, what="values", elements=elements, first=first, largest=largest)


def _largest(x: Any, y: Any, before: float | None) -> float | None:
    import numpy as np

    with np.errstate(all="ignore"):
        kind = np.complex128 if x.dtype.kind == "c" else np.float64
        gaps = np.abs(x.astype(kind) - y.astype(kind))
    found = float(np.max(gaps[np.isfinite(gaps)], initial=0.0))
    return found if before is None else max(before, found)


def diff_parameters(
    left: PathLike, right: PathLike, *, progress: Progress = lambda _done: None
) -> Difference:
    """Compare two NInfer artifacts by logical parameter: what code gets, however it is stored.

    Equal means that the decoded elements are equal, bit for bit where both sides have one type, and
    that components, configs, resources by their roles, and uses with policies and the elements of
    their auxiliaries are. Shapes where both are known, metadata and provenance are not compared.

    Raises:
        InvalidInput: when one of the two is no artifact.
        Unsupported: when a parameter is in a format that is not decoded.
    """
    with files.open(left) as ours, files.open(right) as theirs:
        return _parameters(ours, theirs, progress)


def _parameters(left: File, right: File, progress: Progress) -> Difference:
    ours, theirs = left.parameters, right.parameters
    shared = [name for name in ours if name in theirs]

    def compare(name: str) -> list[Change]:
        a, b = ours[name], theirs[name]
        changes = []
        if a.size != b.size:
            changes.append(Change(name=name, what="shape", left=list(a.shape), right=list(b.shape)))
        elif (changed := _changed_elements(name, a, b)) is not None:
            changes.append(changed)
        progress(a.size)
        return changes

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        changes = list(pool.map(compare, shared))
    said = _changed_statements(_around_parameters(left), _around_parameters(right))
    return Difference(
        only_left=tuple(name for name in ours if name not in theirs),
        only_right=tuple(name for name in theirs if name not in ours),
        changes=(*said, *(change for each in changes for change in each)),
        equal=sum(not each for each in changes),
        attributes=_attributes(left, right),
    )


def _around_parameters(file: File) -> dict[tuple[str, str], str]:
    """Return what an artifact says around its parameters, with bytes in the place of objects."""
    directory = directory_of(file.catalog.native, file.path)
    root = parse_description(describe(directory))
    kinds = {"component", "config", "role", "use"}
    found = {key: text for key, text in statements(root or {}).items() if key[0] in kinds}
    for name, component in directory.components.items():
        for role, resource in component.resources.items():
            blob = directory.blob(directory.object(resource))
            found["role", f"{name}/{role}"] = _digest(file.chunks(Part(blob, "u8")))
    known: dict[Binding, str] = {}
    for use in directory.uses:
        values = {}
        for each in of_use(directory, use) if use.auxiliaries else ():
            binding = use.auxiliaries[each.role]
            if binding not in known:
                known[binding] = _digest((ParameterView(file, each.values).numpy().tobytes(),))
            values[each.role] = known[binding]
        if values:
            record = {"activation_policy": use.activation_policy, "auxiliaries": values}
            found["use", f"{use.parameter} at {use.input}"] = json.dumps(record, sort_keys=True)
    return found


def _digest(pieces: Iterable[bytes | memoryview]) -> str:
    state, nbytes = hashlib.sha256(), 0
    for each in pieces:
        state.update(each)
        nbytes += len(each)
    return f"{nbytes} bytes, sha256:{state.hexdigest()}"


def _changed_elements(name: str, a: ParameterView, b: ParameterView) -> Change | None:
    """Count and measure the elements of a parameter that differ, block by block; None if none."""
    import numpy as np

    elements, first, largest = 0, None, None
    for start in range(0, a.size, _MOST_ELEMENTS):
        stop = min(a.size, start + _MOST_ELEMENTS)
        x, y = a.elements(start, stop), b.elements(start, stop)
        if x.dtype != y.dtype:
            x, y = x.astype(np.float64), y.astype(np.float64)
        width = f"V{x.dtype.itemsize}"
        differ = np.flatnonzero(x.view(width) != y.view(width))
        if differ.size:
            elements += int(differ.size)
            first = start + int(differ[0]) if first is None else first
            largest = _largest(x[differ], y[differ], largest)
    if not elements:
        return None
    formats = ("+".join(a.formats), "+".join(b.formats))
    return Change(
        name=name,
        what="values",
        left=formats[0],
        right=formats[1],
        elements=elements,
        first=first,
        largest=largest,
    )
