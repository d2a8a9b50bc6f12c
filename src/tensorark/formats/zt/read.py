"""Reading a `.zt` (§8): the conversation that opens one in two round trips, and its recognition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import xxhash

from tensorark.core.conversation import Steps
from tensorark.core.ledger import Names
from tensorark.core.model import Catalog, Span, Undescribed
from tensorark.core.rules import Fault, Reading
from tensorark.errors import LimitExceeded
from tensorark.formats.format import SizeOf
from tensorark.formats.zt import rules
from tensorark.formats.zt.frame import (
    FOOTER_SIZE,
    FRAME_RULES,
    MAGIC,
    MAGIC_RULES,
    RawFrame,
    file_size,
    parse_frame,
)
from tensorark.formats.zt.layouts import judge_layouts
from tensorark.formats.zt.manifest import (
    Manifest,
    Tensors,
    build_manifest,
    parse_manifest,
    strange_fields,
)
from tensorark.formats.zt.plain import is_sound, recognize
from tensorark.wire.cbor import CborFault, decode
from tensorark.wire.gc_pause import pause_gc

NAME: Final = "zt"
_MEMBERS: Final = frozenset(("attributes", "objects", "shards"))
"""What a manifest is made of (§3.2): other members are judged and not built (§3.1)."""


def sniff(head: bytes, tail: bytes, size: int) -> bool:
    """Tell whether a file is meant to be a `.zt`: either magic stands in its place."""
    return size > 0 and (head.startswith(MAGIC) or (size >= len(MAGIC) and tail.endswith(MAGIC)))


def read(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open a `.zt`: frame and footer, then the manifest; every rule that needs no payload.

    The catalog's `native` is a `Manifest`, or a `RawFrame` for a data shard (§7.2).
    """
    size = size_of(None)
    reading.require((file_size,), size)
    head, tail = yield (Span(0, len(MAGIC)), Span(size - FOOTER_SIZE, FOOTER_SIZE))
    frame = parse_frame(head, tail, size)
    reading.require(MAGIC_RULES, frame)
    reading.require(FRAME_RULES, frame)
    if frame.is_data_shard:
        return Catalog(NAME, Undescribed(), native=frame)
    limit = reading.limits.zt_manifest
    if frame.manifest_length > limit:
        raise LimitExceeded(
            "the manifest is too large", expected=limit, found=frame.manifest_length
        )
    (text,) = yield (Span(frame.manifest_offset, frame.manifest_length),)
    manifest = judge_manifest(text, frame, reading)
    shards = manifest.shards
    return Catalog(
        NAME, Tensors(manifest), manifest.attributes, manifest, tuple(shards), dict(shards)
    )


def holds(origin: Catalog, _now: Catalog) -> Mapping[str, Names]:
    """State what a manifest says that its format does not define."""
    manifest = origin.native
    return {"fields": lambda: unknown_fields(manifest)} if isinstance(manifest, Manifest) else {}


def unknown_fields(manifest: Manifest) -> list[str]:
    """Return the fields of a manifest that are not defined, which readers ignore (§3.1)."""
    if not manifest.has_strange_fields:
        return []
    text = manifest.text
    with pause_gc():
        return [
            *strange_fields(decode(text, ("objects", recognize, is_sound), _MEMBERS, len(text)))
        ]


def judge_manifest(data: bytes | memoryview, frame: RawFrame, reading: Reading) -> Manifest:
    """Check the bytes of a manifest by every rule of §3.6 and build the trusted record."""
    hashes = (frame.manifest_hash, xxhash.xxh3_64_intdigest(data), frame.data_end)
    reading.require((rules.manifest_hash,), hashes)
    text = bytes(data)  # copied only now: what is mapped and damaged costs no memory
    with pause_gc():
        try:
            root = decode(
                text, ("objects", recognize, is_sound), _MEMBERS, reading.limits.free_values
            )
        except CborFault as fault:
            broken = rules.BY_ID["zt." + fault.slug]
            (where,) = broken(fault)
            offset = frame.manifest_offset + fault.offset
            raise reading.reject(broken, Fault(where.where, where.detail, offset=offset)) from None
        raw = parse_manifest(text, root, frame)
        reading.require(rules.SCHEMA_RULES, raw, raw.offset_of)
        manifest = build_manifest(raw)
        reading.require(rules.REFERENCE_RULES, manifest, manifest.offset_of)
        if not reading.structural:
            judge_layouts(manifest, reading)
        reading.require(rules.PLACEMENT_RULES, manifest, manifest.offset_of)
    return manifest
