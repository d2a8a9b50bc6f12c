"""Comparing two models, whatever their formats, by their bytes: tensors, and what is said of them.

What is compared is what the content digest covers: the models in the terms of `.zt`, artifacts with
their resources, bindings and uses. Equal means equal values and ids; where they are laid out does
not matter. Stored digests are not trusted: the bytes are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model, normalize
from tensorark.core.model import Part, Tensor
from tensorark.core.progress import Progress
from tensorark.errors import Unsupported
from tensorark.files import File, PathLike
from tensorark.formats.ninfer.describe import parse_description, statements
from tensorark.formats.ninfer.holdings import description_of
from tensorark.integrity.change import Change, Difference
from tensorark.integrity.compare_values import compare_decoded, compare_payload
from tensorark.integrity.digests import workers
from tensorark.wire.attributes import alike


def diff(
    left: PathLike,
    right: PathLike,
    *,
    values: bool = False,
    progress: Progress = lambda _done: None,
) -> Difference:
    """Compare two models.

    With `values` tensors are compared by shapes and decoded values alone, bit for bit, however they
    are stored: dense or masked, sparse or quantized.

    Raises:
        ReadFailed: when payload cannot be read.
        Unsupported: with `values`, when a tensor cannot be decoded.
    """
    with files.open(left) as ours, files.open(right) as theirs:
        return _compare_models(ours, theirs, progress, by_values=values)


def _compare_models(left: File, right: File, progress: Progress, *, by_values: bool) -> Difference:
    left, right = _in_terms_of_zt(left), _in_terms_of_zt(right)
    said, described = _compare_statements(left, right)
    ours, theirs = set(left) - {described[0]}, set(right) - {described[1]}

    def compare(name: str) -> list[Change]:
        a, b = left.catalog.tensors[name], right.catalog.tensors[name]
        if by_values:
            for file, tensor in ((left, a), (right, b)):
                for part in tensor.parts.values():
                    file.prove_part(part)
            changes = _compare_shapes(a, b) or compare_decoded(left[name], right[name])
        else:
            changes = _compare_descriptions(a, b) or compare_payload(left, right, a, b)
        progress(a.nbytes)
        left.evict(a)
        right.evict(b)
        return changes

    def compare_all(names: list[str]) -> list[list[Change]]:
        return [compare(name) for name in names if name in ours and name in theirs]

    with workers(None) as pool:
        changes = [each for batch in pool.map(compare_all, left.batches()) for each in batch]
    return Difference(
        only_left=tuple(name for name in left if name in ours and name not in theirs),
        only_right=tuple(name for name in right if name in theirs and name not in ours),
        changes=(*said, *(change for each in changes for change in each)),
        equal=sum(not each for each in changes),
        attributes=compare_attributes(left, right),
    )


def _in_terms_of_zt(file: File) -> File:
    """Return a model as a `.zt` carries it, as far as it can."""
    try:
        return as_zt_model(file)
    except Unsupported:  # odd bytes that have no place there, and no meaning
        return normalize(file)


def _compare_statements(
    left: File, right: File
) -> tuple[list[Change], tuple[str | None, str | None]]:
    """Compare what two artifacts say beside tensors, and return the objects that hold it.

    None where they are compared like any other tensor.
    """
    ours, theirs = _statements(left), _statements(right)
    if ours is None or theirs is None:
        return [], (None, None)
    (name, a, text), (other, b, same) = ours, theirs
    changes = compare_statements(a, b)
    if text != same and not changes:
        changes.append(Change(name=name, what="values"))
    return changes, (name, other)


def _compare_shapes(a: Tensor, b: Tensor) -> list[Change]:
    if a.shape == b.shape:
        return []
    return [Change(name=a.name, what="shape", left=list(a.shape), right=list(b.shape))]


def compare_statements(
    a: Mapping[tuple[str, str], str], b: Mapping[tuple[str, str], str]
) -> list[Change]:
    """Return the statements of two artifacts that differ, each by its kind and name."""
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


def compare_attributes(left: File, right: File) -> tuple[str, ...]:
    """Return the keys of file attributes that differ."""
    a, b = left.catalog.attributes or {}, right.catalog.attributes or {}
    same = {key for key in a.keys() & b.keys() if alike(a[key], b[key])}
    return tuple(sorted({*a, *b} - same))


def _compare_descriptions(a: Tensor, b: Tensor) -> list[Change]:
    """Return how the descriptions of two tensors differ."""
    found: list[tuple[str, Any, Any]] = []
    if a.layout != b.layout:
        found.append(("layout", a.layout, b.layout))
    if a.parts.keys() != b.parts.keys():
        found.append(("parts", sorted(a.parts), sorted(b.parts)))
    else:
        for role, part in a.parts.items():
            left, right = _ids(part), _ids(b.parts[role])
            if left != right:
                found.append(("type", left, right))
    if not alike(a.attributes or {}, b.attributes or {}):
        found.append(("attributes", a.attributes, b.attributes))
    described = [Change(name=a.name, what=what, left=x, right=y) for what, x, y in found]
    return [*_compare_shapes(a, b), *described]


def _ids(part: Part) -> str:
    return part.dtype if part.type is None else f"{part.type} over {part.dtype}"
