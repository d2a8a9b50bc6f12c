"""The manifest of `.zt` (L1, §3): from CBOR to columns, from columns to the model.

`parse_manifest` lays what the file claims out in columns that may hold nonsense; the rules judge
them; `build_manifest` then gives the trusted record, and `tensors` the model's view of it. Columns,
because a hundred thousand objects are judged by list comprehensions and not one by one; values of
the model are built when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from tensorark.core.model import Blob, Encoded, Part, Raw, Shard, Span, Tensor
from tensorark.errors import Where
from tensorark.formats.zt.frame import RawFrame
from tensorark.formats.zt.plain import PlainObject
from tensorark.wire.cbor import Pairs, Places, locate

MISSING: Final = object()
"""Stands in a column where the file has no such field; null is a value and not the same."""


@dataclass(slots=True, kw_only=True)
class RawManifest:
    """What a manifest claims, unjudged.

    The first columns run over the entries of `objects` that are maps, the others over their parts
    that are maps; `owners` gives the object of a part. `text_names` are the names of §3.5 that are
    text, once each; `has_odd_keys` says whether any is not.
    """

    frame: RawFrame
    text: bytes
    root: object
    text_names: set[str] = field(default_factory=set)
    has_odd_keys: bool = False
    attributes: object = MISSING
    shards: object = MISSING
    objects: object = MISSING
    names: list[object] = field(default_factory=list)
    shapes: list[object] = field(default_factory=list)
    layouts: list[object] = field(default_factory=list)
    object_attributes: list[object] = field(default_factory=list)
    parts: list[object] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    roles: list[object] = field(default_factory=list)
    dtypes: list[object] = field(default_factory=list)
    types: list[object] = field(default_factory=list)
    blobs: list[object] = field(default_factory=list)
    part_shards: list[object] = field(default_factory=list)
    encodings: list[object] = field(default_factory=list)
    decoded_lengths: list[object] = field(default_factory=list)
    digests: list[object] = field(default_factory=list)
    places: Places = field(default_factory=dict)

    def offset_of(self, where: Where) -> int | None:
        """Return the byte offset, in the file, of the nearest item on the path `where`."""
        for length in range(len(where), -1, -1):
            found = locate(self.text, where[:length], self.places)
            if found is not None:
                return self.frame.manifest_offset + found
        return None

    def object_place(self, index: int, *rest: str | int) -> tuple[str | int, ...]:
        """Return the place of object `index`, and below it."""
        return ("objects", key_text(self.names[index]), *rest)

    def part_place(self, index: int, *rest: str | int) -> tuple[str | int, ...]:
        """Return the place of part `index`, and below it."""
        role = key_text(self.roles[index])
        return self.object_place(self.owners[index], "parts", role, *rest)


def parse_manifest(text: bytes, root: object, frame: RawFrame) -> RawManifest:
    """Lay the decoded manifest `root` out in columns. Total: nonsense stays in place."""
    raw = RawManifest(frame=frame, text=text, root=root, text_names={"data"})
    members = members_of(root)
    raw.attributes = members.get("attributes", MISSING)
    raw.shards = members.get("shards", MISSING)
    raw.objects = members.get("objects", MISSING)
    for name, each in entries_of(raw.objects):
        if isinstance(each, PlainObject):
            _add_plain(raw, name, each)
        elif is_map(each):
            _add_object(raw, name, members_of(each))
    _collect_names(raw)
    return raw


_PLAIN_PARTS: Final[dict[str, object]] = {"data": {}}


def _add_plain(raw: RawManifest, name: object, each: PlainObject) -> None:
    raw.owners.append(len(raw.names))
    raw.names.append(name)
    raw.shapes.append(each.shape)
    raw.layouts.append("dense")
    raw.object_attributes.append(MISSING)
    raw.parts.append(_PLAIN_PARTS)
    raw.roles.append("data")
    raw.dtypes.append(each.dtype)
    raw.types.append(MISSING if each.type is None else each.type)
    raw.blobs.append(each.blob)
    raw.part_shards.append(MISSING if each.shard is None else each.shard)
    raw.encodings.append(MISSING)
    raw.decoded_lengths.append(MISSING)
    raw.digests.append(MISSING if each.digest is None else each.digest)


def _add_object(raw: RawManifest, name: object, each: dict[str, object]) -> None:
    owner = len(raw.names)
    parts = each.get("parts", MISSING)
    raw.names.append(name)
    raw.shapes.append(each.get("shape", MISSING))
    raw.layouts.append(each.get("layout", MISSING))
    raw.object_attributes.append(each.get("attributes", MISSING))
    raw.parts.append(parts)
    for role, value in entries_of(parts):
        if not is_map(value):
            continue
        part = members_of(value)
        raw.owners.append(owner)
        raw.roles.append(role)
        raw.dtypes.append(part.get("dtype", MISSING))
        raw.types.append(part.get("type", MISSING))
        raw.blobs.append(part.get("blob", MISSING))
        raw.part_shards.append(part.get("shard", MISSING))
        raw.encodings.append(part.get("encoding", MISSING))
        raw.decoded_lengths.append(part.get("decoded_length", MISSING))
        raw.digests.append(part.get("digest", MISSING))


def _collect_names(raw: RawManifest) -> None:
    for each in (raw.objects, *raw.parts, raw.attributes, *raw.object_attributes):
        if each is MISSING or each is _PLAIN_PARTS:
            continue
        if isinstance(each, dict):
            raw.text_names.update(each)
        elif isinstance(each, Pairs):
            raw.text_names.update(members_of(each))
            raw.has_odd_keys = True


def is_map(value: object) -> bool:
    """Tell whether a decoded value is a map."""
    return isinstance(value, dict | PlainObject | Pairs)


def entries_of(value: object) -> list[tuple[object, object]]:
    """Return the entries of a decoded map, whatever its keys; none where it is no map."""
    if isinstance(value, dict):
        return list(value.items())
    return list(value.items) if isinstance(value, Pairs) else []


def members_of(value: object) -> dict[str, object]:
    """Return the entries of a decoded map whose keys are text: others are unknown fields (§3.1)."""
    if isinstance(value, dict):
        return value
    return {key: item for key, item in entries_of(value) if isinstance(key, str)}


def strange_fields(root: object) -> Iterator[str]:
    """Yield the fields of a decoded manifest that are not defined, which readers ignore (§3.1)."""
    yield from _others(root, _OF_MANIFEST)
    for label, shard in members_of(members_of(root).get("shards")).items():
        yield from _others(shard, _OF_SHARD, f"shard {label}: ")
    for name, each in members_of(members_of(root)["objects"]).items():
        if isinstance(each, PlainObject):
            continue
        yield from _others(each, _OF_OBJECT, f"{name}: ")
        for role, part in members_of(members_of(each)["parts"]).items():
            yield from _others(part, _OF_PART, f"{name}, part {role}: ")


_OF_MANIFEST: Final = frozenset({"attributes", "objects", "shards"})
_OF_SHARD: Final = frozenset({"digest", "size"})
_OF_OBJECT: Final = frozenset({"attributes", "layout", "parts", "shape"})
_OF_PART: Final = frozenset(
    {"blob", "decoded_length", "digest", "dtype", "encoding", "shard", "type"}
)


def _others(value: object, known: frozenset[str], before: str = "") -> list[str]:
    if isinstance(value, dict) and value.keys() <= known:  # as nearly every one is
        return []
    return [
        before + key_text(key)
        for key, _ in entries_of(value)
        if not isinstance(key, str) or key not in known  # a key may be a list, say
    ]


def key_text(key: object) -> str:
    """Write a map key as text, for a place in a message."""
    return key if isinstance(key, str) else repr(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest whose schema holds (§3.2–3.4), as columns.

    Object `i` owns the parts `firsts[i]` … `firsts[i + 1]`. `sizes` are decoded sizes in bytes.
    `has_strange_fields` says whether there are any that are not defined (§3.1).
    """

    frame: RawFrame
    text: bytes
    attributes: Mapping[str, object] | None
    shards: Mapping[str, Shard]
    names: list[str]
    shapes: list[list[int]]
    layouts: list[str]
    object_attributes: list[Mapping[str, object] | None]
    firsts: list[int]
    owners: list[int]
    roles: list[str]
    dtypes: list[str]
    types: list[str | None]
    offsets: list[int]
    lengths: list[int]
    part_shards: list[str | None]
    encodings: list[str | None]
    sizes: list[int]
    digests: list[str | None]
    has_strange_fields: bool
    places: Places = field(default_factory=dict, repr=False, compare=False)

    def offset_of(self, where: Where) -> int | None:
        """Return the byte offset, in the file, of the item at `where`."""
        found = locate(self.text, where, self.places)
        return None if found is None else self.frame.manifest_offset + found

    def object_place(self, index: int, *rest: str | int) -> tuple[str | int, ...]:
        """Return the place of object `index`, and below it."""
        return ("objects", self.names[index], *rest)

    def part_place(self, index: int, *rest: str | int) -> tuple[str | int, ...]:
        """Return the place of part `index`, and below it."""
        return self.object_place(self.owners[index], "parts", self.roles[index], *rest)

    def roles_of(self, index: int) -> dict[str, int]:
        """Return the parts of object `index`: role → part index."""
        return {
            self.roles[part]: part for part in range(self.firsts[index], self.firsts[index + 1])
        }


def build_manifest(raw: RawManifest) -> Manifest:
    """Turn columns that the schema rules passed into the trusted record."""
    blobs = cast("list[list[int]]", raw.blobs)
    lengths = [length for _, length in blobs]
    encodings = cast("list[str | None]", _optional(raw.encodings))
    decoded = cast("list[int]", raw.decoded_lengths)
    counts = [0] * (len(raw.names) + 1)
    for owner in raw.owners:
        counts[owner + 1] += 1
    firsts = [0]
    for count in counts[1:]:
        firsts.append(firsts[-1] + count)
    return Manifest(
        frame=raw.frame,
        text=raw.text,
        attributes=cast("dict[str, object] | None", _optional([raw.attributes])[0]),
        shards={
            cast("str", name): Shard(
                cast("int", members_of(entry)["size"]), cast("str", members_of(entry)["digest"])
            )
            for name, entry in entries_of(raw.shards)
        },
        names=cast("list[str]", raw.names),
        shapes=cast("list[list[int]]", raw.shapes),
        layouts=cast("list[str]", raw.layouts),
        object_attributes=cast(
            "list[Mapping[str, object] | None]", _optional(raw.object_attributes)
        ),
        firsts=firsts,
        owners=raw.owners,
        roles=cast("list[str]", raw.roles),
        dtypes=cast("list[str]", raw.dtypes),
        types=cast("list[str | None]", _optional(raw.types)),
        offsets=[offset for offset, _ in blobs],
        lengths=lengths,
        part_shards=cast("list[str | None]", _optional(raw.part_shards)),
        encodings=encodings,
        sizes=[
            length if encoding is None else size
            for length, encoding, size in zip(lengths, encodings, decoded, strict=True)
        ],
        digests=cast("list[str | None]", _optional(raw.digests)),
        has_strange_fields=next(strange_fields(raw.root), None) is not None,
        places=raw.places,
    )


def _optional(column: list[object]) -> list[object]:
    return [None if value is MISSING else value for value in column]


class Tensors(Mapping[str, Tensor]):
    """The objects of a manifest as tensors, in manifest order; each built when it is asked for."""

    __slots__ = ("_index", "_manifest")

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._index = {name: index for index, name in enumerate(manifest.names)}

    def __getitem__(self, name: str) -> Tensor:
        """Build the tensor `name`."""
        manifest = self._manifest
        index = self._index[name]
        return Tensor(
            name,
            tuple(manifest.shapes[index]),
            manifest.layouts[index],
            {role: _part(manifest, part) for role, part in manifest.roles_of(index).items()},
            manifest.object_attributes[index],
        )

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a tensor `name`, without building it."""
        return name in self._index

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._index)

    @property
    def layouts(self) -> Collection[str]:
        """The layouts of the tensors, without building any."""
        return {*self._manifest.layouts}

    @property
    def attributes(self) -> Mapping[str, Mapping[str, object]]:
        """The attributes of the tensors that have some, by name, without building any."""
        held = zip(self._manifest.names, self._manifest.object_attributes, strict=True)
        return {name: attributes for name, attributes in held if attributes is not None}

    def __len__(self) -> int:
        """Count the tensors."""
        return len(self._index)


def _part(manifest: Manifest, index: int) -> Part:
    span = Span(manifest.offsets[index], manifest.lengths[index], manifest.part_shards[index])
    encoding = manifest.encodings[index]
    blob: Blob = (
        Raw((span,)) if encoding is None else Encoded((span,), encoding, manifest.sizes[index])
    )
    return Part(blob, manifest.dtypes[index], manifest.types[index], manifest.digests[index])
