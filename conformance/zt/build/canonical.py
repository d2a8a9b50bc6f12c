"""Files of `reject/` that are valid and not in canonical form (§6.3).

Where §6.3 leaves a case to two of its rules, the space between blobs decides: a whole unused 64 KiB
slot breaks canonical-blobs, an offset that is no slot breaks canonical-placement. Padding is what
lies before the first slot and between the end of a blob and the next slot; an unused slot is not
padding.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from .cbor import encode
from .image import FLOOR, MAGIC, SLOT, Image, data_shard, footer_for, image, lay
from .manifest import ABSENT, DATA, Map, changed, part, root, shard, tensor, xxh3

_OTHER = bytes(range(11, 19))
_DECOMPOSED = "e\u0301"  # NFC is the single letter é
_EMPTY: Map = {"objects": {}}


def _vector(data: bytes = DATA, at: int = SLOT, **fields: object) -> Map:
    """Return a canonical dense object of u8, changed in the fields of its part."""
    stored = part(blob=[at, len(data)], digest=xxh3(data))
    return tensor(shape=[len(data)], parts={"data": changed(stored, fields)})


def _slots(objects: Map, blobs: dict[int, bytes] | None = None, **fields: object) -> Image:
    """Return a file whose manifest lies in the slot after its blobs."""
    heap = {SLOT: DATA} if blobs is None else blobs
    at = (max([0, *heap]) // SLOT + 1) * SLOT
    return image(root(objects=objects, **fields), heap, at=at)


def canonical_blobs() -> Image:
    """An unreferenced blob, of zeros, lies between the only tensor and the manifest."""
    return _slots({"t": _vector()}, {SLOT: DATA, 2 * SLOT: bytes(8)})


def canonical_blobs__before_the_first() -> Image:
    """The first slot is not used."""
    return _slots({"t": _vector(at=2 * SLOT)}, {2 * SLOT: DATA})


def canonical_blobs__no_tensors() -> Image:
    """The manifest of an empty model lies in the second slot."""
    return image(_EMPTY, {}, at=2 * SLOT)


def canonical_blobs__data_shard() -> Image:
    """A data shard has no manifest."""
    return data_shard()


def canonical_placement() -> Image:
    """The manifest lies at offset 69632, a multiple of 4096 only."""
    return image(_EMPTY, {}, at=SLOT + FLOOR)


def canonical_placement__blob() -> Image:
    """A blob lies at offset 69632, the manifest in the slot after it."""
    return _slots({"t": _vector(at=SLOT + FLOOR)}, {SLOT + FLOOR: DATA})


def canonical_placement__empty() -> Image:
    """A part without bytes stands at the offset of a blob whose name sorts before its own."""
    nothing = part(blob=[SLOT, 0], digest=xxh3(b""))
    objects: Map = {"a": _vector(), "b": tensor(shape=[0], parts={"data": nothing})}
    return _slots(objects)


def canonical_placement__floor() -> Image:
    """The manifest of an empty model lies at offset 4096."""
    return image(_EMPTY, {})


def canonical_placement__footer() -> Image:
    """Eight zero bytes lie between the manifest and the footer."""
    text = encode(_EMPTY)
    return lay({0: MAGIC, SLOT: text + bytes(8)}) + footer_for(text, SLOT).pack()


def canonical_order() -> Image:
    """The blob of `b` lies before the blob of `a`."""
    objects: Map = {"a": _vector(_OTHER, 2 * SLOT), "b": _vector(DATA, SLOT)}
    return _slots(objects, {SLOT: DATA, 2 * SLOT: _OTHER})


def canonical_order__as_in_the_manifest() -> Image:
    """The blob of `z` lies before the blob of `bb`, as their keys do in the manifest."""
    objects: Map = {"bb": _vector(_OTHER, 2 * SLOT), "z": _vector(DATA, SLOT)}
    return _slots(objects, {SLOT: DATA, 2 * SLOT: _OTHER})


def canonical_sharing() -> Image:
    """A u8 vector and a u64 scalar have equal bytes in two blobs."""
    scalar = tensor(
        shape=[], parts={"data": part(dtype="u64", blob=[2 * SLOT, 8], digest=xxh3(DATA))}
    )
    return _slots({"a": _vector(), "b": scalar}, {SLOT: DATA, 2 * SLOT: DATA})


def canonical_raw() -> Image:
    """A part of no elements is stored as an empty zt.zstd-seekable/1 stream."""
    stream = bytes.fromhex("5e2a4d18 09000000 00000000 00 b1ea928f")
    coded = part(
        blob=[SLOT, len(stream)],
        digest=xxh3(b""),
        encoding="zt.zstd-seekable/1",
        decoded_length=0,
    )
    return _slots({"t": tensor(shape=[0], parts={"data": coded})}, {SLOT: stream})


def canonical_digest() -> Image:
    """A part has no digest."""
    return _slots({"t": _vector(digest=ABSENT)})


def canonical_digest__sha256() -> Image:
    """A part has a sha256 digest."""
    return _slots({"t": _vector(digest=f"sha256:{hashlib.sha256(DATA).hexdigest()}")})


def canonical_names() -> Image:
    """The name of a tensor is decomposed."""
    return _slots({_DECOMPOSED: _vector()})


def canonical_names__part() -> Image:
    """The name of a part in an unknown layout is decomposed."""
    parts = {_DECOMPOSED: part(blob=[SLOT, len(DATA)], digest=xxh3(DATA))}
    return _slots({"t": tensor(layout="conformance.unknown/1", parts=parts)})


def canonical_names__attribute() -> Image:
    """A key of the root's attributes is decomposed."""
    return _slots({}, {}, attributes={_DECOMPOSED: 0})


def canonical_names__nested_attribute() -> Image:
    """A key of a map in an array in the root's attributes is decomposed."""
    return _slots({}, {}, attributes={"k": [{_DECOMPOSED: 0}]})


def canonical_names__object_attribute() -> Image:
    """A key of a tensor's attributes is decomposed."""
    return _slots({"t": {**_vector(), "attributes": {_DECOMPOSED: 0}}})


def canonical_shards() -> Image:
    """There is a shard table, and no part uses it."""
    return _slots({}, {}, shards={"00001": shard()})


def canonical_padding() -> Image:
    """The last byte before the manifest of an empty model is not zero."""
    return image(_EMPTY, {SLOT - 1: b"\x01"}, at=SLOT)


def canonical_padding__between_blobs() -> Image:
    """A byte right behind the only blob is not zero."""
    return _slots({"t": _vector()}, {SLOT: DATA, SLOT + len(DATA): b"\x01"})


def canonical_padding__reserved() -> Image:
    """The footer's reserved field is 1."""
    text = encode(_EMPTY)
    return image(text, {}, at=SLOT, footer=replace(footer_for(text, SLOT), reserved=1))


def canonical_manifest() -> Image:
    """The root has a field the specification does not know."""
    return _slots({}, {}, extra=0)


def canonical_manifest__integer_key() -> Image:
    """The root has the key 0."""
    return image({**_EMPTY, 0: 0}, {}, at=SLOT)


def canonical_manifest__object() -> Image:
    """A tensor has a field the specification does not know."""
    return _slots({"t": {**_vector(), "extra": 0}})


def canonical_manifest__part() -> Image:
    """A part has a field the specification does not know."""
    return _slots({"t": _vector(extra=0)})


def canonical_manifest__empty_attributes() -> Image:
    """The root has an empty map of attributes."""
    return _slots({}, {}, attributes={})


def canonical_manifest__empty_attributes_of_an_object() -> Image:
    """A tensor has an empty map of attributes."""
    return _slots({"t": {**_vector(), "attributes": {}}})
