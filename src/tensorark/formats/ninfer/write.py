"""Writing NInfer artifacts from what holds one already: verbatim, never from numbers.

Owns what is passed on of an artifact, and carrying one through a `.zt` and back. A plan decides
where bytes go; the payload goes on from file to file.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final, TypeVar

from tensorark.core.model import Catalog, Part, Raw
from tensorark.core.rules import Reading
from tensorark.core.writing import (
    Copy,
    Goal,
    Judge,
    Options,
    Output,
    Outputs,
    Read,
    Skip,
    Word,
    Writing,
)
from tensorark.errors import LimitExceeded, Rejected, Unsupported
from tensorark.formats.ninfer.describe import describe
from tensorark.formats.ninfer.directory import (
    Directory,
    StoredTensor,
    resource_tensor,
    tensor_of,
)
from tensorark.formats.ninfer.frame import HEADER_SIZE, Frame, payload_start
from tensorark.formats.ninfer.holdings import ATTRIBUTE, PAYLOAD, ROLE, description_of
from tensorark.formats.ninfer.plan import Plan, replan, restore
from tensorark.formats.ninfer.read import judge_directory
from tensorark.formats.ninfer.survey import gaps
from tensorark.layouts.ninfer.geometry import ALIGNMENT

T = TypeVar("T")
Asking = Generator[Word, Any, T]


def write(catalog: Catalog, options: Options, goal: Goal) -> Writing:
    """Write an artifact: a set split anew, or what a `.zt` carries.

    Raises:
        Unsupported: when the model is neither an artifact nor a `.zt` that carries one.
    """
    if isinstance(catalog.native, Directory):
        return _write_again(catalog.native, options, goal)
    return _write_carried(catalog, options, goal)


def _write_again(directory: Directory, options: Options, goal: Goal) -> Writing:
    """Write an artifact in other files: its payload, gaps included, and its directory as is."""
    yield outputs_of(_replan(directory, options, goal))
    yield Judge()
    spans = directory.address.spans(0, directory.payload_bytes)
    yield Copy(Part(Raw(tuple(spans)), "u8"), hashed=False)


def _replan(directory: Directory, options: Options, goal: Goal) -> Plan:
    return replan(
        directory,
        entry=goal.name,
        turn=goal.turn,
        artifact_id=options.artifact_id or goal.nonce,
        max_file_bytes=options.max_shard_size,
    )


def outputs_of(plan: Plan) -> Outputs:
    """Return the files of a plan: an entry, and its continuations beside it."""
    files = [
        Output(each.name, each.head, each.payload_bytes, judged=number == 0)
        for number, each in enumerate(plan.files)
    ]
    entry = plan.files[0].name
    owns = re.escape(entry) + r"(\.r[1-9][0-9]*)?\.part-[0-9]{4,}"
    return Outputs(tuple(files), entry, kind="set", owns=owns)


# -------------------------------------------------------------------------- through a .zt and back


def _write_carried(catalog: Catalog, options: Options, goal: Goal) -> Writing:
    """Write the artifact that a `.zt` carries."""
    attribute = _attribute(catalog)
    text, json_bytes = attribute["directory"].encode("utf-8"), attribute["json_bytes"]
    directory = _carried_directory(text)
    gap, limit = attribute.get("gap", b""), options.max_shard_size
    if len(gap) not in {0, payload_start(json_bytes) - HEADER_SIZE - json_bytes}:
        raise _alteration((ATTRIBUTE, "gap"), "the gap before the payload has another size")
    if limit is None and len(directory.files) == 1 and options.artifact_id is None:
        planned = restore(
            text,
            json_bytes,
            entry=goal.name,
            artifact_id=bytes.fromhex(attribute["artifact_id"]),
            gap=gap,
        )
    else:
        refuse_strays(iter(["bytes before the payload"] if gap else []))
        planned = _replan(directory, options, goal)
    yield from _require_objects(catalog, directory)
    yield outputs_of(planned)
    yield from _carried_payload(catalog, directory, attribute.get("strays", []))


def refuse_strays(strays: Iterator[str], path: str | None = None) -> None:
    """Refuse bytes of an artifact that no object holds, and that would be lost.

    Raises:
        Unsupported: for the first range of `strays`.
    """
    for name in strays:
        raise Unsupported(
            "bytes that no object holds are not zero, and would be lost",
            code="ninfer-strays",
            path=path,
            found=name,
            hint="a .zt keeps them",
        )


def _attribute(catalog: Catalog) -> dict[str, Any]:
    found = (catalog.attributes or {}).get(ATTRIBUTE)
    if isinstance(found, Mapping):
        whole = dict(found)
        sound = (
            isinstance(whole.get("directory"), str)
            and type(whole.get("json_bytes")) is int
            and 0 < whole["json_bytes"] < 1 << 40
            and _is_id(whole.get("artifact_id"))
            and isinstance(whole.get("gap", b""), bytes)
            and _are_strays(whole.get("strays", []))
        )
        if sound:
            return whole
    raise Unsupported(
        "a .ninfer is written from an artifact, or from a .zt that carries one",
        code="refused",
        hint="a checkpoint needs a recipe that says which parameter gets which format",
    )


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and len(bytes.fromhex(value)) == 16
    except ValueError:
        return False


def _are_strays(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list)
        and len(each) == 2
        and type(each[0]) is int
        and isinstance(each[1], bytes)
        for each in value
    )


def _carried_directory(text: bytes) -> Directory:
    frame = Frame(size=0, json_bytes=len(text), artifact_id=bytes(16))
    try:
        return judge_directory(text, frame, Reading(), sized=False)
    except Rejected as error:
        raise _alteration((ATTRIBUTE, "directory"), error.detail) from error


def _require_objects(catalog: Catalog, directory: Directory) -> Asking[None]:
    """Require that the `.zt` still holds every object as the directory says.

    Raises:
        Unsupported: naming the first one that was changed or is gone.
        LimitExceeded: when the artifact would be made up of zeros.
    """
    require_packed(directory)
    described = yield from _require_description(catalog, directory)
    for name in catalog.tensors:
        if name not in directory.rows and name != described:
            raise _alteration(("objects", name), "an object is not of it")
    nothing = Raw(())
    for row, name in enumerate(directory.ids):
        stored = directory.stored(row)
        wanted = (
            tensor_of(stored, nothing)
            if isinstance(stored, StoredTensor)
            else resource_tensor(stored, nothing)
        )
        if name not in catalog.tensors:
            raise _alteration(("objects", name), "an object is gone")
        found = catalog.tensors[name]
        part = found.parts.get("data")
        same = (
            part is not None
            and (found.shape, found.layout, part.nbytes)
            == (wanted.shape, wanted.layout, stored.nbytes)
            and (part.dtype, part.type) == (wanted.parts["data"].dtype, wanted.parts["data"].type)
        )
        if not same:
            raise _alteration(("objects", name), "an object was changed")


def _require_description(catalog: Catalog, directory: Directory) -> Asking[str | None]:
    """Require that the `.zt` describes the artifact that its attribute holds the directory of.

    Returns the name of the object that does; one that an earlier version wrote has none.

    Raises:
        Unsupported: when it describes another one.
    """
    described = description_of(catalog)
    if described is None:
        return None
    part, where = described.parts["data"], ("objects", described.name)
    wanted = describe(directory)
    if part.nbytes != len(wanted) or bytes((yield Read(part, where))) != wanted:
        raise _alteration(where, "it describes another artifact than its attribute")
    return described.name


def require_packed(directory: Directory) -> None:
    """Require that few bytes belong to no object: no file holds them, it is only said so.

    Raises:
        LimitExceeded: when there are more than alignment and some slack need.
    """
    found = sum(length for _, length in gaps(directory))
    most = _MOST_GAPS + ALIGNMENT * len(directory.ids)
    if found > most:
        raise LimitExceeded(
            "too many bytes of the artifact belong to no object, and would be made up as zeros",
            section="5.3",
            expected=f"at most {most} bytes",
            found=found,
        )


_MOST_GAPS: Final = 64 << 20
"""Beyond what alignment takes; a small file must not become one that fills a disk."""


def _alteration(where: tuple[str | int, ...], detail: str) -> Unsupported:
    return Unsupported(
        f"the .zt no longer carries the artifact: {detail}",
        code="ninfer-altered",
        where=where,
    )


def _carried_payload(catalog: Catalog, directory: Directory, strays: list[Any]) -> Writing:
    """Write the logical payload: objects of the `.zt`, strays where they were, else zeros."""
    kept = dict(strays)
    objects = {stored.offset: stored for stored in map(directory.stored, range(len(directory.ids)))}
    end = 0
    for offset in sorted({*objects, *kept, directory.payload_bytes}):
        if not end <= offset <= directory.payload_bytes or (offset in objects and offset in kept):
            raise _alteration((ATTRIBUTE, "strays"), "bytes between objects are out of place")
        yield Skip(offset - end)
        end = offset
        if offset in objects:
            stored = objects[offset]
            where = ("objects", stored.id, "parts", "data")
            yield Copy(catalog.tensors[stored.id].parts["data"], where, hashed=False)
            end += stored.nbytes
        elif offset in kept:
            yield kept[offset]
            end += len(kept[offset])


def keeps(catalog: Catalog, _stem: str, kind: str, name: str) -> bool:
    """Tell what an artifact keeps: its payload, its attributes, of a `.zt` those that carry it."""
    if kind == "gaps":
        return name.startswith(PAYLOAD)
    if ATTRIBUTE not in (catalog.attributes or {}):
        return True  # an artifact itself, or what is no artifact and refused as such
    if kind == "attributes":
        return name == ATTRIBUTE
    return kind == "tensor-attributes" and name.endswith((f": {ROLE}", ": divisors"))
