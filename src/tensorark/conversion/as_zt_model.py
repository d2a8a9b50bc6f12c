"""Any model as the `.zt` model that it converts to: what identity, diffs and signatures cover.

Owns what of a format becomes an object of that model, which the content digest covers (`.zt` §6.4),
and what stays an attribute of the file, which it does not. Reads no payload of tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.errors import Unsupported
from tensorark.files import File
from tensorark.files.folder import require_whole
from tensorark.formats.ninfer.describe import describe
from tensorark.formats.ninfer.directory import (
    Directory,
    StoredResource,
    resource_tensor,
)
from tensorark.formats.ninfer.frame import HEADER_SIZE
from tensorark.formats.ninfer.holdings import (
    ATTRIBUTE,
    DESCRIBES,
    DESCRIPTION,
    ROLE,
    description_of,
)
from tensorark.formats.ninfer.survey import gaps

_HELD: Final = "\0description"  # no file has this name
_MOST_STRAY: Final = 16 << 20  # bytes between objects that are carried


def normalize(file: File) -> File:
    """Return a model in the terms of `.zt`: the same tensors, attributes with their types.

    A NInfer artifact gets an object for every resource, and one for all else that its directory
    says. A `.zt` is itself.
    """
    if file.format.name == "zt":
        return file
    if file.format.name == "safetensors":
        require_whole(file.path)
    native = file.catalog.native
    if isinstance(native, Directory):
        return file if description_of(file.catalog) else _artifact(file, native)
    if file.catalog.format == "zt":  # in these terms already
        return file
    tensors = file.catalog.tensors
    if not all(file.catalog.tensor_attributes.values()):  # no attributes are none
        tensors = {
            name: replace(each, attributes=each.attributes or None)
            for name, each in tensors.items()
        }
    attributes = file.catalog.attributes or None
    catalog = replace(file.catalog, format="zt", tensors=tensors, attributes=attributes)
    return file.with_catalog(catalog)


def as_zt_model(file: File) -> File:
    """Return a model as a `.zt` carries it: `normalize` it, with all that it takes to come back.

    Raises:
        Unsupported: when bytes between objects are not zero and too many to be carried.
    """
    model = normalize(file)
    native = file.catalog.native
    if not isinstance(native, Directory) or ATTRIBUTE in (model.catalog.attributes or {}):
        return model
    attributes = {ATTRIBUTE: _placement(file, native)}
    return model.with_catalog(replace(model.catalog, attributes=attributes))


def _artifact(file: File, directory: Directory) -> File:
    """Return an artifact with an object for each resource, and one for its description."""
    tensors: dict[str, Tensor] = {}
    for row, name in enumerate(directory.ids):
        if name in file.catalog.tensors:
            tensors[name] = file.catalog.tensors[name]
            continue
        stored = directory.stored(row)
        if isinstance(stored, StoredResource):
            tensors[name] = resource_tensor(stored, directory.blob(stored))
    text = describe(directory)
    name = DESCRIPTION
    while name in tensors:  # an id may be any text
        name += "'"
    part = Part(Raw((Span(0, len(text), _HELD),)), "u8")
    tensors[name] = Tensor(name, (len(text),), "dense", {"data": part}, {ROLE: DESCRIBES})
    catalog = replace(file.catalog, format="zt", tensors=tensors, attributes=None)
    return file.with_catalog(catalog, {_HELD: text})


def _placement(file: File, directory: Directory) -> Mapping[str, object]:
    """Return what the description leaves out and the same bytes need."""
    frame = directory.frame
    found: dict[str, object] = {
        "artifact_id": directory.artifact_id,
        # Writers fill up with spaces, and so does whoever writes it again.
        "directory": directory.text.rstrip(b" ").decode("utf-8"),
        "json_bytes": frame.json_bytes,
    }
    end = HEADER_SIZE + frame.json_bytes
    (gap,) = file.source.read([Span(end, frame.payload_start - end)])
    if bytes(gap).strip(b"\0"):
        found["gap"] = bytes(gap)
    strays = _strays(file, directory)
    if strays:
        found["strays"] = strays
    return found


def _strays(file: File, directory: Directory) -> list[object]:
    """Return the bytes between objects that are not zero, as pairs of offset and bytes."""
    found: list[object] = []
    total = 0
    for offset, length in gaps(directory):
        place = offset
        for chunk in payload_of(file, directory, offset, length):
            data = bytes(chunk)
            if data.strip(b"\0"):
                total += len(data)
                if total > _MOST_STRAY:
                    raise Unsupported(
                        "many bytes between the objects are not zero, and a .zt has no place for"
                        " them",
                        code="ninfer-strays",
                        path=file.path,
                        expected=f"at most {_MOST_STRAY} bytes",
                    )
                found.append([place, data])
            place += len(data)
    return found


def payload_of(
    file: File, directory: Directory, offset: int = 0, length: int | None = None
) -> Iterator[memoryview]:
    """Yield logical payload [offset, offset + length), all of it by default, in pieces."""
    length = directory.payload_bytes - offset if length is None else length
    return file.chunks(Part(Raw(directory.address.spans(offset, length)), "u8"))
