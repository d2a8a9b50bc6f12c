"""The bytes of a `.zt` other than its blobs: manifest, footer, padding, and where blobs go.

Pure: gives bytes and offsets, never touches a file. The same tensors give the same bytes (§6.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

import xxhash

from tensorark.core.model import Encoded, Part, Shard, Tensor
from tensorark.errors import InvalidInput
from tensorark.formats.zt.frame import ALIGN, encode_footer
from tensorark.wire.cbor import (
    Unencodable,
    encode,
    encode_head,
    encode_integer,
    encode_text,
)

_EncodePart = Callable[[Part], bytes]
_ARRAY: Final = 4
_MAP: Final = 5
# Below, the members of records are written in the order of their encoded keys (§3.1).
_KEY: Final = {
    name: encode_text(name)
    for name in (
        "attributes",
        "blob",
        "decoded_length",
        "digest",
        "dtype",
        "encoding",
        "layout",
        "objects",
        "parts",
        "shape",
        "shard",
        "shards",
        "size",
        "type",
    )
}


_BLOB: Final = _KEY["blob"] + encode_head(_ARRAY, 2)
_id = lru_cache(1 << 8)(encode_text)  # few roles, layouts, encodings and shards, very many times


def align_up(offset: int, align: int) -> int:
    """Return the first multiple of `align` at or after `offset`, but never 0 (§2.4)."""
    return max(align, -(-offset // align) * align)


def check_align(align: int) -> int:
    """Return `align` if blobs may be placed at its multiples.

    Raises:
        InvalidInput: when it is no positive multiple of 4096.
    """
    if align < ALIGN or align % ALIGN:
        detail = "the alignment must be a positive multiple of 4096"
        raise InvalidInput(detail, code="align", expected=f"a multiple of {ALIGN}", found=align)
    return align


def encode_manifest(
    tensors: Iterable[Tensor],
    attributes: Mapping[str, object] | None = None,
    shards: Mapping[str, Shard] | None = None,
) -> bytes:
    """Encode the manifest of `tensors`, whose blobs have been placed (§3).

    Raises:
        InvalidInput: when a name or an attribute has no place in a manifest.
    """
    members: list[bytes] = []
    if shards:
        entries = {
            name: {"size": shard.size, "digest": shard.digest} for name, shard in shards.items()
        }
        members.append(_KEY["shards"] + encode(entries))
    members.append(_KEY["objects"] + encode_objects(tensors, _encode_part))
    if attributes is not None:
        members.append(_KEY["attributes"] + _encode_attributes(attributes, ("attributes",)))
    return encode_head(_MAP, len(members)) + b"".join(members)


def encode_objects(tensors: Iterable[Tensor], encode_part: _EncodePart) -> bytes:
    """Encode the `objects` map, each part by `encode_part`; keys sorted as §3.1 demands.

    Raises:
        InvalidInput: when something of a tensor has no place in a manifest.
    """
    entries: list[tuple[bytes, bytes]] = []
    for tensor in _unique(tensors):
        try:
            entries.append((encode_text(tensor.name), _encode_object(tensor, encode_part)))
        except Unencodable as error:
            raise InvalidInput(
                f"this cannot be stored in a manifest: {error.detail}",
                code="manifest",
                where=("objects", tensor.name),
            ) from None
    entries.sort()
    return encode_head(_MAP, len(entries)) + b"".join([key + value for key, value in entries])


def _unique(tensors: Iterable[Tensor]) -> Iterable[Tensor]:
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise InvalidInput(
                "a tensor is given twice", code="name", where=("objects", tensor.name)
            )
        seen.add(tensor.name)
        yield tensor


def _encode_object(tensor: Tensor, encode_part: _EncodePart) -> bytes:
    parts = sorted([(_id(role), encode_part(part)) for role, part in tensor.parts.items()])
    members = [
        _KEY["parts"] + encode_head(_MAP, len(parts)) + b"".join([k + part for k, part in parts]),
        _encode_shape(tensor.shape),
        _KEY["layout"] + _id(tensor.layout),
    ]
    if tensor.attributes is not None:
        where = ("objects", tensor.name, "attributes")
        members.append(_KEY["attributes"] + _encode_attributes(tensor.attributes, where))
    return encode_head(_MAP, len(members)) + b"".join(members)


@lru_cache(1 << 10)  # models repeat few shapes many times
def _encode_shape(shape: tuple[int, ...]) -> bytes:
    dimensions = [encode_integer(dimension) for dimension in shape]
    return _KEY["shape"] + encode_head(_ARRAY, len(shape)) + b"".join(dimensions)


def _encode_attributes(attributes: Mapping[str, object], where: tuple[str | int, ...]) -> bytes:
    try:
        return encode(attributes)
    except Unencodable as error:
        raise InvalidInput(
            f"an attribute cannot be stored: {error.detail}",
            code="attribute",
            where=(*where, *error.where),
        ) from None


def _encode_part(part: Part) -> bytes:
    (span,) = part.blob.spans
    members = [
        _BLOB + encode_integer(span.offset) + encode_integer(span.length),
        *_encode_ids(part.dtype, part.type),
    ]
    if span.file is not None:
        members.append(_KEY["shard"] + _id(span.file))
    if part.digest is not None:
        members.append(_KEY["digest"] + encode_text(part.digest))
    if isinstance(part.blob, Encoded):
        members.append(_KEY["encoding"] + _id(part.blob.encoding))
        members.append(_KEY["decoded_length"] + encode_integer(part.blob.nbytes))
    return encode_head(_MAP, len(members)) + b"".join(members)


@lru_cache(1 << 6)
def _encode_ids(dtype: str, type_: str | None) -> tuple[bytes, ...]:
    """Encode the members `type`, if any, and `dtype` of a part."""
    member = _KEY["dtype"] + encode_text(dtype)
    return (member,) if type_ is None else (_KEY["type"] + encode_text(type_), member)


def encode_content_part(part: Part) -> bytes:
    """Encode what the content digest takes from a part: its ids and its digest (§6.4)."""
    members = [*_encode_ids(part.dtype, part.type)]
    members.append(_KEY["digest"] + encode_text(part.digest or ""))
    return encode_head(_MAP, len(members)) + b"".join(members)


def encode_tail(manifest: bytes, offset: int) -> bytes:
    """Return manifest and footer, for a manifest placed at `offset`: the end of the file."""
    return manifest + encode_footer(offset, len(manifest), xxhash.xxh3_64_intdigest(manifest))
