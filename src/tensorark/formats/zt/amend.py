"""The manifest of the next generation of a `.zt` (§2.5): the old one with some entries changed.

Pure. Fields that this library does not know stay where they are: an amendment changes what it was
asked to change and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tensorark.core.model import Encoded, Part, Tensor
from tensorark.errors import InvalidInput
from tensorark.formats.zt.frame import ALIGN, CANONICAL_ALIGN
from tensorark.formats.zt.manifest import Manifest, members_of
from tensorark.wire.cbor import Pairs, Unencodable, decode, encode
from tensorark.wire.gc_pause import pause_gc

Attributes = Mapping[str, object] | None

KEEP: Final[Mapping[str, object]] = {}
"""Given for attributes by identity: those of the old generation stay."""


def amend_manifest(
    manifest: Manifest,
    tensors: Iterable[Tensor] = (),
    *,
    attributes: Attributes = KEEP,
    tensor_attributes: Mapping[str, Attributes] | None = None,
) -> bytes:
    """Encode `manifest` with `tensors` added, or put in the place of those of the same name.

    `attributes` are those of the file, `tensor_attributes` those of tensors that stay; None takes
    the field away.

    Raises:
        InvalidInput: when a name or an attribute has no place in a manifest.
    """
    with pause_gc():
        root = decode(manifest.text, free=len(manifest.text))  # it was opened
        objects = dict(members_of(members_of(root)["objects"]))
        for name, changed in (tensor_attributes or {}).items():
            objects[name] = _with(objects[name], "attributes", changed)
        objects.update((tensor.name, _object(tensor)) for tensor in tensors)
        root = _with(root, "objects", objects)
        if attributes is not KEEP:
            root = _with(root, "attributes", attributes)
        try:
            return encode(root)
        except Unencodable as error:
            raise InvalidInput(
                f"this cannot be stored in a manifest: {error.detail}",
                code="attribute",
                where=error.where,
            ) from None


def infer_align(manifest: Manifest) -> int:
    """Return the placement that a file was written with, as far as its offsets tell.

    The largest power of two that divides them all, from 4096 to 65536.
    """
    # The lowest bit that any offset has is what divides all; the canonical one caps it.
    found = manifest.frame.manifest_offset | CANONICAL_ALIGN
    for offset, shard in zip(manifest.offsets, manifest.part_shards, strict=True):
        if shard is None:
            found |= offset
    return max(ALIGN, found & -found)


def _with(value: object, key: str, member: object) -> object:
    """Return the map `value` with the member `key` set, or taken away for None."""
    if isinstance(value, Pairs):
        rest = [(each, held) for each, held in value.items if each != key]
        return Pairs(tuple(rest if member is None else [*rest, (key, member)]))
    rest_ = {each: held for each, held in members_of(value).items() if each != key}
    return rest_ if member is None else {**rest_, key: member}


def _object(tensor: Tensor) -> dict[str, object]:
    members: dict[str, object] = {
        "parts": {role: _part(part) for role, part in tensor.parts.items()},
        "shape": tensor.shape,
        "layout": tensor.layout,
    }
    if tensor.attributes is not None:
        members["attributes"] = tensor.attributes
    return members


def _part(part: Part) -> dict[str, object]:
    (span,) = part.blob.spans
    members: dict[str, object] = {"blob": (span.offset, span.length), "dtype": part.dtype}
    optional = {"type": part.type, "shard": span.file, "digest": part.digest}
    members.update((key, value) for key, value in optional.items() if value is not None)
    if isinstance(part.blob, Encoded):
        members |= {"encoding": part.blob.encoding, "decoded_length": part.blob.nbytes}
    return members
