"""An artifact in the terms of a `.zt`, and what it takes to come back from there.

Owns what becomes an object of that model, which its content digest covers (`.zt` §6.4), and what
stays an attribute of the file, which it does not. Reads no payload of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tensorark.core.conversation import Steps
from tensorark.core.model import NORMAL, Catalog, Part, Raw, Span, Tensor
from tensorark.errors import Unsupported
from tensorark.formats.ninfer.describe import describe
from tensorark.formats.ninfer.directory import Directory, StoredResource, resource_tensor
from tensorark.formats.ninfer.frame import HEADER_SIZE
from tensorark.formats.ninfer.holdings import ATTRIBUTE, DESCRIBES, DESCRIPTION, ROLE
from tensorark.formats.ninfer.survey import gaps

_HELD: Final = "\0description"  # no file has this name
_CHUNK: Final = 1 << 20
_MOST_STRAY: Final = 16 << 20  # bytes between objects that are carried


def normalize(catalog: Catalog) -> tuple[Catalog, Mapping[str, bytes]]:
    """Return an artifact with an object for each resource, and one for its description.

    The bytes of the latter are those of a label that no file has.
    """
    directory: Directory = catalog.native
    tensors: dict[str, Tensor] = {}
    for row, name in enumerate(directory.ids):
        if name in catalog.tensors:
            tensors[name] = catalog.tensors[name]
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
    return replace(catalog, format=NORMAL, tensors=tensors, attributes=None), {_HELD: text}


def carry(catalog: Catalog) -> Steps[Mapping[str, object]]:
    """Return the attributes with what the description leaves out and the same bytes need.

    Raises:
        Unsupported: when bytes between objects are not zero and too many to be carried.
    """
    directory: Directory = catalog.native
    frame = directory.frame
    found: dict[str, object] = {
        "artifact_id": directory.artifact_id,
        # Writers fill up with spaces, and so does whoever writes it again.
        "directory": directory.text.rstrip(b" ").decode("utf-8"),
        "json_bytes": frame.json_bytes,
    }
    end = HEADER_SIZE + frame.json_bytes
    (gap,) = yield [Span(end, frame.payload_start - end)]
    if bytes(gap).strip(b"\0"):
        found["gap"] = bytes(gap)
    strays = yield from _strays(directory)
    if strays:
        found["strays"] = strays
    return {ATTRIBUTE: found}


def _strays(directory: Directory) -> Steps[list[object]]:
    """Return the bytes between objects that are not zero, as pairs of offset and bytes."""
    found: list[object] = []
    total = 0
    for begin, length in gaps(directory):
        for offset in range(begin, begin + length, _CHUNK):
            pieces = yield directory.address.spans(offset, min(_CHUNK, begin + length - offset))
            place = offset
            for piece in pieces:
                data = bytes(piece)
                if data.strip(b"\0"):
                    total += len(data)
                    if total > _MOST_STRAY:
                        raise Unsupported(
                            "many bytes between the objects are not zero, and a .zt has no place"
                            " for them",
                            code="ninfer-strays",
                            expected=f"at most {_MOST_STRAY} bytes",
                        )
                    found.append([place, data])
                place += len(data)
    return found
