"""What an artifact holds beside tensors and attributes, by kind and name. Reads no payload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tensorark.core.ledger import Names
from tensorark.core.model import Catalog, Part, Span, Tensor
from tensorark.formats.ninfer.describe import describe, parse_description, statements
from tensorark.formats.ninfer.directory import Directory, StoredResource
from tensorark.formats.ninfer.frame import HEADER_SIZE
from tensorark.formats.ninfer.survey import gaps as gaps_of

KINDS: Final[Mapping[str, str]] = {
    "binding": "bindings",
    "component": "components",
    "config": "configs",
    "encoding": "encodings",
    "provenance": "provenance",
    "role": "roles",
    "use": "uses",
}
"""Kinds of statements in a directory, and how they are called as things that are held."""

PAYLOAD: Final = "payload bytes"
"""How ranges between objects are called, which an artifact that is written anew keeps."""

ATTRIBUTE: Final = "ninfer"
"""Holds, in a `.zt` that came from an artifact, its id, the text of its directory and odd bytes."""

ROLE: Final = "tensorark.role"
DESCRIBES: Final = "ninfer.description/1"
"""Key and value of the attribute by which the object that describes an artifact is known."""

DESCRIPTION: Final = "tensorark.ninfer"
"""Name of that object, unless an object of the artifact has it."""


def holds(origin: Catalog, now: Catalog) -> Mapping[str, Names]:
    """State what the directory says; in the terms of a `.zt`, all of it is objects."""
    if description_of(now) is not None:
        return {}
    directory: Directory = origin.native
    found: dict[str, list[str]] = {kind: [] for kind in sorted({*KINDS.values(), "resources"})}
    for what, name in statements(parse_description(describe(directory)) or {}):
        if what in KINDS:
            found[KINDS[what]].append(name)
    found["resources"] = [each for each in directory.ids if each not in directory.elements]
    return {kind: names.copy for kind, names in found.items()}


def gaps(origin: Catalog, now: Catalog) -> Iterator[tuple[str, Sequence[Span]]]:
    """Yield what lies between directory and payload, then between objects."""
    if description_of(now) is not None:
        return
    directory: Directory = origin.native
    start, stop = HEADER_SIZE + directory.frame.json_bytes, directory.frame.payload_start
    yield f"bytes {start} to {stop} of the entry", (Span(start, stop - start),)
    for offset, length in gaps_of(directory):
        name = f"{PAYLOAD} {offset} to {offset + length}"
        yield name, directory.address.spans(offset, length)


def resources(catalog: Catalog) -> Iterator[tuple[tuple[str, ...], Part]]:
    """Yield the resource objects, in order of their offsets."""
    directory: Directory = catalog.native
    for stored in map(directory.stored, range(len(directory.ids))):
        if isinstance(stored, StoredResource):
            yield ("objects", stored.id), Part(directory.blob(stored), "u8")


def description_of(catalog: Catalog) -> Tensor | None:
    """Return the object of a `.zt` model that describes an artifact; None where there is none."""
    first = catalog.tensors.get(DESCRIPTION)
    found = first and _describes(first)
    if found:
        return first
    return next(filter(_describes, catalog.tensors.values()), None)


def _describes(tensor: Tensor) -> bool:
    part = tensor.parts.get("data")
    is_text = tensor.layout == "dense" and part is not None and part.dtype == "u8"
    return is_text and (tensor.attributes or {}).get(ROLE) == DESCRIBES
