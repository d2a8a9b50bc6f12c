"""What the records of a directory must look like (§3.3, §4, §5, §7, §8, §10), one function each.

Works on the raw text, in three passes: containers, then member sets, then values; a pass may rely
on the one before. Each rule first asks whether any record shows a fault at all and looks at single
records only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from operator import lt
from types import MappingProxyType
from typing import Any, Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import quoted
from tensorark.formats.ninfer.directory import POLICIES, RawDirectory
from tensorark.formats.ninfer.syntax import OPTIONAL, REQUIRED, infinite
from tensorark.layouts.ninfer.geometry import U64
from tensorark.wire.json import Real

Place = tuple[str | int, ...]

MAX_RANK: Final = 16


def kind(value: object) -> str:
    """Name the JSON kind of `value`, with its article."""
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        Real: "a number with a fraction or an exponent",
        str: "text",
        list: "a list",
    }
    return names.get(type(value), "an object")


def show(value: object) -> str:
    """Show a raw JSON value in a few words: scalars as they are, else the kind."""
    if isinstance(value, Real):
        return str(value) if len(value) <= 40 else "a long number"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 1 << 128 else "a huge number"
    if isinstance(value, str):
        return quoted(value, 40)
    if (
        isinstance(value, list)
        and len(value) <= 4
        and not any(isinstance(each, list | dict) for each in value)
    ):
        return "[" + ", ".join(map(show, value)) + "]"
    return kind(value)


# -------------------------------------------------------------------------------- 1, the containers


@rule("ninfer.root-object", section="4", stage="schema")
def root_object(raw: RawDirectory) -> Iterator[Fault]:
    """The directory is a JSON object."""
    if not isinstance(raw.root, dict):
        yield Fault((), "the directory is no object", "an object", kind(raw.root))


@rule("ninfer.root-fields", section="4.1", stage="schema")
def root_fields(raw: RawDirectory) -> Iterator[Fault]:
    """The root has the members of §4.1 and no others."""
    if isinstance(raw.root, dict):
        yield from _fields([((), raw.root)], REQUIRED, OPTIONAL)


def _container(
    raw: RawDirectory, name: str, wanted: type, *, filled: bool = False
) -> Iterator[Fault]:
    """Judge a member of the root that is there: its kind, and that it is not empty if `filled`."""
    if not isinstance(raw.root, dict) or name not in raw.root:
        return
    found = raw.root[name]
    expected = "an object" if wanted is dict else "a list"
    if type(found) is not wanted:
        yield Fault((name,), f"`{name}` is not {expected}", expected, kind(found))
    elif filled and not found:
        yield Fault((name,), f"`{name}` is empty", "at least one entry", 0)


@rule("ninfer.components", section="4.1", stage="schema")
def components(raw: RawDirectory) -> Iterator[Fault]:
    """`components` is an object that is not empty."""
    return _container(raw, "components", dict, filled=True)


@rule("ninfer.objects", section="4.1", stage="schema")
def objects(raw: RawDirectory) -> Iterator[Fault]:
    """`objects` is a list that is not empty."""
    return _container(raw, "objects", list, filled=True)


@rule("ninfer.bindings", section="4.1", stage="schema")
def bindings(raw: RawDirectory) -> Iterator[Fault]:
    """`bindings` is an object."""
    return _container(raw, "bindings", dict)


@rule("ninfer.uses", section="4.1", stage="schema")
def uses(raw: RawDirectory) -> Iterator[Fault]:
    """`uses` is a list."""
    return _container(raw, "uses", list)


@rule("ninfer.files", section="3.3", stage="schema")
def files(raw: RawDirectory) -> Iterator[Fault]:
    """`files` is a list that is not empty."""
    return _container(raw, "files", list, filled=True)


@rule("ninfer.metadata", section="10", stage="schema")
def metadata(raw: RawDirectory) -> Iterator[Fault]:
    """`metadata`, if present, is an object; null is not absence."""
    return _container(raw, "metadata", dict)


@rule("ninfer.provenance", section="10", stage="schema")
def provenance(raw: RawDirectory) -> Iterator[Fault]:
    """`provenance`, if present, is an object."""
    return _container(raw, "provenance", dict)


CONTAINER_RULES: Final[tuple[Rule[RawDirectory], ...]] = (
    root_object,
    root_fields,
    files,
    objects,
    components,
    bindings,
    uses,
    metadata,
    provenance,
)


# ------------------------------------------------------------------------------- 2, the member sets


def _fields(
    records: Iterable[tuple[Place, Any]], required: Collection[str], optional: Collection[str] = ()
) -> Iterator[Fault]:
    """Yield a fault for each record that is no object, lacks a member or has one too many."""
    for where, record in records:
        if not isinstance(record, dict):
            yield Fault(where, "a record is no object", "an object", kind(record))
            continue
        for name in required:
            if name not in record:
                yield Fault(where, f"`{name}` is missing", f"`{name}`", "nothing")
        for name in record:
            if name not in required and name not in optional:
                known = ", ".join((*required, *optional))
                detail = f"unknown member {quoted(name)}"
                yield Fault((*where, name), detail, f"one of {known}", quoted(name))


def _sound(
    records: Iterable[Any], required: Collection[str], optional: Collection[str] = ()
) -> bool:
    """Tell at once whether no record has a fault that `_fields` would yield."""
    every = records if isinstance(records, list) else list(records)
    if set(map(type, every)) - {dict}:
        return False
    least, most = set(required), {*required, *optional}
    return all(least <= set(names) <= most for names in set(map(tuple, every)))


def _items(raw: RawDirectory, name: str) -> Iterator[tuple[Place, Any]]:
    for index, record in enumerate(raw.records(name)):
        yield (name, index), record


@rule("ninfer.file-fields", section="3.3", stage="schema")
def file_fields(raw: RawDirectory) -> Iterator[Fault]:
    """A line of the files table has `path` and `payload_bytes`, and nothing else."""
    fields = ("path", "payload_bytes")
    if not _sound(raw.records("files"), fields):
        yield from _fields(_items(raw, "files"), fields)


@rule("ninfer.component-fields", section="4.2", stage="schema")
def component_fields(raw: RawDirectory) -> Iterator[Fault]:
    """A component has `config`, maybe `target`, `resources` and, if it is text, `proposal`."""
    for name, record in raw.entries("components").items():
        optional = ["target", "resources"] + (["proposal"] if name == "text" else [])
        yield from _fields([(("components", name), record)], ("config",), optional)


@rule("ninfer.object-kind", section="5", stage="schema")
def object_kind(raw: RawDirectory) -> Iterator[Fault]:
    """An object is of kind tensor or resource."""
    records = raw.records("objects")
    if not set(map(type, records)) - {dict}:
        found = [each.get("kind") for each in records]
        if not set(map(type, found)) - {str} and set(found) <= {"tensor", "resource"}:
            return
    for index, record in enumerate(records):
        where: Place = ("objects", index)
        if not isinstance(record, dict):
            yield Fault(where, "an object is no JSON object", "an object", kind(record))
        elif record.get("kind") not in ("tensor", "resource"):
            each = show(record["kind"]) if "kind" in record else "nothing"
            yield Fault((*where, "kind"), "no such kind of object", "tensor or resource", each)


_OBJECT: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = MappingProxyType(
    {
        "tensor": (("id", "kind", "shape", "format", "layout", "offset", "bytes"), ("divisors",)),
        "resource": (("id", "kind", "encoding", "offset", "bytes"), ()),
    }
)


@rule("ninfer.object-fields", section="5", stage="schema")
def object_fields(raw: RawDirectory) -> Iterator[Fault]:
    """An object has the members of its kind, a tensor maybe `divisors`, and no others."""
    records = raw.records("objects")
    if not set(map(type, records)) - {dict}:
        found = {(each.get("kind"), *each) for each in records if type(each.get("kind")) is str}
        if all(map(_is_object, found)):
            return
    for name, (required, optional) in _OBJECT.items():
        placed = (
            (where, each)
            for where, each in _items(raw, "objects")
            if isinstance(each, dict) and each.get("kind") == name
        )
        yield from _fields(placed, required, optional)


def _is_object(found: tuple[str, ...]) -> bool:
    """Tell whether a kind followed by members are those of an object of that kind."""
    required, optional = _OBJECT.get(found[0], ((), ()))
    return {*required} <= {*found[1:]} <= {*required, *optional}


@rule("ninfer.use-fields", section="8", stage="schema")
def use_fields(raw: RawDirectory) -> Iterator[Fault]:
    """A use has `parameter` and `input`, maybe `activation_policy` and `auxiliaries`."""
    required, optional = ("parameter", "input"), ("activation_policy", "auxiliaries")
    if not _sound(raw.records("uses"), required, optional):
        yield from _fields(_items(raw, "uses"), required, optional)


@rule("ninfer.use-auxiliaries", section="8", stage="schema")
def use_auxiliaries(raw: RawDirectory) -> Iterator[Fault]:
    """`auxiliaries`, if present, is an object."""
    for index, record in raw.uses_with_auxiliaries:
        found = record["auxiliaries"]
        if not isinstance(found, dict):
            where: Place = ("uses", index, "auxiliaries")
            yield Fault(where, "`auxiliaries` is no object", "an object", kind(found))


@rule("ninfer.binding-form", section="7.1", stage="schema")
def binding_form(raw: RawDirectory) -> Iterator[Fault]:
    """A binding has either `object` or `parts`, and nothing else."""
    records = raw.bindings
    if not set(map(type, records)) - {dict} and set(map(tuple, records)) <= {
        ("object",),
        ("parts",),
    }:
        return
    for where, record in raw.placed_bindings():
        if not isinstance(record, dict):
            yield Fault(where, "a binding is no object", "an object", kind(record))
        elif tuple(record) not in {("object",), ("parts",)}:
            found = ", ".join(map(quoted, record)) or "nothing"
            detail = "a binding is either an object or parts"
            yield Fault(where, detail, "`object` or `parts`", found)


@rule("ninfer.binding-parts", section="7.1", stage="schema")
def binding_parts(raw: RawDirectory) -> Iterator[Fault]:
    """`parts` is a list that is not empty."""
    lists = [each["parts"] for each in raw.bindings if type(each) is dict and "parts" in each]
    if not set(map(type, lists)) - {list} and all(lists):
        return
    for where, record in raw.placed_bindings():
        if isinstance(record, dict) and "parts" in record:
            found = record["parts"]
            if not isinstance(found, list):
                yield Fault((*where, "parts"), "`parts` is no list", "a list", kind(found))
            elif not found:
                yield Fault((*where, "parts"), "`parts` is empty", "at least one part", 0)


def _placed_parts(raw: RawDirectory) -> Iterator[tuple[Place, Any]]:
    for where, record in raw.placed_bindings():
        found = record.get("parts") if isinstance(record, dict) else None
        if isinstance(found, list):
            for index, part in enumerate(found):
                yield (*where, "parts", index), part


@rule("ninfer.part-fields", section="7.1", stage="schema")
def part_fields(raw: RawDirectory) -> Iterator[Fault]:
    """A part has `object` and `range`, and nothing else."""
    fields = ("object", "range")
    if not _sound(raw.parts, fields):
        yield from _fields(_placed_parts(raw), fields)


MEMBER_RULES: Final[tuple[Rule[RawDirectory], ...]] = (
    file_fields,
    component_fields,
    object_kind,
    object_fields,
    use_fields,
    use_auxiliaries,
    binding_form,
    binding_parts,
)
PART_RULES: Final[tuple[Rule[RawDirectory], ...]] = (part_fields,)


# ----------------------------------------------------------------------------------- 3, the values


def _are_unsigned(values: list[Any]) -> bool:
    """Tell whether every value is an integer of 64 bits; ``-0``, kept as text, is one."""
    kinds = set(map(type, values))
    if kinds - {int}:
        return not kinds - {int, Real} and all(map(_is_unsigned, values))
    return min(values, default=0) >= 0 and max(values, default=0) < U64


def _is_unsigned(value: object) -> bool:
    if type(value) is int:
        return 0 <= value < U64
    return isinstance(value, Real) and value == "-0"


def _is_positive(value: object) -> bool:
    return type(value) is int and 0 < value < U64


def _positive(values: list[Any]) -> bool:
    """Tell whether every value is a positive integer of 64 bits."""
    if set(map(type, values)) - {int}:
        return False
    return min(values, default=1) > 0 and max(values, default=1) < U64


_POSITIVE: Final = "an integer from 1 to 2^64 - 1"
_UNSIGNED: Final = "an integer from 0 to 2^64 - 1"


@rule("ninfer.file-path", section="3.3", stage="schema")
def file_path(raw: RawDirectory) -> Iterator[Fault]:
    """The entry has the path null, a continuation a plain file name."""
    for index, record in enumerate(raw.records("files")):
        path = record["path"]
        where: Place = ("files", index, "path")
        if index == 0 and path is not None:
            yield Fault(where, "the entry has a path", "null", show(path))
        elif index and type(path) is not str:
            yield Fault(where, "a continuation has no path", "text", kind(path))
        elif index and not is_file_name(path):
            detail = "a path is not the name of a file beside the entry"
            yield Fault(where, detail, "one file name", quoted(path))


def is_file_name(name: str) -> bool:
    """Tell whether `name` is a single path component by §3.3."""
    return name not in {"", ".", ".."} and not set(name) & {"/", "\\", "\0"}


@rule("ninfer.file-bytes", section="3.3", stage="schema")
def file_bytes(raw: RawDirectory) -> Iterator[Fault]:
    """`payload_bytes` is a positive integer of 64 bits."""
    return _column(raw, "files", "payload_bytes", "an integer", positive=True)


def _column(
    raw: RawDirectory, name: str, member: str, what: str, *, positive: bool
) -> Iterator[Fault]:
    """Judge an integer member of the records of a list, where it is present."""
    values = [each[member] for each in raw.records(name) if member in each]
    if _positive(values) if positive else _are_unsigned(values):
        return
    judge = _is_positive if positive else _is_unsigned
    for index, record in enumerate(raw.records(name)):
        if member in record and not judge(record[member]):
            expected = _POSITIVE if positive else _UNSIGNED
            detail = f"`{member}` is not {what} in its range"
            yield Fault((name, index, member), detail, expected, show(record[member]))


@rule("ninfer.object-shape", section="5.1", stage="schema")
def object_shape(raw: RawDirectory) -> Iterator[Fault]:
    """`shape` is a list of at most 16 positive integers."""
    shapes = [each["shape"] for each in raw.records("objects") if "shape" in each]
    if not set(map(type, shapes)) - {list} and max(map(len, shapes), default=0) <= MAX_RANK:
        dimensions = list(chain.from_iterable(shapes))
        if not set(map(type, dimensions)) - {int} and min(dimensions, default=1) > 0:
            return
    for index, record in enumerate(raw.records("objects")):
        if "shape" not in record:
            continue
        shape, where = record["shape"], ("objects", index, "shape")
        if not isinstance(shape, list):
            yield Fault(where, "a shape is no list", "a list", kind(shape))
        elif len(shape) > MAX_RANK:
            yield Fault(where, "a shape is too long", f"at most {MAX_RANK}", len(shape))
        else:
            for axis, dimension in enumerate(shape):
                if type(dimension) is not int or dimension <= 0:
                    detail = "a dimension is no positive integer"
                    yield Fault((*where, axis), detail, "a positive integer", show(dimension))


@rule("ninfer.object-offset", section="5", stage="schema")
def object_offset(raw: RawDirectory) -> Iterator[Fault]:
    """`offset` is an integer of 64 bits."""
    return _column(raw, "objects", "offset", "an integer", positive=False)


@rule("ninfer.object-bytes", section="5", stage="schema")
def object_bytes(raw: RawDirectory) -> Iterator[Fault]:
    """`bytes` is a positive integer of 64 bits."""
    return _column(raw, "objects", "bytes", "an integer", positive=True)


@rule("ninfer.object-divisors", section="5.1", stage="schema")
def object_divisors(raw: RawDirectory) -> Iterator[Fault]:
    """`divisors`, if present, is a positive integer of 64 bits."""
    return _column(raw, "objects", "divisors", "an integer", positive=True)


@rule("ninfer.component-values", section="4.2", stage="schema")
def component_values(raw: RawDirectory) -> Iterator[Fault]:
    """`config`, `resources` and `proposal` of a component are objects."""
    for name, record in raw.entries("components").items():
        for member in ("config", "resources", "proposal"):
            if member in record and not isinstance(record[member], dict):
                where: Place = ("components", name, member)
                detail = f"`{member}` is no object"
                yield Fault(where, detail, "an object", kind(record[member]))


@rule("ninfer.proposal", section="9.2", stage="schema")
def proposal(raw: RawDirectory) -> Iterator[Fault]:
    """`proposal` has the domain full, or the domain indexed and a positive number of rows."""
    text = raw.entries("components").get("text")
    record = text.get("proposal") if isinstance(text, dict) else None
    if not isinstance(record, dict):
        return
    where: Place = ("components", "text", "proposal")
    domain = record.get("domain")
    if domain not in ("full", "indexed"):
        found = show(domain) if "domain" in record else "nothing"
        yield Fault((*where, "domain"), "no such domain", "full or indexed", found)
        return
    wanted = ("domain", "rows") if domain == "indexed" else ("domain",)
    yield from _fields([(where, record)], wanted)
    if domain == "indexed" and "rows" in record and not _is_positive(record["rows"]):
        detail = "`rows` is not a positive integer"
        yield Fault((*where, "rows"), detail, _POSITIVE, show(record["rows"]))


@rule("ninfer.part-range", section="7.1", stage="schema")
def part_range(raw: RawDirectory) -> Iterator[Fault]:
    """`range` is a list of two integers of 64 bits, the first below the second."""
    ranges = raw.ranges
    if not set(map(type, ranges)) - {list} and not set(map(len, ranges)) - {2}:
        ends = list(chain.from_iterable(ranges))
        plain = not set(map(type, ends)) - {int} and _are_unsigned(ends)
        if plain and all(map(lt, ends[::2], ends[1::2])):
            return
    for where, part in _placed_parts(raw):
        found = part["range"]
        if not isinstance(found, list) or len(found) != 2:
            yield Fault((*where, "range"), "a range is no pair", "a list of two", show(found))
        elif not all(map(_is_unsigned, found)):
            detail = "the ends of a range are no integers of 64 bits"
            yield Fault((*where, "range"), detail, _UNSIGNED, show(found))
        else:
            begin, end = (0 if isinstance(each, Real) else each for each in found)
            if begin >= end:
                expected = "a begin below the end"
                yield Fault((*where, "range"), "a range is empty", expected, show(found))


@rule("ninfer.use-policy", section="8", stage="schema")
def use_policy(raw: RawDirectory) -> Iterator[Fault]:
    """`activation_policy`, if present, is A16Only, AllowA8 or AllowA4."""
    found = [each.get("activation_policy", POLICIES[0]) for each in raw.records("uses")]
    if not set(map(type, found)) - {str} and set(found) <= set(POLICIES):
        return
    for index, record in enumerate(raw.records("uses")):
        if record.get("activation_policy", POLICIES[0]) not in POLICIES:
            where: Place = ("uses", index, "activation_policy")
            policy = show(record["activation_policy"])
            yield Fault(where, "no such activation policy", " ".join(POLICIES), policy)


@rule("ninfer.metadata-name", section="10", stage="schema")
def metadata_name(raw: RawDirectory) -> Iterator[Fault]:
    """`name` in `metadata`, if present, is text that is not empty."""
    record = raw.entries("metadata")
    if "name" in record and (type(record["name"]) is not str or not record["name"]):
        found = show(record["name"])
        yield Fault(("metadata", "name"), "the public name is no text", "text", found)


@rule("ninfer.id-text", section="1", stage="schema")
def id_text(raw: RawDirectory) -> Iterator[Fault]:
    """Whatever is a name or refers to one is text, not empty, and has no U+0000."""
    has_nul = b"\\u0000" in raw.text
    if all(_are_ids(column, has_nul=has_nul) for column in _ids(raw)):
        return
    for where, value in _placed_ids(raw):
        if not _are_ids([value], has_nul=True):
            expected = "text, not empty, without U+0000"
            yield Fault(where, "a name is wrong", expected, show(value))


def _are_ids(values: Collection[Any], *, has_nul: bool) -> bool:
    if set(map(type, values)) - {str} or "" in values:
        return False
    return not has_nul or not any("\0" in value for value in values)


_OBJECT_IDS: Final = ("id", "format", "layout", "encoding")


def _ids(raw: RawDirectory) -> Iterator[Collection[Any]]:
    """Yield every value that is an ID, without its place, in whatever columns are at hand."""
    records, uses = raw.records("objects"), raw.records("uses")
    for name in _OBJECT_IDS:
        yield [each[name] for each in records if name in each]
    yield raw.entries("bindings")
    yield raw.wholes
    yield raw.part_objects
    yield [use["parameter"] for use in uses]
    yield [use["input"] for use in uses]
    yield [role for _, use in raw.uses_with_auxiliaries for role in use["auxiliaries"]]
    yield [value for _, value in _component_ids(raw)]


def _placed_ids(raw: RawDirectory) -> Iterator[tuple[Place, Any]]:
    """Yield every value that is an ID, with its place."""
    yield from _component_ids(raw)
    for where, record in _items(raw, "objects"):
        yield from (((*where, name), record[name]) for name in _OBJECT_IDS if name in record)
    for name in raw.entries("bindings"):
        yield ("bindings", name), name
    for index, use in enumerate(raw.records("uses")):
        where = ("uses", index)
        yield (*where, "parameter"), use["parameter"]
        yield (*where, "input"), use["input"]
        yield from (((*where, "auxiliaries", role), role) for role in use.get("auxiliaries", ()))
    for where, record in raw.placed_bindings():
        if "object" in record:
            yield (*where, "object"), record["object"]
    for where, part in _placed_parts(raw):
        yield (*where, "object"), part["object"]


def _component_ids(raw: RawDirectory) -> Iterator[tuple[Place, Any]]:
    for name, record in raw.entries("components").items():
        where: Place = ("components", name)
        yield where, name
        if "target" in record:
            yield (*where, "target"), record["target"]
        resources = record.get("resources")
        if isinstance(resources, dict):
            for role, each in resources.items():
                yield (*where, "resources", role), role
                yield (*where, "resources", role), each


@rule("ninfer.json-number", section="1", stage="schema")
def json_number(raw: RawDirectory) -> Iterator[Fault]:
    """Real numbers in `config`, `metadata` and `provenance` are finite doubles."""
    open_values: list[tuple[Place, Any]] = [
        (("components", name, "config"), each["config"])
        for name, each in raw.entries("components").items()
    ]
    open_values += [((name,), raw.entries(name)) for name in OPTIONAL]
    for where, value in open_values:
        yield from infinite(value, where)


VALUE_RULES: Final[tuple[Rule[RawDirectory], ...]] = (
    json_number,
    file_path,
    file_bytes,
    id_text,
    object_shape,
    object_offset,
    object_bytes,
    object_divisors,
    component_values,
    proposal,
    part_range,
    use_policy,
    metadata_name,
)

PASSES: Final = (CONTAINER_RULES, MEMBER_RULES, PART_RULES, VALUE_RULES)
"""Each pass may rely on what the ones before it have judged."""

SCHEMA_RULES: Final = tuple(chain.from_iterable(PASSES))
