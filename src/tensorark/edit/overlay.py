"""An overlay: a root `.zt` that takes blobs from a base model and stores only what differs (§7.2).

Owns the comparison of payload, and the choice of what is stored. Bytes are compared, never digests:
a claim that can be false does not decide what a model is. The base is named by what it is, its size
and its whole-file digest; whether it is still there is checked when it is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import xxhash

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.ledger import Settlement, settle
from tensorark.core.brief import brief
from tensorark.core.ledger import Loss
from tensorark.core.model import Encoded, Part, Raw, Shard, Span, Tensor
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.errors import InvalidInput, ReadFailed, Unsupported
from tensorark.files import File, PathLike
from tensorark.files.shards import digest_of_file
from tensorark.formats.zt import ZT
from tensorark.formats.zt.digest import ALGORITHMS, Algorithm
from tensorark.formats.zt.encode import check_align
from tensorark.formats.zt.frame import ALIGN
from tensorark.formats.zt.rules import is_shard_name
from tensorark.io.inputs import operation
from tensorark.io.publish import publish
from tensorark.wire.attributes import Attributes
from tensorark.writing.assembly import CHUNK, Assembly, check_digest, revalidate
from tensorark.writing.copy import Copy, length_of, read_stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """What an overlay holds: `stored` tensors and `nbytes` of its own, the rest lies in `base`.

    `removed` are tensors of the base that it has not; `shards` are the labels of the base's files;
    `dropped` is what base and changes held beside tensors and the overlay does not.
    """

    __repr__ = brief

    path: str
    base: str
    shards: tuple[str, ...]
    tensors: int
    stored: tuple[str, ...]
    removed: tuple[str, ...]
    nbytes: int
    dropped: tuple[Loss, ...] = ()


@operation()
def overlay(
    base: PathLike,
    changes: PathLike,
    target: PathLike,
    *,
    remove: Sequence[str] = (),
    algorithm: Algorithm = "sha256",
    align: int = ALIGN,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Overlay:
    """Write `target`, a `.zt` that is the model `base` with the tensors of `changes` put over it.

    Tensors of `changes`, a model of any format, are added or take the place of those of their name;
    parts whose bytes are the base's are not stored. `remove` names tensors that are left out.
    Attributes of the file are those of the base, with those of `changes` put over them. What else
    the two hold and a `.zt` does not keep is refused unless `drop` names its kind
    (`conversion.ledger`).

    The base, a `.zt` or a split one, becomes the shards of the target. It is found beside it: as
    ``<stem of target>-<label>.zt``, as ``<label>.zt``, or else by its size and digest.

    Raises:
        InvalidInput: when the target exists, is an input or is no `.zt`.
        NotFound: when `remove` names what the base has not.
        Unsupported: when the base is no `.zt`, or something would be lost.
        Rejected: when payload does not match its digest.
        ReadFailed: when something cannot be read or written.
    """
    with ExitStack() as opened:
        below = opened.enter_context(files.open(base))
        options = Options(align=align, drop=frozenset(drop))
        settled = _settle(opened, changes, target, options)
        above = settled.file
        dropped = (*settle(below, ZT, Path(target), options).dropped, *settled.dropped)
        for name in remove:
            below[name]  # or there is none
        kept = [name for name in below if name not in above and name not in set(remove)]
        under, over = below.catalog.attributes, above.catalog.attributes
        whole = under if over is None else {**(under or {}), **over}
        draft = _Draft(below, above, kept, whole, algorithm, check_align(align), dropped, progress)
        return draft.write(Path(target), overwrite=overwrite)


@operation()
def delta(
    base: PathLike,
    new: PathLike,
    target: PathLike,
    *,
    algorithm: Algorithm = "sha256",
    align: int = ALIGN,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Overlay:
    """Write `target`, an overlay of `base` that is the model `new`: same tensors, same attributes.

    Stores the parts whose bytes are not those of the base's tensor of the same name. Otherwise as
    `overlay`.
    """
    with ExitStack() as opened:
        below = opened.enter_context(files.open(base))
        settled = _settle(opened, new, target, Options(align=align, drop=frozenset(drop)))
        above, dropped = settled.file, settled.dropped
        whole = above.catalog.attributes
        draft = _Draft(below, above, (), whole, algorithm, check_align(align), dropped, progress)
        return draft.write(Path(target), overwrite=overwrite)


def _settle(opened: ExitStack, source: PathLike, target: PathLike, options: Options) -> Settlement:
    """Open what is put over the base, and settle what it holds with what a `.zt` keeps."""
    model = as_zt_model(opened.enter_context(files.open(source)))
    settled = settle(model, ZT, Path(target), options)
    settled.require()
    return settled


@dataclass(frozen=True, slots=True)
class _Draft:
    """An overlay to be written: `kept` are the tensors of the base that are taken as they are."""

    base: File
    changes: File
    kept: Sequence[str]
    attributes: Attributes
    algorithm: Algorithm
    align: int
    dropped: tuple[Loss, ...]
    progress: Progress

    def write(self, target: Path, *, overwrite: bool) -> Overlay:
        """Write the overlay, and say what is in it."""
        self._check(target)
        labels = self._labels(target)
        names = sorted({*self.kept, *self.changes})
        with ThreadPoolExecutor(1) as aside, publish(target, overwrite=overwrite) as sink:
            # The base is read whole for its digest while its tensors are compared.
            digest = aside.submit(digest_of_file, self.base.source.path_of(), self.algorithm)
            assembly = Assembly(sink, self.align)
            copy = Copy(self.changes, assembly, self.progress)
            tensors = [self._tensor(name, copy, labels) for name in names]
            used = {span.file for tensor in tensors for span in _spans(tensor)}
            shards = self._identities({k: v for k, v in labels.items() if v in used}, digest)
            assembly.finish(tensors, self.attributes, shards)
            revalidate(sink, canonical_form=False)
        local = {span for tensor in tensors for span in _spans(tensor) if span.file is None}
        return Overlay(
            path=str(target),
            base=self.base.path,
            shards=tuple(shards),
            tensors=len(tensors),
            stored=tuple(
                tensor.name for tensor in tensors if any(s.file is None for s in _spans(tensor))
            ),
            removed=tuple(name for name in self.base if name not in set(names)),
            nbytes=sum(span.length for span in local),
            dropped=self.dropped,
        )

    def _check(self, target: Path) -> None:
        if target.suffix != ".zt":
            detail = "an overlay is a `.zt`"
            raise InvalidInput(detail, code="target", found=target.suffix or "no suffix")
        if self.algorithm not in ALGORITHMS:
            expected = " ".join(ALGORITHMS)
            raise InvalidInput(
                "no such digest", code="option", expected=expected, found=self.algorithm
            )
        if not (self.base.format.grows and self.base.describes_tensors):
            raise Unsupported(
                "the base of an overlay is a `.zt`: only that can be a shard",
                code="base",
                section="7.2",
                path=self.base.path,
                found=self.base.format.title,
                hint="convert the base to `.zt` first",
            )

    def _labels(self, target: Path) -> dict[str | None, str]:
        """Name the files of the base as shards of the target: by what finds them without search."""
        labels: dict[str | None, str] = {}
        for file in (None, *self.base.catalog.files):
            fallback = "base" if file is None else file
            try:
                path = self.base.source.path_of(file)
            except ReadFailed:  # not needed to refer to it
                path = Path(fallback)
            labels[file] = _label(path, target, fallback, set(labels.values()))
        return labels

    def _identities(self, used: Mapping[str | None, str], digest: Future[str]) -> dict[str, Shard]:
        declared = self.base.catalog.shards
        own = Shard(self.base.source.size(), f"{self.algorithm}:{digest.result()}")
        return {label: own if file is None else declared[file] for file, label in used.items()}

    def _tensor(self, name: str, copy: Copy, labels: Mapping[str | None, str]) -> Tensor:
        """Return a tensor of the overlay; what is not the base's is written."""
        below = self.base.catalog.tensors[name] if name in self.base else None
        if name not in self.changes:
            assert below is not None  # noqa: S101 - a name is on one side at least
            parts = {role: _relabel(part, labels) for role, part in below.parts.items()}
            return replace(below, parts=parts)
        tensor = self.changes.catalog.tensors[name]
        parts = {}
        for role in sorted(tensor.parts):
            found = None if below is None else below.parts.get(role)
            shared = None if found is None else self._find_in_base(tensor, role, found)
            parts[role] = copy.part(tensor, role) if shared is None else _relabel(shared, labels)
        return replace(tensor, parts=parts)

    def _find_in_base(self, tensor: Tensor, role: str, below: Part) -> Part | None:
        """Return the part of the base if its bytes are those of the changed one, else None."""
        part, where = tensor.parts[role], ("objects", tensor.name, "parts", role)
        if (part.dtype, part.type, part.nbytes) != (below.dtype, below.type, below.nbytes):
            return None
        if _claim_to_differ(part, below):
            return None
        computed = self._compare(part, below, where)
        if computed is None:
            return None
        if computed:
            check_digest(part, computed, where, self.changes.path)
        self.progress(part.nbytes)
        return replace(below, digest=part.digest or below.digest or computed or None)

    def _compare(self, part: Part, below: Part, where: tuple[str | int, ...]) -> str | None:
        """Return the digest of the bytes of both parts if they are the same, else None.

        Empty where the stored bytes are the same and were not decoded.
        """
        sides = read_stored(self.changes, part, where), read_stored(self.base, below, where)
        found = _same(*sides) if _is_stored_alike(part, below) else None
        if isinstance(part.blob, Raw) and isinstance(below.blob, Raw):
            return found
        if found is not None:
            return ""
        try:
            return _same(self.changes.chunks(part, where), self.base.chunks(below, where))
        except Unsupported:  # an encoding that is not known: it is stored as it is
            return None


def _same(left: Iterator[memoryview], right: Iterator[memoryview]) -> str | None:
    """Return the digest of two streams of equal length if they are equal, else None."""
    state = xxhash.xxh3_64()
    a = b = memoryview(b"")
    while True:
        a = a or next(left, a)
        b = b or next(right, b)
        length = min(len(a), len(b), CHUNK)
        if not length:
            return "xxh3:" + state.hexdigest()
        piece = a[:length].tobytes()
        if piece != b[:length].tobytes():
            return None
        state.update(piece)
        a, b = a[length:], b[length:]


def _spans(tensor: Tensor) -> Iterator[Span]:
    for part in tensor.parts.values():
        yield from part.blob.spans


def _relabel(part: Part, labels: Mapping[str | None, str]) -> Part:
    """Return a part of the base as a part of the overlay."""
    spans = tuple(replace(span, file=labels[span.file]) for span in part.blob.spans)
    return replace(part, blob=replace(part.blob, spans=spans))


def _label(path: Path, target: Path, fallback: str, taken: Collection[str]) -> str:
    """Return the label under which `path` is found beside `target`, if any label can do that."""
    wanted = [path.stem] if path.suffix == ".zt" else []
    if path.name.startswith(f"{target.stem}-"):
        wanted.insert(0, path.stem.removeprefix(f"{target.stem}-"))
    wanted += [fallback, *(f"{fallback[:60]}-{count}" for count in range(2, 100))]
    return next(
        label
        for label in wanted
        if is_shard_name(label) and label not in taken and _is_free(label, path, target)
    )


def _is_free(label: str, path: Path, target: Path) -> bool:
    """Whether no other file lies where the label would be looked for first."""
    first = target.with_name(f"{target.stem}-{label}.zt")
    return not first.exists() or (path.exists() and first.samefile(path))


def _claim_to_differ(a: Part, b: Part) -> bool:
    """Whether two digests of one algorithm differ: reading would only show the same."""
    if a.digest is None or b.digest is None or a.digest == b.digest:
        return False
    return a.digest.partition(":")[0] == b.digest.partition(":")[0]


def _is_stored_alike(a: Part, b: Part) -> bool:
    """Whether equal stored bytes mean equal parts."""
    left = a.blob.encoding if isinstance(a.blob, Encoded) else None
    right = b.blob.encoding if isinstance(b.blob, Encoded) else None
    return left == right and length_of(a.blob) == length_of(b.blob)
