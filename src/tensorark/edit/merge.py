"""Merging the shards of a model back into one file.

Owns the checks that keep a merge harmless: it takes the root alone and finds the rest, needs every
shard before it writes a byte, and writes to none of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.ledger import settle
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.errors import InvalidInput
from tensorark.files import PathLike
from tensorark.formats.zt import ZT
from tensorark.formats.zt.encode import check_align
from tensorark.io.inputs import operation
from tensorark.io.publish import exists, publish
from tensorark.writing.copy import copy_all, require_shards


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What a merge reads and makes: files, the shards among them that are read, and tensors.

    `dropped` is what the model held and a `.zt` does not.
    """

    __repr__ = brief

    root: str
    target: str
    shards: tuple[str, ...]
    tensors: int
    nbytes: int
    dropped: tuple[Loss, ...] = ()


@operation()
def merge(
    root: PathLike,
    target: PathLike,
    *,
    align: int | None = None,
    drop: Collection[str] = (),
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda _done: None,
) -> Merge:
    """Merge the model of the entry file `root` into the one `.zt` `target`; return what was done.

    The target is canonical; with `align`, a multiple of 4096, blobs are copied as they are stored,
    with their encodings and digests, and placed at its multiples. What a `.zt` does not keep is
    refused unless `drop` names its kind (`conversion.ledger`). With `dry_run` nothing is written.

    Raises:
        InvalidInput: when `target` exists, is an input or no `.zt`.
        Unsupported: when `root` is a data shard, or something would be lost.
        Rejected: when payload does not match its digest.
        ReadFailed: when a shard is missing, or something cannot be read or written.
    """
    path = Path(target)
    if path.suffix != ".zt":
        detail = "models are merged into a `.zt`; `convert` writes other formats"
        raise InvalidInput(detail, code="target", found=path.suffix or "no suffix")
    if align is not None:
        check_align(align)
    with files.open(root) as file:
        require_shards(file)
        options = Options(overwrite=overwrite, align=align, drop=frozenset(drop), progress=progress)
        settled = settle(as_zt_model(file), ZT, path, options)
        settled.require()
        if path.exists() and not overwrite:
            raise exists(path)
        _first, *shards = map(str, file.paths())
        if dry_run:
            pass
        elif align is None:
            settled.write()
        else:
            with publish(path, overwrite=overwrite) as sink:
                copy_all(settled.file, sink, align=align, progress=progress)
        return Merge(
            root=file.path,
            target=str(path),
            shards=tuple(shards),
            tensors=len(settled.file),
            nbytes=sum(tensor.nbytes for tensor in settled.file.catalog.tensors.values()),
            dropped=settled.dropped,
        )
