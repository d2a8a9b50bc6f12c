"""Writing tensors: chunks in, a validated file published at the end, or nothing.

Owns the order of work of a `.zt` write: place, hash and write each part as its bytes pass, share
equal blobs, write manifest and footer, judge the result by the reader's own rules, publish.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import prod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import xxhash

from tensorark import api
from tensorark.api import File, PathLike
from tensorark.carry import Carried
from tensorark.errors import Error, InvalidInput, Rejected
from tensorark.formats.zt import canonical
from tensorark.formats.zt.frame import CANONICAL_ALIGN, MAGIC
from tensorark.formats.zt.manifest import Manifest
from tensorark.formats.zt.write import align_up, check_align, encode_manifest, encode_tail
from tensorark.io.publish import publish
from tensorark.io.sink import Sink
from tensorark.model import Part, Raw, Span, Tensor
from tensorark.rules import Reading
from tensorark.vocab import DTYPES, TYPES, size_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

Ids = tuple[str, str | None]
"""A storage type, and a logical type or None."""

CHUNK: Final = 1 << 20
"""Bytes that are hashed and written at a time: they stay in the cache between the two."""


class Assembly:
    """The parts of one `.zt` on their way through a sink.

    Each part is placed, hashed and written as its bytes pass. Parts of equal bytes share a blob;
    their bytes are compared before their hashes are trusted (§6.3).
    """

    def __init__(self, sink: Sink, align: int = CANONICAL_ALIGN) -> None:
        self._sink = sink
        self._align = check_align(align)
        self._blobs: dict[tuple[str, int], list[int]] = {}
        self._empty: int | None = None
        self._before = self._offset = 0
        self._state = xxhash.xxh3_64()
        sink.write(MAGIC)

    def add(self, chunks: Iterable[Buffer]) -> tuple[Span, str]:
        """Write a part from its bytes; return where they lie and their xxh3 digest."""
        self.begin()
        for chunk in chunks:
            self.write(chunk)
        return self.end()

    def begin(self) -> None:
        """Begin a part at the next place that the alignment allows."""
        self._before = self._sink.tell()
        self._offset = align_up(self._before, self._align)
        self._sink.skip(self._offset - self._before)
        self._state.reset()

    def write(self, chunk: Buffer) -> None:
        """Go on with the part."""
        view = memoryview(chunk).cast("B") if memoryview(chunk).nbytes else memoryview(b"")
        for start in range(0, len(view), CHUNK):
            piece = view[start : start + CHUNK]
            self._state.update(piece)
            self._sink.write(piece)

    def end(self) -> tuple[Span, str]:
        """End the part; return where its bytes lie, maybe in an earlier blob, and its digest."""
        length = self._sink.tell() - self._offset
        digest = "xxh3:" + self._state.hexdigest()
        if not length:
            return self._end_empty(), digest
        twins = self._blobs.setdefault((digest, length), [])
        for twin in twins:
            if self._sink.same(twin, self._offset, length):
                self._sink.rewind(self._before)
                return Span(twin, length), digest
        twins.append(self._offset)
        return Span(self._offset, length), digest

    def _end_empty(self) -> Span:
        """Place a part without bytes: it takes no room, and all of them share one offset."""
        if self._empty is None:
            self._empty = self._offset
        else:
            self._sink.rewind(self._before)
        return Span(self._empty, 0)

    def finish(
        self, tensors: Iterable[Tensor], attributes: Mapping[str, object] | None = None
    ) -> None:
        """Write manifest and footer.

        Raises:
            InvalidInput: when a name or an attribute has no place in a manifest.
        """
        manifest = encode_manifest(tensors, attributes)
        before = self._sink.tell()
        offset = align_up(before, self._align)
        self._sink.skip(offset - before)
        self._sink.write(encode_tail(manifest, offset))


def revalidate(sink: Sink, *, canonical_form: bool) -> None:
    """Judge what was written by the reader's own rules, before it is published.

    Raises:
        InvalidInput: when a reader would reject it: what the caller asked for cannot be stored.
    """
    sink.flush()
    try:
        with api.open(sink.path, io="pread") as file:
            manifest = file.catalog.native
            if canonical_form and isinstance(manifest, Manifest):
                layout = canonical.Layout(manifest)
                Reading().require(canonical.CANONICAL_RULES, layout, manifest.offset_of)
    except Error as error:
        raise InvalidInput(
            f"this cannot be stored: {error.detail}",
            code=error.code,
            section=error.section,
            where=error.where,
            expected=error.expected,
            found=error.found,
        ) from error


class _Dropped(Exception):
    """What was written served its purpose and is not published."""


class Writer:
    """Writes a `.zt`, tensor by tensor, in bounded memory.

    The file is canonical (§6.3) unless `align` asks for another placement. Tensors may come in any
    order: canonical order is restored at the end by one more copy, which tensors given in ascending
    order of their names save. Nothing appears at `path` before a clean exit, and nothing that was
    there is harmed by a failure.

    `overwrite` False refuses to replace a file that exists.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        attributes: Mapping[str, object] | None = None,
        align: int | None = None,
        overwrite: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self._canonical = align is None
        self._align = check_align(CANONICAL_ALIGN if align is None else align)
        self._attributes = attributes
        self._overwrite = overwrite
        self._exits = ExitStack()
        self._tensors: list[Tensor] = []
        self._streaming = False

    def __enter__(self) -> Self:
        self._sink = self._exits.enter_context(publish(self.path, overwrite=self._overwrite))
        self._assembly = Assembly(self._sink, self._align)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._exits.__exit__(kind, error, trace)
            return
        ordered = sorted(self._tensors, key=lambda tensor: tensor.name)
        if self._canonical and ordered != self._tensors:
            self._reorder()
            return
        with self._exits:
            self._assembly.finish(self._tensors, self._attributes)
            revalidate(self._sink, canonical_form=self._canonical)

    def _reorder(self) -> None:
        """Publish a canonical copy of what was written in another order, and drop the original."""
        dropped = _Dropped()
        try:
            self._assembly.finish(self._tensors, self._attributes)
            revalidate(self._sink, canonical_form=False)
            with (
                api.open(self._sink.path, io="pread") as spool,
                publish(self.path, overwrite=self._overwrite) as sink,
            ):
                rewrite(spool, sink)
        finally:
            self._exits.__exit__(_Dropped, dropped, None)

    def add(self, name: str, array: Any, *, attributes: Mapping[str, object] | None = None) -> None:
        """Write an array, or anything numpy makes one of, as a dense tensor.

        Strided, Fortran-order, broadcast, big-endian, 0-d and empty arrays are stored by value.

        Raises:
            InvalidInput: when no storage type holds its elements.
        """
        import numpy as np

        from tensorark.codecs.numbers import encode, ids_of

        values = np.asarray(array)
        parts = {"data": (ids_of(values.dtype), encode(values))}
        self.add_parts(name, values.shape, "dense", parts, attributes=attributes)

    def add_parts(
        self,
        name: str,
        shape: tuple[int, ...],
        layout: str,
        parts: Mapping[str, tuple[Ids, Iterable[Buffer]]],
        *,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        """Write a tensor of any layout from the decoded bytes of its parts.

        `parts` gives for each role the storage type, the logical type or None, and the bytes in
        chunks.
        """
        written = {}
        for role in sorted(parts):
            ids, chunks = parts[role]
            self._begin()
            for chunk in chunks:
                self._assembly.write(chunk)
            written[role] = self._end(ids)
        self._tensors.append(Tensor(name, tuple(shape), layout, written, attributes))

    @contextmanager
    def stream(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        *,
        attributes: Mapping[str, object] | None = None,
    ) -> Iterator[Stream]:
        """Declare a dense tensor, then feed its row-major little-endian bytes in chunks.

        `dtype` is a storage type or a registered logical type. Used as a context manager:

            with writer.stream("w", (4096, 4096), "bf16") as part:
                for block in blocks:
                    part.write(block)

        Raises:
            InvalidInput: when the bytes fed are not as many as shape and type say.
        """
        ids = _ids(dtype)
        expected = size_of(*ids, prod(shape))
        self._begin()
        yield Stream(self._assembly)
        part = self._end(ids)
        if part.nbytes != expected:
            raise InvalidInput(
                "the bytes fed are not as many as shape and type say",
                code="stream-length",
                where=("objects", name),
                expected=f"{expected} bytes",
                found=part.nbytes,
            )
        self._tensors.append(Tensor(name, tuple(shape), "dense", {"data": part}, attributes))

    def _begin(self) -> None:
        if self._streaming:
            raise InvalidInput("another tensor is still being fed", code="stream")
        self._streaming = True
        self._assembly.begin()

    def _end(self, ids: Ids) -> Part:
        span, digest = self._assembly.end()
        self._streaming = False
        return Part(Raw((span,)), *ids, digest)


@dataclass(frozen=True, slots=True)
class Stream:
    """A tensor that was declared and is being fed."""

    assembly: Assembly

    def write(self, chunk: Buffer) -> None:
        """Feed the next bytes: anything with a contiguous buffer, an array included."""
        self.assembly.write(chunk)


def _ids(dtype: str) -> Ids:
    if dtype in DTYPES:
        return dtype, None
    if dtype in TYPES:
        return TYPES[dtype].dtype, dtype
    known = " ".join([*DTYPES, *TYPES])
    raise InvalidInput("no such type", code="dtype", expected=f"one of {known}", found=dtype)


def rewrite(
    file: File,
    sink: Sink,
    *,
    align: int | None = None,
    carried: Carried | None = None,
    progress: Callable[[int], None] = lambda _done: None,
) -> list[Tensor]:
    """Write the tensors of `file` into `sink` as a `.zt`, in canonical order, and return them.

    `carried` gives the attributes, where they are not those of the catalog.

    Payload is moved in pieces, decoded, and compared with its xxh3 digest where it carries one.

    Raises:
        Rejected: when a part does not match its digest: a damaged file is not passed on.
    """
    assembly = Assembly(sink, CANONICAL_ALIGN if align is None else align)
    tensors = []
    for name in sorted(file):
        tensor = file.catalog.tensors[name]
        parts = {}
        for role in sorted(tensor.parts):
            part = tensor.parts[role]
            where = ("objects", name, "parts", role)
            assembly.begin()
            for chunk in file.chunks(part, where):
                assembly.write(chunk)
                progress(len(chunk))
            span, digest = assembly.end()
            check_digest(part, digest, where, file.path)
            parts[role] = replace(part, blob=Raw((span,)), digest=digest)
        attributes = tensor.attributes if carried is None else carried.tensors.get(name)
        tensors.append(replace(tensor, parts=parts, attributes=attributes))
    assembly.finish(tensors, file.catalog.attributes if carried is None else carried.file)
    revalidate(sink, canonical_form=align is None)
    return tensors


def check_digest(part: Part, computed: str, where: tuple[str | int, ...], path: str) -> None:
    """Compare the digest that a part carries with the one computed while its bytes passed.

    Raises:
        Rejected: when both are xxh3 and they differ.
    """
    if part.digest is not None and part.digest.startswith("xxh3:") and part.digest != computed:
        raise Rejected(
            "the bytes do not match their digest",
            code="zt.digest",
            section="3.4",
            path=path,
            where=where,
            expected=part.digest,
            found=computed,
        )
