"""The index of a container, or the manifest of a directory: what it says about each tensor.

Owns the raw JSON record, the rules of its fields, and the trusted columns made of it. Whether a
header agrees with what is said here is judged in `rules`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import quoted
from tensorark.formats.tensorbit.frame import PRECISIONS, QUANTIZED_CODES

DTYPES: Final = (*PRECISIONS, *QUANTIZED_CODES)
"""The names of element types in an index."""

FULL_SHAPE: Final = "full_shape"
"""Our member for shapes that the two dimensions of `shape` cannot say; others ignore it."""

_KNOWN: Final = frozenset(
    {
        "name",
        "offset",
        "file",
        "shape",
        "nm_n",
        "nm_m",
        "dtype",
        "num_weights",
        "num_mask_bytes",
        "scale_count",
        "group_size",
        FULL_SHAPE,
    }
)
_TOP: Final = frozenset({"architecture", "config", "tensors"})
_U64: Final = 1 << 64
MAX_RANK: Final = 64


@dataclass(frozen=True, slots=True)
class RawIndex:
    """An index as JSON has it; `is_manifest` says that files take the place of offsets."""

    root: object
    is_manifest: bool = False

    @property
    def members(self) -> Mapping[str, Any]:
        """The members of the root, none where it is no object."""
        return self.root if isinstance(self.root, dict) else {}

    @property
    def entries(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The entries of `tensors` that are objects, with their places."""
        found = self.members.get("tensors")
        for row, entry in enumerate(found if isinstance(found, list) else ()):
            if isinstance(entry, dict):
                yield row, entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What an index says of one tensor; None where it says nothing.

    `offset` is that of the blob in its file, `file` a path relative to the manifest; `shape` and
    `full_shape` are as stated; `extra` holds the members that nobody defined.
    """

    name: str
    offset: int = 0
    file: str | None = None
    shape: tuple[int, ...] | None = None
    full_shape: tuple[int, ...] | None = None
    n: int | None = None
    m: int | None = None
    dtype: str | None = None
    weights: int | None = None
    mask_bytes: int | None = None
    scale_count: int = 0
    group_size: int = 0
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index that passed its rules: `extra` holds the members that nobody defined."""

    architecture: str | None = None
    config: Mapping[str, object] | None = None
    claims: tuple[Claim, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    """Names of the members of the root, in their order."""


def build_index(raw: RawIndex) -> Index:
    """Turn an index that passed its rules into columns that can be relied upon.

    Where a rule was tolerated, what it asks for counts as not stated.
    """
    members = raw.members
    return Index(
        architecture=members.get("architecture"),
        config=members.get("config"),
        claims=tuple(_claim(row, entry, raw.is_manifest) for row, entry in raw.entries),
        extra={key: value for key, value in members.items() if key not in _TOP},
        members=tuple(members),
    )


def _claim(row: int, entry: Mapping[str, Any], is_manifest: bool) -> Claim:  # noqa: FBT001
    """Read an entry. Only a manifest names files, and only a container has offsets."""
    dtype = entry.get("dtype")
    shape = entry.get("shape")
    full = entry.get(FULL_SHAPE)
    return Claim(
        name=entry.get("name", f"tensor_{row}"),
        offset=0 if is_manifest else entry.get("offset", 0),
        file=entry.get("file") if is_manifest else None,
        shape=tuple(shape) if isinstance(shape, list) and _is_shape(shape) else None,
        full_shape=tuple(full) if isinstance(full, list) and _is_shape(full) else None,
        n=entry.get("nm_n"),
        m=entry.get("nm_m"),
        dtype=dtype if dtype in DTYPES else None,
        weights=entry.get("num_weights"),
        mask_bytes=entry.get("num_mask_bytes"),
        scale_count=entry.get("scale_count", 0),
        group_size=entry.get("group_size", 0),
        extra={key: value for key, value in entry.items() if key not in _KNOWN},
    )


def product(shape: tuple[int, ...]) -> int:
    """Multiply the dimensions of a shape; from 2^64 on the product is only known to be too large.

    A later dimension of 0 makes it 0.
    """
    if 0 in shape:
        return 0
    count = 1
    for dimension in shape:
        count = min(count * dimension, _U64)
    return count


def shape_of(claim: Claim, weights: int) -> tuple[int, ...] | None:
    """Return the logical shape of a tensor of `weights` weights; None when the claim contradicts.

    One dimension is written as ``[n]``, ``[n, 1]`` or ``[n, 0]``, and is read as one from each.
    """
    if claim.full_shape is not None and _counts(claim.full_shape, weights):
        return claim.full_shape
    shape = claim.shape
    if shape is None:
        return (weights,)
    if len(shape) == 2 and shape[0] == weights and (shape[1] == 1 or (not shape[1] and weights)):
        return (weights,)
    return shape if _counts(shape, weights) else None


def _counts(shape: tuple[int, ...], weights: int) -> bool:
    return len(shape) <= MAX_RANK and product(shape) == weights and max(shape, default=0) < _U64


# ------------------------------------------------------------------------------------ rules, schema


@rule("tb.index-object", section="index", stage="schema")
def index_object(raw: RawIndex) -> Iterator[Fault]:
    """An index is an object."""
    if not isinstance(raw.root, dict):
        yield Fault((), "the index is no object", "an object", kind(raw.root))


@rule("tb.architecture", section="index", stage="schema")
def architecture(raw: RawIndex) -> Iterator[Fault]:
    """`architecture`, if present, is text."""
    found = raw.members.get("architecture", "")
    if not isinstance(found, str):
        yield Fault(("architecture",), "the architecture is no text", "text", kind(found))


@rule("tb.config", section="index", stage="schema")
def config(raw: RawIndex) -> Iterator[Fault]:
    """`config`, if present, is an object; what it holds is not judged."""
    found = raw.members.get("config", {})
    if not isinstance(found, dict):
        yield Fault(("config",), "the configuration is no object", "an object", kind(found))


@rule("tb.tensors", section="index", stage="schema")
def tensors(raw: RawIndex) -> Iterator[Fault]:
    """`tensors` is present and a list of objects."""
    if not isinstance(raw.root, dict):
        return
    found = raw.members.get("tensors")
    if not isinstance(found, list):
        what = kind(found) if "tensors" in raw.members else "nothing"
        yield Fault(("tensors",), "the index has no list of tensors", "a list", what)
        return
    for row, entry in enumerate(found):
        if not isinstance(entry, dict):
            yield Fault(("tensors", row), "a tensor is no object", "an object", kind(entry))


@rule("tb.entry-name", section="index", stage="schema")
def entry_name(raw: RawIndex) -> Iterator[Fault]:
    """`name` is present: text that is not empty."""
    for row, entry in raw.entries:
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            yield _field(row, entry, "name", "a tensor has no name", "text")


@rule("tb.name-unique", section="index", stage="schema")
def name_unique(raw: RawIndex) -> Iterator[Fault]:
    """No two tensors have one name."""
    seen: set[str] = set()
    for row, entry in raw.entries:
        name = entry.get("name")
        if isinstance(name, str) and name in seen:
            detail = f"two tensors are named {quoted(name)}"
            yield Fault(("tensors", row, "name"), detail, "names of their own", quoted(name))
        if isinstance(name, str):
            seen.add(name)


@rule("tb.entry-offset", section="index", stage="schema")
def entry_offset(raw: RawIndex) -> Iterator[Fault]:
    """In a container, `offset` is present: an unsigned integer."""
    for row, entry in () if raw.is_manifest else raw.entries:
        if "offset" not in entry or not _is_unsigned(entry["offset"]):
            detail = "the offset of a tensor is no unsigned integer"
            yield _field(row, entry, "offset", detail, "an unsigned integer")


@rule("tb.entry-file", section="manifest", stage="schema")
def entry_file(raw: RawIndex) -> Iterator[Fault]:
    """In a manifest, `file` is present: a path that stays inside the directory."""
    for row, entry in raw.entries if raw.is_manifest else ():
        if not is_inside(entry.get("file")):
            detail = "the file of a tensor is no path inside the directory"
            yield _field(row, entry, "file", detail, "a relative path")


@rule("tb.entry-shape", section="index", stage="schema")
def entry_shape(raw: RawIndex) -> Iterator[Fault]:
    """`shape` is present: a list of unsigned integers."""
    for row, entry in raw.entries:
        if not _is_shape(entry.get("shape")):
            detail = "the shape is no list of unsigned integers"
            yield _field(row, entry, "shape", detail, "a list of unsigned integers")


@rule("tb.entry-count", section="index", stage="schema")
def entry_count(raw: RawIndex) -> Iterator[Fault]:
    """Counts and patterns, where present, are unsigned integers, written without a fraction."""
    for row, entry in raw.entries:
        for name in _COUNTS:
            if name in entry and not _is_unsigned(entry[name]):
                detail = f"{name} is no unsigned integer"
                yield _field(row, entry, name, detail, "an unsigned integer")


_COUNTS: Final = ("nm_n", "nm_m", "num_weights", "num_mask_bytes", "scale_count", "group_size")


@rule("tb.entry-dtype", section="precision", stage="schema")
def entry_dtype(raw: RawIndex) -> Iterator[Fault]:
    """`dtype`, if present, is one of fp32, fp16, bf16, fp64, int8 and int4."""
    for row, entry in raw.entries:
        if entry.get("dtype", "fp32") not in DTYPES:
            detail = "an unknown element type: the public loader would take it for fp32"
            yield _field(row, entry, "dtype", detail, "one of " + " ".join(DTYPES))


INDEX_RULES: Final[tuple[Rule[RawIndex], ...]] = (
    index_object,
    architecture,
    config,
    tensors,
    entry_name,
    name_unique,
    entry_offset,
    entry_file,
    entry_shape,
    entry_count,
    entry_dtype,
)

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _field(row: int, entry: Mapping[str, Any], name: str, detail: str, expected: str) -> Fault:
    found = _SHORT.repr(entry[name]) if name in entry else "nothing"
    return Fault(("tensors", row, name), detail, expected, found)


def _is_unsigned(value: object) -> bool:
    return type(value) is int and 0 <= value < _U64


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(_is_unsigned(each) for each in value)


def is_inside(path: object) -> bool:
    """Whether `path` is a relative path of plain names, on every system: no drive, no dots."""
    if not isinstance(path, str) or len(path) > 4096:
        return False
    return all(
        step not in {"", ".", ".."}
        and not step.endswith((".", " "))
        and not set(step) & set('\\:<>|?*"')
        and step.isprintable()
        for step in path.split("/")
    )


def kind(value: object) -> str:
    """Name the JSON kind of a value, for a message."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object")
