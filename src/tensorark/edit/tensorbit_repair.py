"""Tensorbit models written anew: wrong indexes made right, tensors chosen, renamed, joined.

Owns the repair of what the public tools get wrong, and the list of every change that it makes.
Weights and masks are copied as they are unless a change to them was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.ledger import Settled, among, settle
from tensorark.conversion.pipeline import target_of
from tensorark.core.brief import brief
from tensorark.core.conversation import drive
from tensorark.core.ledger import Loss
from tensorark.core.matching import choose
from tensorark.core.model import Catalog, Part, Tensor
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.errors import Error, InvalidInput, Rejected, Unsupported, quoted
from tensorark.files import File, PathLike
from tensorark.files.derived import DerivedFile, derive_part, octets
from tensorark.formats.format import Format
from tensorark.formats.tensorbit.frame import HEADER_SIZE
from tensorark.formats.tensorbit.layouts import build_tensor
from tensorark.formats.tensorbit.read import Record, tied
from tensorark.formats.tensorbit.repair import blobs_of, names_of, repair, repair_facts
from tensorark.formats.tensorbit.walk import guessed_shape, hidden_size
from tensorark.io.inputs import operation
from tensorark.layouts.nm.rules import ID, KEY, mask_size, members
from tensorark.layouts.payload import Reader
from tensorark.wire.attributes import added

if TYPE_CHECKING:
    from tensorark.layouts.nm.window import Window

__all__ = [
    "Mended",
    "config_of",
    "is_tensorbit",
    "join",
    "mend",
    "part",
]

Masks = Literal["keep", "spell", "drop", "apply"]
"""`keep`: as they are. `spell`: written as the specification says, with ceil(M / 8) bytes for each
group. `drop`: none, weights as stored. `apply`: kept, and weights under clear bits become 0."""

_MASKS: Final = ("keep", "spell", "drop", "apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """What was written, and everything in it that differs from the source.

    `dropped` is what the sources held and the target does not; `changes` tell it as well.
    """

    __repr__ = brief

    source: str
    files: tuple[str, ...]
    tensors: int
    changes: tuple[str, ...]
    dropped: tuple[Loss, ...] = ()


def is_tensorbit(path: PathLike) -> bool:
    """Tell whether a file or folder is meant to be Tensorbit; False where it cannot be read."""
    try:
        with files.open(path, lenient=True) as file:
            return isinstance(file.catalog.native, Record)
    except Rejected as error:
        return error.code.startswith("tb.")
    except Error:
        return False


@operation()
def mend(
    source: PathLike,
    target: PathLike,
    *,
    masks: Masks = "keep",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    rename: Callable[[str], str] | None = None,
    shapes: bool = False,
    layers: bool = True,
    config: Mapping[str, object] | None = None,
    architecture: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    align: int | None = None,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Mended:
    """Write a Tensorbit model anew, with an index that agrees with its blobs, and list the changes.

    Offsets, counts, patterns and types come from the blobs, which are found by walking. Of the
    tensors those stay whose names a shell pattern of `include` matches (all without one) and none
    of `exclude`, and only those are judged; `rename` gives them other names. With `shapes`, flat
    projections get the shape that their names and the hidden size tell. With `layers`, a
    ``num_layers`` that is missing, or counts tensors as the public tools write it, becomes the
    number that names speak of. `config`, ours or in Hugging Face's words, and `architecture` take
    the place of what was there.

    What the target does not keep, such as bytes that no entry speaks of, is refused unless `drop`
    names its kind (`conversion.ledger`).

    Raises:
        Rejected: when the index cannot be read, or a blob is broken itself.
        Unsupported: when there is no telling which blob belongs to which entry.
        InvalidInput: when source and target are one file, or two tensors get one name.
        NotFound: when a pattern matches no tensor.
    """
    if masks not in _MASKS:
        expected = " ".join(_MASKS)
        raise InvalidInput("no such way", code="masks", expected=expected, found=masks)
    kind = target_of(target, format)
    with files.open(source, lenient=True) as file:
        work = _Work(file, _record(file))
        work.find(include, exclude)
        work.describe(config=config, architecture=architecture, layers=layers)
        if shapes:
            work.shape()
        if rename is not None:
            work.rename(rename)
        work.remask(masks)
        options = Options(overwrite=overwrite, align=align, drop=frozenset(drop), progress=progress)
        settled = settle(work.result(), kind, Path(target), options)
        return _written(settled, [*work.changes, *_told(settled)])


@operation()
def join(
    sources: Sequence[PathLike],
    target: PathLike,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    align: int | None = None,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Mended:
    """Write the tensors of several models into one target; the first says what the model is.

    Sources may be of any format that is read. Attributes of the others are added to those of the
    first. What has no place, such as another value of an attribute that an earlier one has, is
    refused unless `drop` names its kind (`conversion.ledger`).

    Raises:
        InvalidInput: when there are no sources, one is the target, or two tensors share a name.
        Unsupported: when something would be lost, or the target cannot hold a tensor.
    """
    if not sources:
        raise InvalidInput("nothing to join", code="sources")
    kind = target_of(target, format)
    with ExitStack() as opened:
        models = [opened.enter_context(files.open(each)) for each in sources]
        if kind.name == "zt":
            models = [
                as_zt_model(each) if each.format.name == "ninfer" else each for each in models
            ]
        options = Options(overwrite=overwrite, align=align, drop=frozenset(drop), progress=progress)
        joined, others = _joined(models, kind, Path(target), options)
        settled = settle(joined, kind, Path(target), options)
        told = [*_told(settled), *(line for each in others for line in _told(each, of=each.file))]
        done = _written(settled, told)
        more = tuple(loss for each in others for loss in each.dropped)
        return replace(done, dropped=(*done.dropped, *more))


@operation()
def part(
    source: PathLike,
    target: PathLike,
    max_bytes: int,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    align: int | None = None,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[Mended]:
    """Divide a model into containers of at most `max_bytes` bytes of blobs each, in order.

    They are named ``<stem>-00001-of-00003.tbm`` and so on, and each is a model of its own; with the
    `format` ``tensorbit-directory`` they are directories, named the same without a suffix. What
    they do not keep is refused unless `drop` names its kind (`conversion.ledger`).

    Raises:
        InvalidInput: when a tensor does not fit into one, or the format takes no `align`.
        Unsupported: when something would be lost, or the target cannot hold a tensor.
    """
    goal = Path(target)
    kind = target_of(goal, format)
    if align is not None and "align" not in kind.options:
        raise InvalidInput(f"{kind.name} takes no align", code="option", found=align)
    with files.open(source) as file:
        options = Options(overwrite=overwrite, align=align, drop=frozenset(drop), progress=progress)
        groups = _divided(file, max_bytes)
        pieces = []
        for number, names in enumerate(groups, start=1):
            name = f"{goal.stem}-{number:05}-of-{len(groups):05}{goal.suffix}"
            chosen = {each: file.catalog.tensors[each] for each in names}
            attributes = _unordered(file.catalog.attributes)
            piece = DerivedFile(file, Catalog("zt", chosen, attributes, None))
            pieces.append(settle(piece, kind, goal.with_name(name), options))
        return [_written(each, _told(each)) for each in pieces]


def _written(settled: Settled, changes: Sequence[str]) -> Mended:
    files = settled.write()
    return Mended(
        source=settled.file.path,
        files=tuple(files),
        tensors=len(settled.file),
        changes=tuple(changes),
        dropped=settled.dropped,
    )


def _told(settled: Settled, of: File | None = None) -> list[str]:
    whose = "" if of is None else f" of {Path(of.path).name}"
    return [f"left out{whose}: {each.kind} {quoted(each.name)}" for each in settled.dropped]


_HUGGING_FACE: Final = {
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "num_hidden_layers": "num_layers",
    "max_position_embeddings": "max_seq_len",
    "layer_norm_epsilon": "norm_eps",
    "layer_norm_eps": "norm_eps",
    "rms_norm_eps": "norm_eps",
    "rope_theta": "rope_theta",
    "head_dim": "head_dim",
}


def config_of(value: object, path: str | None = None) -> dict[str, object]:
    """Return a `config` for an index: `value` itself, or what it says in Hugging Face's words.

    Raises:
        InvalidInput: when it is no object.
    """
    if not isinstance(value, dict):
        raise InvalidInput("a configuration is an object", code="config", path=path)
    if not _is_foreign(value):
        return value
    rope = value.get("rope_parameters")
    flat = {**(rope if isinstance(rope, dict) else {}), **value}
    found = {ours: flat[theirs] for theirs, ours in _HUGGING_FACE.items() if theirs in flat}
    found.setdefault("num_kv_heads", found.get("num_heads"))
    return {key: each for key, each in found.items() if each is not None}


def _is_foreign(config: Mapping[str, object]) -> bool:
    return "num_hidden_layers" in config or "num_attention_heads" in config


def _untranslated(config: Mapping[str, object]) -> list[str]:
    """Return the members of Hugging Face's `config` for which an index has no word."""
    if not _is_foreign(config):
        return []
    held = {"rope_type": "default", "type": "default"}
    rope = config.get("rope_parameters")
    parts = rope.items() if isinstance(rope, dict) else ()
    rest = [f"rope_parameters.{k}" for k, v in parts if k != "rope_theta" and held.get(k) != v]
    plain = rope is None or isinstance(rope, dict)
    known = {*_HUGGING_FACE, *(("rope_parameters",) if plain else ())}
    return [k for k, v in config.items() if v is not None and k not in known] + rest


# ------------------------------------------------------------------------------------ one model


@dataclass(slots=True)
class _Work:
    """A model on its way into a right form, with the changes made so far."""

    file: File
    record: Record
    tensors: dict[str, Tensor] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    def find(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        """Find the chosen tensors, where the index says or where their blobs are.

        What is not chosen is not judged, and keeps nothing from being mended.
        """
        chosen = {*choose(names_of(self.record.index), include, exclude)}
        found = drive(blobs_of(self.record), self.file.source)
        try:
            self.record, self.changes = repair(self.record, found, chosen)
        except (Rejected, Unsupported) as error:
            error.located(self.file.path)
            raise
        for blob in self.record.blobs:
            self.tensors.setdefault(blob.claim.name, build_tensor(blob))
        self.tensors = self._with_carried(tied(self.record.blobs, self.tensors))

    def _with_carried(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors with the attributes that the file carries for them as text."""
        home = self.file.catalog.tensor_attributes
        return {
            name: replace(
                each, attributes={**home.get(name, {}), **(each.attributes or {})} or None
            )
            for name, each in tensors.items()
        }

    def describe(
        self,
        *,
        config: Mapping[str, object] | None,
        architecture: str | None,
        layers: bool,
    ) -> None:
        """Set what the model says of itself."""
        self.attributes = dict(self.file.catalog.attributes or {})
        facts = dict(members(self.attributes))
        facts.pop("order", None)
        if config is not None:
            facts["config"] = config_of(dict(config))
            self.changes.append("config replaced")
            self.changes += [f"config: {quoted(key)} left out" for key in _untranslated(config)]
        if architecture is not None:
            self.changes.append(f"architecture {facts.get('architecture')} → {architecture}")
            facts["architecture"] = architecture
        facts, changes = repair_facts(
            facts, self.record.index, layers=layers, from_index=config is None
        )
        self.changes += changes
        if facts:
            self.attributes[KEY] = facts

    def shape(self) -> None:
        """Give flat projections the shape that their names tell."""
        config = members(self.attributes).get("config")
        stated = config.get("hidden_size") if isinstance(config, dict) else None
        sizes = [(claim.name, claim.weights or 0) for claim in self.record.index.claims]
        sizes += [(name, tensor.elements) for name, tensor in self.tensors.items()]
        side = stated if isinstance(stated, int) and stated > 1 else hidden_size(sizes)
        for name, tensor in self.tensors.items():
            found = guessed_shape(name, tensor.elements, side)
            if len(tensor.shape) == 1 and found is not None and 1 not in found:
                self.tensors[name] = replace(tensor, shape=found)
                self.changes.append(f"{name}: shape {list(tensor.shape)} → {list(found)}")

    def rename(self, rename: Callable[[str], str]) -> None:
        """Give the tensors other names."""
        before, self.tensors = self.tensors, {}
        for name, tensor in before.items():
            new = rename(name)
            if new in self.tensors:
                raise InvalidInput(
                    f"two tensors would be named {quoted(new)}", code="duplicate", where=(name,)
                )
            if new != name:
                self.changes.append(f"{name}: renamed to {new}")
            self.tensors[new] = _retied(replace(tensor, name=new), rename)

    def remask(self, masks: Masks) -> None:
        """Change masks as it was asked for."""
        for name, tensor in self.tensors.items():
            if masks != "keep" and tensor.layout == ID and "mask" in tensor.parts:
                self.tensors[name] = self._remasked(tensor, masks)

    def _remasked(self, tensor: Tensor, masks: Masks) -> Tensor:
        from tensorark.layouts.nm.census import count
        from tensorark.layouts.nm.window import window_of

        window = window_of(tensor, Reader(self.file, tensor))
        sparse = window.sparse
        if masks == "drop":
            self.changes.append(f"{tensor.name}: mask dropped")
            return _unmasked(tensor)
        if masks == "apply":
            if sparse.is_quantized:
                return tensor
            stray = count(tensor, Reader(self.file, tensor)).stray
            if not stray:
                return tensor
            self.changes.append(f"{tensor.name}: {stray} weights under clear mask bits set to 0")
            old = tensor.parts["weights"]
            compute = partial(_applied, window)
            weights = derive_part(compute, old.nbytes, old.dtype)
            return replace(tensor, parts={**tensor.parts, "weights": weights})
        if sparse.packing not in {"floor", "truncated"}:
            return tensor
        size = mask_size(sparse.elements, sparse.pattern)
        before = tensor.parts["mask"].nbytes
        change = f"{tensor.name}: mask of {before} bytes → {size} bytes"
        if sparse.packing == "truncated":
            change += "; weights 8 and up of each group stay pruned"
        self.changes.append(change)
        mask = derive_part(partial(_spelt, window), size, "u8")
        return replace(tensor, parts={**tensor.parts, "mask": mask})

    def result(self) -> File:
        """Return the model as a target writes it."""
        catalog = Catalog(
            "zt", self.tensors, self.attributes or None, None, self.file.catalog.files
        )
        made = DerivedFile(self.file, catalog)
        made.origin = replace(made.origin, native=self.record)
        return made


def _record(file: File) -> Record:
    if not isinstance(file.catalog.native, Record):
        raise InvalidInput(
            "not a Tensorbit model", code="not-tensorbit", path=file.path, found=file.format.name
        )
    return file.catalog.native


def _retied(tensor: Tensor, rename: Callable[[str], str]) -> Tensor:
    facts = dict(members(tensor.attributes))
    other = facts.get("tied_to")
    if not isinstance(other, str):
        return tensor
    facts["tied_to"] = rename(other)
    return replace(tensor, attributes={**(tensor.attributes or {}), KEY: facts})


def _unmasked(tensor: Tensor) -> Tensor:
    """Return a tensor without its mask: dense, unless its weights need scales."""
    facts = dict(members(tensor.attributes))
    kept = {k: v for k, v in facts.items() if k not in {"n", "m"}}
    if "scales" in tensor.parts or facts.get("dtype") == "int4":
        parts: dict[str, Part] = {r: p for r, p in tensor.parts.items() if r != "mask"}
        return replace(tensor, parts=parts, attributes={KEY: {**kept, "n": 0, "m": 0}})
    kept.pop("dtype", None)
    weights = {"data": tensor.parts["weights"]}
    return replace(tensor, layout="dense", parts=weights, attributes={KEY: kept} if kept else None)


def _applied(window: Window) -> Iterator[memoryview]:
    for start, stop in window.cuts(0, window.sparse.elements):
        yield octets(window.values(start, stop))


def _spelt(window: Window) -> Iterator[memoryview]:
    from tensorark.layouts.nm.masks import pack_mask, unpack_mask

    for start, stop in window.cuts(0, window.sparse.elements):
        keep = unpack_mask(window.octets(start, stop), window.part(start, stop))
        yield octets(pack_mask(keep, window.sparse.pattern))


# ------------------------------------------------------------------------------- several models


def _joined(
    files: Sequence[File], kind: Format, path: Path, options: Options
) -> tuple[File, list[Settled]]:
    """Return the first file with the tensors of all, and what is settled of each of the others."""
    tensors: dict[str, Tensor] = {}
    settled: list[Settled] = []
    attributes: Mapping[str, object] | None = None
    for number, each in enumerate(files):
        file, own = each, each.catalog.attributes or {}
        theirs = _unordered(own) or {}
        attributes, kept = added(attributes, theirs)
        if number:
            kept |= own.keys() - theirs.keys()  # the order is that of the whole
            target = replace(kind, keeps=among(kind.keeps, kept))
            settled.append(settle(each, target, path, options))
            file = settled[-1].file
        for name, tensor in file.catalog.tensors.items():
            if name in tensors:
                raise InvalidInput(
                    f"two models have a tensor {quoted(name)}",
                    code="duplicate",
                    path=file.path,
                    where=("objects", name),
                )
            tensors[name] = _moved(file, tensor) if number else tensor
    catalog = Catalog("zt", tensors, attributes, None, files[0].catalog.files)
    return DerivedFile(files[0], catalog), settled


def _moved(file: File, tensor: Tensor) -> Tensor:
    """Return a tensor whose parts are read from another file."""
    parts: dict[str, Part] = {}
    for role, each in tensor.parts.items():
        compute = partial(file.chunks, each, ("objects", tensor.name, "parts", role))
        moved = derive_part(compute, each.nbytes, each.dtype, each.type)
        parts[role] = replace(moved, digest=each.digest)
    return replace(tensor, parts=parts)


def _unordered(attributes: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return attributes of a model without the order of tensors that it had."""
    if attributes is None:
        return None
    facts = {key: value for key, value in members(attributes).items() if key != "order"}
    rest = {key: value for key, value in attributes.items() if key != KEY}
    return {**rest, **({KEY: facts} if facts else {})} or None


def _divided(file: File, max_bytes: int) -> list[list[str]]:
    """Divide the names of tensors, in order, so that no group has more bytes than it may."""
    groups: list[list[str]] = [[]]
    used = 0
    for name, tensor in file.catalog.tensors.items():
        size = HEADER_SIZE + tensor.nbytes
        if size > max_bytes:
            raise InvalidInput(
                f"{quoted(name)} does not fit into one container",
                code="max-bytes",
                where=("objects", name),
                expected=f"at least {size} bytes",
                found=max_bytes,
            )
        if groups[-1] and used + size > max_bytes:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += size
    return groups
