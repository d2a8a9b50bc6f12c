"""The directory of an artifact (§4–§8): from JSON to columns, from columns to the model.

`RawDirectory` is what the text claims and may be nonsense; the rules judge it; `build_directory`
then gives the trusted `Directory`. Columns, because a hundred thousand objects are judged by list
comprehensions and not one by one; records and tensors are made when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from tensorark.core.matching import near
from tensorark.core.model import Blob, Part, Raw, Tensor
from tensorark.errors import InvalidInput, NotFound, Where
from tensorark.formats.ninfer.address import Address
from tensorark.formats.ninfer.frame import HEADER_SIZE, Frame
from tensorark.layouts.ninfer.geometry import (
    ALIGNMENT,
    CONTIGUOUS,
    PREFIX,
    RESOURCE_ENCODING,
    geometry,
    misfit,
    unknown,
)
from tensorark.wire.json import Real
from tensorark.wire.json_places import Places

Policy = Literal["A16Only", "AllowA8", "AllowA4"]
POLICIES: Final = ("A16Only", "AllowA8", "AllowA4")

_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
_PLAIN: Final[Mapping[str, str]] = MappingProxyType({"bf16": "bf16", "fp32": "f32", "int32": "i32"})
"""Formats that are storage types of the model: stored contiguously they make dense tensors."""


# ---------------------------------------------------------------------------------- what is claimed


@dataclass(frozen=True, kw_only=True)
class RawDirectory:
    """What the JSON text claims, unjudged; `entry` is the name the entry was opened under.

    The lists that several rules look at are made once. `parts` and `parted` may only be asked for
    when bindings and their parts have the right members.
    """

    frame: Frame
    text: bytes
    root: object
    entry: str | None = None

    @cached_property
    def places(self) -> Places:
        """Where the items of the text stand in the entry."""
        return Places(self.text, start=HEADER_SIZE)

    def offset_of(self, where: Where) -> int | None:
        """Return the byte offset, in the entry, of the nearest item on the path `where`."""
        return self.places.offset(where)

    def member(self, name: str) -> Any:
        """Return a member of the root; None where there is none."""
        return self.root.get(name) if isinstance(self.root, dict) else None

    def records(self, name: str) -> list[Any]:
        """Return the elements of a list of the root; none where it is no list."""
        found = self.member(name)
        return found if isinstance(found, list) else []

    def entries(self, name: str) -> dict[str, Any]:
        """Return the members of an object of the root; none where it is no object."""
        found = self.member(name)
        return found if isinstance(found, dict) else {}

    @cached_property
    def bindings(self) -> list[Any]:
        """Every binding: those of the root, then those of auxiliaries."""
        found = list(self.entries("bindings").values())
        for _, use in self.uses_with_auxiliaries:
            auxiliaries = use["auxiliaries"]
            if isinstance(auxiliaries, dict):
                found.extend(auxiliaries.values())
        return found

    @cached_property
    def uses_with_auxiliaries(self) -> list[tuple[int, Any]]:
        """The uses that have auxiliaries, with their numbers: few of many."""
        uses = self.records("uses")
        return [
            (index, use)
            for index, use in enumerate(uses)
            if type(use) is dict and "auxiliaries" in use
        ]

    @cached_property
    def parts(self) -> list[Any]:
        """Every part of every binding, in the order of `bindings`."""
        return [part for each in self.bindings if "parts" in each for part in each["parts"]]

    @cached_property
    def wholes(self) -> list[Any]:
        """The object of every binding to a whole object."""
        return [each["object"] for each in self.bindings if "object" in each]

    @cached_property
    def part_objects(self) -> list[Any]:
        """The object of every part."""
        return [part["object"] for part in self.parts]

    @cached_property
    def ranges(self) -> list[Any]:
        """The range of every part."""
        return [part["range"] for part in self.parts]

    def placed_bindings(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """Yield every binding with its place, in the order of `bindings`."""
        for name, each in self.entries("bindings").items():
            yield ("bindings", name), each
        for index, use in self.uses_with_auxiliaries:
            auxiliaries = use["auxiliaries"]
            if isinstance(auxiliaries, dict):
                for role, each in auxiliaries.items():
                    yield ("uses", index, "auxiliaries", role), each


# ------------------------------------------------------------------------------------------ records


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """A tensor object (§5.1): `offset` in the logical payload, `nbytes` encoded bytes."""

    id: str
    shape: tuple[int, ...]
    format: str
    layout: str
    offset: int
    nbytes: int
    divisors: int = 1

    @property
    def elements(self) -> int:
        """Number of logical elements; 1 for a scalar."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResource:
    """A resource object (§5.2): raw bytes, interpreted by whoever uses its role."""

    id: str
    encoding: str
    offset: int
    nbytes: int


Stored = StoredTensor | StoredResource


@dataclass(frozen=True, slots=True)
class Range:
    """Elements [begin, end) of a tensor object, in C order (§7.1)."""

    object: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Binding:
    """What a logical parameter is made of, in order; `whole` says that it is one whole object."""

    ranges: tuple[Range, ...]
    whole: bool

    @property
    def elements(self) -> int:
        """Number of elements of the parameter."""
        return sum(each.end - each.begin for each in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A place where the computation takes a parameter (§8); the policy may be missing."""

    parameter: str
    input: str
    activation_policy: Policy | None
    auxiliaries: Mapping[str, Binding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component of the model (§4.2); numbers of `config` with a fraction are `Real`."""

    config: Mapping[str, Any]
    target: str | None
    resources: Mapping[str, str]
    proposal: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SetFile:
    """A file of the set (§3.3): `path` is None for the entry."""

    path: str | None
    payload_bytes: int


# ---------------------------------------------------------------------------------------- directory


@dataclass(frozen=True, kw_only=True)
class Directory:
    """A directory whose schema and references hold. Everything is in the order of the text.

    `rows` is the number of every object by id, `elements` the number of elements of every tensor;
    `offsets` and `sizes` run over all objects. `root` is the parsed text itself.
    """

    frame: Frame
    text: bytes
    root: Mapping[str, Any]
    address: Address
    rows: Mapping[str, int]
    elements: Mapping[str, int]
    ids: Sequence[str]
    offsets: Sequence[int]
    sizes: Sequence[int]

    @property
    def artifact_id(self) -> str:
        """Id of the file set, as 32 hexadecimal digits."""
        return self.frame.artifact_id.hex()

    @property
    def payload_bytes(self) -> int:
        """Size of the logical payload."""
        return self.address.payload_bytes

    @cached_property
    def places(self) -> Places:
        """Where the items of the text stand in the entry."""
        return Places(self.text, start=HEADER_SIZE)

    def offset_of(self, where: Where) -> int | None:
        """Return the byte offset, in the entry, of the nearest item on the path `where`."""
        return self.places.offset(where)

    @cached_property
    def files(self) -> tuple[SetFile, ...]:
        """The files of the set, the entry first."""
        return tuple(SetFile(each["path"], each["payload_bytes"]) for each in self.root["files"])

    @cached_property
    def components(self) -> Mapping[str, Component]:
        """The components by id."""
        return MappingProxyType(
            {
                name: Component(
                    config=each["config"],
                    target=each.get("target"),
                    resources=each.get("resources", _EMPTY),
                    proposal=each.get("proposal"),
                )
                for name, each in self.root["components"].items()
            }
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Public name and whatever else is shown (§10)."""
        found: Mapping[str, Any] = self.root.get("metadata", _EMPTY)
        return found

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where the artifact comes from (§10)."""
        found: Mapping[str, Any] = self.root.get("provenance", _EMPTY)
        return found

    def object(self, name: str) -> Stored:
        """Return the object `name`.

        Raises:
            NotFound: when there is none.
        """
        row = self.rows.get(name)
        if row is None:
            raise NotFound(
                "no such object",
                code="no-object",
                where=("objects", name),
                hint=lambda: near(name, self.rows),
            )
        return self.stored(row)

    def stored(self, row: int) -> Stored:
        """Return object number `row`."""
        record: Mapping[str, Any] = self.root["objects"][row]
        if "shape" not in record:
            return StoredResource(
                id=self.ids[row],
                encoding=record["encoding"],
                offset=self.offsets[row],
                nbytes=self.sizes[row],
            )
        return StoredTensor(
            id=self.ids[row],
            shape=tuple(record["shape"]),
            format=record["format"],
            layout=record["layout"],
            offset=self.offsets[row],
            nbytes=self.sizes[row],
            divisors=record.get("divisors", 1),
        )

    @property
    def bindings(self) -> Mapping[str, Binding]:
        """The bindings by name of the logical parameter, each made on access."""
        return Bindings(self)

    def binding(self, record: Mapping[str, Any]) -> Binding:
        """Return a binding from its record in the text."""
        whole = record.get("object")
        if whole is not None:
            return Binding((Range(whole, 0, self.elements[whole]),), whole=True)
        ranges = tuple(
            Range(each["object"], integer(each["range"][0]), each["range"][1])
            for each in record["parts"]
        )
        return Binding(ranges, whole=False)

    @property
    def uses(self) -> Iterator[Use]:
        """The uses, in order."""
        for each in self.root["uses"]:
            auxiliaries = each.get("auxiliaries", _EMPTY)
            yield Use(
                parameter=each["parameter"],
                input=each["input"],
                activation_policy=each.get("activation_policy"),
                auxiliaries={role: self.binding(aux) for role, aux in auxiliaries.items()},
            )

    def blob(self, stored: Stored) -> Blob:
        """Return where the bytes of an object lie: in several spans where it crosses files."""
        return Raw(self.address.spans(stored.offset, stored.nbytes))


def integer(value: object) -> int:
    """Return an integer of the text; ``-0`` is kept as text and means 0."""
    return 0 if isinstance(value, Real) else cast("int", value)


def build_directory(raw: RawDirectory) -> Directory:
    """Turn a text that the schema rules passed into the trusted record."""
    root = cast("dict[str, Any]", raw.root)
    objects: list[dict[str, Any]] = root["objects"]
    files: list[dict[str, Any]] = root["files"]
    ids: list[str] = [each["id"] for each in objects]
    offsets: list[Any] = [each["offset"] for each in objects]
    if Real in map(type, offsets):
        offsets = list(map(integer, offsets))
    return Directory(
        frame=raw.frame,
        text=raw.text,
        root=root,
        address=Address.of(
            [each["path"] for each in files],
            [each["payload_bytes"] for each in files],
            raw.frame.payload_start,
        ),
        rows=dict(zip(ids, range(len(ids)), strict=True)),
        elements={each["id"]: prod(each["shape"]) for each in objects if "shape" in each},
        ids=ids,
        offsets=offsets,
        sizes=[each["bytes"] for each in objects],
    )


class Bindings(Mapping[str, Binding]):
    """The bindings of a directory; each value is made on access."""

    __slots__ = ("_directory", "_records")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._records: Mapping[str, Any] = directory.root["bindings"]

    def __getitem__(self, name: str) -> Binding:
        return self._directory.binding(self._records[name])

    def __contains__(self, name: object) -> bool:
        return name in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


# ------------------------------------------------------------------------------------------ tensors


class Tensors(Mapping[str, Tensor]):
    """The tensor objects by id, in order of their offsets; each value is made on access."""

    __slots__ = ("_directory", "_names")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._names = directory.elements

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        stored = self._directory.stored(self._directory.rows[name])
        return tensor_of(cast("StoredTensor", stored), self._directory.blob(stored))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def tensor_of(stored: StoredTensor, blob: Blob) -> Tensor:
    """Return an object as the model has it.

    Contiguous bf16, fp32 and int32 are what every format calls dense; whatever else there is keeps
    its layout and format, with our prefix, over bytes. `divisors` above 1 becomes an attribute.
    """
    is_plain = stored.format in _PLAIN and stored.layout == CONTIGUOUS
    if is_plain and fault_of(stored) is None:
        dtype = _PLAIN[stored.format]
        return Tensor(stored.id, stored.shape, "dense", {"data": Part(blob, dtype)})
    part = Part(blob, "u8", PREFIX + stored.format)
    attributes = {"divisors": stored.divisors} if stored.divisors != 1 else None
    return Tensor(stored.id, stored.shape, PREFIX + stored.layout, {"data": part}, attributes)


def resource_tensor(stored: StoredResource, blob: Blob) -> Tensor:
    """Return a resource as a tensor of bytes, which is how a `.zt` carries it."""
    return Tensor(stored.id, (stored.nbytes,), "dense", {"data": Part(blob, "u8")})


ObjectSlug = Literal["align", "shape", "bytes", "encoding"]


def fault_of(stored: Stored) -> tuple[ObjectSlug, str, object, object] | None:
    """Say what keeps an object of known ids from being read; None where nothing does.

    Gives the slug of the rule, the detail and the two sides. An unknown id is no fault.
    """
    if isinstance(stored, StoredResource):
        return None
    if stored.offset % ALIGNMENT:
        expected = f"a multiple of {ALIGNMENT}"
        return "align", "a tensor is not aligned", expected, stored.offset
    if unknown(stored.format, stored.layout) is not None:
        return None
    reason = misfit(stored.format, stored.layout, stored.shape, stored.divisors)
    if reason is not None:
        expected = f"what {stored.format} in {stored.layout} can hold"
        found = f"shape {list(stored.shape)}, divisors {stored.divisors}"
        return "shape", reason, expected, found
    needed = geometry(stored.format, stored.layout, stored.shape, stored.divisors).nbytes
    if needed != stored.nbytes:
        detail = "the encoded size does not fit format, layout and shape"
        return "bytes", detail, f"{needed} bytes", stored.nbytes
    return None


__all__ = [
    "CONTIGUOUS",
    "POLICIES",
    "RESOURCE_ENCODING",
    "Binding",
    "Component",
    "Directory",
    "Policy",
    "Range",
    "RawDirectory",
    "SetFile",
    "Stored",
    "StoredResource",
    "StoredTensor",
    "Tensors",
    "Use",
    "build_directory",
    "fault_of",
    "integer",
    "resource_tensor",
    "tensor_of",
]


def directory_of(native: object, path: str | None = None) -> Directory:
    """Return the directory of an opened artifact, `native` being what its catalog keeps.

    Raises:
        InvalidInput: when it is no NInfer artifact.
    """
    if not isinstance(native, Directory):
        detail = "only a NInfer artifact has parameters, uses and resources"
        raise InvalidInput(detail, code="not-ninfer", path=path)
    return native
