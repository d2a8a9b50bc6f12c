"""Writing NInfer artifacts from what holds one already: verbatim, never from numbers.

Owns what is passed on of an artifact, and carrying one through a `.zt` and back. A plan of the
format decides where bytes go; payload is moved in pieces.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorark.conversion.as_zt_model import ATTRIBUTE, payload_of
from tensorark.conversion.ledger import BY_ARTIFACT, Keeps
from tensorark.conversion.target import Options, Target
from tensorark.core.conversation import drive
from tensorark.core.model import Raw
from tensorark.core.rules import Reading
from tensorark.errors import (
    LimitExceeded,
    Rejected,
    Unsupported,
)
from tensorark.files import File
from tensorark.files.parameters import directory_of
from tensorark.formats.ninfer.describe import describe
from tensorark.formats.ninfer.directory import (
    Directory,
    Stored,
    StoredTensor,
    resource_tensor,
    tensor_of,
)
from tensorark.formats.ninfer.frame import HEADER_SIZE, Frame, payload_start
from tensorark.formats.ninfer.holdings import PAYLOAD, ROLE, description_of
from tensorark.formats.ninfer.payload import payload_rules
from tensorark.formats.ninfer.read import judge_directory
from tensorark.formats.ninfer.survey import gaps
from tensorark.formats.ninfer.write import replan, restore
from tensorark.layouts.ninfer.geometry import ALIGNMENT
from tensorark.writing.artifact import objects_payload, turn_of, write_set

if TYPE_CHECKING:
    from typing_extensions import Buffer


def sound_payload(file: File, directory: Directory) -> Iterator[memoryview]:
    """Yield the whole logical payload, once every object and use in it was judged.

    Raises:
        Rejected: when one breaks a rule: what a reader would refuse is not passed on.
    """
    for name in file.catalog.tensors:
        file.pass_layout(("objects", name))
    try:
        drive(payload_rules(file.catalog, Reading()), file.source)  # what is unknown is copied
    except Rejected as error:
        error.located(file.path)
        raise
    yield from payload_of(file, directory)


def refuse_strays(file: File, strays: Iterator[str]) -> None:
    """Refuse bytes of an artifact that no object holds, and that would be lost.

    Raises:
        Unsupported: for the first range of `strays`.
    """
    for name in strays:
        raise Unsupported(
            "bytes that no object holds are not zero, and would be lost",
            code="ninfer-strays",
            path=file.path,
            found=name,
            hint="a .zt keeps them",
        )


def _from_hub(file: File, target: Path, options: Options) -> list[str]:
    """Write the artifact that a `.zt` carries."""
    attribute = _attribute(file)
    text, json_bytes = attribute["directory"].encode("utf-8"), attribute["json_bytes"]
    directory = _carried_directory(file, text)
    gap, limit = attribute.get("gap", b""), options.max_shard_size
    if len(gap) not in {0, payload_start(json_bytes) - HEADER_SIZE - json_bytes}:
        raise _altered(file, (ATTRIBUTE, "gap"), "the gap before the payload has another size")
    if limit is None and len(directory.files) == 1 and options.artifact_id is None:
        planned = restore(
            text,
            json_bytes,
            entry=target.name,
            artifact_id=bytes.fromhex(attribute["artifact_id"]),
            gap=gap,
        )
    else:
        refuse_strays(file, iter(["bytes before the payload"] if gap else []))
        planned = replan(
            directory,
            entry=target.name,
            turn=turn_of(target, overwrite=options.overwrite),
            artifact_id=options.artifact_id or uuid.uuid4().bytes,
            max_file_bytes=limit,
        )
    _require_objects(file, directory)
    return write_set(
        planned,
        _carried_payload(file, directory, attribute.get("strays", [])),
        target,
        overwrite=options.overwrite,
        progress=options.progress,
    )


def _attribute(file: File) -> dict[str, Any]:
    found = (file.catalog.attributes or {}).get(ATTRIBUTE)
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
        path=file.path,
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


def _carried_directory(file: File, text: bytes) -> Directory:
    frame = Frame(size=0, json_bytes=len(text), artifact_id=bytes(16))
    try:
        return judge_directory(text, frame, Reading(), sized=False)
    except Rejected as error:
        raise _altered(file, (ATTRIBUTE, "directory"), error.detail) from error


def _require_objects(file: File, directory: Directory) -> None:
    """Require that the `.zt` still holds every object as the directory says.

    Raises:
        Unsupported: naming the first one that was changed or is gone.
        LimitExceeded: when the artifact would be made up of zeros.
    """
    require_packed(file, directory)
    described = _require_description(file, directory)
    for name in file.catalog.tensors:
        if name not in directory.rows and name != described:
            raise _altered(file, ("objects", name), "an object is not of it")
    nothing = Raw(())
    for row, name in enumerate(directory.ids):
        stored = directory.stored(row)
        wanted = (
            tensor_of(stored, nothing)
            if isinstance(stored, StoredTensor)
            else resource_tensor(stored, nothing)
        )
        if name not in file.catalog.tensors:
            raise _altered(file, ("objects", name), "an object is gone")
        found = file.catalog.tensors[name]
        part = found.parts.get("data")
        same = (
            part is not None
            and (found.shape, found.layout, part.nbytes)
            == (wanted.shape, wanted.layout, stored.nbytes)
            and (part.dtype, part.type) == (wanted.parts["data"].dtype, wanted.parts["data"].type)
        )
        if not same:
            raise _altered(file, ("objects", name), "an object was changed")


def _require_description(file: File, directory: Directory) -> str | None:
    """Require that the `.zt` describes the artifact that its attribute holds the directory of.

    Returns the name of the object that does; one that an earlier version wrote has none.

    Raises:
        Unsupported: when it describes another one.
    """
    described = description_of(file.catalog)
    if described is None:
        return None
    part, where = described.parts["data"], ("objects", described.name)
    wanted = describe(directory)
    if part.nbytes != len(wanted) or bytes(file.payload(part, where)) != wanted:
        raise _altered(file, where, "it describes another artifact than its attribute")
    return described.name


def require_packed(file: File, directory: Directory) -> None:
    """Require that few bytes belong to no object: `file` does not hold them, it only says so.

    Raises:
        LimitExceeded: when there are more than alignment and some slack need.
    """
    found = sum(length for _, length in gaps(directory))
    most = _MOST_GAPS + ALIGNMENT * len(directory.ids)
    if found > most:
        raise LimitExceeded(
            "too many bytes of the artifact belong to no object, and would be made up as zeros",
            section="5.3",
            path=file.path,
            expected=f"at most {most} bytes",
            found=found,
        )


_MOST_GAPS: Final = 64 << 20
"""Beyond what alignment takes; a small file must not become one that fills a disk."""


def _altered(file: File, where: tuple[str | int, ...], detail: str) -> Unsupported:
    return Unsupported(
        f"the .zt no longer carries the artifact: {detail}",
        code="ninfer-altered",
        path=file.path,
        where=where,
    )


def _carried_payload(file: File, directory: Directory, strays: list[Any]) -> Iterator[Buffer]:
    """Yield the logical payload: objects of the `.zt`, strays where they were, else zeros."""
    kept = dict(strays)

    def data(stored: Stored) -> Iterator[Buffer]:
        part = file.catalog.tensors[stored.id].parts["data"]
        return file.chunks(part, ("objects", stored.id, "parts", "data"))

    objects = {stored.offset: stored for stored in map(directory.stored, range(len(directory.ids)))}
    end = 0
    for offset in sorted({*objects, *kept, directory.payload_bytes}):
        if not end <= offset <= directory.payload_bytes or (offset in objects and offset in kept):
            raise _altered(file, (ATTRIBUTE, "strays"), "bytes between objects are out of place")
        yield from (bytes(min(1 << 16, offset - at)) for at in range(end, offset, 1 << 16))
        end = offset
        if offset in objects:
            stored = objects[offset]
            yield from objects_payload((replace(stored, offset=0),), data)
            end += stored.nbytes
        elif offset in kept:
            yield kept[offset]
            end += len(kept[offset])


# ------------------------------------------------------------------------------------------- target


def write(file: File, target: Path, options: Options) -> list[str]:
    """Write `file` as an artifact: a set split anew, or what a `.zt` carries."""
    if not isinstance(file.catalog.native, Directory):
        return _from_hub(file, target, options)
    directory = directory_of(file.catalog.native, file.path)
    planned = replan(
        directory,
        entry=target.name,
        turn=turn_of(target, overwrite=options.overwrite),
        artifact_id=options.artifact_id or uuid.uuid4().bytes,
        max_file_bytes=options.max_shard_size,
    )
    return write_set(
        planned,
        sound_payload(file, directory),
        target,
        overwrite=options.overwrite,
        progress=options.progress,
    )


def require(file: File, _options: Options) -> None:
    """Refuse what is neither an artifact nor a `.zt` that carries one.

    Raises:
        Unsupported: when it is neither.
    """
    if not isinstance(file.catalog.native, Directory):
        text = _attribute(file)["directory"].encode("utf-8")
        _require_objects(file, _carried_directory(file, text))


def _keeps(file: File, _path: Path, kind: str, name: str) -> bool:
    """Tell what an artifact keeps: its payload, its attributes, of a `.zt` those that carry it."""
    if kind == "gaps":
        return name.startswith(PAYLOAD)
    if ATTRIBUTE not in (file.catalog.attributes or {}):
        return True  # an artifact itself, or what is no artifact and refused as such
    if kind == "attributes":
        return name == ATTRIBUTE
    return kind == "tensor-attributes" and name.endswith((f": {ROLE}", ": divisors"))


NINFER: Final = Target(
    name="ninfer",
    suffixes=(".ninfer",),
    options=frozenset({"max_shard_size", "artifact_id"}),
    put=write,
    keeps=Keeps(BY_ARTIFACT | {"names", "shapes"}, _keeps),
    require=require,
)
