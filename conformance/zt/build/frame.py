"""Files of `reject/` with a wrong frame: magic, footer, place of the manifest (§2, §3.1, §7.2)."""

from __future__ import annotations

from dataclasses import replace

import xxhash

from .cbor import encode, head
from .image import (
    FLOOR,
    FOOTER_SIZE,
    MAGIC,
    Footer,
    Image,
    Sparse,
    data_shard,
    footer_for,
    image,
    lay,
)
from .manifest import DATA, root, usual

_GIB = 1 << 30
_MANIFEST_AT = 8192  # where `usual` puts it


def _with_footer(**changes: object) -> bytes:
    """Return the usual file with some numbers of its footer replaced."""
    text = encode(root())
    footer = replace(footer_for(text, _MANIFEST_AT), **changes)  # type: ignore[arg-type]
    return image(text, {FLOOR: DATA}, footer=footer)


def file_size() -> Image:
    """The file has 47 bytes: the footer of a data shard lacks its first byte."""
    return MAGIC + Footer().pack()[1:]


def file_size__empty() -> Image:
    """The file has no bytes."""
    return b""


def file_size__magic_only() -> Image:
    """The file is the magic alone, which is both its first and its last eight bytes."""
    return MAGIC


def header_magic() -> Image:
    """The high bit of the first byte is lost, as in a 7-bit transfer."""
    return b"\x09" + usual(root())[1:]


def header_magic__line_ends() -> Image:
    """The CR of the first magic has become a LF."""
    return usual(root()).replace(b"\r\n", b"\n\n", 1)


def header_magic__version_1() -> Image:
    """The file begins with the magic of the format's first version."""
    return b"ZTEN1000" + usual(root())[len(MAGIC) :]


def footer_magic() -> Image:
    """The last byte is not the magic's."""
    return usual(root())[:-1] + b"\r"


def footer_magic__torn_append() -> Image:
    """An append stopped eight bytes short; the first generation, still whole, stays dead."""
    first = usual(root())
    at = -(-len(first) // FLOOR) * FLOOR
    text = encode(root())
    return lay({0: first, at: text}) + replace(footer_for(text, at), magic=bytes(8)).pack()


def version() -> Image:
    """The footer says version 3."""
    return _with_footer(version=3)


def version__one() -> Image:
    """The footer says version 1."""
    return _with_footer(version=1)


def version__zero() -> Image:
    """The footer says version 0."""
    return _with_footer(version=0)


def version__big_endian() -> Image:
    """The footer holds the version 2 in the wrong byte order."""
    return _with_footer(version=0x02000000)


def version__data_shard() -> Image:
    """A data shard says version 3."""
    return data_shard(version=3)


def data_shard__offset() -> Image:
    """The footer has a manifest offset and no manifest length."""
    return data_shard(offset=FLOOR)


def data_shard__hash() -> Image:
    """The footer has the hash of zero bytes and no manifest length."""
    return data_shard(hash=xxhash.xxh3_64_intdigest(b""))


def manifest_size() -> Image:
    """The manifest is deterministic, intact and one byte longer than 1 GiB."""
    tail = encode("objects") + encode({})
    length = _GIB + 1 - len(head(5, 2) + encode("x") + head(2, _GIB // 2) + tail)
    start = head(5, 2) + encode("x") + head(2, length)
    hasher = xxhash.xxh3_64(start)
    for _ in range(length >> 20):
        hasher.update(bytes(1 << 20))
    hasher.update(bytes(length & (1 << 20) - 1) + tail)
    size = len(start) + length + len(tail)
    footer = Footer(offset=FLOOR, length=size, hash=hasher.intdigest())
    spans = {0: MAGIC, FLOOR: start, FLOOR + size - len(tail): tail + footer.pack()}
    return Sparse(size=FLOOR + size + FOOTER_SIZE, spans=spans)


def manifest_align() -> Image:
    """The manifest lies at offset 8196."""
    return image(root(), {FLOOR: DATA}, at=_MANIFEST_AT + 4)


def manifest_align__below_floor() -> Image:
    """The manifest lies at offset 2048."""
    return image({"objects": {}}, {}, at=2048)


def manifest_align__zero() -> Image:
    """The footer's manifest lies at offset 0, where the magic is; its hash is right."""
    body = lay({0: MAGIC}, 64)
    return body + footer_for(body, 0).pack()


def manifest_bounds() -> Image:
    """The manifest begins far behind the end of the file."""
    return _with_footer(offset=1 << 20)


def manifest_bounds__into_footer() -> Image:
    """The manifest runs one byte into the footer; its hash covers that byte."""
    text = encode(root())
    covered = footer_for(text + Footer(offset=_MANIFEST_AT).pack()[:1], _MANIFEST_AT)
    return image(text, {FLOOR: DATA}, footer=covered)


def manifest_bounds__one_gib() -> Image:
    """The manifest's length is the largest allowed, in a file of a few kilobytes."""
    return _with_footer(length=_GIB)


def manifest_bounds__wraps() -> Image:
    """The manifest's offset and length add up to 4096 in 64-bit arithmetic."""
    return _with_footer(offset=(1 << 64) - FLOOR, length=2 * FLOOR)


def manifest_hash() -> Image:
    """One bit of the hash is wrong."""
    return _with_footer(hash=xxhash.xxh3_64_intdigest(encode(root())) ^ 1)


def manifest_hash__big_endian() -> Image:
    """The hash is stored in the wrong byte order."""
    digest = xxhash.xxh3_64_digest(encode(root()))
    return _with_footer(hash=int.from_bytes(digest, "little"))


def manifest_hash__xxh64() -> Image:
    """The hash is an XXH64, not an XXH3-64."""
    return _with_footer(hash=xxhash.xxh64_intdigest(encode(root())))


def manifest_hash__zero() -> Image:
    """The hash is 0, which does not mean that there is none."""
    return _with_footer(hash=0)
