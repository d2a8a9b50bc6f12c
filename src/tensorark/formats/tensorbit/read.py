"""The conversations that open Tensorbit files: container, directory, blob, folder of blobs.

A container takes two round trips, three where its index is long; a directory two, a blob one. Every
rule that needs no payload is judged; a lenient reading notes what the public loader lets pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar, cast

from tensorark.core.conversation import Steps
from tensorark.core.ledger import Names
from tensorark.core.model import Catalog, Span, Tensor
from tensorark.core.rules import Finding, Reading, Rule, finding_of
from tensorark.errors import InvalidInput, LimitExceeded, Where
from tensorark.formats.format import SizeOf
from tensorark.formats.tensorbit import rules
from tensorark.formats.tensorbit.frame import (
    FIELDS,
    HEADER_SIZE,
    MAGIC,
    TAIL_RULES,
    TAIL_SIZE,
    Tail,
    blob_size,
    container_size,
    parse_header,
)
from tensorark.formats.tensorbit.index import INDEX_RULES, Claim, Index, RawIndex, build_index
from tensorark.formats.tensorbit.layouts import Blob, build_tensor
from tensorark.formats.tensorbit.syntax import parse_json
from tensorark.formats.tensorbit.walk import unsure
from tensorark.layouts.nm.rules import KEY
from tensorark.wire.attributes import restore_types
from tensorark.wire.gc_pause import pause_gc
from tensorark.wire.json_places import Places

CONTAINER: Final = "tbm"
BLOB: Final = "tb"
DIRECTORY: Final = "tensorbit-directory"
FOLDER: Final = "tensorbit-folder"

MANIFEST: Final = "manifest.json"
SUFFIX: Final = ".tb"

METADATA: Final = "__metadata__"
"""Our member of an index for attributes that are not Tensorbit's, as text."""

GUESS: Final = 1 << 16
"""Bytes at the end of a container that are asked for before the length of its index is known."""

Kind = Literal["tbm", "tb", "tensorbit-directory", "tensorbit-folder"]
D = TypeVar("D")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The format's own record of what was opened.

    `text` is where the index lies; `forgiven` is what a lenient reading found and let pass, and
    `left_out` names the entries of the index without usable bytes. `others` is where blobs lie that
    were not chosen.
    """

    kind: Kind
    size: int
    index: Index
    text: Span
    blobs: tuple[Blob, ...]
    forgiven: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()
    others: tuple[Span, ...] = ()


def _nowhere(_where: Where) -> None:
    """Know no place: the document is no text."""


class _Judge:
    """Judges documents; in a lenient reading, notes what breaks a tolerated rule."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.forgiven: list[Finding] = []
        self.unusable: set[int] = set()
        self.doubtful: set[int] = set()

    def require(self, each: Sequence[Rule[D]], doc: D, offset_of: Places | None = None) -> None:
        """Judge `doc`; the first fault that is not tolerated raises.

        Raises:
            Rejected: for that fault.
        """
        place = offset_of.offset if offset_of is not None else _nowhere
        if not self.reading.lenient:
            self.reading.require(each, doc, place)
            return
        hard = tuple(one for one in each if one.id not in rules.TOLERATED)
        self.reading.require(hard, doc, place)
        for one in each:
            if one.id in rules.TOLERATED:
                self._forgive(one, doc)

    def _forgive(self, broken: Rule[D], doc: D) -> None:
        for fault in broken(doc):
            self.forgiven.append(finding_of(broken.rejection(fault), broken.stage))
            row = fault.where[1] if len(fault.where) > 1 else None
            if broken.id in rules.UNUSABLE and isinstance(row, int):
                self.unusable.add(row)

    def usable(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Return the blobs that can still be read; nothing is read as a type that nobody names."""
        found = list(blobs)
        self.unusable |= {blob.row or 0 for blob in found if not blob.is_typed} | self.doubtful
        return [blob for blob in found if blob.row not in self.unusable]

    def identify(self, claims: Mapping[int, Claim], blobs: Sequence[Blob]) -> None:
        """Leave out what may be the blob of another, where offsets of a container lead nowhere."""
        found = {blob.row or 0: blob for blob in blobs if blob.header.magic == MAGIC}
        is_container = all(claim.file is None for claim in claims.values())
        if self.reading.lenient and is_container and len(found) < len(claims):
            self.doubtful = unsure(claims, found)


# --------------------------------------------------------------------------------------- container


def read_container(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open a `.tbm`: its index from the end, then the headers of its blobs."""
    size = size_of(None)
    judge = _Judge(reading)
    judge.require((container_size,), size)
    (end,) = yield [Span(size - min(size, GUESS), min(size, GUESS))]
    tail = Tail(size, int.from_bytes(end[-TAIL_SIZE:], "little"))
    judge.require(TAIL_RULES, tail)
    _within_limit(tail.length, reading)
    text = end[-TAIL_SIZE - tail.length : -TAIL_SIZE]
    if tail.length + TAIL_SIZE > len(end):
        (text,) = yield [Span(tail.index_offset, tail.length)]
    places = Places(text, start=tail.index_offset)
    index = _index(text, tail.index_offset, judge, is_manifest=False)
    rows = [(row, claim, tail.index_offset) for row, claim in enumerate(index.claims)]
    blobs = yield from _blobs(rows, judge, places)
    span = Span(tail.index_offset, tail.length)
    return _catalog(CONTAINER, size, index, span, blobs, judge)


def read_directory(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open a `manifest.json` and the headers of the blobs it names."""
    size = size_of(None)
    _within_limit(size, reading)
    (text,) = yield [Span(0, size)]
    judge = _Judge(reading)
    places = Places(text)
    index = _index(text, 0, judge, is_manifest=True)
    rows = [(row, claim, size_of(claim.file)) for row, claim in enumerate(index.claims)]
    blobs = yield from _blobs(rows, judge, places)
    return _catalog(DIRECTORY, size, index, Span(0, size), blobs, judge)


def read_folder(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open the blobs that lie beside each other without a manifest: `reading.members`.

    A tensor has the name of its file, without the suffix.
    """
    judge = _Judge(reading)
    claims = tuple(Claim(name=_stem(each), file=each) for each in reading.members)
    rows = [(row, claim, size_of(claim.file)) for row, claim in enumerate(claims)]
    blobs = yield from _blobs(rows, judge)
    return _catalog(FOLDER, 0, Index(claims=claims), Span(0, 0), blobs, judge)


def read_blob(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open a `.tb`: one tensor with the name of the file, without the suffix."""
    size = size_of(None)
    if reading.name.endswith(".tbm"):  # its tail is broken, and the rules of containers say how
        return (yield from read_container(size_of, reading))
    judge = _Judge(reading)
    judge.require((blob_size,), size)
    (data,) = yield [Span(0, FIELDS.size)]
    claim = Claim(name=_stem(reading.name))
    blob = Blob(header=parse_header(data), claim=claim, limit=size)
    for phase in rules.BLOB_PHASES:
        # A file of one blob without bytes to give is nothing: only what leaves it whole is let by.
        hard = tuple(one for one in phase if one.id in rules.UNUSABLE_ALONE)
        reading.require(hard, [blob])
        judge.require(tuple(one for one in phase if one.id not in rules.UNUSABLE_ALONE), [blob])
    return _catalog(BLOB, size, Index(claims=(claim,)), Span(0, 0), [blob], judge)


def _within_limit(length: int, reading: Reading) -> None:
    limit = reading.limits.index_file
    if length > limit:
        raise LimitExceeded("the index is too large", expected=limit, found=length)


def _index(text: memoryview, start: int, judge: _Judge, *, is_manifest: bool) -> Index:
    with pause_gc():
        root = parse_json(text, judge.reading, start=start)
        raw = RawIndex(root, is_manifest)
        judge.require(INDEX_RULES, raw, Places(text, start=start))
        return build_index(raw)


def _blobs(
    rows: list[tuple[int, Claim, int]], judge: _Judge, places: Places | None = None
) -> Steps[list[Blob]]:
    """Read the headers of all blobs in one round trip, and judge them."""
    claims = {row: claim for row, claim, _ in rows}
    judge.require(rules.ENTRY_RULES, rows, places)
    rows = [each for each in rows if each[0] not in judge.unusable]
    starts = list(dict.fromkeys((claim.file, claim.offset) for _, claim, _ in rows))
    if not starts:
        return []
    found = yield [Span(offset, FIELDS.size, file) for file, offset in starts]
    headers = {start: parse_header(data) for start, data in zip(starts, found, strict=True)}
    blobs = [
        Blob(header=headers[claim.file, claim.offset], claim=claim, limit=limit, row=row)
        for row, claim, limit in rows
    ]
    judge.identify(claims, blobs)
    for phase in rules.BLOB_PHASES:
        judge.require(phase, blobs, places)
        blobs = judge.usable(blobs)
    return blobs


def _catalog(
    kind: Kind, size: int, index: Index, text: Span, blobs: list[Blob], judge: _Judge
) -> Catalog:
    tensors = find_ties(blobs, {blob.claim.name: build_tensor(blob) for blob in blobs})
    record = Record(
        kind=kind,
        size=size,
        index=index,
        text=text,
        blobs=tuple(blobs),
        forgiven=tuple(judge.forgiven),
        left_out=tuple(
            claim.name for row, claim in enumerate(index.claims) if row in judge.unusable
        ),
    )
    files = tuple(dict.fromkeys(blob.file for blob in blobs if blob.file is not None))
    own = {name: each.attributes for name, each in tensors.items() if each.attributes is not None}
    carried = restore_types(_attributes(index, list(tensors)), own)
    for name, attributes in carried.tensors.items():
        if name in tensors:
            tensors[name] = replace(tensors[name], attributes=attributes)
    return Catalog(kind, tensors, carried.file, record, files)


def find_ties(blobs: Sequence[Blob], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Say of each tensor that shares the blob of an earlier one which one that is."""
    if len({(blob.file, blob.offset) for blob in blobs}) == len(blobs):
        return tensors
    first: dict[tuple[str | None, int], str] = {}
    for blob in blobs:
        name = blob.claim.name
        if name not in tensors:
            continue
        other = first.setdefault((blob.file, blob.offset), name)
        if other != name:
            facts = dict(cast("dict[str, object]", (tensors[name].attributes or {}).get(KEY, {})))
            facts["tied_to"] = other
            tensors[name] = replace(tensors[name], attributes={KEY: facts})
    return tensors


def _attributes(index: Index, names: list[str]) -> dict[str, object] | None:
    """Return what a model says of itself, and its order of tensors where names do not give it."""
    facts: dict[str, object] = {}
    if index.architecture is not None:
        facts["architecture"] = index.architecture
    if index.config is not None:
        facts["config"] = dict(index.config)
    text = index.extra.get(METADATA)
    held = _is_text_map(text)
    extra = {key: each for key, each in index.extra.items() if key != METADATA or not held}
    if extra:
        facts["extra"] = extra
    # Names in a `.zt` are sorted by length, then bytewise: that order needs no words.
    if names != sorted(names, key=lambda name: (len(name.encode()), name.encode())):
        facts["order"] = names
    attributes: dict[str, object] = dict(text) if held and isinstance(text, dict) else {}
    if facts:
        attributes[KEY] = facts
    return attributes or None


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _stem(name: str) -> str:
    """Return the name of a tensor that lies in the file `name`."""
    last = re.split(r"[/\\]", name)[-1]
    return last.removesuffix(SUFFIX) or "tensor"


# ------------------------------------------------------------------------------------- recognition


def sniff_blob(head: bytes, tail: bytes, size: int) -> bool:
    """Whether a file begins as a blob and ends with it, or at least does not end as a container."""
    if not head.startswith(MAGIC):
        return False
    if len(head) >= FIELDS.size and size >= HEADER_SIZE:
        header = parse_header(head)
        if header.masks_offset + header.mask_bytes == size:
            return True
    return not _ends_with_index(tail, size)


def sniff_container(head: bytes, tail: bytes, size: int) -> bool:
    """Whether a file ends with an index and its length, whatever it begins with.

    Ask `sniff_blob` first.
    """
    return _ends_with_index(tail, size) and (head.startswith(MAGIC) or _is_text(tail))


def sniff_directory(head: bytes, tail: bytes, _size: int) -> bool:
    """Whether a text is a JSON object that begins with what a manifest holds."""
    begin = head.lstrip(b" \t\r\n")
    if begin[:1] != b"{" or b'"weight_map"' in head:
        return False
    named = (b'"architecture"', b'"tensors"', b'"config"')
    return any(name in head for name in named) and re.search(rb"\]?\s*\}\s*\Z", tail) is not None


def models_of(names: Sequence[str]) -> list[str]:
    """Return the models among the files of a folder: blobs that another file lists are left out.

    A manifest stands for the blobs beside it, and so does a container, which is what the public
    pruning tool leaves behind. Beside models of other formats ``manifest.json`` is something else.
    """
    blobs = [name for name in names if name.endswith(SUFFIX)]
    others = [name for name in names if name not in {*blobs, MANIFEST}]
    if any(name.endswith(".tbm") for name in others):
        return others
    if MANIFEST in names and not others:
        return [MANIFEST]
    return sorted([*others, *blobs])


def _ends_with_index(tail: bytes, size: int) -> bool:
    length = int.from_bytes(tail[-TAIL_SIZE:], "little")
    if size < TAIL_SIZE + 2 or not 0 < length <= size - TAIL_SIZE:
        return False
    return re.search(rb"\}\s*\Z", tail[:-TAIL_SIZE]) is not None


def _is_text(tail: bytes) -> bool:
    """Whether what lies before the length reads like the end of an index of tensors.

    For containers whose first blob is damaged or does not come first.
    """
    text = tail[:-TAIL_SIZE]
    return re.fullmatch(rb"[\t\n\r -\xff]*[\]\"0-9a-z}]\s*\}\s*", text) is not None and (
        b'"' in text or b":" in text
    )


def record_of(catalog: Catalog, path: str | None = None) -> Record:
    """Return what an opened Tensorbit model says beside its tensors.

    Raises:
        InvalidInput: when it is of another format.
    """
    if not isinstance(catalog.native, Record):
        detail, found = "not a Tensorbit model", catalog.format
        raise InvalidInput(detail, code="not-tensorbit", path=path, found=found)
    return catalog.native


def holds(origin: Catalog, now: Catalog) -> Mapping[str, Names]:
    """State which entries have no usable bytes; a blob has no name beside that of its file."""
    record: Record = origin.native
    held: dict[str, Names] = {"unusable": lambda: record.left_out}
    if record.kind == BLOB:
        held["names"] = lambda: now.tensors.keys() - origin.tensors.keys()
    return held
