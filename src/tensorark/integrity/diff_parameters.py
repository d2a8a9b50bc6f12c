"""Comparing two NInfer artifacts by logical parameter, however their objects are laid out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from tensorark import files
from tensorark.core.model import Part
from tensorark.core.progress import Progress
from tensorark.files import File, PathLike
from tensorark.files.parameters import ParameterView
from tensorark.formats.ninfer.describe import describe, parse_description, statements
from tensorark.formats.ninfer.directory import Binding, directory_of
from tensorark.formats.ninfer.uses import of_use
from tensorark.integrity.change import Change, Difference
from tensorark.integrity.compare_values import compare_parameters
from tensorark.integrity.diff import compare_attributes, compare_statements
from tensorark.integrity.digests import workers


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
        return _compare_parameters(ours, theirs, progress)


def _compare_parameters(left: File, right: File, progress: Progress) -> Difference:
    ours, theirs = left.parameters, right.parameters
    shared = [name for name in ours if name in theirs]

    def compare(name: str) -> list[Change]:
        a, b = ours[name], theirs[name]
        if a.size != b.size:
            changes = [Change(name=name, what="shape", left=list(a.shape), right=list(b.shape))]
        else:
            changes = compare_parameters(name, a, b)
        progress(a.size)
        return changes

    with workers(None) as pool:
        changes = list(pool.map(compare, shared))
    said = compare_statements(_around_parameters(left), _around_parameters(right))
    return Difference(
        only_left=tuple(name for name in ours if name not in theirs),
        only_right=tuple(name for name in theirs if name not in ours),
        changes=(*said, *(change for each in changes for change in each)),
        equal=sum(not each for each in changes),
        attributes=compare_attributes(left, right),
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
