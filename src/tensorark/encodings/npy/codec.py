"""The encodings `npy.array/1`, `npy.deflate/1`, `npy.file/1`: arrays as numpy stores them.

Stored are an array file, as it is or deflated, and before it its CRC-32; decoded are its elements,
row-major and little-endian. Must never take more memory than was asked for before the stream proves
that it has the bytes, and never evaluates a header.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np

from tensorark.core.rules import Fault, Reading, Rule
from tensorark.encodings.encoding import Allocate, Encoder, Encoding, StoredBytes
from tensorark.encodings.npy.rules import ARRAY, DEFLATE, FILE, stored_crc, stream
from tensorark.errors import InvalidInput, Unsupported
from tensorark.layouts.numbers.dtypes import Array
from tensorark.wire.npy import PREAMBLE, Header, HeaderFault, length_of, parse_header

_CRC: Final = 4
_CHUNK: Final = 1 << 20
_PLAIN: Final = re.compile(r"[<>|=](?:[biufc]|V)[0-9]{1,2}", re.ASCII)


@dataclass(slots=True, eq=False)
class _Part:
    """One array, which decodes to `nbytes`: a `tensorark.encodings.encoding.Decoder`.

    As many bytes of a CRC come before it as `crc` says.

    Raises:
        Rejected: when it does not begin as an array.
    """

    stored: StoredBytes
    nbytes: int
    reading: Reading
    allocate: Allocate
    deflated: bool = field(kw_only=True)
    crc: int = field(kw_only=True)
    is_checked: bool = field(default=False, init=False)
    _header: Header = field(init=False)
    _pieces: Iterator[memoryview] = field(default=iter(()), init=False)
    _window: memoryview = field(default=memoryview(b""), init=False)
    _begin: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._header = self._parse()

    def read(self, start: int, length: int) -> memoryview:
        """Return decoded bytes [start, start + length); all of them as writable memory."""
        self.stored.require_range(self.reading, start, length, self.nbytes)
        if (start, length) != (0, self.nbytes):
            return self._range(start, length)
        return self._gather(self.pieces())

    def pieces(self) -> Iterator[memoryview]:
        """Yield all decoded bytes in order; the CRC is compared at the end."""
        element = self._element()
        if element is not None and self._is_transposed():
            yield from self._transpose(element)
        elif element is not None and element.str.startswith(">"):
            yield from self._swap(element)
        else:
            yield from self._data()
        self.is_checked = self.crc > 0

    def _gather(self, pieces: Iterator[memoryview]) -> memoryview:
        """Return all that is decoded in one piece of memory."""
        target = self.allocate(self.nbytes)
        done = 0
        for piece in pieces:
            target[done : done + len(piece)] = piece
            done += len(piece)
        return target

    def _range(self, start: int, length: int) -> memoryview:
        """Read a range; those that ascend cost one pass together."""
        if start < self._begin or not self._window:
            self._pieces, self._window, self._begin = self.pieces(), memoryview(b""), 0
        while self._begin + len(self._window) < start + length:
            held = self._window[max(start - self._begin, 0) :]
            self._begin += len(self._window) - len(held)
            piece = next(self._pieces)
            self._window = memoryview(b"".join((held, piece))) if held else piece
        return self._window[start - self._begin :][:length].toreadonly()

    def _element(self) -> np.dtype[Any] | None:
        """Return the dtype of the elements as they are stored, None where they are just bytes."""
        descr = self._header.descr
        if not isinstance(descr, str) or not _PLAIN.fullmatch(descr):
            return None
        try:
            element = np.dtype(descr.replace("f1", "V1"))  # a float of one byte is ml_dtypes' own
        except TypeError:
            return None
        size = element.itemsize
        for extent in self._header.shape:
            size *= extent
        return element if size == self.nbytes else None

    def _is_transposed(self) -> bool:
        extents = [n for n in self._header.shape if n != 1]
        return self._header.fortran_order and len(extents) > 1

    def _swap(self, element: np.dtype[Any]) -> Iterator[memoryview]:
        little = element.newbyteorder("<")
        held = memoryview(b"")
        for piece in self._data():
            data = memoryview(b"".join((held, piece))) if held else piece
            whole = len(data) - len(data) % element.itemsize
            held = data[whole:]
            if whole:
                yield _octets(np.frombuffer(data[:whole], element).astype(little))

    def _transpose(self, element: np.dtype[Any]) -> Iterator[memoryview]:
        """Yield blocks of rows; the array lies in memory as a whole unless it is mapped."""
        if self.deflated:
            target = self._gather(self._data())
        else:
            for _ in self._data():  # its CRC
                pass
            target = self.stored.read(self.crc + self._header.length, self.nbytes)
        if not self.nbytes:
            return
        try:
            values = np.frombuffer(target, element).reshape(self._header.shape[::-1]).T
        except ValueError as error:  # the size was checked
            raise Unsupported(
                "numpy holds no array of this shape",
                code="numpy-shape",
                where=self.stored.where,
                found=self._header.shape,
            ) from error
        yield from map(_octets, _rows(values))

    def _data(self) -> Iterator[memoryview]:
        """Yield what follows the header, as it is stored, and judge the CRC of the whole."""
        crc, skip, size = 0, self._header.length, self._header.length + self.nbytes
        done = 0
        for piece in self._inflate(size) if self.deflated else self._raw():
            crc = zlib.crc32(piece, crc)
            done += len(piece)
            if done > size:
                self._fail(stream, "the array is longer than its member", size, f"{done} or more")
            rest = piece[skip:]
            skip = max(0, skip - len(piece))
            if rest:
                yield rest
        if done != size:
            self._fail(stream, "the array ends too early", size, done)
        if not self.crc:
            return
        wanted = int.from_bytes(self.stored.read(0, self.crc), "little")
        if crc != wanted:
            self._fail(
                stored_crc, "the bytes do not match their CRC", f"{wanted:08x}", f"{crc:08x}"
            )

    def _raw(self) -> Iterator[memoryview]:
        for start in range(self.crc, self.stored.nbytes, _CHUNK):
            yield self.stored.read(start, min(_CHUNK, self.stored.nbytes - start))

    def _inflate(self, most: int) -> Iterator[memoryview]:
        """Yield what the deflate stream decodes to, one byte more than `most` at the latest.

        zlib may hold output when all input is taken, so the end of a member is not that of its
        stream: a stream is done when it says so, or when it asks for bytes that are not there.
        """
        engine = zlib.decompressobj(-15)
        left = most + 1  # one byte more than there may be shows a stream that is too long
        for data in self._raw():
            rest: bytes | memoryview = data
            holds = False
            while (rest or holds) and not engine.eof and left:
                room = min(_CHUNK, left)
                try:
                    piece = engine.decompress(rest, room)
                except zlib.error as error:
                    self._fail(stream, "the deflate stream is damaged", "a stream", str(error)[:80])
                rest, holds = engine.unconsumed_tail, len(piece) == room
                left -= len(piece)
                if piece:
                    yield memoryview(piece)
            if not left:
                return
            if rest or engine.unused_data:
                self._fail(stream, "bytes follow the deflate stream", "its end", "more")
        if not engine.eof:
            self._fail(
                stream, "the deflate stream does not end", "its end", "the end of the member"
            )

    def _parse(self) -> Header:
        """Read the header of the array, once more: a part is judged by whoever opens it."""
        try:
            return parse_header(self._first(length_of(self._first(PREAMBLE))))
        except HeaderFault as bad:
            self._fail(stream, bad.detail, bad.expected, bad.found)

    def _first(self, length: int) -> bytes:
        """Return the first `length` decoded bytes, or fewer of a shorter array."""
        found = b""
        for piece in self._inflate(length) if self.deflated else self._raw():
            found += piece[: length - len(found)]
            if len(found) >= length:
                break
        return found

    def _fail(self, broken: Rule[Fault], detail: str, expected: object, found: object) -> NoReturn:
        bad = Fault(self.stored.where, detail, expected, found, self.stored.offset)
        self.stored.require(self.reading, (broken,), bad)
        raise AssertionError("a rule that always finds a fault has found none")


def _octets(values: Array) -> memoryview:
    return values.reshape(-1).view(np.uint8).data


def _rows(values: Array) -> Iterator[Array]:
    """Yield row-major little-endian copies of blocks of about a megabyte."""
    little = values.dtype.newbyteorder("<") if values.dtype.kind != "V" else values.dtype
    if values.nbytes <= _CHUNK or values.ndim == 0:
        yield values.astype(little, order="C")
        return
    count = max(1, _CHUNK * len(values) // values.nbytes)
    for start in range(0, len(values), count):
        block = values[start : start + count]
        if count == 1:
            yield from _rows(block[0])
        else:
            yield block.astype(little, order="C")


def _refuse(_level: int, _frame_size: int) -> Encoder:
    raise InvalidInput("this encoding is only read", code="encoding")


ENCODINGS: Final = (
    Encoding(id=ARRAY, open=partial(_Part, deflated=False, crc=_CRC), encode=_refuse),
    Encoding(id=DEFLATE, open=partial(_Part, deflated=True, crc=_CRC), encode=_refuse),
    Encoding(id=FILE, open=partial(_Part, deflated=False, crc=0), encode=_refuse),
)
