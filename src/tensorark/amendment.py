"""Amending a `.zt` without rewriting it: tensors added or superseded as one more generation (§2.5).

Owns appending from arrays or from another model. What the file held before stays in it, byte for
byte; `repack` makes a file without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as _replaced
from pathlib import Path
from typing import Any

from tensorark import api
from tensorark.api import File, PathLike
from tensorark.brief import brief
from tensorark.carry import brought_home
from tensorark.conversion import Conversion, convert
from tensorark.errors import Hint, InvalidInput
from tensorark.formats.zt.amend import KEEP, Attributes
from tensorark.generation import Generation, generation
from tensorark.hub import hub
from tensorark.io.inputs import operation, refuse_input
from tensorark.splitting import complete
from tensorark.verbatim import Copy, Progress
from tensorark.writer import Assembly, Writer, require_suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What an append did to the file `path`: its old and new size, and the tensors it now has new.

    `superseded` of them took the place of tensors of the same name.
    """

    __repr__ = brief

    path: str
    before: int
    after: int
    tensors: tuple[str, ...]
    superseded: tuple[str, ...] = ()


@operation()
def append(
    path: PathLike,
    changes: PathLike | Mapping[str, Any],
    *,
    attributes: Mapping[str, object] | None = None,
    replace: bool = False,
    align: int | None = None,
    progress: Progress = lambda _done: None,
) -> Amendment:
    """Append tensors to the `.zt` at `path`: arrays by name, or those of another model.

    The old bytes stay a prefix of the file. A name that it has is refused, or superseded with
    `replace`; attributes of the file stay unless `attributes` are given. Blobs of another model are
    copied as they are stored, placed as those of the file unless `align` says otherwise.

    Not atomic: after a failure the file is cut back to its old length, but a process that is killed
    leaves one that readers refuse, and `diagnose` tells the length to cut it to.

    Raises:
        InvalidInput: when the file is no `.zt`, a data shard or a link, or has such a tensor.
        Rejected: when the file, or payload, is broken.
        ReadFailed: when something cannot be read or written.
    """
    if isinstance(changes, Mapping) and not isinstance(changes, api.File):
        with Writer(path, append=True, replace=replace, align=align, attributes=attributes) as out:
            for name in sorted(changes):
                out.add(name, changes[name])
        assert out.generation is not None  # noqa: S101 - what appending means
        return _described(out.generation, sorted(changes))
    with api.open(changes) as file:
        complete(file)
        refuse_input(Path(path))
        with generation(path, align=align) as new:
            model = hub(file)
            _check_names(model, new, replaces=replace)
            _append_file(model, new, attributes, progress)
        return _described(new, sorted(model))


def _described(new: Generation, names: Sequence[str]) -> Amendment:
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


def _append_file(file: File, new: Generation, attributes: Attributes, progress: Progress) -> None:
    carried = brought_home(file.catalog)
    copy = Copy(file, Assembly(new.sink, new.align), progress)
    tensors = []
    for name in sorted(file):
        tensor = copy.tensor(file.catalog.tensors[name])
        tensors.append(_replaced(tensor, attributes=carried.tensors.get(name)))
    new.finish(tensors, attributes=KEEP if attributes is None else attributes)


@operation()
def repack(
    source: PathLike,
    target: PathLike,
    *,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Conversion:
    """Write the `.zt` at `source` anew as `target`: canonical, with nothing left that is not used.

    Raises:
        InvalidInput: when `source` is no `.zt`, is split, or is `target`.
        Rejected: when it is broken, or payload does not match its digest.
        ReadFailed: when something cannot be read or written.
    """
    require_suffix(target)
    with api.open(source) as file:
        if file.format.name != "zt":
            raise InvalidInput(
                "only a `.zt` is repacked; `convert` writes one from any format",
                code="not-zt",
                path=file.path,
                found=file.format.title,
            )
        if file.catalog.files:
            raise InvalidInput(
                "the model is split: canonical form is one file",
                code="sharded",
                section="6.3",
                path=file.path,
                hint=Hint("merge() makes one file of it", tark="`tark merge` makes one file of it"),
            )
    return convert(source, target, format="zt", overwrite=overwrite, progress=progress)
