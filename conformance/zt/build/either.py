"""Files of `either/`: the specification is silent or can be read in two ways.

A decoder may answer what it likes but must not crash. The JSON beside each file records the choice
of this corpus, and why.
"""

from __future__ import annotations

import hashlib

import xxhash

from conformance.build.case import ACCEPT, REFUSE, REJECT, Case, Expect

from .case import READABLE, contents
from .cbor import ARRAY, MAP, Raw, encode, head
from .image import FLOOR, SLOT, image
from .manifest import DATA, Map, bare, part, root, tensor, usual, xxh3
from .rules import ZSTD
from .seekable import encoded, frame, stream

_UNKNOWN = "conformance.unknown/1"


def _chosen(section: str, manifest: Map, why: str, expect: Expect = READABLE) -> Case:
    blobs = {FLOOR: DATA}
    return Case(
        image=image(manifest, blobs),
        section=section,
        expect=expect,
        contents=contents(manifest, blobs),
        notes={"why": why},
    )


def _rejected(section: str, built: bytes, rule: str, why: str) -> Case:
    return Case(
        image=built, section=section, expect={"open": REJECT}, rule=rule, notes={"why": why}
    )


def shape_zero_first() -> Case:
    """The dimensions 0, 2^63 and 4 have the product 0."""
    nothing = {"data": part(blob=[FLOOR, 0])}
    return _chosen(
        "3.3",
        root(objects={"t": tensor(shape=[0, 1 << 63, 4], parts=nothing)}),
        "Multiplied from left to right nothing overflows.",
    )


def shape_zero_last() -> Case:
    """The dimensions 2^63, 4 and 0 have the product 0, after one of 2^65."""
    nothing = {"data": part(blob=[FLOOR, 0])}
    return _rejected(
        "3.3",
        usual(root(objects={"t": tensor(shape=[1 << 63, 4, 0], parts=nothing)})),
        "zt.shape-product",
        "Multiplied from left to right it overflows on the way; the public reader rejects it too.",
    )


def empty_shard_table() -> Case:
    """`shards` is an empty map."""
    return _chosen("3.2", root(shards={}), "It declares nothing, as its absence does.")


def blob_is_manifest() -> Case:
    """The blob of a tensor is the manifest blob."""
    length = 0
    while True:
        own = tensor(shape=[length], parts={"data": part(blob=[FLOOR, length])})
        manifest = root(objects={"t": own})
        text = encode(manifest)
        if len(text) == length:
            break
        length = len(text)
    return Case(
        image=bare(manifest),
        section="2.4",
        expect=READABLE,
        contents=contents(manifest, {FLOOR: text}),
        notes={"why": "Identical references are valid, and the manifest blob is no exception."},
    )


def raw_and_encoded() -> Case:
    """One blob is raw in one part and encoded in another."""
    coded = part(encoding=_UNKNOWN, decoded_length=16)
    objects = {"coded": tensor(shape=[16], parts={"data": coded}), "raw": tensor()}
    return _chosen(
        "2.4",
        root(objects=objects),
        "References are compared by offset and length alone.",
        {"open": ACCEPT, "decode": REFUSE},
    )


_LENGTH = "The form is right, so it opens; a digest with another number of digits matches nothing."


def _digest(digest: str, data: bytes = DATA) -> Case:
    manifest = root(objects={"t": tensor(parts={"data": part(digest=digest)})})
    return Case(
        image=image(manifest, {FLOOR: data}),
        section="3.4",
        expect={"open": ACCEPT, "verify": REJECT},
        contents=contents(manifest, {FLOOR: data}),
        rule="zt.digest",
        notes={"why": _LENGTH},
    )


def digest_too_short() -> Case:
    """An xxh3 digest has 15 digits: the right ones, without their leading zero."""
    leading_zero = (bytes([n] * 8) for n in range(256))
    data = next(data for data in leading_zero if xxh3(data).startswith("xxh3:0"))
    return _digest(xxh3(data).replace("xxh3:0", "xxh3:"), data)


def digest_of_one_digit() -> Case:
    """An xxh3 digest has one digit."""
    return _digest("xxh3:0")


def digest_cut() -> Case:
    """A sha256 digest lacks its second half."""
    return _digest(f"sha256:{hashlib.sha256(DATA).hexdigest()[:32]}")


def digest_too_long() -> Case:
    """An xxh3 digest is an XXH3-128 and has 32 digits."""
    return _digest(f"xxh3:{xxhash.xxh3_128_hexdigest(DATA)}")


def nested_keys() -> Case:
    """Maps inside attributes have keys that are empty, too long, U+0000, or no text."""
    odd: Map = {"": 1, "\0": 2, "n" * 2000: 3, 0: 4, -1: 5, b"k": 6, None: 7}
    return _chosen(
        "3.5",
        root(attributes={"k": odd}, objects={"t": tensor(attributes={"k": [odd]})}),
        "The name rules hold for the keys of an attributes map itself, as in the public reader.",
    )


def empty_layout() -> Case:
    """`layout` is the empty text."""
    return _chosen(
        "3.3",
        root(objects={"t": tensor(layout="")}),
        "Ids without a namespace or a version are unknown, not malformed.",
        {"open": ACCEPT, "decode": REFUSE},
    )


def empty_type() -> Case:
    """`type` is the empty text."""
    return _chosen(
        "3.4",
        root(objects={"t": tensor(parts={"data": part(type="")})}),
        "It is a logical type nobody registered.",
        {"open": ACCEPT, "decode": REFUSE},
    )


def empty_encoding() -> Case:
    """`encoding` is the empty text."""
    return _chosen(
        "3.4",
        root(objects={"t": tensor(parts={"data": part(encoding="", decoded_length=8)})}),
        "It is an encoding nobody defined, not the raw one.",
        {"open": ACCEPT, "decode": REFUSE},
    )


def type_is_dtype() -> Case:
    """`type` repeats the dtype, `u8`."""
    return _chosen(
        "4.2",
        root(objects={"t": tensor(parts={"data": part(type="u8")})}),
        "Storage types are not in the registry of logical types; only absence means the dtype.",
        {"open": ACCEPT, "decode": REFUSE},
    )


# --- depth: the root map is level 0, and whatever a container holds is one level deeper ----------

_DEPTH = "The root is level 0 and level 32 is the last; scalars, keys and empty containers count."


def depth_32_scalar() -> Case:
    """An attribute is an integer inside 30 arrays and lies at level 32."""
    value: object = 0
    for _ in range(30):
        value = [value]
    return _chosen("3.1", root(attributes={"k": value}), _DEPTH)


def depth_32_array() -> Case:
    """An attribute is an empty array inside 30 arrays and lies at level 32."""
    value: object = []
    for _ in range(30):
        value = [value]
    return _chosen("3.1", root(attributes={"k": value}), _DEPTH)


def _deep(raw: bytes) -> Case:
    built = bare({"x": Raw(raw), "objects": {}})
    return _rejected("3.1", built, "zt.cbor-depth", _DEPTH)


def depth_33_scalar() -> Case:
    """An ignored value is an integer inside 32 arrays and lies at level 33."""
    return _deep(head(ARRAY, 1) * 32 + b"\x00")


def depth_33_array() -> Case:
    """An ignored value is an empty array inside 32 arrays and lies at level 33."""
    return _deep(head(ARRAY, 1) * 32 + head(ARRAY, 0))


def depth_33_key() -> Case:
    """An ignored value is a map inside 31 arrays, whose key lies at level 33."""
    return _deep(head(ARRAY, 1) * 31 + head(MAP, 1) + b"\x00\x00")


# --- canonical form ------------------------------------------------------------------------------


def canonical_zero_length() -> Case:
    """A canonical model with zero-length parts: they share the offset of the next blob."""
    empty = {"data": part(blob=[SLOT, 0], digest=xxh3(b""))}
    objects: Map = {
        "a": tensor(shape=[0], parts=empty),
        "b": tensor(parts={"data": part(blob=[SLOT, 8], digest=xxh3(DATA))}),
        "c": tensor(shape=[0, 4], parts=empty),
    }
    manifest = root(objects=objects)
    return Case(
        image=image(manifest, {SLOT: DATA}, at=2 * SLOT),
        section="6.3.2",
        expect={**READABLE, "canonical": ACCEPT},
        contents=contents(manifest, {SLOT: DATA}, canonical=True),
        notes={"why": "A blob without bytes takes no room; the public writer places it so."},
    )


def zstd_seekable__window() -> Case:
    """A frame of five bytes asks for a window of 512 MiB, which a decoder may find too large."""
    content = b"hello"
    stored = stream((frame(content, window=b"\x98"), len(content)))
    manifest = root(objects={"t": encoded(stored, content)})
    blobs = {FLOOR: stored}
    why = "A frame of at most 16 MiB is decoded in one piece: nobody needs the window."
    return Case(
        image=image(manifest, blobs),
        section=ZSTD,
        expect=READABLE,
        contents=contents(manifest, blobs, decoded={FLOOR: content}),
        notes={"why": why},
    )
