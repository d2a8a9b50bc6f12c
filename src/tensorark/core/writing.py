"""A writer is a conversation, as a reader is: it says what comes next, and is told what passed.

Owns the words of that conversation, tuples, for there is one to a tensor. A format's `write` is a
generator of them that knows no file; first it says which files there will be, once it has refused
what it cannot hold. Whoever carries it out moves payload, hashes and compares it, judges what was
written, and publishes all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tensorark.core.model import Blob, Part, Tensor
from tensorark.core.progress import Progress

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller may choose; a format refuses options that it does not take.

    `align` is the placement of blobs, in a `.zt` a multiple of 4096, None for canonical form;
    `max_shard_size` the most bytes of one file of a set, None for a single file; `encoding` how the
    parts of a `.zt` are stored, with zstd's `level` and decoded bytes for each frame in
    `frame_size`, None for raw parts; `digest` the algorithm of its digests, None to keep those that
    are there; `artifact_id` the 16 bytes that name a NInfer set, None for a new one. `drop` names
    the kinds of what may be lost (`conversion.ledger`).
    """

    overwrite: bool = False
    align: int | None = None
    max_shard_size: int | None = None
    encoding: str | None = None
    level: int | None = None
    frame_size: int | None = None
    digest: str | None = None
    artifact_id: bytes | None = None
    drop: frozenset[str] = frozenset()
    progress: Progress = lambda _done: None


class Goal(NamedTuple):
    """What is to be written: the name of its file or folder.

    Members of a set are named anew in each `turn`, until no other file has their names. `nonce` are
    16 bytes that nothing else has.
    """

    name: str
    turn: int = 0
    nonce: bytes = bytes(16)

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        stem, dot, _suffix = self.name.rpartition(".")
        return stem if dot and stem else self.name


class Output(NamedTuple):
    """One file: its name, and its first bytes. Behind `room` more bytes the next one goes on.

    With `judged`, a reader opens it before it is published.
    """

    name: str
    head: bytes = b""
    room: int | None = None
    judged: bool = True


class Outputs(NamedTuple):
    """The files to be written, in the order of writing; `root` is the one that names the others.

    A ``set`` has its members beside the root, a ``folder`` is all of it. `owns` matches the names
    of members that a writer of such sets may have made, and `members` reads the names of members
    from the bytes of a root, where opening one would ask for all of them. `replaces` is the root of
    the other form of the same model, whose place this one takes. `align` is where blobs that are
    placed begin; with `canonical`, a `.zt` has to be canonical.
    """

    files: tuple[Output, ...]
    root: str
    kind: Literal["file", "set", "folder"] = "file"
    owns: str = ""
    members: Callable[[bytes], Sequence[str]] | None = None
    replaces: str | None = None
    align: int | None = None
    canonical: bool = False


class Next:
    """Go on with the next file."""

    __slots__ = ()


class Skip(NamedTuple):
    """Leave so many bytes zero."""

    nbytes: int


class Copy(NamedTuple):
    """Write the decoded bytes of a part of the source, judged as they pass.

    With `hashed` the answer is `Checksums`, whose CRC-32 goes on from `crc` if that is given.
    """

    part: Part
    where: Where = ()
    hashed: bool = True
    crc: int | None = None


class Checksums(NamedTuple):
    """What passed: its xxh3 digest, and a CRC-32."""

    digest: str
    crc: int = 0


class Place(NamedTuple):
    """Write a part as a blob of a `.zt`: placed, encoded, and shared where its bytes were seen.

    The answer is `Placement`.
    """

    part: Part
    where: Where
    sha256: bool = False


class Placement(NamedTuple):
    """The blob, its xxh3 digest and the other one that was asked for, and where the file ends."""

    blob: Blob
    digest: str
    sha256: str | None
    end: int


class Read(NamedTuple):
    """Ask for the decoded bytes of a part of the source."""

    part: Part
    where: Where


class Judge:
    """Have all of the source judged by what its layouts and its format demand of payload."""

    __slots__ = ()


class Patch(NamedTuple):
    """Write pieces, each at its offset, in file `number`, where something was written already."""

    number: int
    pieces: tuple[tuple[int, bytes], ...]


class Identify(NamedTuple):
    """Ask for the content digest (`.zt` §6.4) of tensors whose parts carry digests."""

    tensors: tuple[Tensor, ...]


Word = Outputs | Next | Skip | Copy | Place | Read | Judge | Patch | Identify | bytes | memoryview
Writing = Generator[Word, Any, None]
"""The conversation of a writer."""
