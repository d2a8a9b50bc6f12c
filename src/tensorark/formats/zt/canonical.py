"""Canonical form (§6.3): one rule for each of its demands, judged on an opened manifest.

Padding and sharing need bytes: the facts about them are found by a conversation, then judged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import xxhash

from tensorark.core.conversation import Steps
from tensorark.core.model import Span
from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.formats.zt.encode import align_up, encode_manifest
from tensorark.formats.zt.frame import CANONICAL_ALIGN, MAGIC, RawFrame
from tensorark.formats.zt.manifest import Manifest, Tensors
from tensorark.formats.zt.rules import MAX_NAME
from tensorark.wire.cbor import Pairs

_XXH3: Final = re.compile("xxh3:[0-9a-f]{16}")
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """A manifest, with what had to be read to judge the placement of its blobs.

    `dirty` holds the offsets of padding bytes that are not zero; `twins` pairs of parts whose bytes
    are equal and whose blobs differ; `wrong` parts whose digest is another one, with that.
    """

    manifest: Manifest
    dirty: Sequence[int] = ()
    twins: Sequence[tuple[int, int]] = ()
    wrong: Sequence[tuple[int, str]] = ()


def judge(native: Manifest | RawFrame, reading: Reading, *, digests: bool = False) -> Steps[None]:
    """Check every rule of canonical form, reading padding and blobs that may be equal.

    `native` is what `read` leaves in a catalog: a frame is that of a data shard. With `digests` all
    payload is read, and the digests of parts are computed; else somebody else verifies them.

    Raises:
        Rejected: for the first broken rule, unless `reading` gathers.
    """
    if isinstance(native, RawFrame):
        detail = "a data shard holds no manifest, so nothing refers to its blobs"
        fault = Fault((), detail, "one manifest", "none", native.data_end)
        raise reading.reject(canonical_blobs, fault)
    dirty = yield from _dirty_padding(native)
    twins = yield from _twins(native)
    wrong = (yield from _wrong_digests(native)) if digests else ()
    reading.require(CANONICAL_RULES, Layout(native, dirty, twins, wrong), native.offset_of)


def _in_canonical_order(doc: Manifest) -> list[int]:
    return sorted(
        range(len(doc.owners)), key=lambda part: (doc.names[doc.owners[part]], doc.roles[part])
    )


def _local_blobs(doc: Manifest) -> list[tuple[int, int]]:
    """Return the distinct non-empty blobs of the containing file, by offset."""
    columns = zip(doc.offsets, doc.lengths, doc.part_shards, strict=True)
    return sorted({(offset, length) for offset, length, file in columns if length and not file})


def _gaps(doc: Manifest) -> Iterator[tuple[int, int]]:
    """Yield the padding, as [start, end), of the magic and of each blob up to the next place.

    What lies beyond the next multiple of 64 KiB is no padding but a blob that nothing refers to.
    """
    reached = len(MAGIC)
    for offset, length in [*_local_blobs(doc), (doc.frame.manifest_offset, 0)]:
        if offset > reached:
            yield reached, min(offset, align_up(reached, CANONICAL_ALIGN))
        reached = max(reached, offset + length)


def _dirty_padding(doc: Manifest) -> Steps[list[int]]:
    dirty = []
    for start, end in _gaps(doc):
        for offset in range(start, end, _CHUNK):
            (data,) = yield (Span(offset, min(_CHUNK, end - offset)),)
            found = _first_nonzero(data)
            if found is not None:
                dirty.append(offset + found)
                break
    return dirty


def _first_nonzero(data: memoryview) -> int | None:
    body = bytes(data)
    return None if not body.strip(b"\0") else len(body) - len(body.lstrip(b"\0"))


def _twins(doc: Manifest) -> Steps[list[tuple[int, int]]]:
    """Find parts with equal digests and sizes but other blobs, and compare their bytes."""
    first: dict[tuple[str | None, int], int] = {}
    compared: dict[tuple[int, int], bool] = {}  # by offset: many parts may refer to one blob
    twins = []
    for part in _in_canonical_order(doc):
        key = (doc.digests[part], doc.sizes[part])
        other = first.setdefault(key, part)
        plain = doc.encodings[part] is None and doc.encodings[other] is None
        if doc.offsets[other] == doc.offsets[part] or not plain or doc.digests[part] is None:
            continue
        if doc.part_shards[part] or doc.part_shards[other]:
            continue
        blobs = doc.offsets[other], doc.offsets[part]
        if blobs not in compared:
            compared[blobs] = yield from _equal(*blobs, doc.sizes[part])
        if compared[blobs]:
            twins.append((other, part))
    return twins


def _wrong_digests(doc: Manifest) -> Steps[list[tuple[int, str]]]:
    """Find the raw parts whose xxh3 digest is not that of their bytes."""
    computed: dict[tuple[int, int], str] = {}  # many parts may refer to one blob
    wrong = []
    for part in _in_canonical_order(doc):
        blob = doc.offsets[part], doc.sizes[part]
        if doc.encodings[part] is not None or doc.part_shards[part] is not None:
            continue
        if blob not in computed:
            computed[blob] = yield from _digest(*blob)
        digest = doc.digests[part]
        if digest is not None and _XXH3.fullmatch(digest) and digest != computed[blob]:
            wrong.append((part, computed[blob]))
    return wrong


def _digest(offset: int, nbytes: int) -> Steps[str]:
    """Compute the xxh3 digest of the bytes at an offset."""
    state = xxhash.xxh3_64()
    for start in range(0, nbytes, _CHUNK):
        (data,) = yield (Span(offset + start, min(_CHUNK, nbytes - start)),)
        state.update(data)
    return f"xxh3:{state.hexdigest()}"


def _equal(first: int, second: int, nbytes: int) -> Steps[bool]:
    """Compare the bytes at two offsets."""
    for start in range(0, nbytes, _CHUNK):
        length = min(_CHUNK, nbytes - start)
        left, right = yield (Span(first + start, length), Span(second + start, length))
        if left != right:
            return False
    return True


@rule("zt.canonical-shards", section="6.3.6", stage="canonical")
def canonical_shards(doc: Layout) -> Iterator[Fault]:
    """The model is one file: there is no shard table."""
    if doc.manifest.shards:
        names = ", ".join(doc.manifest.shards)
        yield Fault(("shards",), "a canonical model has no shard table", "no shards", names)


@rule("zt.canonical-raw", section="6.3.4", stage="canonical")
def canonical_raw(doc: Layout) -> Iterator[Fault]:
    """Every part is stored raw."""
    for part, encoding in enumerate(doc.manifest.encodings):
        if encoding is not None:
            where = doc.manifest.part_place(part, "encoding")
            yield Fault(where, "a part is encoded", "no encoding", encoding)


@rule("zt.canonical-digest", section="6.3.4", stage="canonical")
def canonical_digest(doc: Layout) -> Iterator[Fault]:
    """Every part carries an xxh3 digest, that of its bytes."""
    for part, digest in enumerate(doc.manifest.digests):
        if digest is None or not _XXH3.fullmatch(digest):
            where = doc.manifest.part_place(part, *(("digest",) if digest else ()))
            expected = "xxh3: and 16 digits"
            yield Fault(where, "a part carries no xxh3 digest", expected, digest or "none")
    for part, computed in doc.wrong:
        where = doc.manifest.part_place(part, "digest")
        detail = "the digest of a part is not that of its bytes"
        yield Fault(where, detail, computed, doc.manifest.digests[part])


@rule("zt.canonical-names", section="6.3.5", stage="canonical")
def canonical_names(doc: Layout) -> Iterator[Fault]:
    """Object names, part names and attribute keys at every level are in Normalization Form C."""
    manifest = doc.manifest
    for index, name in enumerate(manifest.names):
        yield from _normal(manifest.object_place(index), name)
        attributes = manifest.object_attributes[index]
        yield from _normal_keys(manifest.object_place(index, "attributes"), attributes)
    for part, role in enumerate(manifest.roles):
        yield from _normal(manifest.part_place(part), role)
    yield from _normal_keys(("attributes",), manifest.attributes)


def _normal(where: tuple[str | int, ...], name: object) -> Iterator[Fault]:
    if isinstance(name, str) and not unicodedata.is_normalized("NFC", name):
        # Keys of nested maps may have any length, and normalizing takes quadratic time.
        expected = ascii(unicodedata.normalize("NFC", name)) if len(name) <= MAX_NAME else "NFC"
        yield Fault(where, "a name is not in Unicode NFC", expected, ascii(name))


def _normal_keys(where: tuple[str | int, ...], value: object) -> Iterator[Fault]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _normal((*where, str(key)), key)
            yield from _normal_keys((*where, str(key)), item)
    elif isinstance(value, Pairs):
        for key, item in value.items:
            yield from _normal((*where, str(key)), key)
            yield from _normal_keys((*where, str(key)), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _normal_keys((*where, index), item)


@rule("zt.canonical-order", section="6.3.3", stage="canonical")
def canonical_order(doc: Layout) -> Iterator[Fault]:
    """Blobs lie in the order of the object and part names that refer to them first."""
    manifest = doc.manifest
    seen: set[int] = set()
    reached = 0
    for part in _in_canonical_order(manifest):
        offset = manifest.offsets[part]
        if manifest.lengths[part] and manifest.part_shards[part] is None and offset not in seen:
            if offset < reached:
                where = manifest.part_place(part, "blob", 0)
                detail = "a blob lies before those of names that sort before it"
                yield Fault(where, detail, f"an offset of at least {reached}", offset)
            seen.add(offset)
            reached = max(reached, offset)


@rule("zt.canonical-placement", section="6.3.2", stage="canonical")
def canonical_placement(doc: Layout) -> Iterator[Fault]:
    """Blobs and manifest start at multiples of 64 KiB; the footer follows the manifest at once.

    A part without bytes stands at the next free place and takes no room; the first one decides for
    all of them, which share it.
    """
    manifest = doc.manifest
    yield from _empty_place(manifest)
    for part, offset in enumerate(manifest.offsets):
        if offset % CANONICAL_ALIGN and manifest.part_shards[part] is None:
            where = manifest.part_place(part, "blob", 0)
            detail = "a blob does not start at a multiple of 64 KiB"
            yield Fault(where, detail, f"a multiple of {CANONICAL_ALIGN}", offset)
    frame = manifest.frame
    if frame.manifest_offset % CANONICAL_ALIGN:
        detail = "the manifest does not start at a multiple of 64 KiB"
        expected = f"a multiple of {CANONICAL_ALIGN}"
        yield Fault((), detail, expected, frame.manifest_offset, frame.data_end)
    end = frame.manifest_offset + frame.manifest_length
    if end != frame.data_end:
        detail = "the footer does not follow the manifest"
        yield Fault((), detail, f"a footer at {end}", frame.data_end, end)


def _empty_place(manifest: Manifest) -> Iterator[Fault]:
    """Judge the place of the first part without bytes: else one model would have many files."""
    end = len(MAGIC)
    for part in _in_canonical_order(manifest):
        offset, length = manifest.offsets[part], manifest.lengths[part]
        if manifest.part_shards[part] is not None:
            continue
        if not length:
            expected = align_up(end, CANONICAL_ALIGN)
            if offset != expected and offset % CANONICAL_ALIGN == 0:
                where = manifest.part_place(part, "blob", 0)
                detail = "a part without bytes does not stand at the next free place"
                yield Fault(where, detail, expected, offset)
            return
        end = max(end, offset + length)


@rule("zt.canonical-blobs", section="6.3.1", stage="canonical")
def canonical_blobs(doc: Layout) -> Iterator[Fault]:
    """Before a blob or the manifest lies no space beyond what the alignment needs."""
    manifest = doc.manifest
    end = len(MAGIC)
    for offset, length in [*_local_blobs(manifest), (manifest.frame.manifest_offset, 0)]:
        expected = align_up(end, CANONICAL_ALIGN)
        if offset % CANONICAL_ALIGN == 0 and offset > expected:
            detail = "space between blobs belongs to nothing"
            yield Fault((), detail, f"the next blob at {expected}", offset, end)
        end = offset + length


@rule("zt.canonical-sharing", section="6.3.3", stage="canonical")
def canonical_sharing(doc: Layout) -> Iterator[Fault]:
    """Parts with equal bytes share one blob."""
    for first, second in doc.twins:
        where = doc.manifest.part_place(second, "blob")
        expected = f"the blob at {doc.manifest.offsets[first]}"
        yield Fault(
            where, "equal parts have blobs of their own", expected, doc.manifest.offsets[second]
        )


@rule("zt.canonical-padding", section="2.4", stage="canonical")
def canonical_padding(doc: Layout) -> Iterator[Fault]:
    """Padding and the reserved field of the footer are zero."""
    for offset in doc.dirty:
        yield Fault((), "padding is not zero", 0, None, offset)
    frame = doc.manifest.frame
    if frame.reserved:
        offset = frame.data_end + 28
        yield Fault((), "the reserved field of the footer is not zero", 0, frame.reserved, offset)


@rule("zt.canonical-manifest", section="6.3", stage="canonical")
def canonical_manifest(doc: Layout) -> Iterator[Fault]:
    """The manifest holds the fields of the specification, none of them empty, and nothing else.

    A map of attributes without any is left out, as the public writer does: else one model would
    have two files.
    """
    manifest = doc.manifest
    tensors = (
        tensor if tensor.attributes else replace(tensor, attributes=None)
        for tensor in Tensors(manifest).values()
    )
    again = encode_manifest(tensors, manifest.attributes or None, manifest.shards)
    if again != manifest.text:
        detail = "the manifest holds fields that the specification does not know, or empty ones"
        expected, found = f"{len(again)} bytes", f"{len(manifest.text)} bytes"
        yield Fault((), detail, expected, found, manifest.frame.manifest_offset)


CANONICAL_RULES: Final[tuple[Rule[Layout], ...]] = (
    canonical_shards,
    canonical_raw,
    canonical_digest,
    canonical_names,
    canonical_order,
    canonical_placement,
    canonical_blobs,
    canonical_sharing,
    canonical_padding,
    canonical_manifest,
)
