"""One more generation of a `.zt` (§2.5): what is behind the old footer, and when it is on the disk.

Owns the order of work of an append: new blobs, then the manifest, judged and synced, then the
footer, which makes all of it the meaning of the file. Until then readers refuse the file; after a
failure it is cut back to its old length. An append is not atomic and cannot be: who needs that
writes a new file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

import xxhash

from tensorark import files
from tensorark.core.brief import brief
from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.errors import Error, InvalidInput, unstorable
from tensorark.files import PathLike
from tensorark.formats.zt.amend import KEEP, Attributes, amend_manifest, infer_align
from tensorark.formats.zt.encode import align_up, check_align
from tensorark.formats.zt.frame import FOOTER_SIZE, MAGIC, VERSION, RawFrame, encode_footer
from tensorark.formats.zt.manifest import Manifest
from tensorark.formats.zt.read import judge_manifest
from tensorark.io.extend import extend
from tensorark.io.sink import Sink


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation that is being written behind those of `path`, which are `size` bytes long.

    `manifest` is that of the last one, `names` its tensors; `sink` takes what is new, `align` is
    its placement.
    """

    __repr__ = brief

    path: str
    size: int
    manifest: Manifest
    names: frozenset[str]
    sink: Sink
    align: int

    def finish(
        self,
        tensors: Sequence[Tensor] = (),
        *,
        attributes: Attributes = KEEP,
        tensor_attributes: Mapping[str, Attributes] | None = None,
    ) -> None:
        """Write the manifest of this generation and its footer.

        Raises:
            InvalidInput: when a reader would reject it: what the caller asked for cannot be stored.
        """
        text = amend_manifest(
            self.manifest, tensors, attributes=attributes, tensor_attributes=tensor_attributes
        )
        offset = align_up(self.sink.tell(), self.align)
        _judge(text, offset)
        self.sink.skip(offset - self.sink.tell())
        self.sink.write(text)
        # No footer before all that it speaks for is on the disk.
        self.sink.sync()
        self.sink.write(encode_footer(offset, len(text), xxhash.xxh3_64_intdigest(text)))


@contextmanager
def generation(path: PathLike, *, align: int | None = None) -> Iterator[Generation]:
    """Begin another generation of the `.zt` at `path`, placed as the last one unless `align` says.

    Raises:
        InvalidInput: when it is no `.zt`, a data shard, or a link.
        Rejected: when it is broken: nothing is built on that.
        ReadFailed: when the system refuses, or another process writes the file.
    """
    with files.open(path, io="pread") as file:
        name, size, manifest = file.path, file.source.size(), file.catalog.native
        if not isinstance(manifest, Manifest):
            _refuse(file)
    placement = infer_align(manifest) if align is None else check_align(align)
    with extend(name, size=size) as sink:
        yield Generation(name, size, manifest, frozenset(manifest.names), sink, placement)


def _refuse(file: files.File) -> NoReturn:
    if file.format.grows:
        raise InvalidInput(
            "a data shard has no manifest that could be amended",
            code="data-shard",
            section="7.2",
            path=file.path,
            hint="name the root file",
        )
    raise InvalidInput(
        "only a `.zt` takes another generation",
        code="not-zt",
        path=file.path,
        found=file.format.title,
        hint="convert it to `.zt` first",
    )


def _judge(text: bytes, offset: int) -> None:
    """Judge a manifest by the reader's own rules before it is written."""
    frame = RawFrame(
        size=offset + len(text) + FOOTER_SIZE,
        header_magic=MAGIC,
        manifest_offset=offset,
        manifest_length=len(text),
        manifest_hash=xxhash.xxh3_64_intdigest(text),
        version=VERSION,
        reserved=0,
        footer_magic=MAGIC,
    )
    try:
        judge_manifest(text, frame, Reading())
    except Error as error:
        raise unstorable(error) from error
