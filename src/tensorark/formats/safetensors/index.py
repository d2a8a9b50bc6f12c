"""A sharded set: the index in JSON that says which shard holds which tensor, and the shards.

Names of files come from a hostile text: they are judged before anything is opened, and stay labels
that the source resolves. Index and shards must agree in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from tensorark.core.conversation import Steps
from tensorark.core.ledger import Names
from tensorark.core.model import Catalog, Span, Tensor
from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.errors import LimitExceeded, ReadFailed, quoted
from tensorark.formats.format import SizeOf
from tensorark.formats.safetensors.header import Header, Tensors
from tensorark.formats.safetensors.identity import KEY
from tensorark.formats.safetensors.read import RULES as FILE_RULES
from tensorark.formats.safetensors.read import SingleFile, open_files
from tensorark.formats.safetensors.rules import kind
from tensorark.formats.safetensors.syntax import parse_json
from tensorark.wire.attributes import TensorAttributes, restore_types
from tensorark.wire.json_places import Places

# ------------------------------------------------------------------------------------ rules, schema


@rule("safetensors.index-map", section="index", stage="schema")
def index_map(index: object) -> Iterator[Fault]:
    """An index is a map."""
    if not isinstance(index, dict):
        yield Fault((), "the index is no map", "a map", kind(index))


@rule("safetensors.index-metadata", section="index", stage="schema")
def index_metadata(index: object) -> Iterator[Fault]:
    """``metadata``, if present, is a map; what it says is not relied upon.

    Its ``total_size`` is not compared: no reader uses it for more than display, and indexes in
    circulation give the size of the files, of the tensors, or of a model before it was edited.
    """
    if isinstance(index, dict) and not isinstance(index.get("metadata", {}), dict):
        found = kind(index["metadata"])
        yield Fault(("metadata",), "the metadata is no map", "a map", found)


@rule("safetensors.index-weight-map", section="index", stage="schema")
def index_weight_map(index: object) -> Iterator[Fault]:
    """``weight_map`` is present and maps tensor names to file names."""
    if not isinstance(index, dict):
        return
    names = index.get("weight_map")
    if not isinstance(names, dict):
        found = kind(names) if "weight_map" in index else "nothing"
        yield Fault(("weight_map",), "the index has no map of weights", "a map", found)
    elif set(map(type, names.values())) - {str}:
        for name, file in names.items():
            if not isinstance(file, str):
                detail = f"the file of {quoted(name)} is {kind(file)}"
                yield Fault(("weight_map", name), detail, "text", kind(file))


@rule("safetensors.index-name", section="index", stage="schema")
def index_name(index: object) -> Iterator[Fault]:
    """A file name is one component: it never leads out of the folder of the index."""
    names = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(names, dict):
        return
    bad = {file for file in names.values() if isinstance(file, str) and not is_component(file)}
    for name, file in names.items() if bad else ():
        if isinstance(file, str) and file in bad:
            detail = f"the file of {quoted(name)} is not a plain file name"
            yield Fault(("weight_map", name), detail, "one path component", quoted(file))


def is_component(name: str) -> bool:
    """Whether `name` is one path component on every system: no separator, drive, NUL or dots.

    A colon starts a drive or a stream of another file on Windows, where spaces and dots at the end
    are dropped too.
    """
    return _COMPONENT.fullmatch(name) is not None and len(name.encode()) <= 255


_COMPONENT: Final = re.compile(r"(?!\.{1,2}\Z)[^/\\:\x00-\x1f\x7f]*[^/\\:\x00-\x1f\x7f. ]")

# -------------------------------------------------------------------------------------- rules, open


@dataclass(frozen=True, slots=True)
class ShardSet:
    """What an index says, and the shards that are there."""

    weight_map: Mapping[str, str]
    shards: Mapping[str, SingleFile]
    set_id: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardIndex:
    """The format's own record of a set: the index's metadata and every shard's header.

    `others` are members of the index that nobody relies upon.
    """

    metadata: Mapping[str, object] | None
    headers: Mapping[str, Header]
    others: tuple[str, ...] = ()


@rule("safetensors.shard-lacks", section="index", stage="open")
def shard_lacks(doc: ShardSet) -> Iterator[Fault]:
    """A shard holds every tensor that the index places in it."""
    for name, label in doc.weight_map.items():
        if name not in doc.shards[label].tensors:
            detail = f"shard {quoted(label)} lacks {quoted(name)}, which the index places there"
            yield Fault(("weight_map", name), detail, "the tensor", "nothing")


@rule("safetensors.shard-unlisted", section="index", stage="open")
def shard_unlisted(doc: ShardSet) -> Iterator[Fault]:
    """The index lists every tensor of a shard, and under that shard."""
    place = doc.weight_map.get
    for label, shard in doc.shards.items():
        for name in shard.tensors:
            if place(name) != label:
                other = place(name)
                found = "nothing" if other is None else quoted(other)
                verb = "list" if other is None else "place there"
                held = f"shard {quoted(label)} holds {quoted(name)}"
                detail = f"{held}, which the index does not {verb}"
                yield Fault((label, name), detail, quoted(label), found)


@rule("safetensors.set-mixed", section="index", stage="open")
def set_mixed(doc: ShardSet) -> Iterator[Fault]:
    """An index that names the identity of its set names only shards of that set.

    Files of another write lie between them: a set was replaced in part, or a shard copied over.
    """
    if doc.set_id is None:
        return
    for label, shard in doc.shards.items():
        if shard.header.set_id != doc.set_id:
            detail = f"shard {quoted(label)} belongs to another set than the index"
            found = shard.header.set_id or "no identity"
            yield Fault((label,), detail, quoted(str(doc.set_id)), found)


INDEX_RULES: Final[tuple[Rule[object], ...]] = (
    index_map,
    index_metadata,
    index_weight_map,
    index_name,
)
SET_RULES: Final[tuple[Rule[ShardSet], ...]] = (shard_lacks, shard_unlisted, set_mixed)

# ------------------------------------------------------------------------------------------ reading


SET: Final = "safetensors.set"
"""The attribute that holds what the index of a set says, and what its shards do not say alike."""

_OF_FILES: Final = frozenset({"total_size", KEY})


class ShardedTensors(Mapping[str, Tensor]):
    """The tensors of a set, in the order of the index; each value is made on access."""

    layouts: ClassVar = ("dense",)

    __slots__ = ("_labels", "_shards", "attributes")

    def __init__(
        self,
        labels: Mapping[str, str],
        shards: Mapping[str, Tensors],
        attributes: TensorAttributes,
    ) -> None:
        self._labels = labels
        self._shards = shards
        self.attributes = attributes
        for each in shards.values():
            each.attributes = attributes

    def __getitem__(self, name: str) -> Tensor:
        return self._shards[self._labels[name]][name]

    def __contains__(self, name: object) -> bool:
        return name in self._labels

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)


def holds(origin: Catalog, _now: Catalog) -> Mapping[str, Names]:
    """State what is no attribute: what shards and index say apart is one by now."""
    index: ShardIndex = origin.native
    headers = index.headers.values()
    return {"fields": lambda: [*index.others, *(name for each in headers for name in each.strange)]}


def read(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open a set: one round trip for the index, at most two for the headers of all shards.

    Raises:
        ReadFailed: code ``missing-shard`` when a shard is not there.
    """
    size = size_of(None)
    limit = reading.limits.index_file
    if size > limit:
        raise LimitExceeded("the index is too large", expected=limit, found=size)
    (text,) = yield [Span(0, size)]
    index = _index(text, reading)
    names = cast("dict[str, str]", index["weight_map"])
    files = sorted(set(names.values()))
    shards: dict[str, SingleFile] = {}
    if files:
        found = yield from open_files(_sizes(files, names, size_of), reading)
        shards = {label: found[label] for label in files}
    said = cast("dict[str, object]", index.get("metadata", {})).get(KEY)
    reading.require(SET_RULES, ShardSet(names, shards, said))
    native = ShardIndex(
        metadata=cast("dict[str, object] | None", index.get("metadata")),
        headers={label: shard.header for label, shard in shards.items()},
        others=tuple(key for key in index if key not in {"metadata", "weight_map"}),
    )
    alike = merge([header.metadata for header in native.headers.values()])
    carried, apart = restore_types(alike), _apart(native, alike or {})
    return Catalog(
        "safetensors-index",
        ShardedTensors(
            names, {label: shard.tensors for label, shard in shards.items()}, carried.tensors
        ),
        attributes=carried.file if apart is None else {**(carried.file or {}), SET: apart},
        native=native,
        files=tuple(files),
    )


def _apart(index: ShardIndex, alike: Mapping[str, str]) -> dict[str, object] | None:
    """Return what index and shards say apart; None where all agree.

    The size of all tensors and the identity of the set are those of its files, and no attributes.
    """
    own = {k: v for k, v in (index.metadata or {}).items() if k not in _OF_FILES}
    shards = {
        label: held
        for label, header in index.headers.items()
        if (held := {k: v for k, v in (header.metadata or {}).items() if k not in alike})
    }
    found: dict[str, object] = {"index": own} if own else {}
    return {**found, **({"shards": shards} if shards else {})} or None


def list_shards(text: bytes) -> list[str]:
    """Return the names of the shards that the index `text` names, sorted.

    Raises:
        Rejected: when it is no index.
    """
    index = _index(memoryview(text), Reading())
    return sorted(set(cast("dict[str, str]", index["weight_map"]).values()))


def merge(each: list[Mapping[str, str] | None]) -> dict[str, str] | None:
    """Merge the metadata of shards; a key that two shards disagree about stays with the shards."""
    present = [metadata for metadata in each if metadata is not None]
    values: dict[str, set[str]] = {}
    for metadata in present:
        for key, value in metadata.items():
            values.setdefault(key, set()).add(value)
    together = {key: next(iter(found)) for key, found in values.items() if len(found) == 1}
    return together if present else None


def _index(text: memoryview, reading: Reading) -> dict[str, object]:
    index = parse_json(text, reading, start=0, named=False)
    reading.require(INDEX_RULES, index, Places(text).offset)
    return cast("dict[str, object]", index)


_MOST_MISSING: Final = 100
"""Missing shards after which no more are looked for: each costs a look at the folder."""


def _sizes(files: list[str], names: Mapping[str, str], size_of: SizeOf) -> dict[str | None, int]:
    """Ask for the size of every shard, so that a missing one is named before any is read."""
    sizes: dict[str | None, int] = {}
    missing: list[tuple[str, ReadFailed]] = []
    for label in files:
        try:
            sizes[label] = size_of(label)
        except ReadFailed as error:
            if error.code != "missing-shard":
                raise
            missing.append((label, error))
            if len(missing) > _MOST_MISSING:
                break
    if missing:
        label, cause = missing[0]
        held = [name for name, file in names.items() if file == label]
        more = f" and {len(held) - 3} more" if len(held) > 3 else ""
        rest = f"; {len(missing) - 1} more shards are missing" if len(missing) > 1 else ""
        if len(missing) > _MOST_MISSING:
            rest = f"; {_MOST_MISSING} more shards are missing at least"
        raise ReadFailed(
            f"shard {quoted(label)} is missing; the index places "
            f"{', '.join(map(quoted, held[:3]))}{more} there{rest}",
            code="missing-shard",
            path=cause.path,
            where=(label,),
            expected=f"{len(files)} shards",
            found=len(sizes),
            hint=cause.hint,
        ) from cause
    return sizes


_LISTED: Final = re.compile(rb'"weight_map"\s*:')


def sniff(head: bytes, tail: bytes, _size: int) -> bool:
    """Whether the text is a JSON object that maps weights to safetensors files.

    Where the metadata comes first and is long, only the end of the file shows what it is. With a
    byte order mark, or in a list, it is still one, so that it can be said what is wrong with it.
    """
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if begin[:1] == b"[":
        return _LISTED.search(begin) is not None
    if begin[:1] != b"{" or b'.bin"' in head + tail:
        return False
    return b'"weight_map"' in begin or (b'"metadata"' in begin and b'.safetensors"' in tail)


RULES: Final[tuple[Rule[Any], ...]] = (*INDEX_RULES, *FILE_RULES, *SET_RULES)
