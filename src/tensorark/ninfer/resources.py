"""The resources of an artifact: found by component and role, read, and exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorark import files
from tensorark.conversion.ledger import gaps_of
from tensorark.core.model import Part
from tensorark.core.progress import Progress
from tensorark.errors import InvalidInput, NotFound, Unsupported, quoted
from tensorark.files import File, PathLike
from tensorark.formats.ninfer.directory import Directory, Stored, StoredResource, directory_of
from tensorark.formats.ninfer.plan import payload_size
from tensorark.formats.ninfer.write import refuse_strays
from tensorark.io.inputs import operation
from tensorark.layouts.ninfer.geometry import ALIGNMENT, align_up
from tensorark.writing.artifact import objects_payload, plan_set, write_set
from tensorark.writing.assembly import require_suffix

if TYPE_CHECKING:
    from typing_extensions import Buffer


def resources(directory: Directory) -> dict[tuple[str, str], StoredResource]:
    """Return the resource objects of an artifact by component and role."""
    found = {}
    for component, each in directory.components.items():
        for role, name in each.resources.items():
            stored = directory.object(name)
            if isinstance(stored, StoredResource):
                found[component, role] = stored
    return found


def resource_at(directory: Directory, role: str) -> tuple[str, str]:
    """Return component and role of ``<role>`` or ``<component>/<role>``.

    Raises:
        NotFound: when there is none.
        InvalidInput: when several components have that role.
    """
    known = resources(directory)
    matches = [key for key in known if role in {key[1], "/".join(key)}]
    if not matches:
        raise NotFound(
            "no such resource",
            code="no-resource",
            where=("components",),
            expected="one of " + " ".join("/".join(key) for key in known) if known else "none",
            found=quoted(role),
        )
    if len(matches) > 1:
        raise InvalidInput(
            "several components have a resource of this role: name one",
            code="resource",
            expected=" ".join("/".join(key) for key in matches),
            found=quoted(role),
        )
    return matches[0]


def read_resource(file: File, role: str) -> bytes:
    """Return the bytes of a resource, named by ``<role>`` or ``<component>/<role>``.

    Raises:
        NotFound: when there is none.
        Unsupported: when it is stored under an unknown encoding.
    """
    directory = directory_of(file.catalog.native, file.path)
    stored = resources(directory)[resource_at(directory, role)]
    if stored.encoding != "raw_bytes_v1":
        raise Unsupported(
            "the encoding of the resource is unknown",
            code="unknown-encoding",
            section="6.2",
            where=("objects", stored.id, "encoding"),
            expected="raw_bytes_v1",
            found=stored.encoding,
        )
    return bytes(file.payload(Part(directory.blob(stored), "u8"), ("objects", stored.id)))


@operation()
def replace_resources(
    source: PathLike,
    target: PathLike,
    replacements: Mapping[str, bytes],
    *,
    max_file_bytes: int | None = None,
    artifact_id: bytes | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write the artifact at `source` with other bytes for some resources, named as in `resources`.

    The bytes of every other object are copied as they are, and objects keep their order; they are
    placed anew. A resource that serves other roles as well stays there for them, and the new one
    gets an id of its own.

    Raises:
        NotFound: when there is no such resource.
        InvalidInput: when a replacement is empty, or as `resplit` does.
        Unsupported: when bytes that no object holds are not zero.
    """
    with files.open(source) as file:
        require_suffix(target, ".ninfer")
        directory = directory_of(file.catalog.native, file.path)
        refuse_strays(gaps_of(file), file.path)
        members, objects, fresh = _replace(directory, replacements)
        planned = plan_set(
            members,
            payload_size(objects),
            Path(target),
            artifact_id=artifact_id,
            max_file_bytes=max_file_bytes,
            overwrite=overwrite,
        )

        def data(stored: Stored) -> Iterator[Buffer]:
            if stored.id in fresh:
                return iter((fresh[stored.id],))
            old = directory.object(stored.id)
            return file.chunks(Part(directory.blob(old), "u8"), ("objects", old.id))

        return write_set(
            planned,
            objects_payload(objects, data),
            Path(target),
            overwrite=overwrite,
            progress=progress,
        )


def _replace(
    directory: Directory, replacements: Mapping[str, bytes]
) -> tuple[dict[str, Any], list[Stored], dict[str, bytes]]:
    """Return the new directory, its objects as placed, and the new bytes by object."""
    wanted = {resource_at(directory, role): data for role, data in replacements.items()}
    records = [dict(each) for each in directory.root["objects"]]
    components = {
        name: {**each, "resources": dict(each["resources"])} if "resources" in each else each
        for name, each in directory.root["components"].items()
    }
    fresh: dict[str, bytes] = {}
    for (component, role), data in wanted.items():
        if not data:
            detail = "a resource has at least one byte"
            raise InvalidInput(detail, section="5.2", where=("components", component, role))
        name = components[component]["resources"][role]
        users = sum(
            [*other.get("resources", {}).values()].count(name) for other in components.values()
        )
        if users > 1:
            new = _free(f"resource/{component}/{role}", {each["id"] for each in records})
            at = next(index for index, each in enumerate(records) if each["id"] == name)
            records.insert(at + 1, {**records[at], "id": new})
            components[component]["resources"][role] = name = new
        fresh[name] = data
    objects = _place_anew(records, fresh)
    return {**directory.root, "components": components, "objects": records}, objects, fresh


def _free(name: str, taken: set[str]) -> str:
    """Return `name`, or the first of its variants that is not taken."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return found


def _place_anew(records: list[dict[str, Any]], fresh: Mapping[str, bytes]) -> list[Stored]:
    """Place objects one after the other in their order, rewriting offset and size in `records`."""
    placed: list[Stored] = []
    end = 0
    for record in records:
        size = len(fresh[record["id"]]) if record["id"] in fresh else record["bytes"]
        offset = align_up(end, ALIGNMENT) if record["kind"] == "tensor" else end
        record["offset"], record["bytes"] = offset, size
        # Only id and place are used from here on: what the object is stays in its record.
        placed.append(StoredResource(id=record["id"], encoding="", offset=offset, nbytes=size))
        end = offset + size
    return placed
