"""What the parts of a directory must say about each other and about the files (§2–§5, §7, §8).

Works on the trusted columns of `directory`, in one pass that needs no payload; `OBJECT_RULES` are
judged only when an object is read (§11.1), so that what is unknown or broken spoils nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from operator import add, le
from typing import Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import quoted
from tensorark.formats.ninfer.directory import (
    Directory,
    ObjectSlug,
    RawDirectory,
    Stored,
    fault_of,
    integer,
)
from tensorark.layouts.ninfer.geometry import U64

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Set:
    """A directory and what it was made of, with the name of the file it was read from, if known."""

    directory: Directory
    raw: RawDirectory


# -------------------------------------------------------------------------------------------- files


@rule("ninfer.payload-size", section="2.2", stage="open")
def payload_size(doc: Set) -> Iterator[Fault]:
    """The payload of all files together has fewer than 2^64 bytes, and so has the entry."""
    directory = doc.directory
    starts = directory.address.starts
    if starts[-1] >= U64:
        detail = "the files have too much payload together"
        yield Fault(("files",), detail, "fewer than 2^64 bytes", starts[-1])
    elif directory.frame.payload_start + starts[1] >= U64:
        detail = "the entry is too long"
        found = directory.frame.payload_start + starts[1]
        yield Fault(("files", 0, "payload_bytes"), detail, "fewer than 2^64 bytes", found)


@rule("ninfer.file-path-unique", section="3.3", stage="open")
def file_path_unique(doc: Set) -> Iterator[Fault]:
    """Continuations have different names, none of them the entry's."""
    seen = {doc.raw.entry}
    for index, each in enumerate(doc.directory.files):
        if index and each.path in seen:
            detail = "a file of the set is named twice"
            if each.path == doc.raw.entry:
                detail = "a continuation has the name of the entry"
            found = quoted(each.path or "")
            yield Fault(("files", index, "path"), detail, "another name", found)
        seen.add(each.path)


@rule("ninfer.entry-size", section="3.1", stage="open")
def entry_size(doc: Set) -> Iterator[Fault]:
    """The entry is exactly as long as header, directory and its payload need."""
    directory = doc.directory
    expected = directory.frame.payload_start + directory.files[0].payload_bytes
    size = directory.frame.size
    if size != expected and expected < U64:
        detail = f"the file is cut short, {size * 100 // expected} % of it is here"
        if size > expected:
            detail = f"{size - expected} bytes follow the payload"
        where = ("files", 0, "payload_bytes")
        yield Fault(where, detail, f"{expected} bytes", size, min(size, expected))


# ------------------------------------------------------------------------------------------ objects


@rule("ninfer.object-id-unique", section="5.3", stage="open")
def object_id_unique(doc: Set) -> Iterator[Fault]:
    """No two objects have the same id."""
    ids = doc.directory.ids
    if len(doc.directory.rows) == len(ids):
        return
    seen: set[str] = set()
    for row, name in enumerate(ids):
        if name in seen:
            detail = f"another object has the id {quoted(name)}"
            yield Fault(("objects", row, "id"), detail, "an id of its own", quoted(name))
        seen.add(name)


@rule("ninfer.shape-elements", section="1", stage="open")
def shape_elements(doc: Set) -> Iterator[Fault]:
    """A shape has fewer than 2^64 elements."""
    directory = doc.directory
    if max(directory.elements.values(), default=0) < U64:
        return
    for row, name in enumerate(directory.ids):
        if directory.elements.get(name, 0) >= U64:
            detail = f"{quoted(name)} has too many elements"
            shape = directory.root["objects"][row].get("shape")
            yield Fault(("objects", row, "shape"), detail, "fewer than 2^64", shape)


@rule("ninfer.object-order", section="5.3", stage="open")
def object_order(doc: Set) -> Iterator[Fault]:
    """Objects stand in the order of their offsets."""
    offsets = doc.directory.offsets
    if all(map(le, offsets[:-1], offsets[1:])):
        return
    for row in range(1, len(offsets)):
        if offsets[row] < offsets[row - 1]:
            detail = f"{quoted(doc.directory.ids[row])} lies before the object it follows"
            expected = f"at least {offsets[row - 1]}"
            yield Fault(("objects", row, "offset"), detail, expected, offsets[row])


@rule("ninfer.object-overlap", section="5.3", stage="open")
def object_overlap(doc: Set) -> Iterator[Fault]:
    """No two objects share bytes; what is shared is one object."""
    offsets, ends = doc.directory.offsets, _ends(doc.directory)
    if all(map(le, ends[:-1], offsets[1:])):
        return
    for row in range(1, len(offsets)):
        if offsets[row - 1] <= offsets[row] < ends[row - 1]:
            other = quoted(doc.directory.ids[row - 1])
            detail = f"{quoted(doc.directory.ids[row])} overlaps {other}"
            expected = f"at least {ends[row - 1]}"
            yield Fault(("objects", row, "offset"), detail, expected, offsets[row])


@rule("ninfer.object-bounds", section="5.3", stage="open")
def object_bounds(doc: Set) -> Iterator[Fault]:
    """An object lies inside the payload."""
    ends, size = _ends(doc.directory), doc.directory.payload_bytes
    if max(ends) <= size:
        return
    for row, end in enumerate(ends):
        if end > size:
            detail = f"{quoted(doc.directory.ids[row])} runs past the payload"
            yield Fault(("objects", row), detail, f"an end of at most {size}", end)


def _ends(directory: Directory) -> list[int]:
    return list(map(add, directory.offsets, directory.sizes))


# --------------------------------------------------------------------------------------- references


def _references(raw: RawDirectory) -> Iterator[tuple[Place, str]]:
    """Yield every object that a binding refers to, with its place."""
    for where, each in raw.placed_bindings():
        if "object" in each:
            yield (*where, "object"), each["object"]
        for index, part in enumerate(each.get("parts", ())):
            yield (*where, "parts", index, "object"), part["object"]


@rule("ninfer.binding-object", section="11.1", stage="open")
def binding_object(doc: Set) -> Iterator[Fault]:
    """The object that a binding or a part refers to exists and is a tensor."""
    directory = doc.directory
    bad = {*doc.raw.wholes, *doc.raw.part_objects} - directory.elements.keys()
    if not bad:
        return
    for where, name in _references(doc.raw):
        if name in bad:
            found = "a resource" if name in directory.rows else "nothing"
            detail = f"a binding refers to {quoted(name)}"
            yield Fault(where, detail, "a tensor object", found)


@rule("ninfer.part-bounds", section="7.1", stage="open")
def part_bounds(doc: Set) -> Iterator[Fault]:
    """A range lies inside the elements of its object."""
    elements = doc.directory.elements
    ends = [each[1] for each in doc.raw.ranges]
    if all(map(le, ends, map(elements.get, doc.raw.part_objects, repeat(U64)))):
        return
    for where, record in doc.raw.placed_bindings():
        for index, part in enumerate(record.get("parts", ())):
            most = elements.get(part["object"], U64)
            if part["range"][1] > most:
                place = (*where, "parts", index, "range")
                detail = f"a range runs past {quoted(part['object'])}"
                yield Fault(place, detail, f"an end of at most {most}", part["range"][1])


@rule("ninfer.parts-elements", section="1", stage="open")
def parts_elements(doc: Set) -> Iterator[Fault]:
    """The parts of a binding have fewer than 2^64 elements together."""
    if sum([each[1] for each in doc.raw.ranges]) < U64:
        return
    for where, record in doc.raw.placed_bindings():
        ranges = [part["range"] for part in record.get("parts", ())]
        total = sum(end - integer(begin) for begin, end in ranges)
        if total >= U64:
            detail = "a parameter has too many elements"
            yield Fault((*where, "parts"), detail, "fewer than 2^64", total)


@rule("ninfer.use-parameter", section="8", stage="open")
def use_parameter(doc: Set) -> Iterator[Fault]:
    """The parameter of a use is bound."""
    bindings, uses = doc.directory.root["bindings"], doc.directory.root["uses"]
    if {use["parameter"] for use in uses} <= bindings.keys():
        return
    for index, use in enumerate(uses):
        if use["parameter"] not in bindings:
            found = quoted(use["parameter"])
            detail = f"a use takes {found}, which is not bound"
            yield Fault(("uses", index, "parameter"), detail, "a bound parameter", found)


@rule("ninfer.use-unique", section="8", stage="open")
def use_unique(doc: Set) -> Iterator[Fault]:
    """No two uses have the same parameter and input."""
    keys = [(use["parameter"], use["input"]) for use in doc.directory.root["uses"]]
    if len(set(keys)) == len(keys):
        return
    counts = Counter(keys)
    seen = set()
    for index, key in enumerate(keys):
        if counts[key] > 1 and key in seen:
            detail = f"{quoted(key[0])} has two uses at {quoted(key[1])}"
            yield Fault(("uses", index), detail, "one use", counts[key])
        seen.add(key)


@rule("ninfer.component-target", section="4.2", stage="open")
def component_target(doc: Set) -> Iterator[Fault]:
    """The target of a component is a component."""
    components = doc.directory.components
    for name, each in components.items():
        if each.target is not None and each.target not in components:
            where = ("components", name, "target")
            detail = f"the target of {quoted(name)} is no component"
            yield Fault(where, detail, "a component", quoted(each.target))


@rule("ninfer.resource-object", section="4.2", stage="open")
def resource_object(doc: Set) -> Iterator[Fault]:
    """A resource role refers to a resource object."""
    directory = doc.directory
    for name, each in directory.components.items():
        for role, object_ in each.resources.items():
            if object_ not in directory.rows or object_ in directory.elements:
                where = ("components", name, "resources", role)
                found = "a tensor" if object_ in directory.rows else "nothing"
                detail = f"the role {quoted(role)} refers to {quoted(object_)}"
                yield Fault(where, detail, "a resource object", found)


OPEN_RULES: Final[tuple[Rule[Set], ...]] = (
    payload_size,
    file_path_unique,
    entry_size,
    object_id_unique,
    shape_elements,
    object_order,
    object_overlap,
    object_bounds,
    binding_object,
    part_bounds,
    parts_elements,
    use_parameter,
    use_unique,
    component_target,
    resource_object,
)

TEXT_RULES: Final = tuple(each for each in OPEN_RULES if each is not entry_size)
"""Those that a text can be judged by without its file."""


# ------------------------------------------------------------------------------- reading an object


def _object_fault(stored: Stored, slug: ObjectSlug, member: str) -> Iterator[Fault]:
    found = fault_of(stored)
    if found is not None and found[0] == slug:
        where = ("objects", stored.id, member)
        yield Fault(where, f"{quoted(stored.id)}: {found[1]}", found[2], found[3])


@rule("ninfer.tensor-align", section="5.3", stage="content")
def tensor_align(stored: Stored) -> Iterator[Fault]:
    """A tensor starts at a multiple of 256 of the payload."""
    return _object_fault(stored, "align", "offset")


@rule("ninfer.tensor-shape", section="6.2", stage="content")
def tensor_shape(stored: Stored) -> Iterator[Fault]:
    """Format, shape and divisors of a tensor are what its layout can hold."""
    return _object_fault(stored, "shape", "shape")


@rule("ninfer.tensor-bytes", section="5.3", stage="content")
def tensor_bytes(stored: Stored) -> Iterator[Fault]:
    """A tensor has as many bytes as format, layout and shape need."""
    return _object_fault(stored, "bytes", "bytes")


OBJECT_RULES: Final[tuple[Rule[Stored], ...]] = (tensor_align, tensor_shape, tensor_bytes)
