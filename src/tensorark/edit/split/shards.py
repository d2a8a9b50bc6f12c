"""The files of a split model: shards a few at a time, hashed as they are written, then the root."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import xxhash

from tensorark import files
from tensorark.core.model import Raw, Shard
from tensorark.core.progress import Progress
from tensorark.edit.split.heaps import Blob, Heap, Places, place
from tensorark.errors import Error
from tensorark.files import File
from tensorark.files.hashes import HASHES
from tensorark.formats.zt.digest import Algorithm
from tensorark.formats.zt.encode import align_up, encode_manifest, encode_tail
from tensorark.formats.zt.frame import ALIGN, CANONICAL_ALIGN, MAGIC, encode_footer
from tensorark.io.fileset import own_numbered, publish_set
from tensorark.io.sink import Sink
from tensorark.writing.assembly import check_digest, revalidate
from tensorark.writing.copy import judge_again, read_stored

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _HashingSink:
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


def write(
    file: File,
    goal: Path,
    names: Mapping[str, str],
    heaps: Sequence[Heap],
    placed: Places,
    algorithm: Algorithm,
    *,
    overwrite: bool,
    progress: Progress,
) -> None:
    """Write every file, then give them their names: `names` by label, and the root last."""
    own, owns = [*names.values()], own_numbered(goal.stem, ".zt")
    with publish_set(goal, own, overwrite=overwrite, members=_members, owns=owns) as made:
        root, sinks = made
        root.reserve(sum(heap.size for heap in heaps))
        work = _Shards(file, placed, algorithm, progress)
        shards = dict(zip(names, work.write(heaps, sinks), strict=True))
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
    placed: Places
    algorithm: Algorithm
    progress: Progress
    stopped: threading.Event = field(default_factory=threading.Event)

    def write(self, heaps: Sequence[Heap], sinks: Sequence[Sink]) -> list[Shard]:
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

    def _shard(self, heap: Heap, sink: Sink) -> Shard:
        hashed = _HashingSink(sink, self.algorithm)
        hashed.write(MAGIC)
        for blob in heap.blobs:
            if blob.offset > sink.tell():  # parts without bytes may share a place that has passed
                hashed.advance(blob.offset)
            blob.digest = self._copy(blob, hashed)
        if heap.full:
            own = [place(tensor, self.placed, {heap.number: None}) for tensor in heap.own]
            offset = align_up(sink.tell(), heap.align)
            hashed.advance(offset)
            hashed.write(encode_tail(encode_manifest(own), offset))
        else:
            hashed.write(encode_footer(0, 0, 0))
        revalidate(sink, canonical_form=False)
        sink.settle()
        return hashed.shard()

    def _copy(self, blob: Blob, hashed: _HashingSink) -> str:
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


def _write_root(file: File, placed: Places, shards: Mapping[str, Shard], sink: Sink) -> None:
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
        tensors.append(place(tensor, placed, labels))
    sink.write(MAGIC)
    sink.skip(ALIGN - len(MAGIC))
    sink.write(encode_tail(encode_manifest(tensors, file.catalog.attributes, shards), ALIGN))
    revalidate(sink, canonical_form=False)
