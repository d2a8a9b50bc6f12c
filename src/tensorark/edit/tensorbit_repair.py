"""Tensorbit models written anew: wrong indexes made right, tensors chosen, renamed, joined.

Owns the repair of what the public tools get wrong, and the list of every change that it makes.
Weights and masks are copied as they are unless a change to them was asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tensorark import files
from tensorark.conversion.as_zt_model import hub
from tensorark.conversion.dense import octets, reader
from tensorark.conversion.ledger import Loss, among
from tensorark.conversion.pipeline import target_of
from tensorark.conversion.target import Options, Progress, Settled, Target
from tensorark.core.brief import brief
from tensorark.core.conversation import drive
from tensorark.core.matching import choose
from tensorark.core.model import Catalog, Part, Span, Tensor
from tensorark.core.rules import Finding, Reading
from tensorark.errors import Error, Hint, InvalidInput, Rejected, Unsupported, place, quoted
from tensorark.files import File, PathLike
from tensorark.files.attributes import added, brought_home
from tensorark.files.derived import Pieces, Recast, computed
from tensorark.formats.tensorbit import rules
from tensorark.formats.tensorbit.frame import HEADER_SIZE, PRECISIONS, VERSION, Header
from tensorark.formats.tensorbit.index import Claim
from tensorark.formats.tensorbit.layouts import Blob, build_tensor
from tensorark.formats.tensorbit.read import Record, tied
from tensorark.formats.tensorbit.runtime import Remark, layers_of, remarks
from tensorark.formats.tensorbit.survey import Survey, described, surveyed
from tensorark.formats.tensorbit.walk import (
    Found,
    Repair,
    guessed_shape,
    hidden_size,
    match,
    walk,
)
from tensorark.io.inputs import operation
from tensorark.io.local import LocalSource
from tensorark.layouts.nm.rules import ID, KEY, Sparse, mask_size, members

if TYPE_CHECKING:
    from tensorark.layouts.nm.values import Window

__all__ = [
    "Explained",
    "Mended",
    "config_of",
    "explain",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is known about a Tensorbit file: faults, what the public runtime makes of it, blobs.

    `blobs` were found by walking; `repairs` are what writing it anew would change, None where that
    is refused, for the `reason`. `orphans` are the blobs of which no entry speaks, and `gaps` the
    other bytes of which none does. `masks` are those that were not read.
    """

    __repr__ = brief

    findings: tuple[Finding, ...]
    remarks: tuple[Remark, ...]
    blobs: int
    repairs: tuple[str, ...] | None
    reason: Error | None = None
    orphans: tuple[Found, ...] = ()
    gaps: tuple[Span, ...] = ()
    masks: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The same in sentences."""
        found = [
            f"{each.detail[:1].upper()}{each.detail[1:]}, at {place(each.where)} ({each.rule})."
            for each in self.findings[:_SHOWN]
        ]
        if self.findings and self.blobs:
            found.append(f"Walking from blob to blob finds {self.blobs} of them.")
        if self.findings and self.repairs is not None:
            lost = " --drop gaps" if self.orphans or self.gaps else ""
            found.append(f"`tark repack{lost}` writes a right one.")
            found += _some([f"It would change this: {each}." for each in self.repairs], "changes")
        elif self.findings and self.reason is not None:
            found.append(f"`tark repack` is refused: {self.reason.detail}.")
            hint = self.reason.hint
            found += [f"{hint.tark}."] if isinstance(hint, Hint) else []
        found += _some(
            [f"A blob has no entry in the index: {_copied(each)}" for each in self.orphans],
            "blobs without an entry",
        )
        found += _some(
            [f"Bytes {each.offset} to {each.end} belong to no entry." for each in self.gaps], "gaps"
        )
        if self.masks:
            found.append("Whether weights and masks agree is what `tark verify` judges.")
        return (*found, *_some([f"{each.detail}." for each in self.remarks], "remarks"))


_SHOWN: Final = 12


def _some(words: Sequence[str], what: str) -> list[str]:
    """Return the first few of many sentences, and how many more there are."""
    more = len(words) - _SHOWN
    return [*words[:_SHOWN], *([f"And {more} more {what}."] if more > 0 else [])]


def explain(path: PathLike) -> Explained:
    """Say what is wrong with a Tensorbit file, and what the public runtime makes of it.

    Raises:
        Rejected: when its index cannot be read at all.
    """
    with files.open(path, lenient=True) as file:
        record = _record(file)
        work = _Work(file, record)
        reason: Error | None = None
        try:
            work.find()
            work.describe(config=None, architecture=None, layers=True)
        except (Rejected, Unsupported) as error:
            reason = error
        places = {claim.offset for claim in record.index.claims}
        lost = Survey(tuple(each for each in work.found if each.offset not in places))
        if reason is None:
            lost = drive(surveyed(work.record), file.source)
        left_out = [f"{name}: left out" for name in work.record.left_out]
        return Explained(
            findings=record.forgiven,
            remarks=tuple(remarks(record)),
            blobs=len(work.found),
            repairs=None if reason is not None else (*work.changes, *left_out),
            reason=reason,
            orphans=lost.orphans,
            gaps=lost.dirty,
            masks=sum(blob.header.mask_bytes > 0 for blob in work.record.blobs),
        )


def remains(path: PathLike) -> list[str]:
    """Say which blobs are left of a container whose index cannot be read."""
    name = os.fspath(path)
    if not os.path.isfile(name):  # noqa: PTH113 - unlike that of `Path`, it never raises
        return []
    with LocalSource(name) as source:
        found = drive(walk(source.size()), source)
    return _some([f"A blob is left: {_copied(each)}" for each in found], "blobs")


def _copied(blob: Found) -> str:
    """Say what a blob is, and how to make a `.tb` of it."""
    return (
        f"{described(blob)}. To take it out: tail -c +{blob.offset + 1} FILE | "
        f"head -c {blob.end - blob.offset} > COPY.tb"
    )


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
        settled = kind.settle(work.result(), Path(target), options)
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
            models = [hub(each) if each.format.name == "ninfer" else each for each in models]
        options = Options(overwrite=overwrite, align=align, drop=frozenset(drop), progress=progress)
        joined, others = _joined(models, kind, Path(target), options)
        settled = kind.settle(joined, Path(target), options)
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
            home = brought_home(file.catalog)
            chosen = {
                each: replace(file.catalog.tensors[each], attributes=home.tensors.get(each))
                for each in names
            }
            piece = Recast(file, Catalog("zt", chosen, _unordered(home.file), None), {})
            pieces.append(kind.settle(piece, goal.with_name(name), options))
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
    made: dict[str, Pieces] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of all entries of the index, of those too that were not chosen."""
        return [claim.name for claim in self.record.index.claims]

    def find(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        """Find the chosen tensors, where the index says or where their blobs are.

        What is not chosen is not judged, and keeps nothing from being mended.
        """
        chosen = {*choose(self.names, include, exclude)}
        unchosen = [name for name in dict.fromkeys(self.names) if name not in chosen]
        self.changes += [f"{name}: left out" for name in unchosen]
        forgiven = [each for each in self.record.forgiven if self._name_of(each.where) in chosen]
        if self.record.kind == "tbm":
            self._mend([row for row, name in enumerate(self.names) if name in chosen])
            forgiven = [each for each in forgiven if each.rule == "tb.entry-dtype"]
            words = [
                f"{place(each.where)}: {each.found} → the type of the header" for each in forgiven
            ]
        else:
            left_out = tuple(name for name in self.record.left_out if name in chosen)
            held = tuple(blob for blob in self.record.blobs if blob.claim.name in chosen)
            self.record = replace(self.record, blobs=held, left_out=left_out)
            words = [f"{each.detail} ({each.rule})" for each in forgiven]
        self.changes += words
        blobs = self.record.blobs
        for blob in blobs:
            name = blob.claim.name
            if name in self.tensors:
                self.changes.append(f"{quoted(name)} is named twice: the first is kept")
                continue
            self.tensors[name] = build_tensor(blob)
        self.tensors = self._with_carried(tied(blobs, self.tensors))

    def _mend(self, rows: Sequence[int]) -> None:
        """Put the blobs of some entries where they are, not where they were said to be."""
        repair = self._matched(rows)
        self.changes += repair.changes
        blobs = tuple(self._judged(repair.claims))
        self.record = replace(self.record, blobs=blobs, left_out=(), others=repair.others)

    def _name_of(self, where: tuple[str | int, ...]) -> str:
        """Return the name of the entry that a place is in; of a blob alone, its own."""
        inside = where[:1] == ("tensors",) and len(where) > 1 and isinstance(where[1], int)
        return self.record.index.claims[int(where[1]) if inside else 0].name

    def _matched(self, rows: Sequence[int]) -> Repair:
        """Give the entries of `rows` their blobs."""
        claims = self.record.index.claims
        self.found = drive(walk(self.record.text.offset), self.file.source)
        repair = match(claims, self.found, rows)
        if repair is None:
            raise Unsupported(
                "there is no telling which blob belongs to which entry of the index",
                code="unmatched",
                path=self.file.path,
                expected=f"{len({claim.offset for claim in claims})} blobs",
                found=len(self.found),
                hint=Hint(
                    "diagnose() says where each blob lies, and exclude leaves entries out",
                    tark="`tark doctor` says where each blob lies; `tark mend --exclude` "
                    "leaves entries out",
                ),
            )
        return repair

    def _judged(self, claims: Mapping[int, Claim]) -> list[Blob]:
        """Return the blobs of some entries, when no rule is broken by them."""
        starts = {each.offset: each for each in self.found}
        blobs = [self._blob(row, claim, starts[claim.offset]) for row, claim in claims.items()]
        try:
            for phase in rules.BLOB_PHASES:
                Reading().require(phase, blobs)
        except Rejected as error:
            if len(claims) > 1 and error.where[:1] == ("tensors",):
                name = quoted(self._name_of(error.where))
                error.hint = Hint(
                    f"exclude=[{name}] mends the others",
                    tark=f"`tark mend --exclude {name}` mends the others",
                )
            error.located(self.file.path)
            raise
        return blobs

    def _with_carried(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors with the attributes that the file carries for them as text."""
        home = brought_home(self.file.catalog).tensors
        return {
            name: replace(
                each, attributes={**home.get(name, {}), **(each.attributes or {})} or None
            )
            for name, each in tensors.items()
        }

    def _blob(self, row: int, claim: Claim, found: Found) -> Blob:
        header = self._header(claim, found.header)
        return Blob(header=header, claim=claim, limit=self.record.text.offset, row=row)

    def _header(self, claim: Claim, header: Header) -> Header:
        """Return a header of the version that exists, of a precision that does."""
        if header.version != VERSION:
            self.changes.append(f"{claim.name}: version {header.version} → {VERSION}")
            header = replace(header, version=VERSION)
        if header.precision >= len(PRECISIONS) and claim.dtype in PRECISIONS:
            self.changes.append(f"{claim.name}: precision {header.precision} → 0")
            header = replace(header, precision=0)
        return header

    def describe(
        self,
        *,
        config: Mapping[str, object] | None,
        architecture: str | None,
        layers: bool,
    ) -> None:
        """Set what the model says of itself."""
        self.attributes = dict(brought_home(self.file.catalog).file or {})
        facts = dict(members(self.attributes))
        facts.pop("order", None)
        if config is not None:
            facts["config"] = config_of(dict(config))
            self.changes.append("config replaced")
            self.changes += [f"config: {quoted(key)} left out" for key in _untranslated(config)]
        if architecture is not None:
            self.changes.append(f"architecture {facts.get('architecture')} → {architecture}")
            facts["architecture"] = architecture
        stated, count = facts.get("config"), layers_of(self.names)
        if layers and isinstance(stated, dict) and count:
            before = stated.get("num_layers")
            # A shard, or a model with layers that are not counted, states what names do not tell.
            counts = config is None and before == len(self.record.index.claims)
            if before != count and (before is None or counts):
                facts["config"] = {**stated, "num_layers": count}
                self.changes.append(f"config.num_layers {before} → {count}")
        order = [name for name in self.record.index.members if name in {"config", "architecture"}]
        if order == ["architecture", "config"]:
            self.changes.append("config moved before architecture")
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
        from tensorark.layouts.nm import values as nm

        window = nm.window_of(tensor, reader(self.file, tensor))
        sparse = window.sparse
        if masks == "drop":
            self.changes.append(f"{tensor.name}: mask dropped")
            return _unmasked(tensor)
        if masks == "apply":
            if sparse.is_quantized:
                return tensor
            stray = nm.census(tensor, reader(self.file, tensor)).stray
            if not stray:
                return tensor
            self.changes.append(f"{tensor.name}: {stray} weights under clear mask bits set to 0")
            key = f"{tensor.name} applied"
            self.made[key] = partial(_applied, window)
            old = tensor.parts["weights"]
            weights = computed(key, old.nbytes, old.dtype)
            return replace(tensor, parts={**tensor.parts, "weights": weights})
        if sparse.packing not in {"floor", "truncated"}:
            return tensor
        size = mask_size(sparse.elements, sparse.pattern)
        before = tensor.parts["mask"].nbytes
        change = f"{tensor.name}: mask of {before} bytes → {size} bytes"
        if sparse.packing == "truncated":
            change += "; weights 8 and up of each group stay pruned"
        self.changes.append(change)
        key = f"{tensor.name} spelt"
        self.made[key] = partial(_spelt, window, sparse)
        return replace(tensor, parts={**tensor.parts, "mask": computed(key, size, "u8")})

    def result(self) -> File:
        """Return the model as a target writes it."""
        catalog = Catalog(
            "zt", self.tensors, self.attributes or None, None, self.file.catalog.files
        )
        made = Recast(self.file, catalog, self.made)
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


def _spelt(window: Window, sparse: Sparse) -> Iterator[memoryview]:
    from tensorark.layouts.nm import values as nm

    for start, stop in window.cuts(0, sparse.elements):
        keep = nm.kept(window.octets(start, stop), window.part(start, stop))
        yield octets(nm.mask_of(keep, sparse.pattern))


# ------------------------------------------------------------------------------- several models


def _joined(
    files: Sequence[File], kind: Target, path: Path, options: Options
) -> tuple[File, list[Settled]]:
    """Return the first file with the tensors of all, and what is settled of each of the others."""
    tensors: dict[str, Tensor] = {}
    made: dict[str, Pieces] = {}
    settled: list[Settled] = []
    attributes: Mapping[str, object] | None = None
    for number, each in enumerate(files):
        home, file = brought_home(each.catalog), each
        theirs = _unordered(home.file) or {}
        attributes, kept = added(attributes, theirs)
        if number:
            kept |= (home.file or {}).keys() - theirs.keys()  # the order is that of the whole
            target = replace(kind, keeps=among(kind.keeps, kept))
            settled.append(target.settle(each, path, options))
            file = settled[-1].file
        for name, tensor in file.catalog.tensors.items():
            if name in tensors:
                raise InvalidInput(
                    f"two models have a tensor {quoted(name)}",
                    code="duplicate",
                    path=file.path,
                    where=("objects", name),
                )
            own = replace(tensor, attributes=home.tensors.get(name))
            tensors[name] = own if not number else _moved(file, own, f"{number} {name}", made)
    catalog = Catalog("zt", tensors, attributes, None, files[0].catalog.files)
    return Recast(files[0], catalog, made), settled


def _moved(file: File, tensor: Tensor, key: str, made: dict[str, Pieces]) -> Tensor:
    """Return a tensor whose parts are read from another file."""
    parts: dict[str, Part] = {}
    for role, each in tensor.parts.items():
        name = f"{key} {role}"
        made[name] = partial(file.chunks, each, ("objects", tensor.name, "parts", role))
        moved = computed(name, each.nbytes, each.dtype, each.type)
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
