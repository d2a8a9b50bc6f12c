"""Amending a `.zt` without rewriting it: tensors added or superseded as one more generation (§2.5).

Owns appending from arrays or from another model. What the file held before stays in it, byte for
byte; `edit.repack` makes a file without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as _replaced
from pathlib import Path
from typing import Any

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.ledger import Settlement, among, settle
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.errors import Hint, InvalidInput
from tensorark.files import File, PathLike
from tensorark.formats.zt import ZT
from tensorark.formats.zt.amend import KEEP, Attributes
from tensorark.io.inputs import operation, refuse_input
from tensorark.wire.attributes import alike, extend
from tensorark.writing.append import Generation, generation
from tensorark.writing.assembly import Assembly
from tensorark.writing.copy import Copy, require_shards
from tensorark.writing.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What an append did to the file `path`: its old and new size, and the tensors it now has new.

    `superseded` of them took the place of tensors of the same name; `dropped` is what the other
    model held and the file does not.
    """

    __repr__ = brief

    path: str
    before: int
    after: int
    tensors: tuple[str, ...]
    superseded: tuple[str, ...] = ()
    dropped: tuple[Loss, ...] = ()


@operation()
def append(
    path: PathLike,
    changes: PathLike | Mapping[str, Any],
    *,
    attributes: Mapping[str, object] | None = None,
    replace: bool = False,
    align: int | None = None,
    drop: Collection[str] = (),
    progress: Progress = lambda _done: None,
) -> Amendment:
    """Append tensors to the `.zt` at `path`: arrays by name, or those of another model.

    The old bytes stay a prefix of the file. A name that it has is refused, or superseded with
    `replace`. Attributes of the file stay, and get those of another model beside them, unless
    `attributes` are given, which take their place. Blobs of another model are copied as they are
    stored, placed as those of the file unless `align` says otherwise.

    What the file has no place for, such as another value of an attribute that it has, is refused
    unless `drop` names its kind (`conversion.ledger`); with `replace` such a value supersedes.

    Not atomic: after a failure the file is cut back to its old length, but a process that is killed
    leaves one that readers refuse, and `diagnose` tells the length to cut it to.

    Raises:
        InvalidInput: when the file is no `.zt`, a data shard or a link, or has such a tensor.
        Unsupported: when something of the other model would be lost.
        Rejected: when the file, or payload, is broken.
        ReadFailed: when something cannot be read or written.
    """
    if isinstance(changes, Mapping) and not isinstance(changes, files.File):
        with Writer(path, append=True, replace=replace, align=align, attributes=attributes) as out:
            for name in sorted(changes):
                out.add(name, changes[name])
        assert out.generation is not None  # noqa: S101 - what appending means
        return _describe(out.generation, sorted(changes))
    with files.open(changes) as file:
        require_shards(file)
        refuse_input(Path(path))
        with generation(path, align=align) as new:
            settled, whole = _settle(file, new, attributes, drop, replaces=replace)
            _check_names(settled.file, new, replaces=replace)
            copy = Copy(settled.file, Assembly(new.sink, new.align), progress)
            held = settled.file.catalog.tensors
            new.finish([copy.tensor(held[name]) for name in sorted(held)], attributes=whole)
        return _replaced(_describe(new, sorted(settled.file)), dropped=settled.dropped)


def _settle(
    file: File, new: Generation, given: Attributes, drop: Collection[str], *, replaces: bool
) -> tuple[Settlement, Attributes]:
    """Settle what is appended; return it, and the attributes that the file gets."""
    model = as_zt_model(file)
    theirs, own = model.catalog.attributes, new.manifest.attributes
    whole, kept = extend(own, theirs)
    if given is not None:  # whoever gives them has decided
        kept, drop = extend(given, theirs)[1] & given.keys(), {*drop, "attributes"}
    elif replaces:
        whole, kept = extend(theirs, own)[0], frozenset(theirs or ())
    target = _replaced(ZT, keeps=among(ZT.keeps, kept))
    options = Options(align=new.align, drop=frozenset(drop))
    settled = settle(model, target, Path(new.path), options)
    settled.require()
    if given is not None:
        return settled, given
    return settled, KEEP if alike(whole, own) else whole


def _describe(new: Generation, names: Sequence[str]) -> Amendment:
    return Amendment(
        path=new.path,
        before=new.size,
        after=Path(new.path).stat().st_size,
        tensors=tuple(names),
        superseded=tuple(name for name in names if name in new.names),
    )


def _check_names(file: File, new: Generation, *, replaces: bool) -> None:
    taken = [name for name in sorted(file) if name in new.names]
    if taken and not replaces:
        raise InvalidInput(
            f"the file has {len(taken)} of these tensors already",
            code="name",
            path=new.path,
            where=("objects", taken[0]),
            hint=Hint("replace=True supersedes them", tark="--replace supersedes them"),
        )
