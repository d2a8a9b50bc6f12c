"""An opened file: a mapping from names to tensors that reads payload only when it is asked for.

Owns how bytes of parts reach whoever wants them: decoded, judged, proven, in pieces or whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from tensorark.core.matching import near
from tensorark.core.model import Catalog, Encoded, Part, Span, Tensor, Undescribed, cut
from tensorark.core.rules import Reading
from tensorark.core.types import RESTRICTED
from tensorark.errors import (
    Hint,
    InvalidInput,
    NotFound,
    ReadFailed,
    Rejected,
    Unsupported,
    quoted,
)
from tensorark.files.view import TensorView
from tensorark.formats.format import Checksum, Format
from tensorark.io.inputs import note_listed
from tensorark.io.local import Access, LocalSource
from tensorark.io.memory import allocate, memory_size
from tensorark.layouts.nm import rules as nm
from tensorark.layouts.payload import Passing, Ranges, is_ruled, judge_layout

if TYPE_CHECKING:
    from tensorark.encodings.encoding import Decoder, StoredBytes
    from tensorark.files.parameters import ParameterViews

PathLike = str | os.PathLike[str]
"""A path, or a model that is opened: a `File` stands for its path, and is read as it is."""

_ROWS: Final = 50  # of a table in a notebook
_NAMED: Final = 2  # steps of a place in a catalog that names a tensor
CHUNK: Final = 8 << 20
"""Bytes that are read at a time when payload is only passed on."""

_OVERHEAD: Final = 4096
"""What handling one tensor costs, in bytes that could be read meanwhile."""

_LARGE: Final = 1 << 20  # decoded bytes that are worth large pages of their own
_MASKS: Final = Hint(
    "mend(masks=...) spells masks out, or applies or drops them",
    tark="`tark mend --masks` spells masks out, or applies or drops them",
)
_SHARD_CODES: Final = frozenset({"missing-shard", "wrong-shard", "unsafe-link"})


class File(Mapping[str, TensorView]):
    """An opened file or shard set: tensors by name, in the order of the file.

    Safe to read from threads; pickles as its path and options and reopens. Close it, or use it as a
    context manager; arrays that were handed out stay valid. Whatever takes the path of a model
    takes it opened too, and leaves it open.
    """

    __slots__ = (
        "_absolute",
        "_io",
        "_passed",
        "_reading",
        "_reopen",
        "_ruled",
        "_source",
        "_store",
        "catalog",
        "format",
        "origin",
        "path",
    )

    def __init__(
        self,
        path: str,
        source: LocalSource,
        format_: Format,
        catalog: Catalog,
        *,
        io: Access,
        reading: Reading,
        store: PathLike | None,
        reopen: Callable[[str, Access, Reading, PathLike | None], File],
    ) -> None:
        self.path = path
        self.format = format_
        self.catalog = catalog
        self.origin = catalog  # as it was opened, whatever is made of it
        self._source = source
        # Both as they are now: the process may change its folder before they are used again.
        self._absolute = os.path.abspath(path)  # noqa: PTH100 - no I/O
        store = None if store is None else os.path.abspath(store)  # noqa: PTH100 - no I/O
        self._passed: set[tuple[object, ...]] = set()  # tensors whose layout was judged
        self._ruled: tuple[Catalog | None, bool] = (None, False)
        self._reading = replace(reading, gathered=None, name="", members=())
        self._reopen, self._io, self._store = reopen, io, store

    def __repr__(self) -> str:
        held = "a data shard"
        if self.describes_tensors:
            held = f"{len(self)} tensor{'s' if len(self) != 1 else ''}"
        return f"<File {quoted(self.path, 1000)} {self.format.name}, {held}>"

    def _ipython_key_completions_(self) -> list[str]:
        """Return what may stand between the brackets, for those who type."""
        return list(self) if self.describes_tensors else []

    def _repr_html_(self) -> str:
        """Return a table of the first tensors for a notebook; every text is escaped."""
        from html import escape

        names = list(islice(self, _ROWS)) if self.describes_tensors else []
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in self[name].facts) + "</tr>"
            for name in names
        )
        head = "<tr><th>name</th><th>type</th><th>shape</th><th>layout</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table>"

    def __reduce__(self) -> tuple[object, ...]:
        return (self._reopen, (self._absolute, self._io, self._reading, self._store))

    def __fspath__(self) -> str:
        """Return the absolute path, under which this very file still lies.

        Raises:
            ReadFailed: when another file took its place, or none (code ``changed``).
            InvalidInput: when it is closed, or an older generation, which has no path.
        """
        if self._reading.length is not None:
            detail = "an older generation of a file has no path"
            raise InvalidInput(detail, code="length", path=self.path)
        return self._standing()

    def _standing(self) -> str:
        self._source.standing()
        return self._absolute

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def lent(self) -> Self:
        """Return this file for a while: closing what is returned leaves this one open.

        Raises:
            InvalidInput: when it is closed.
        """
        again = self.with_catalog(self.catalog)
        again._source = self._source.lent()  # noqa: SLF001 - ours
        return again

    def reopened(self, reading: Reading) -> File:
        """Open this very file anew, and judge it by `reading`.

        Raises:
            Error: as `open`, and when another file took its place.
        """
        reading = replace(reading, length=self._reading.length)
        return self._reopen(self._standing(), "pread", reading, self._store)

    def close(self) -> None:
        """Let go of the file. Idempotent; reading afterwards raises `InvalidInput`."""
        if self.catalog.files:
            note_listed()  # its shards stay inputs of the operation that has read it
        self._source.close()

    def __getitem__(self, name: str) -> TensorView:
        """Return the tensor `name`.

        Raises:
            NotFound: when there is none, with names like it in the hint.
        """
        try:
            return TensorView(self, self.catalog.tensors[name])
        except KeyError:
            raise NotFound(
                "no such tensor",
                code="no-tensor",
                path=self.path,
                where=("objects", str(name)),
                hint=lambda: near(str(name), self),
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self.catalog.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.catalog.tensors)

    def __len__(self) -> int:
        return len(self.catalog.tensors)

    @property
    def attributes(self) -> Mapping[str, object]:
        """Attributes of the whole file; empty where it has none.

        In formats that hold text only, such as `__metadata__` of safetensors, what we wrote there
        has its types again; what stands in the file is in ``catalog.native``.
        """
        return self.catalog.attributes or MappingProxyType({})

    @property
    def parameters(self) -> ParameterViews:
        """The logical parameters of a NInfer artifact, by name.

        Raises:
            InvalidInput: when the file is no such artifact.
        """
        from tensorark.files.parameters import ParameterViews
        from tensorark.formats.ninfer.directory import directory_of

        return ParameterViews(self, directory_of(self.catalog.native, self.path))

    def with_catalog(self, catalog: Catalog, held: Mapping[str, bytes] | None = None) -> Self:
        """Return this file as one that `catalog` describes; `held` are bytes by label of a span.

        For what computes on a model in other terms. It is never handed out: what users open are
        files as they are.
        """
        again = object.__new__(type(self))
        for each in type(self).__mro__:
            for slot in getattr(each, "__slots__", ()):
                setattr(again, slot, getattr(self, slot))
        again.catalog = catalog
        if held is not None:
            again._source = self._source.holding(held)
        return again

    @property
    def source(self) -> LocalSource:
        """The source that payload is read from."""
        return self._source

    def missing(self) -> dict[str, tuple[str, ...]]:
        """Return the shards that are not there, or are not what the file says, and their tensors.

        Looks for every shard, as a first use of each would; empty when all are there.
        """
        files = self.catalog.files
        absent = self._source.absent(files)
        gone = [label for label in files if label in absent or not self._has(label)]
        if not gone:
            return {}
        held: dict[str, list[str]] = {label: [] for label in gone}
        for name, tensor in self.catalog.tensors.items():
            spans = [span for part in tensor.parts.values() for span in part.blob.spans]
            for label in dict.fromkeys(span.file for span in spans):
                if label in held:
                    held[label].append(name)
        return {label: tuple(names) for label, names in held.items()}

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The files of this model by label, each once, None for the one that was opened.

        A folder of blobs has no such file: the first of its blobs stands for it elsewhere.
        """
        files = self.catalog.files
        return (None, *files) if self.format.has_root else files

    def paths(self) -> list[Path]:
        """Return the files of this model: the opened one, then its shards as far as they exist."""
        found = (label for label in self.labels if label is None or self._has(label))
        return list(map(self._source.path_of, found))

    def _has(self, label: str) -> bool:
        try:
            self._source.size(label)
        except ReadFailed as error:
            if error.code in _SHARD_CODES:
                return False
            raise
        except Rejected:  # a file of that name is there and is another one
            return False
        return True

    @property
    def describes_tensors(self) -> bool:
        """Whether the file describes tensors; a data shard (`.zt` §7.2) does not.

        Everything that asks for the tensors of one raises `Unsupported` (code ``data-shard``).
        """
        return not isinstance(self.catalog.tensors, Undescribed)

    @property
    def is_mapped(self) -> bool:
        """Whether payload is a view of a mapping."""
        return self._source.is_mapped

    @property
    def decoded_limit(self) -> int:
        """Most bytes that one array may take."""
        return self._reading.limits.decoded

    def judge(self, name: str) -> None:
        """Judge tensor `name` by the rules that its format defers until it is interpreted.

        Raises:
            Rejected: when it breaks one.
        """
        if self.format.judge is not None:
            self.format.judge(self.catalog, name, Reading())

    def payload(self, part: Part, where: tuple[str | int, ...] = ()) -> memoryview:
        """Return the decoded bytes of a part: a view of the mapping, or a fresh read.

        The bytes of an encoded part are decoded into memory of the caller's own, writable, and
        those of one that lies in several files are gathered there.

        Raises:
            ReadFailed: when the bytes cannot be had.
            Rejected: when they break a rule of their encoding.
            LimitExceeded: when they decode to more than is allowed, or than this machine has.
            Unsupported: when the part is stored under an unknown encoding.
        """
        if isinstance(part.blob, Encoded):
            return self.decoder(part, where).read(0, part.nbytes)
        if len(part.blob.spans) == 1 or part.nbytes < _LARGE:
            pieces = self._read(part.blob.spans, where)
            return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
        return self._gather(part.blob.spans, where)

    def _gather(self, spans: Sequence[Span], where: tuple[str | int, ...]) -> memoryview:
        """Read spans, of several files or one, into one piece of memory, writable."""
        self._read([Span(span.end, 0, span.file) for span in spans], where)  # they are long enough
        target = _memory(sum(span.length for span in spans))
        done = 0
        for span in spans:
            self._source.readinto(span, target[done : done + span.length])
            done += span.length
        return target

    def chunks(self, part: Part, where: tuple[str | int, ...] = ()) -> Iterator[memoryview]:
        """Yield the decoded bytes of a part in pieces of at most `CHUNK` bytes, to be passed on.

        Everything that writes from a file takes its bytes from here, so that nothing is passed on
        that a reader would refuse: before the first byte the layout of the tensor at `where` is
        judged, then each piece by its type as it passes. A sha256 digest or a CRC is compared at
        the end; writers compute the digest of xxh3 anyway. A part without a digest is what its
        shard is: the shard is hashed first, once, and compared with what the opened file says of it
        (§7.1).

        Raises:
            ReadFailed: when the bytes cannot be had, or a shard is another file.
            Rejected: when they break a rule of their encoding, their type or their layout, or do
                not match their digest.
            Unsupported: when the part is stored under an unknown encoding.
        """
        self.pass_layout(where)
        pieces = self.pieces(part, where)
        if part.type in RESTRICTED:
            pieces = self._judge_typed(pieces, part, where)
        if part.digest is None or not part.digest.startswith("sha256:"):
            yield from pieces
            return
        state = hashlib.sha256()
        for piece in pieces:
            state.update(piece)
            yield piece
        computed = "sha256:" + state.hexdigest()
        if computed != part.digest:
            raise Rejected(
                "the bytes do not match their digest",
                code="zt.digest",
                section="3.4",
                path=self.path,
                where=where,
                expected=part.digest,
                found=computed,
            )

    def pass_layout(self, where: tuple[str | int, ...]) -> None:
        """Judge, once, what the layout of the tensor at `where` demands of its payload.

        What is not understood passes: it is copied as it is.

        Raises:
            Rejected: when it breaks a rule.
        """
        tensor = self._at(where) if self._has_rules() else None
        if tensor is None or not is_ruled(tensor.layout):
            return
        key = (tensor.layout, *((role, part.blob) for role, part in tensor.parts.items()))
        if key in self._passed:
            return
        try:
            judge_layout(self, tensor, Reading())
        except Rejected as error:
            error.hint = error.hint or (_MASKS if tensor.layout == nm.ID else None)
            error.located(self.path)
            raise
        except Unsupported:
            pass
        self._passed.add(key)

    def _has_rules(self) -> bool:
        """Tell whether any tensor has a layout that demands something of payload."""
        catalog, known = self._ruled
        if catalog is not self.catalog:
            known = any(map(is_ruled, self.catalog.layouts))
            self._ruled = self.catalog, known
        return known

    def _at(self, where: tuple[str | int, ...]) -> Tensor | None:
        """Return the tensor that a place in the catalog belongs to, if it does to one."""
        return self.catalog.tensors.get(str(where[1])) if len(where) >= _NAMED else None

    def _judge_typed(
        self, pieces: Iterator[memoryview], part: Part, where: tuple[str | int, ...]
    ) -> Iterator[memoryview]:
        """Yield the bytes of a part, judged by its type."""
        tensor = self._at(where)
        elements = tensor.elements if tensor is not None and tensor.layout == "dense" else None
        passing, reading = Passing(part.dtype, part.type, where, elements), Reading()
        try:
            for piece in pieces:
                passing.judge(piece, reading)
                yield piece
        except Rejected as error:
            error.located(self.path)
            raise

    def prove(self, labels: Iterable[str | None]) -> None:
        """Require the shards of these labels to be those that the opened file means (§7.1).

        Raises:
            ReadFailed: when one is another file, or cannot be read.
            Unsupported: when the digest of one is of an algorithm that is not known.
        """
        for label in {*labels} - {None}:
            self._source.prove(str(label))

    def prove_part(self, part: Part) -> None:
        """Require the shards of a part that has no digest to be those that are meant, as `prove`.

        Raises:
            ReadFailed: when one is another file, or cannot be read.
            Unsupported: when the digest of one is of an algorithm that is not known.
        """
        if part.digest is None and self.catalog.files:
            self.prove(each.file for each in part.blob.spans if each.length)

    def unproven(self) -> set[str]:
        """Return the shards that hold parts without digests: what these are hangs on the shard."""
        if not self.catalog.files:
            return set()
        parts = (part for each in self.catalog.tensors.values() for part in each.parts.values())
        spans = (span for part in parts if part.digest is None for span in part.blob.spans)
        return {span.file for span in spans if span.length and span.file is not None}

    def pieces(
        self, part: Part, where: tuple[str | int, ...] = (), reading: Reading | None = None
    ) -> Iterator[memoryview]:
        """Return the bytes of a part in pieces, for who judges it and compares its digest.

        `reading`, if given, says where to gather faults of their encoding.

        Raises:
            ReadFailed: when the bytes cannot be had, or a shard is another file.
            Rejected: when they break a rule of their encoding.
            Unsupported: when the part is stored under an unknown encoding.
        """
        self.prove_part(part)
        running = self.checksum_of(part, where)
        found = self._read_pieces(part, where, reading)
        return found if running is None else self._sum(found, running, reading or Reading())

    def _sum(
        self, pieces: Iterable[memoryview], running: Checksum, reading: Reading
    ) -> Iterator[memoryview]:
        """Pass pieces on, and judge their checksum at the end."""
        for piece in pieces:
            running = running.after(piece)
            yield piece
        running.require(reading, self.path)

    def checksum_of(self, part: Part, where: tuple[str | int, ...]) -> Checksum | None:
        """Return what runs over the bytes of a raw part and is judged at their end, or None.

        Encoded parts are judged by whoever decodes them.
        """
        if self.format.checksum is None or len(where) < _NAMED or isinstance(part.blob, Encoded):
            return None
        return self.format.checksum(self.catalog, str(where[1]))

    def _read_pieces(
        self, part: Part, where: tuple[str | int, ...], reading: Reading | None
    ) -> Iterator[memoryview]:
        if isinstance(part.blob, Encoded):
            for content in self.decoder(part, where, reading).pieces():
                for start in range(0, len(content), CHUNK):
                    yield content[start : start + CHUNK]
            self._source.evict(part.blob.spans)
            return
        for span in part.blob.spans:
            try:
                yield from self._source.passing(span)
            except ReadFailed as error:
                _place(error, where)
                raise

    def batches(self) -> list[list[str]]:
        """Return the names in groups worth a thread's while: of about `CHUNK` bytes, in order."""
        groups: list[list[str]] = []
        room = 0
        for name, tensor in self.catalog.tensors.items():
            if room <= 0:
                groups.append([])
                room = CHUNK
            groups[-1].append(name)
            room -= tensor.nbytes + _OVERHEAD
        return groups

    def evict(self, tensor: Tensor) -> None:
        """Take the mapped pages of a tensor out of this process's memory; views stay valid."""
        for part in tensor.parts.values():
            self._source.evict(part.blob.spans)

    def ranges(self, part: Part, where: tuple[str | int, ...] = ()) -> Ranges:
        """Return what reads decoded bytes [start, start + length) of a part.

        Of an encoded part only the frames are decoded that hold them.
        """
        if isinstance(part.blob, Encoded):
            return self.decoder(part, where).read
        return self._stored_bytes(part, where).read

    def decoder(
        self, part: Part, where: tuple[str | int, ...] = (), reading: Reading | None = None
    ) -> Decoder:
        """Open an encoded part; `reading`, if given, says where to gather faults.

        Raises:
            Rejected: when its structure breaks a rule of its encoding.
            Unsupported: when the encoding is unknown.
        """
        from tensorark.encodings import find

        if not isinstance(part.blob, Encoded):
            raise InvalidInput("the part is not encoded", code="raw", where=where)
        try:
            encoding = find(part.blob.encoding, where)
        except Unsupported as error:
            error.located(self.path)
            raise
        limits, lenient = self._reading.limits, self._reading.lenient
        # It may decode to more than the file has, so the memory of the machine counts as well.
        most = replace(limits, decoded=min(limits.decoded, memory_size() or limits.decoded))
        gathered = None if reading is None else reading.gathered
        how = Reading(most, gathered, lenient=lenient)
        return encoding.open(self._stored_bytes(part, where), part.nbytes, how, _memory)

    def _stored_bytes(self, part: Part, where: tuple[str | int, ...]) -> StoredBytes:
        """Return the stored bytes of a part, to be read in ranges."""
        from tensorark.encodings.encoding import StoredBytes

        spans = part.blob.spans

        def read(start: int, length: int) -> memoryview:
            pieces = self._read(cut(spans, start, length), where)
            return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

        return StoredBytes(
            nbytes=sum(span.length for span in spans),
            read=read,
            where=where,
            path=str(self._source.path_of(spans[0].file)),
            offset=spans[0].offset,
        )

    def _read(self, spans: Sequence[Span], where: tuple[str | int, ...]) -> list[memoryview]:
        try:
            return self._source.read(spans)
        except ReadFailed as error:
            _place(error, where)
            raise

    def copied(self, part: Part, where: tuple[str | int, ...] = ()) -> memoryview:
        """Return the stored bytes of a part in memory of the caller's own, writable.

        They are read by calls: were the file cut meanwhile, the pages of a mapping would be gone.

        Raises:
            ReadFailed: when the bytes cannot be had.
        """
        return self._gather(part.blob.spans, where)

    def private(self, part: Part) -> memoryview | None:
        """Return the bytes of a raw part for writing, changes staying in this process; or None."""
        spans = part.blob.spans
        return self._source.copy_on_write(spans[0]) if len(spans) == 1 else None


def _place(error: ReadFailed, where: tuple[str | int, ...]) -> None:
    if where and error.code in _SHARD_CODES:  # the message names the shard
        error.where = where


def _memory(nbytes: int) -> memoryview:
    return allocate(nbytes) if nbytes >= _LARGE else memoryview(bytearray(nbytes))
