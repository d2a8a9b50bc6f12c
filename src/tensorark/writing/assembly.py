"""The parts of a `.zt` on their way into a file: placed, hashed, encoded, shared.

Owns what `Writer` and whoever copies do alike, and the last look of a reader at what was written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import xxhash

from tensorark import files
from tensorark.core.model import Blob, Encoded, Part, Raw, Shard, Span, Tensor
from tensorark.core.rules import Reading
from tensorark.errors import Error, InvalidInput, Rejected, Unsupported, unstorable
from tensorark.files import PathLike
from tensorark.formats import FORMATS
from tensorark.formats.zt import canonical
from tensorark.formats.zt.encode import align_up, check_align, encode_manifest, encode_tail
from tensorark.formats.zt.frame import ALIGN, CANONICAL_ALIGN, MAGIC
from tensorark.formats.zt.manifest import Manifest
from tensorark.io.inputs import aside, refuse_input
from tensorark.io.sink import Sink
from tensorark.io.source import octets
from tensorark.layouts.payload import Ranges, judge_layout

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorark.encodings import Compression
    from tensorark.encodings.encoding import Encoder


CHUNK: Final = 1 << 20
"""Bytes that are hashed and written at a time: they stay in the cache between the two."""


class Assembly:
    """The parts of one `.zt` on their way through a sink.

    Each part is placed, hashed, encoded if that is wanted, and written as its bytes pass. Parts of
    equal bytes share a blob; their bytes are compared before their hashes are trusted (§6.3).
    """

    def __init__(self, sink: Sink, align: int = CANONICAL_ALIGN) -> None:
        self._sink = sink
        self._align = check_align(align)
        self._blobs: dict[tuple[str, int, str | None], list[int]] = {}
        self._empty: int | None = None
        self._before = self._offset = 0
        self._state = xxhash.xxh3_64()
        self._sha256: hashlib._Hash | None = None
        self._nbytes = 0
        self._encoding: str | None = None
        self._encoder: Encoder | None = None
        if not sink.tell():  # a generation goes on behind those before it
            sink.write(MAGIC)

    def add(self, chunks: Iterable[Buffer]) -> tuple[Span, str]:
        """Write a part from its bytes; return where they lie and their xxh3 digest."""
        self.begin()
        for chunk in chunks:
            self.write(chunk)
        return self.end()

    def begin(self, compression: Compression | None = None, *, sha256: bool = False) -> None:
        """Begin a part at the next place that the alignment allows.

        With `sha256` that digest is computed as well, for `sha256` of the ended part.
        """
        self._sha256 = hashlib.sha256() if sha256 else None
        self._encoding = None if compression is None else compression.encoding.id
        self._encoder = None if compression is None else compression.encoder()
        self._nbytes = 0
        self._before = self._sink.tell()
        self._offset = align_up(self._before, self._align)
        self._sink.skip(self._offset - self._before)
        self._state.reset()

    def write(self, chunk: Buffer) -> None:
        """Go on with the part.

        Raises:
            InvalidInput: when `chunk` is no contiguous buffer.
        """
        view = octets(chunk)
        for start in range(0, len(view), CHUNK):
            piece = view[start : start + CHUNK]
            self._state.update(piece)
            if self._sha256 is not None:
                self._sha256.update(piece)
            self._nbytes += len(piece)
            if self._encoder is None:
                self._sink.write(piece)
            else:
                self._put(self._encoder.write(piece))

    def _put(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._sink.write(piece)

    def end(self) -> tuple[Span, str]:
        """End the part; return where its bytes lie, maybe in an earlier blob, and its digest."""
        digest = "xxh3:" + self._state.hexdigest()
        if not self._nbytes:  # nothing is gained by encoding it
            self._encoding = None
            return self._end_empty(), digest
        if self._encoder is not None:
            self._put(self._encoder.finish())
        length = self._sink.tell() - self._offset
        twins = self._blobs.setdefault((digest, length, self._encoding), [])
        for twin in twins:
            if self._sink.same(twin, self._offset, length):
                self._sink.rewind(self._before)
                return Span(twin, length), digest
        twins.append(self._offset)
        return Span(self._offset, length), digest

    def digest(self, wanted: str, xxh3: str) -> str | None:
        """Return the digest of the part that ended last, by its algorithm; None for ``none``."""
        if wanted == "none":
            return None
        return xxh3 if self._sha256 is None else "sha256:" + self._sha256.hexdigest()

    def judge(self, tensor: Tensor) -> None:
        """Judge what the layout of `tensor`, whose parts were written here, demands of payload.

        What nobody here decodes, such as blocks of GGUF, is stored as it is.

        Raises:
            InvalidInput: when a reader would refuse it.
        """
        try:
            judge_layout(self, tensor, Reading())
        except Rejected as error:
            raise unstorable(error) from error
        except Unsupported as error:
            if error.code == "no-zero":
                raise unstorable(error) from error

    def ranges(self, part: Part, where: tuple[str | int, ...] = ()) -> Ranges:
        """Return what reads ranges of a part that was written here."""
        (span,) = part.blob.spans

        def read(start: int, length: int) -> memoryview:
            return memoryview(self._sink.read(span.offset + start, length))

        if not isinstance(part.blob, Encoded):
            return read
        from tensorark.encodings import find
        from tensorark.encodings.encoding import StoredBytes

        stored = StoredBytes(nbytes=span.length, read=read, where=where)
        encoding = find(part.blob.encoding, where)
        return encoding.open(stored, part.nbytes, Reading(), _zeros).read

    def blob(self, span: Span) -> Blob:
        """Return the part that ended last as a blob at `span`, raw or encoded as it was begun."""
        if self._encoding is None:
            return Raw((span,))
        return Encoded((span,), self._encoding, self._nbytes)

    def _end_empty(self) -> Span:
        """Place a part without bytes: it takes no room, and all of them share one offset."""
        if self._empty is None:
            self._empty = self._offset
        else:
            self._sink.rewind(self._before)
        return Span(self._empty, 0)

    def finish(
        self,
        tensors: Iterable[Tensor],
        attributes: Mapping[str, object] | None = None,
        shards: Mapping[str, Shard] | None = None,
    ) -> None:
        """Write manifest and footer.

        Raises:
            InvalidInput: when a name or an attribute has no place in a manifest.
        """
        manifest = encode_manifest(tensors, attributes, shards)
        before = self._sink.tell()
        offset = align_up(before, self._align)
        self._sink.skip(offset - before)
        self._sink.write(encode_tail(manifest, offset))


def _zeros(nbytes: int) -> memoryview:
    return memoryview(bytearray(nbytes))


def revalidate(sink: Sink, *, canonical_form: bool) -> None:
    """Judge what was written by the reader's own rules, before it is published.

    Raises:
        InvalidInput: when a reader would reject it: what the caller asked for cannot be stored.
    """
    sink.flush()
    try:
        with aside(), files.open(sink.path, io="pread") as file:  # what is written is no input
            manifest = file.catalog.native
            if canonical_form and isinstance(manifest, Manifest):
                layout = canonical.Layout(manifest)
                Reading().require(canonical.CANONICAL_RULES, layout, manifest.offset_of)
    except Error as error:
        raise unstorable(error) from error


def choose_align(align: int | None, *, compact: bool) -> int | None:
    """Return the alignment that was asked for, by number or as the smallest legal one.

    Raises:
        InvalidInput: when both were.
    """
    if not compact:
        return align
    if align is not None:
        detail = "a compact file has the smallest alignment, and another one is given"
        raise InvalidInput(detail, code="option", found=align)
    return ALIGN


def require_suffix(path: PathLike, written: str = ".zt") -> None:
    """Require a file of the format of suffix `written` not to be called like one of another format.

    Raises:
        InvalidInput: when it is read, or the suffix, in whatever case, belongs to another format.
    """
    refuse_input(Path(path))
    name = Path(path).name.lower()
    for each in FORMATS:
        ends = [end for end in each.suffixes if name.endswith(end)]
        if ends and written not in each.suffixes:
            raise InvalidInput(
                f"the suffix is that of another format than `{written}`, which is written here",
                code="target",
                path=os.fspath(path),
                expected=written,
                found=f"{ends[0]} ({each.title})",
            )


def compression_of(
    name: str | None, *, level: int | None = None, frame_size: int | None = None
) -> Compression | None:
    """Return the compression that a caller asked for; None for raw parts.

    Raises:
        InvalidInput: when there is no such encoding, or the numbers do not fit it.
    """
    if name is None and level is None and frame_size is None:
        return None  # zstandard is not imported in vain
    from tensorark.encodings import compression

    return compression(name, level=level, frame_size=frame_size)


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
