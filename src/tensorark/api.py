"""Opening files: the only place where format code meets I/O.

`open` finds out what a file is, drives the conversation that reads it and gives a `File`: a mapping
from names to tensors that reads payload only when it is asked for.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from tensorark.errors import Error, InvalidInput, NotFound, ReadFailed, Rejected
from tensorark.formats.format import Format
from tensorark.identify import HEAD, TAIL, identify
from tensorark.io.local import Access, LocalSource
from tensorark.io.shards import Shards
from tensorark.io.sibling import sibling
from tensorark.limits import DEFAULT, Limits
from tensorark.model import Catalog, Encoded, Part, Span
from tensorark.rules import Finding, Reading
from tensorark.steps import drive
from tensorark.view import TensorView, unknown_encoding

_log = logging.getLogger("tensorark")

PathLike = str | os.PathLike[str]

CHUNK: Final = 8 << 20
"""Bytes that are read at a time when payload is only passed on."""

_INDEX_SUFFIX: Final = ".index.json"
_SHARD_CODES: Final = frozenset({"missing-shard", "wrong-shard", "unsafe-link"})


class File(Mapping[str, TensorView]):
    """An opened file or shard set: tensors by name, in the order of the file.

    Safe to read from threads; pickles as its path and options and reopens. Close it, or use it as a
    context manager; arrays that were handed out stay valid.
    """

    __slots__ = ("_options", "_source", "catalog", "format", "path")

    def __init__(
        self,
        path: str,
        source: LocalSource,
        format_: Format,
        catalog: Catalog,
        *,
        io: Access,
        structural: bool,
        limits: Limits,
        store: PathLike | None = None,
    ) -> None:
        self.path = path
        self.format = format_
        self.catalog = catalog
        self._source = source
        self._options = (io, structural, limits, store)

    def __repr__(self) -> str:
        return f"<File {self.path!r} {self.format.name}, {len(self)} tensors>"

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (os.path.abspath(self.path), *self._options))  # noqa: PTH100 - no I/O

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Idempotent; reading afterwards raises `InvalidInput`."""
        self._source.close()

    def __getitem__(self, name: str) -> TensorView:
        """Return the tensor `name`.

        Raises:
            NotFound: when there is none.
        """
        try:
            return TensorView(self, self.catalog.tensors[name])
        except KeyError:
            raise NotFound(
                "no such tensor", code="no-tensor", path=self.path, where=("objects", str(name))
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self.catalog.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.catalog.tensors)

    def __len__(self) -> int:
        return len(self.catalog.tensors)

    @property
    def attributes(self) -> Mapping[str, object]:
        """Attributes of the whole file (`__metadata__` of safetensors); empty where it has none."""
        return self.catalog.attributes or MappingProxyType({})

    @property
    def source(self) -> LocalSource:
        """The source that payload is read from."""
        return self._source

    def missing(self) -> dict[str, tuple[str, ...]]:
        """Return the shards that are not there, or are not what the file says, and their tensors.

        Looks for every shard, as a first use of each would; empty when all are there.
        """
        gone = [label for label in self.catalog.files if not self._has(label)]
        if not gone:
            return {}
        held: dict[str, list[str]] = {label: [] for label in gone}
        for name, tensor in self.catalog.tensors.items():
            spans = [span for part in tensor.parts.values() for span in part.blob.spans]
            for label in dict.fromkeys(span.file for span in spans):
                if label in held:
                    held[label].append(name)
        return {label: tuple(names) for label, names in held.items()}

    def paths(self) -> list[Path]:
        """Return the files of this model: the opened one, then its shards as far as they exist."""
        found = (label for label in self.catalog.files if self._has(label))
        return [self._source.path_of(), *map(self._source.path_of, found)]

    def _has(self, label: str) -> bool:
        try:
            self._source.size(label)
        except ReadFailed as error:
            if error.code in _SHARD_CODES:
                return False
            raise
        return True

    @property
    def is_mapped(self) -> bool:
        """Whether payload is a view of a mapping."""
        return self._source.is_mapped

    @property
    def decoded_limit(self) -> int:
        """Most bytes that one array may take."""
        return self._options[2].decoded

    def payload(self, part: Part, where: tuple[str | int, ...] = ()) -> memoryview:
        """Return the decoded bytes of a part: a view of the mapping, or a fresh read.

        Raises:
            ReadFailed: when the bytes cannot be had.
            Unsupported: when the part is stored under an unknown encoding.
        """
        if isinstance(part.blob, Encoded):
            raise unknown_encoding(part.blob.encoding, where).located(self.path)
        pieces = self._read(part.blob.spans, where)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def chunks(self, part: Part, where: tuple[str | int, ...] = ()) -> Iterator[memoryview]:
        """Yield the decoded bytes of a part in pieces of at most `CHUNK` bytes.

        Raises:
            ReadFailed: when the bytes cannot be had.
            Unsupported: when the part is stored under an unknown encoding.
        """
        if isinstance(part.blob, Encoded):
            raise unknown_encoding(part.blob.encoding, where).located(self.path)
        for span in part.blob.spans:
            for start in range(0, span.length, CHUNK):
                piece = Span(span.offset + start, min(CHUNK, span.length - start), span.file)
                yield from self._read([piece], where)

    def _read(self, spans: Sequence[Span], where: tuple[str | int, ...]) -> list[memoryview]:
        try:
            return self._source.read(spans)
        except ReadFailed as error:
            if where and error.code in _SHARD_CODES:  # the message names the shard
                error.where = where
            raise

    def private(self, part: Part) -> memoryview | None:
        """Return the bytes of a raw part for writing, changes staying in this process; or None."""
        spans = part.blob.spans
        return self._source.copy_on_write(spans[0]) if len(spans) == 1 else None


def open(  # noqa: A001 - the verb users know
    path: PathLike,
    *,
    io: Access = "auto",
    structural: bool = False,
    limits: Limits = DEFAULT,
    store: PathLike | None = None,
) -> File:
    """Open a tensor file, the index of a shard set, or a folder that holds one of either.

    `io` is ``mmap``, ``pread`` or ``auto`` (mapping on local disks). `structural` leaves the rules
    of layout profiles out, for files whose profiles are broken. No payload byte is read.

    The shards of a `.zt` are looked for when they are first used: beside it, by name and by
    content, and in `store`, a folder of files named ``<algorithm>/<hex>`` by their digests.

    Raises:
        Rejected: when the file breaks a rule of its format, or is no tensor file.
        Unsupported: when it is of a format that is not read.
        ReadFailed: when it, or one of its shards, is missing or cannot be read.
    """
    return _open(path, io, Reading(limits, structural=structural), store)


def validate(path: PathLike, *, limits: Limits = DEFAULT, canonical: bool = False) -> list[Finding]:
    """Return every fault of the first stage that finds any; an empty list means valid.

    Reads no payload; with `canonical`, canonical form (`.zt` §6.3) is judged too, which reads
    padding, and blobs where two may be equal.

    Raises:
        Unsupported: when the file is of a format that is not read.
        ReadFailed: when it cannot be read.
    """
    gathered: list[Finding] = []
    reading = Reading(limits, gathered)
    try:
        with _open(path, "pread", reading) as file:
            if canonical:
                from tensorark.formats.zt.canonical import judge
                from tensorark.formats.zt.frame import RawFrame
                from tensorark.formats.zt.manifest import Manifest

                native = file.catalog.native
                if not isinstance(native, Manifest | RawFrame):
                    raise InvalidInput("canonical form is a matter of `.zt`", code="not-zt")
                drive(judge(native, reading), file.source)
    except Rejected as error:
        if not gathered:
            gathered.append(_unlisted(error))
    return gathered


def _unlisted(error: Rejected) -> Finding:
    """Describe a rejection that no rule of a format made: the file is something else."""
    return Finding(
        rule=error.code,
        section=error.section or "",
        stage="frame",
        where=error.where,
        detail=error.detail,
        offset=error.offset,
        expected=error.expected,
        found=error.found,
    )


def _open(path: PathLike, io: Access, reading: Reading, store: PathLike | None = None) -> File:
    name = os.fspath(path)
    if Path(name).is_dir():
        name = entry_of(name)
    source = LocalSource(name, io=io, resolve=_Siblings(name))
    try:
        size = source.size()
        ends = (Span(0, min(size, HEAD)), Span(max(0, size - TAIL), min(size, TAIL)))
        head, tail = source.read(ends)
        format_ = identify(bytes(head), bytes(tail), size, name)
        catalog = drive(format_.read(source.size, reading), source)
        source = _resolving(source, catalog, store)
    except BaseException as error:
        source.close()
        if isinstance(error, Error):
            error.located(name)
        raise
    structural, limits = reading.structural, reading.limits
    return File(
        name, source, format_, catalog, io=io, structural=structural, limits=limits, store=store
    )


def _reopen(
    path: str,
    io: Access,
    structural: bool,  # noqa: FBT001
    limits: Limits,
    store: PathLike | None,
) -> File:
    return _open(path, io, Reading(limits, structural=structural), store)


def _resolving(source: LocalSource, catalog: Catalog, store: PathLike | None) -> LocalSource:
    """Return a source that finds the shards which the catalog of a `.zt` declares."""
    from tensorark.formats.zt.frame import shard_fault
    from tensorark.formats.zt.manifest import Manifest

    if not isinstance(catalog.native, Manifest) or not catalog.native.shards:
        return source
    return source.resolving(
        Shards(
            root=source.path.absolute(),
            expected=catalog.native.shards,
            judge=shard_fault,
            store=None if store is None else Path(store).absolute(),
        )
    )


class _Siblings:
    """Finds the files that one file names in its own folder; picklable."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __call__(self, label: str) -> Path:
        """Return the path of the file that is called `label`."""
        return sibling(self._path.parent, label)


def entry_of(folder: PathLike) -> str:
    """Return the one model in a folder: its shard index if there is one, else its only file.

    Raises:
        InvalidInput: when there is none, or more than one to choose from.
    """
    found = entries_of(folder)
    indexes = [each for each in found if each.endswith(_INDEX_SUFFIX)]
    if len(indexes) == 1 and len(found) > 1:
        strays = ", ".join(Path(each).name for each in found if each not in indexes)
        _log.warning("%s: the index is read; beside it lie %s", os.fspath(folder), strays)
    chosen = indexes if len(indexes) == 1 else found
    if len(chosen) == 1:
        return chosen[0]
    raise InvalidInput(
        "the folder holds more than one model: name one" if found else "the folder holds no model",
        code="folder",
        path=os.fspath(folder),
        found=", ".join(Path(each).name for each in found[:6]) or None,
    )


def entries_of(folder: PathLike) -> list[str]:
    """Return the models in a folder by name; the shards that an index lists are left out."""
    from tensorark.formats import FORMATS

    suffixes = tuple(suffix for each in FORMATS for suffix in each.suffixes)
    try:
        names = sorted(each.name for each in Path(folder).iterdir() if each.is_file())
    except OSError as error:
        raise ReadFailed(error.strerror or str(error), path=os.fspath(folder)) from error
    models = [name for name in names if name.endswith(suffixes)]
    indexes = [name for name in models if name.endswith(_INDEX_SUFFIX)]
    stems = [name.removesuffix(_INDEX_SUFFIX) for name in indexes]
    shards = _shards_of(models, stems)
    return [str(Path(folder) / name) for name in models if name not in shards]


def _shards_of(names: Sequence[str], indexes: Sequence[str]) -> set[str]:
    """Return the names that are shards of others: ``<stem>-00001-of-00002.<suffix>``."""
    found = set()
    for name in names:
        match = re.fullmatch(r"(.+)-\d{5}-of-\d{5}(\.\w+)", name)
        if match and (match[1] + match[2] in indexes or match[1] + match[2] in names):
            found.add(name)
    return found
