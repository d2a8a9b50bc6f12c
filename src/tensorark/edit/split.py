"""Splitting a model into a root `.zt` and shards (§7): a plan that anyone may look at, then files.

Owns which tensor goes into which shard and where. Blobs are copied as they are stored. Shards are
data shards, unless they are asked to be files of their own; the root appears last, so that there
never is a root without its shards.
"""

from __future__ import annotations

import os
import re
import threading
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import xxhash

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.ledger import settle
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.model import Part, Raw, Shard, Span, Tensor
from tensorark.core.progress import Progress
from tensorark.core.sizes import size_of
from tensorark.core.writing import Options
from tensorark.errors import Error, Hint, InvalidInput
from tensorark.files import File, PathLike
from tensorark.files.hashes import HASHES
from tensorark.formats.zt import ZT
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm
from tensorark.formats.zt.encode import align_up, check_align, encode_manifest, encode_tail
from tensorark.formats.zt.frame import ALIGN, CANONICAL_ALIGN, FOOTER_SIZE, MAGIC, encode_footer
from tensorark.io.fileset import fresh, own_numbered, publish_set
from tensorark.io.inputs import operation
from tensorark.io.sink import Sink
from tensorark.writing.assembly import check_digest, revalidate
from tensorark.writing.copy import (
    UNKNOWN,
    judge_again,
    length_of,
    move,
    read_stored,
    require_shards,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

By = Literal["layer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedShard:
    """One shard: its name, its file, the tensors it holds, and its exact size in bytes.

    `exceeds` says that a single tensor is larger than the limit, so that the file is as well.
    """

    __repr__ = brief

    name: str
    path: str
    tensors: tuple[str, ...]
    size: int
    exceeds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """What a split makes: `root` and `shards`; `tensors` of them, in `nbytes` stored bytes.

    `dropped` is what the model held and a `.zt` does not.
    """

    __repr__ = brief

    root: str
    shards: tuple[PlannedShard, ...]
    tensors: int
    nbytes: int
    max_size: int | None = None
    dropped: tuple[Loss, ...] = ()


@operation()
def split(
    source: PathLike,
    root: PathLike,
    *,
    max_size: int | str | None = None,
    by: By | None = None,
    algorithm: Algorithm = "sha256",
    full: bool = False,
    align: int = CANONICAL_ALIGN,
    drop: Collection[str] = (),
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda _done: None,
) -> SplitPlan:
    """Split the model at `source` into the file `root` and shards beside it; return what was made.

    A shard ``00001-of-00003`` of ``model.zt`` is the file ``model-00001-of-00003.zt``. Tensors fill
    one shard after the other, in order of their names, up to `max_size` bytes of a file, to the
    byte; a tensor that is larger gets a shard of its own. `by` ``layer`` begins a new shard for
    every layer; the first number in a name tells it. Blobs are copied as stored and keep encodings
    and digests; the content digest stays. `full` makes each shard a `.zt` that can be opened by
    itself. What a `.zt` does not keep is refused unless `drop` names its kind
    (`conversion.ledger`). With `dry_run` nothing is written.

    Raises:
        InvalidInput: when a file exists and `overwrite` is false, is an input, or the options do
            not fit together.
        Unsupported: when something would be lost, or a `.zt` cannot hold a name.
        Rejected: when payload does not match its digest.
        ReadFailed: when something cannot be read or written, or a shard of the source is missing.
    """
    target = Path(root)
    max_size = None if max_size is None else size_of(max_size)
    _check(target, max_size, by, algorithm)
    with files.open(source) as file:
        settled = settle(as_zt_model(file), ZT, target, Options(align=align, drop=frozenset(drop)))
        settled.require()
        model = settled.file
        heaps, placed = _plan(model, max_size, by, check_align(align), full=full)
        plan = _describe(model, target, heaps, max_size, overwrite=overwrite)
        plan = replace(plan, dropped=settled.dropped)
        if dry_run:
            return plan
        require_shards(file)
        _check_count(len(plan.shards))
        _write(model, plan, heaps, placed, algorithm, overwrite=overwrite, progress=progress)
        return plan


def _check(root: Path, max_size: int | None, by: By | None, algorithm: str) -> None:
    if root.suffix != ".zt":
        detail = "the root of a split model is a `.zt`, or its shards could not be found by name"
        raise InvalidInput(detail, code="target", expected=".zt", found=root.suffix or "no suffix")
    if max_size is None and by is None:
        hint = Hint("give max_size= or by='layer'", tark="give --max-size or --by layer")
        raise InvalidInput("a split needs a largest size, or layers", code="option", hint=hint)
    if max_size is not None and max_size <= ALIGN + FOOTER_SIZE:
        detail = "no shard is that small"
        expected = f"more than {ALIGN + FOOTER_SIZE} bytes"
        raise InvalidInput(detail, code="option", expected=expected, found=max_size)
    if by not in {None, "layer"}:
        raise InvalidInput("no such way to split", code="option", expected="layer", found=by)
    if algorithm not in ALGORITHMS:
        expected = " ".join(ALGORITHMS)
        raise InvalidInput("no such digest", code="option", expected=expected, found=algorithm)


def _check_count(shards: int) -> None:
    """Refuse what the system could not hold open at once, before the first byte is written."""
    try:
        import resource
    except ImportError:  # no POSIX system: it refuses when it comes to that
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = soft - 64 if soft != resource.RLIM_INFINITY else shards
    if shards > room:
        raise InvalidInput(
            "too many shards for this process",
            code="too-many-shards",
            expected=f"at most {room}, as so many files may be open",
            found=shards,
            hint=Hint("a larger max_size makes fewer", tark="a larger --max-size makes fewer"),
        )


# The plan


@dataclass(slots=True)
class _Blob:
    """A blob that is stored at `offset` of a shard; `digest`, the xxh3 of its stored bytes."""

    part: Part
    where: tuple[str | int, ...]
    offset: int
    digest: str = UNKNOWN


_Places = dict[tuple[Span, ...], tuple[int, _Blob]]
"""For every blob by its old place: the number of its shard, and its new place."""
_Anywhere = Mapping[tuple[Span, ...], tuple[int, _Blob]]


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a shard would be with one more tensor."""

    tensor: Tensor
    places: _Places
    own: Tensor | None
    end: int
    empty: int | None
    entries: int
    size: int


@dataclass(slots=True)
class _Heap:
    """A shard being planned: its number, its blobs so far, and the end of the last of them."""

    number: int
    align: int
    full: bool
    end: int = len(MAGIC)
    empty: int | None = None
    blobs: list[_Blob] = field(default_factory=list)
    tensors: list[str] = field(default_factory=list)
    own: list[Tensor] = field(default_factory=list)  # as they are in the source
    entries: int = 0
    exceeds: bool = False

    def offer(self, tensor: Tensor, placed: _Places) -> _Offer:
        """Work out where the blobs of `tensor` that are not `placed` yet would go."""
        end, empty, places = self.end, self.empty, _Places()
        for role in sorted(tensor.parts):
            part = tensor.parts[role]
            if part.blob.spans in placed or part.blob.spans in places:
                continue
            length, offset = length_of(part.blob), align_up(end, self.align)
            if length:
                end = offset + length
            else:  # takes no room, and all of them share one place
                empty = offset if empty is None else empty
                offset, end = empty, max(end, empty)
            where = ("objects", tensor.name, "parts", role)
            places[part.blob.spans] = (self.number, _Blob(part, where, offset))
        own = self._own(tensor, ChainMap(places, placed))
        entries = self.entries + (0 if own is None else _length(own))
        size = end + FOOTER_SIZE
        if self.full:
            manifest = _MEMBERS + _head(len(self.own) + (own is not None)) + entries
            size = align_up(end, self.align) + manifest + FOOTER_SIZE
        return _Offer(tensor, places, own, end, empty, entries, size)

    def accept(self, offer: _Offer, placed: _Places) -> None:
        """Make the shard what was offered."""
        self.end, self.empty, self.entries = offer.end, offer.empty, offer.entries
        self.blobs += [blob for _, blob in offer.places.values()]
        self.tensors.append(offer.tensor.name)
        if offer.own is not None:
            self.own.append(offer.tensor)
        placed.update(offer.places)

    @property
    def size(self) -> int:
        """Size of the file, in bytes."""
        if not self.full:
            return self.end + FOOTER_SIZE
        manifest = _MEMBERS + _head(len(self.own)) + self.entries
        return align_up(self.end, self.align) + manifest + FOOTER_SIZE

    def _own(self, tensor: Tensor, placed: _Anywhere) -> Tensor | None:
        """Return the tensor as the shard's own manifest has it; None where it has no place."""
        held = {placed[part.blob.spans][0] for part in tensor.parts.values()} if self.full else ()
        return _place(tensor, placed, {self.number: None}) if held == {self.number} else None


_MEMBERS: Final = len(encode_manifest(())) - 1
"""Bytes of a manifest beside the head of its objects and the objects."""


def _head(count: int) -> int:
    """Return the length of the head of a map of `count` entries."""
    return next(width for width, most in _HEADS if count < most)


_HEADS: Final = ((1, 24), (2, 1 << 8), (3, 1 << 16), (5, 1 << 32))


def _length(tensor: Tensor) -> int:
    """Return the bytes that a tensor takes in a manifest."""
    return len(encode_manifest((tensor,))) - len(encode_manifest(()))


def _place(tensor: Tensor, placed: _Anywhere, labels: Mapping[int, str | None]) -> Tensor:
    """Return `tensor` with its parts in their new places, in the files of these labels."""
    parts = {}
    for role, part in tensor.parts.items():
        number, blob = placed[part.blob.spans]
        span = Span(blob.offset, length_of(part.blob), labels[number])
        parts[role] = move(part, span, blob.digest)
    return replace(tensor, parts=parts)


def _plan(
    file: File, max_size: int | None, by: By | None, align: int, *, full: bool
) -> tuple[list[_Heap], _Places]:
    placed: _Places = {}
    heaps: list[_Heap] = []
    for group in _groups(sorted(file), by):
        heaps.append(_Heap(len(heaps), align, full))
        for name in group:
            tensor = file.catalog.tensors[name]
            offer = heaps[-1].offer(tensor, placed)
            if max_size is not None and offer.size > max_size:
                if heaps[-1].tensors:
                    heaps.append(_Heap(len(heaps), align, full))
                    offer = heaps[-1].offer(tensor, placed)
                heaps[-1].exceeds = offer.size > max_size
            heaps[-1].accept(offer, placed)
    return heaps, placed


def _groups(names: Sequence[str], by: By | None) -> Iterator[list[str]]:
    """Yield names whose tensors may share a shard, in order: layers as numbers, not as text."""
    if by is None:
        yield from [list(names)] if names else []
        return
    ordered = sorted(names, key=lambda name: (_natural(_layer(name)), name))
    for _, group in groupby(ordered, key=_layer):
        yield list(group)


_NUMBER: Final = re.compile(r"(?:\A|[./])[0-9]+(?=[./]|\Z)")


def _layer(name: str) -> str:
    """Return what stands up to the first number of a name; empty where there is none."""
    match = _NUMBER.search(name)
    return name[: match.end()] if match else ""


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts digits as numbers, whatever their count."""
    pieces = re.split(r"([0-9]+)", text)
    return [(len(each.lstrip("0")), each) if each.isdigit() else (0, each) for each in pieces]


def _describe(
    file: File, root: Path, heaps: Sequence[_Heap], max_size: int | None, *, overwrite: bool
) -> SplitPlan:
    labels = [f"{at:05}-of-{len(heaps):05}" for at in range(1, len(heaps) + 1)]

    def named(turn: int) -> list[str]:
        before = f"r{turn}-" if turn else ""
        return [f"{root.stem}-{before}{label}.zt" for label in labels]

    names = fresh(root, named, overwrite=overwrite)
    shards = [
        PlannedShard(
            name=name[len(root.stem) + 1 : -len(".zt")],
            path=str(root.with_name(name)),
            tensors=tuple(heap.tensors),
            size=heap.size,
            exceeds=heap.exceeds,
        )
        for name, heap in zip(names, heaps, strict=True)
    ]
    return SplitPlan(
        root=str(root),
        shards=tuple(shards),
        tensors=len(file),
        nbytes=sum(length_of(blob.part.blob) for heap in heaps for blob in heap.blobs),
        max_size=max_size,
    )


# The files


class _Hashed:
    """A sink whose whole file is hashed as it is written."""

    def __init__(self, sink: Sink, algorithm: Algorithm) -> None:
        self._sink = sink
        self._algorithm = algorithm
        self._state = HASHES[algorithm]()

    def write(self, data: Buffer) -> None:
        """Append bytes."""
        self._state.update(data)
        self._sink.write(data)

    def advance(self, offset: int) -> None:
        """Append zeros up to `offset`."""
        length = offset - self._sink.tell()
        for done in range(0, length, len(_ZEROS)):
            self._state.update(_ZEROS[: min(len(_ZEROS), length - done)])
        self._sink.skip(length)

    def shard(self) -> Shard:
        """Return the identity of what was written."""
        return Shard(self._sink.tell(), f"{self._algorithm}:{self._state.hexdigest()}")


_ZEROS: Final = memoryview(bytes(CANONICAL_ALIGN))


def _write(
    file: File,
    plan: SplitPlan,
    heaps: Sequence[_Heap],
    placed: _Places,
    algorithm: Algorithm,
    *,
    overwrite: bool,
    progress: Progress,
) -> None:
    """Write every file, then give them their names: the root last."""
    names = [Path(each.path).name for each in plan.shards]
    goal = Path(plan.root)
    owns = own_numbered(goal.stem, ".zt")
    with publish_set(goal, names, overwrite=overwrite, members=_members, owns=owns) as made:
        root, sinks = made
        root.reserve(sum(shard.size for shard in plan.shards))
        work = _Shards(file, placed, algorithm, progress)
        labels = [each.name for each in plan.shards]
        shards = dict(zip(labels, work.write(heaps, sinks), strict=True))
        _write_root(file, placed, shards, root)


def _members(root: Path) -> list[str]:
    """Return the names that the shards of a `.zt` have by convention, or by their identity.

    Raises:
        Error: when it is none.
    """
    names = []
    with files.open(root, io="pread", structural=True) as file:
        for label in file.catalog.files:
            names.append(f"{root.stem}-{label}.zt")
            with suppress(Error):  # one that is missing hides none of the others
                names.append(file.source.path_of(label).name)
    return names


class _Stopped(Exception):
    """Another shard could not be written."""


@dataclass(frozen=True, slots=True)
class _Shards:
    """Shards being written, a few at a time: hashing is what takes longest."""

    file: File
    placed: _Places
    algorithm: Algorithm
    progress: Progress
    stopped: threading.Event = field(default_factory=threading.Event)

    def write(self, heaps: Sequence[_Heap], sinks: Sequence[Sink]) -> list[Shard]:
        """Write every shard, ready to be published, and return their identities."""
        workers = max(1, min(os.cpu_count() or 1, _MOST_AT_ONCE, len(heaps)))
        with ThreadPoolExecutor(workers) as pool:
            futures = [
                pool.submit(self._shard, heap, sink)
                for heap, sink in zip(heaps, sinks, strict=True)
            ]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                return [future.result() for future in futures]
            finally:  # of an error, or an interrupt: the others need not go on
                self.stopped.set()
                pool.shutdown(cancel_futures=True)

    def _shard(self, heap: _Heap, sink: Sink) -> Shard:
        hashed = _Hashed(sink, self.algorithm)
        hashed.write(MAGIC)
        for blob in heap.blobs:
            if blob.offset > sink.tell():  # parts without bytes may share a place that has passed
                hashed.advance(blob.offset)
            blob.digest = self._copy(blob, hashed)
        if heap.full:
            own = [_place(tensor, self.placed, {heap.number: None}) for tensor in heap.own]
            offset = align_up(sink.tell(), heap.align)
            hashed.advance(offset)
            hashed.write(encode_tail(encode_manifest(own), offset))
        else:
            hashed.write(encode_footer(0, 0, 0))
        revalidate(sink, canonical_form=False)
        sink.settle()
        return hashed.shard()

    def _copy(self, blob: _Blob, hashed: _Hashed) -> str:
        """Copy a blob and return its digest."""
        state = xxhash.xxh3_64()
        for piece in read_stored(self.file, blob.part, blob.where):
            if self.stopped.is_set():
                raise _Stopped
            state.update(piece)
            hashed.write(piece)
            self.progress(len(piece))
        return "xxh3:" + state.hexdigest()


_MOST_AT_ONCE: Final = 4
"""Each shard that is being written takes 25 MiB and a processor."""


def _write_root(file: File, placed: _Places, shards: Mapping[str, Shard], sink: Sink) -> None:
    labels = dict(enumerate(shards))
    tensors = []
    for name in sorted(file):
        tensor = file.catalog.tensors[name]
        for role, part in tensor.parts.items():
            where = ("objects", name, "parts", role)
            _, blob = placed[part.blob.spans]
            if blob.where != where:
                judge_again(file, part, where)
            if isinstance(part.blob, Raw):
                check_digest(part, blob.digest, where, file.path)
        tensors.append(_place(tensor, placed, labels))
    sink.write(MAGIC)
    sink.skip(ALIGN - len(MAGIC))
    sink.write(encode_tail(encode_manifest(tensors, file.catalog.attributes, shards), ALIGN))
    revalidate(sink, canonical_form=False)
