"""Carrying out what a writer says: copy, hash, compare, judge, publish; for every format.

Owns the one loop through which payload goes from an opened file into new ones. All files of a model
appear, or none, and nothing is written that its reader would refuse.
"""

from __future__ import annotations

import os
import re
import uuid
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import xxhash

from tensorark import files
from tensorark.core.conversation import drive
from tensorark.core.rules import Reading
from tensorark.core.writing import (
    Checksums,
    Copy,
    Goal,
    Identify,
    Judge,
    Next,
    Options,
    Outputs,
    Patch,
    Place,
    Placement,
    Read,
    Skip,
    Word,
    Writing,
)
from tensorark.errors import Error, InvalidInput, LimitExceeded, Unsupported
from tensorark.files import File
from tensorark.formats.format import Format
from tensorark.formats.zt.digest import content_digest
from tensorark.io.fileset import publish_folder, publish_set, require_free, retire
from tensorark.io.inputs import aside
from tensorark.io.open_file import read_bytes
from tensorark.io.publish import exists, publish
from tensorark.io.sink import Sink
from tensorark.writing.assembly import CHUNK, Assembly, check_digest, compression_of, revalidate

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ZEROS: Final = bytes(1 << 16)


def write(file: File, target: Path, into: Format, options: Options) -> list[str]:
    """Write `file` as `into` at `target` and return the names of the files made.

    Raises:
        Unsupported: when the format cannot hold something, before the first byte.
        InvalidInput: when a file exists already, is an input, or something cannot be stored.
        Rejected: when payload breaks a rule or does not match its digest.
        ReadFailed: when the system refuses.
    """
    for turn in count():
        outputs, writing = begin(file, target, into, options, turn)
        others = [each.name for each in outputs.files if each.name != outputs.root]
        beside = others if outputs.kind == "set" else []
        taken = [each for each in beside if os.path.lexists(target.with_name(each))]
        if not taken:
            return carry_out(writing, outputs, target, file=file, options=options)
        if not options.overwrite:
            raise exists(target.with_name(taken[0]))
    raise AssertionError


def begin(
    file: File, target: Path, into: Format, options: Options, turn: int = 0
) -> tuple[Outputs, Writing]:
    """Begin a conversation; what it cannot hold is refused before its first word.

    What it asks of its source before it says which files there will be is answered here.

    Raises:
        Unsupported: when the format is not written, or cannot hold something.
    """
    if into.write is None:
        raise Unsupported(f"{into.title} is not written", code="target")
    writing = into.write(file.catalog, options, Goal(target.name, turn, uuid.uuid4().bytes))
    with _located(file):
        word = next(writing)
        while isinstance(word, Read):
            word = writing.send(file.payload(word.part, word.where))
    return hear_outputs(word), writing


def hear_outputs(word: Word) -> Outputs:
    """Return the first word of a conversation: which files there will be."""
    assert isinstance(word, Outputs)  # noqa: S101 - it is the first word of every writer
    return word


@contextmanager
def _located(file: File | None) -> Iterator[None]:
    """Let what a writer refuses name the source that it is asked to write."""
    try:
        yield
    except (Unsupported, LimitExceeded) as error:
        if file is not None:
            error.located(file.path)
        raise


def require(file: File, target: Path, into: Format, options: Options) -> None:
    """Make the refusals that `write` makes before its first byte.

    Raises:
        Unsupported: when the format cannot hold something.
    """
    begin(file, target, into, options)


def carry_out(
    writing: Writing,
    outputs: Outputs,
    target: Path,
    *,
    file: File | None = None,
    options: Options,
) -> list[str]:
    """Carry out a conversation that has said its `outputs`; return the names of the files made.

    `file` is the source of what is copied.
    """
    home = target if outputs.kind == "folder" else target.parent
    other = None if outputs.replaces is None else target.with_name(outputs.replaces)
    if other is not None:
        require_free(other, overwrite=options.overwrite)
    root = target if outputs.kind != "set" else target.with_name(outputs.root)
    with _sinks(outputs, root, overwrite=options.overwrite) as sinks:
        Carrier(sinks, outputs, file, options).run(writing)
    if other is not None and outputs.kind == "set":
        retire(other)
    elif other is not None:
        retire(other, _members(outputs), re.compile(outputs.owns).fullmatch)
    return [str(home / each.name) for each in outputs.files]


@contextmanager
def _sinks(outputs: Outputs, root: Path, *, overwrite: bool) -> Iterator[Iterator[Sink]]:
    """Give the sinks one after the other; all files appear when the block ends well."""
    owns = re.compile(outputs.owns).fullmatch
    if outputs.kind == "file":
        with publish(root, overwrite=overwrite) as sink:
            yield iter((sink,))
    elif outputs.kind == "set":
        names = [each.name for each in outputs.files if each.name != outputs.root]
        members = _members(outputs)
        with publish_set(root, names, overwrite=overwrite, members=members, owns=owns) as made:
            last, sinks = made
            by_name = {outputs.root: last, **dict(zip(names, sinks, strict=True))}
            yield iter([by_name[each.name] for each in outputs.files])
    else:
        with publish_folder(root, overwrite=overwrite, owns=owns) as folder:
            with closing(_in_folder(folder, outputs)) as sinks_in:
                yield sinks_in
                next(sinks_in, None)  # ends the last file
            _judge(folder / outputs.root)


def _in_folder(folder: Path, outputs: Outputs) -> Generator[Sink, None, None]:
    for each in outputs.files:
        with publish(folder / each.name, overwrite=False) as sink:
            yield sink


def _judge(path: Path) -> None:
    """Open what was written as a reader would."""
    try:
        with aside():  # what is written is no input
            files.open(path, io="pread").close()
    except Error as error:
        detail = f"this cannot be stored: {error.detail}"
        raise InvalidInput(detail, code=error.code, where=error.where) from error


def _members(outputs: Outputs) -> Callable[[Path], Sequence[str]]:
    """Return what reads the names of the members of a set from its root."""

    def of(root: Path) -> Sequence[str]:
        if outputs.members is not None:
            return outputs.members(read_bytes(root))
        with files.open(root, io="pread") as file:
            return file.catalog.files

    return of


class Carrier:
    """Does what a writer says, word by word, with sinks that are taken one after the other."""

    def __init__(
        self, sinks: Iterator[Sink], outputs: Outputs, file: File | None, options: Options
    ) -> None:
        self._left = sinks
        self._outputs = outputs
        self._source = file
        self._options = options
        self._sinks: list[Sink] = []
        self._room: int | None = None
        self._compression = compression_of(
            options.encoding, level=options.level, frame_size=options.frame_size
        )
        self._assembly: Assembly | None = None

    def run(self, writing: Writing) -> None:
        """Carry out a conversation to its end, and judge the file that it ends in."""
        self._go_on()
        reply: object = None
        try:
            with _located(self._source):
                while True:
                    reply = self._answer(writing.send(reply))
        except StopIteration:
            self._end()
        if self._room or len(self._sinks) != len(self._outputs.files):
            raise AssertionError("less was written than there are files for")

    @property
    def _sink(self) -> Sink:
        return self._sinks[-1]

    @property
    def _file(self) -> File:
        assert self._source is not None  # noqa: S101 - who copies has a source
        return self._source

    def _go_on(self) -> None:
        """Take the next file."""
        if self._sinks:
            self._end()
            if self._outputs.kind == "set":
                self._sink.settle()  # or many files would keep their buffers
        sink = next(self._left, None)
        if sink is None:
            raise AssertionError("more was written than there are files for")
        self._sinks.append(sink)
        output = self._outputs.files[len(self._sinks) - 1]
        self._room = output.room
        self._sink.write(output.head)

    def _end(self) -> None:
        """Judge the file that was written last, where its reader can."""
        judged = self._outputs.files[len(self._sinks) - 1].judged
        if judged and self._outputs.kind != "folder":
            revalidate(self._sink, canonical_form=self._outputs.canonical)

    def _answer(self, word: Word) -> object:
        match word:
            case Place():  # these two first: there is one to a part
                return self._place(word)
            case Copy():
                return self._copy(word)
            case bytes() | memoryview():
                self._write(word)
            case Skip(nbytes):
                self._skip(nbytes)
            case Next():
                self._go_on()
            case Patch(number, pieces):
                self._sinks[number].patch(pieces)
            case Read(part, where):
                return self._file.payload(part, where)
            case Identify(tensors):
                return content_digest(tensors)
            case Judge():
                self._judge_source()
            case Outputs():
                raise AssertionError("the files are said once")
        return None

    def _write(self, data: Buffer) -> None:
        """Write into the file at hand, and into the next ones where its room is used up."""
        if self._room is None:
            self._sink.write(data)
            return
        rest = memoryview(data).cast("B")
        while rest:
            if not self._room:
                self._go_on()
            piece = rest[: self._room]
            self._sink.write(piece)
            self._room -= len(piece)
            rest = rest[len(piece) :]

    def _skip(self, nbytes: int) -> None:
        if self._room is None:
            self._sink.skip(nbytes)
            return
        for start in range(0, nbytes, len(_ZEROS)):
            self._write(_ZEROS[: nbytes - start])

    def _copy(self, word: Copy) -> Checksums | None:
        state, crc = xxhash.xxh3_64(), word.crc
        for chunk in self._file.chunks(word.part, word.where):
            for start in range(0, len(chunk), CHUNK):
                piece = chunk[start : start + CHUNK]
                if word.hashed:
                    state.update(piece)
                if crc is not None:
                    crc = zlib.crc32(piece, crc)
                self._write(piece)
            self._options.progress(len(chunk))
        if not word.hashed:
            return None
        digest = "xxh3:" + state.hexdigest()
        check_digest(word.part, digest, word.where, self._file.path)
        return Checksums(digest, crc or 0)

    def _place(self, word: Place) -> Placement:
        part, where, sha256 = word
        file, assembly = self._file, self._assembly
        if assembly is None:
            assembly = self._assembly = Assembly(self._sink, self._outputs.align or 1)
        assembly.begin(self._compression, sha256=sha256)
        for chunk in file.chunks(part, where):
            assembly.write(chunk)
            self._options.progress(len(chunk))
        span, digest = assembly.end()
        check_digest(part, digest, where, file.path)
        other = assembly.digest("sha256", digest) if sha256 else None
        return Placement(assembly.blob(span), digest, other, self._sink.tell())

    def _judge_source(self) -> None:
        """Judge all tensors by their layouts, and the rest by the rules of its format."""
        for name in self._file.catalog.tensors:
            self._file.pass_layout(("objects", name))
        rules = self._file.format.payload_rules
        if rules is not None:
            try:
                drive(rules(self._file.catalog, Reading()), self._file.source)
            except Error as error:
                error.located(self._file.path)
                raise


def rewrite(file: File, sink: Sink, into: Format, options: Options) -> None:
    """Write `file` as `into`, one file, into a sink that somebody else publishes.

    Raises:
        Rejected: when a part does not match its digest: a damaged file is not passed on.
    """
    outputs, writing = begin(file, Path(sink.path), into, options)
    Carrier(iter((sink,)), outputs, file, options).run(writing)
