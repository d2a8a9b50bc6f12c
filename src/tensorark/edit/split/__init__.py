"""Splitting a model into a root `.zt` and shards (§7): a plan that anyone may look at, then files.

Owns which tensor goes into which shard and where. Blobs are copied as they are stored. Shards are
data shards, unless they are asked to be files of their own; the root appears last, so that there
never is a root without its shards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.ledger import Settlement, settle
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.progress import Progress
from tensorark.core.sizes import size_of
from tensorark.core.writing import Options
from tensorark.edit.split.heaps import By, Heap, plan_heaps
from tensorark.edit.split.shards import write
from tensorark.errors import Hint, InvalidInput
from tensorark.files import PathLike
from tensorark.formats.zt import ZT
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm
from tensorark.formats.zt.encode import check_align
from tensorark.formats.zt.frame import ALIGN, CANONICAL_ALIGN, FOOTER_SIZE
from tensorark.io.fileset import fresh
from tensorark.io.inputs import operation
from tensorark.writing.copy import length_of, require_shards


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedShard:
    """One shard: its name, its file, the tensors it holds, and its exact size in bytes.

    `exceeds` says that a single tensor is larger than the limit, so that the file is as well.
    """

    __repr__ = brief

    name: str
    path: str
    tensors: tuple[str, ...]
    size: int
    exceeds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """What a split makes: `root` and `shards`; `tensors` of them, in `nbytes` stored bytes.

    `dropped` is what the model held and a `.zt` does not.
    """

    __repr__ = brief

    root: str
    shards: tuple[PlannedShard, ...]
    tensors: int
    nbytes: int
    max_size: int | None = None
    dropped: tuple[Loss, ...] = ()


@operation()
def split(
    source: PathLike,
    root: PathLike,
    *,
    max_size: int | str | None = None,
    by: By | None = None,
    algorithm: Algorithm = "sha256",
    full: bool = False,
    align: int = CANONICAL_ALIGN,
    drop: Collection[str] = (),
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda _done: None,
) -> SplitPlan:
    """Split the model at `source` into the file `root` and shards beside it; return what was made.

    A shard ``00001-of-00003`` of ``model.zt`` is the file ``model-00001-of-00003.zt``. Tensors fill
    one shard after the other, in order of their names, up to `max_size` bytes of a file, to the
    byte; a tensor that is larger gets a shard of its own. `by` ``layer`` begins a new shard for
    every layer; the first number in a name tells it. Blobs are copied as stored and keep encodings
    and digests; the content digest stays. `full` makes each shard a `.zt` that can be opened by
    itself. What a `.zt` does not keep is refused unless `drop` names its kind
    (`conversion.ledger`). With `dry_run` nothing is written.

    Raises:
        InvalidInput: when a file exists and `overwrite` is false, is an input, or the options do
            not fit together.
        Unsupported: when something would be lost, or a `.zt` cannot hold a name.
        Rejected: when payload does not match its digest.
        ReadFailed: when something cannot be read or written, or a shard of the source is missing.
    """
    target = Path(root)
    max_size = None if max_size is None else size_of(max_size)
    _check(target, max_size, by, algorithm)
    with files.open(source) as file:
        settled = settle(as_zt_model(file), ZT, target, Options(align=align, drop=frozenset(drop)))
        settled.require()
        model = settled.file
        heaps, placed = plan_heaps(model, max_size, by, check_align(align), full=full)
        plan = _describe(settled, target, heaps, max_size, overwrite=overwrite)
        if dry_run:
            return plan
        require_shards(file)
        _check_count(len(plan.shards))
        names = {each.name: Path(each.path).name for each in plan.shards}
        write(
            model, target, names, heaps, placed, algorithm, overwrite=overwrite, progress=progress
        )
        return plan


def _check(root: Path, max_size: int | None, by: By | None, algorithm: str) -> None:
    if root.suffix != ".zt":
        detail = "the root of a split model is a `.zt`, or its shards could not be found by name"
        raise InvalidInput(detail, code="target", expected=".zt", found=root.suffix or "no suffix")
    if max_size is None and by is None:
        hint = Hint("give max_size= or by='layer'", tark="give --max-size or --by layer")
        raise InvalidInput("a split needs a largest size, or layers", code="option", hint=hint)
    if max_size is not None and max_size <= ALIGN + FOOTER_SIZE:
        detail = "no shard is that small"
        expected = f"more than {ALIGN + FOOTER_SIZE} bytes"
        raise InvalidInput(detail, code="option", expected=expected, found=max_size)
    if by not in {None, "layer"}:
        raise InvalidInput("no such way to split", code="option", expected="layer", found=by)
    if algorithm not in ALGORITHMS:
        expected = " ".join(ALGORITHMS)
        raise InvalidInput("no such digest", code="option", expected=expected, found=algorithm)


def _check_count(shards: int) -> None:
    """Refuse what the system could not hold open at once, before the first byte is written."""
    try:
        import resource
    except ImportError:  # no POSIX system: it refuses when it comes to that
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = soft - 64 if soft != resource.RLIM_INFINITY else shards
    if shards > room:
        raise InvalidInput(
            "too many shards for this process",
            code="too-many-shards",
            expected=f"at most {room}, as so many files may be open",
            found=shards,
            hint=Hint("a larger max_size makes fewer", tark="a larger --max-size makes fewer"),
        )


def _describe(
    settled: Settlement, root: Path, heaps: Sequence[Heap], max_size: int | None, *, overwrite: bool
) -> SplitPlan:
    labels = [f"{at:05}-of-{len(heaps):05}" for at in range(1, len(heaps) + 1)]

    def named(turn: int) -> list[str]:
        before = f"r{turn}-" if turn else ""
        return [f"{root.stem}-{before}{label}.zt" for label in labels]

    names = fresh(root, named, overwrite=overwrite)
    shards = [
        PlannedShard(
            name=name[len(root.stem) + 1 : -len(".zt")],
            path=str(root.with_name(name)),
            tensors=tuple(heap.tensors),
            size=heap.size,
            exceeds=heap.exceeds,
        )
        for name, heap in zip(names, heaps, strict=True)
    ]
    return SplitPlan(
        root=str(root),
        shards=tuple(shards),
        tensors=len(settled.file),
        nbytes=sum(length_of(blob.part.blob) for heap in heaps for blob in heap.blobs),
        max_size=max_size,
        dropped=settled.dropped,
    )
