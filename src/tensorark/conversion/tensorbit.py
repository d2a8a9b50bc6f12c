"""Writing any model as Tensorbit: a container, a directory with its manifest, a blob.

Owns the way of attributes into an index and the order of work: plan everything, write what was
planned, judge the result by the reader's own rules, publish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import xxhash

from tensorark import files
from tensorark.conversion.ledger import BY_MODEL, Keeps
from tensorark.conversion.target import LEAVE_OUT, Options, Target, require_none
from tensorark.core.model import Tensor
from tensorark.core.progress import Progress
from tensorark.errors import Error, InvalidInput, Unsupported
from tensorark.files import File
from tensorark.files.attributes import brought_home
from tensorark.formats.tensorbit import read as reading
from tensorark.formats.tensorbit import write as planning
from tensorark.formats.tensorbit.write import Placed
from tensorark.io.fileset import publish_folder
from tensorark.io.publish import publish
from tensorark.io.sink import Sink
from tensorark.layouts.nm.rules import KEY, members
from tensorark.wire import attributes as carry
from tensorark.writing.writer import CHUNK, check_digest, revalidate


def write_container(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as one `.tbm`; each blob begins at a multiple of `options.align`, if given."""
    tensors, facts = contents(file)
    hold(tensors, file.path)
    align = options.align or 1
    if align < 1:
        raise InvalidInput("an alignment is at least 1", code="align", found=align)
    plan = planning.plan_container(tensors, facts, align=align)
    with publish(target, overwrite=options.overwrite) as sink:
        for placed in plan.blobs:
            sink.skip(placed.offset - sink.tell())
            _write_blob(file, placed, sink, options.progress)
        sink.write(plan.tail)
        revalidate(sink, canonical_form=False)
    return [str(target)]


def write_blob(file: File, target: Path, options: Options) -> list[str]:
    """Write the only tensor of `file` as a `.tb`, which keeps neither its shape nor attributes."""
    planned = _planned_blob(file)
    with publish(target, overwrite=options.overwrite) as sink:
        _write_blob(file, planned, sink, options.progress)
        revalidate(sink, canonical_form=False)
    return [str(target)]


def _planned_blob(file: File) -> Placed:
    tensors, _ = contents(file)
    hold(tensors, file.path)
    if len(tensors) != 1:
        raise Unsupported(
            f"a .tb holds one tensor, this model has {len(tensors)}",
            code="refused",
            path=file.path,
            hint="write a .tbm, or a directory",
        )
    return planning.plan_blob(tensors[0])


def _require_blob(file: File, _options: Options) -> None:
    _planned_blob(file)


def write_directory(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as a directory: a `.tb` for each tensor, and ``manifest.json``."""
    tensors, facts = contents(file)
    hold(tensors, file.path)
    plan = planning.plan_directory(tensors, facts)
    names = [*(placed.file or "" for placed in plan.blobs), reading.MANIFEST]
    with publish_folder(target, overwrite=options.overwrite, owns=_is_ours) as folder:
        for placed in plan.blobs:
            with publish(folder / (placed.file or ""), overwrite=False) as sink:
                _write_blob(file, placed, sink, options.progress)
        with publish(folder / reading.MANIFEST, overwrite=False) as sink:
            sink.write(plan.tail)
        _rejudge(folder / reading.MANIFEST)
    return [str(target / name) for name in names]


def contents(file: File) -> tuple[list[Tensor], Mapping[str, object]]:
    """Return the tensors of `file` in the order to write them, and what the model says of itself.

    Attributes that are not Tensorbit's become text in a member of ours.
    """
    home = brought_home(file.catalog)
    facts = dict(members(home.file))
    tensors = [
        replace(tensor, attributes=home.tensors.get(tensor.name))
        for tensor in planning.ordered(file.catalog.tensors, facts)
    ]
    others = None
    if home.file is not None:
        others = {key: value for key, value in home.file.items() if key != KEY}
    foreign = {
        tensor.name: kept
        for tensor in tensors
        if (kept := {k: v for k, v in (tensor.attributes or {}).items() if k != KEY})
    }
    text = carry.to_text(others or None, foreign)
    if text is not None:
        extra = facts.get("extra")
        facts["extra"] = {**(extra if isinstance(extra, Mapping) else {}), reading.METADATA: text}
    return tensors, facts


def hold(tensors: Sequence[Tensor], path: str | None = None) -> None:
    """Require Tensorbit to be able to hold each of `tensors`, before the first byte is written.

    Raises:
        Unsupported: naming every tensor that it cannot hold.
    """
    refusals = list(planning.refusals(tensors))
    require_none(refusals, len(tensors), holder="Tensorbit", path=path, hint=LEAVE_OUT)


def _write_blob(file: File, placed: Placed, sink: Sink, progress: Progress) -> None:
    sink.write(placed.header)
    for role in placed.roles:
        part = placed.tensor.parts[role]
        where = ("objects", placed.tensor.name, "parts", role)
        state = xxhash.xxh3_64()
        for chunk in file.chunks(part, where):
            for start in range(0, len(chunk), CHUNK):
                piece = chunk[start : start + CHUNK]
                state.update(piece)
                sink.write(piece)
            progress(len(chunk))
        check_digest(part, "xxh3:" + state.hexdigest(), where, file.path)


def _is_ours(name: str) -> bool:
    """Tell whether a directory that Tensorbit made may hold a file of that name."""
    return name == reading.MANIFEST or name.endswith(reading.SUFFIX)


def _rejudge(path: Path) -> None:
    """Open what was written as a reader would."""
    try:
        files.open(path, io="pread").close()
    except Error as error:
        detail = f"this cannot be stored: {error.detail}"
        raise InvalidInput(detail, code=error.code, where=error.where) from error


def _blob_keeps(file: File, path: Path, kind: str, name: str) -> bool:
    """Tell what a `.tb` keeps: the name that its file has, one dimension, and a pattern."""
    if kind == "names":
        return name == path.stem
    if kind == "shapes":
        tensor = file.catalog.tensors[name]
        return tensor.shape == (tensor.elements,)
    if kind != "tensor-attributes":
        return False
    home = brought_home(file.catalog).tensors
    tensor_name, _, key = name.rpartition(": ")
    facts = home.get(tensor_name, {}).get(KEY)
    return key == KEY and isinstance(facts, Mapping) and facts.keys() <= {"n", "m"}


def _require(file: File, _options: Options) -> None:
    hold(contents(file)[0], file.path)


def _refusals(file: File, _options: Options) -> Iterator[tuple[str, str]]:
    return planning.refusals(contents(file)[0])


TENSORBIT: Final = Target(
    name="tbm",
    suffixes=(".tbm",),
    options=frozenset({"align"}),
    put=write_container,
    keeps=Keeps(BY_MODEL),
    require=_require,
    refuses=_refusals,
)
TENSORBIT_BLOB: Final = Target(
    name="tb",
    suffixes=(".tb",),
    options=frozenset(),
    put=write_blob,
    keeps=Keeps(frozenset(), _blob_keeps),
    require=_require_blob,
    refuses=_refusals,
)
TENSORBIT_DIRECTORY: Final = Target(
    name="tensorbit-directory",
    suffixes=(),
    options=frozenset(),
    put=write_directory,
    keeps=Keeps(BY_MODEL),
    require=_require,
    refuses=_refusals,
)
