"""Writing any model as npz, numpy's archive of arrays, in bounded memory.

Data lie stored and aligned, so that they can be mapped. What arrays cannot say, attributes and the
types that numpy has no name for, stands in one more member.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import xxhash

from tensorark.conversion.ledger import BY_MODEL, Keeps
from tensorark.conversion.safetensors import metadata_of
from tensorark.conversion.target import LEAVE_OUT, Options, Target, require_none
from tensorark.core.model import Tensor
from tensorark.files import File
from tensorark.formats import npz
from tensorark.io.publish import publish
from tensorark.io.sink import Sink
from tensorark.writing.writer import check_digest, revalidate


def write(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as one archive."""
    tensors = sorted(file.catalog.tensors.values(), key=lambda each: each.name.encode("utf-8"))
    hold(tensors, file.path)
    metadata, types = metadata_of(file), npz.noted(tensors)
    with publish(target, overwrite=options.overwrite) as sink:
        placed = []
        for tensor in tensors:
            pieces = _pieces(file, tensor, options)
            placed.append((npz.plan(tensor), *_write(sink, npz.plan(tensor), pieces)))
        if metadata is not None or types:
            text = npz.Marker(metadata, types).text()
            member = npz.plan_marker(text)
            placed.append((member, *_write(sink, member, [memoryview(text)])))
        start = sink.tell()
        for member, offset, crc in placed:
            sink.write(member.entry(offset, crc))
        sink.write(npz.end_records(start, sink.tell() - start, len(placed)))
        sink.patch([(at + npz.CRC_AT, crc.to_bytes(4, "little")) for _, at, crc in placed])
        revalidate(sink, canonical_form=False)
    return [str(target)]


def hold(tensors: Sequence[Tensor], path: str | None = None) -> None:
    """Require an archive to be able to hold each of `tensors`, before the first byte is written.

    Raises:
        Unsupported: naming the tensors that it cannot hold.
    """
    refusals = list(npz.refusals(tensors))
    require_none(refusals, len(tensors), holder="npz", path=path, hint=LEAVE_OUT)


def _pieces(file: File, tensor: Tensor, options: Options) -> Iterator[memoryview]:
    """Yield the bytes of a tensor; what does not match its digest is not written."""
    part = tensor.parts["data"]
    where = ("objects", tensor.name, "parts", "data")
    state = xxhash.xxh3_64()
    for piece in file.chunks(part, where):
        state.update(piece)
        yield piece
        options.progress(len(piece))
    check_digest(part, "xxh3:" + state.hexdigest(), where, file.path)


def _write(sink: Sink, member: npz.Member, pieces: Iterable[memoryview]) -> tuple[int, int]:
    """Write one member; return where it begins, and its CRC."""
    offset = sink.tell()
    sink.write(member.local(offset))
    sink.write(member.head)
    crc = zlib.crc32(member.head)
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
        sink.write(piece)
    return offset, crc


NPZ: Final = Target(
    name="npz",
    suffixes=(".npz",),
    options=frozenset(),
    put=write,
    keeps=Keeps(BY_MODEL),
    require=lambda file, _: hold(list(file.catalog.tensors.values()), file.path),
    refuses=lambda file, _: npz.refusals(file.catalog.tensors.values()),
)
