"""The objects of an artifact as safetensors: the bytes they are, with the directory; and back.

Owns nothing but that form: nothing is decoded, and what comes back is the same artifact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tensorark import files
from tensorark.conversion.as_zt_model import as_zt_model
from tensorark.conversion.ledger import settle
from tensorark.core.ledger import BY_ARTIFACT
from tensorark.core.model import Catalog, Part, Tensor
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.errors import InvalidInput, Rejected, Unsupported, quoted
from tensorark.files import File, PathLike
from tensorark.files.derived import DerivedFile
from tensorark.formats.ninfer.directory import Stored, directory_of
from tensorark.formats.ninfer.holdings import ATTRIBUTE
from tensorark.formats.ninfer.plan import Plan, restore
from tensorark.formats.ninfer.write import require_packed
from tensorark.formats.safetensors import SAFETENSORS
from tensorark.io.inputs import operation
from tensorark.writing.artifact import objects_payload, write_set
from tensorark.writing.assembly import require_suffix


@operation()
def export_objects(
    source: PathLike,
    target: PathLike,
    *,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write every object of an artifact as the bytes it is, under its id, with the directory.

    Nothing is decoded; `import_objects` makes the same artifact of it.

    Raises:
        InvalidInput: when `source` is no artifact, a target exists, or its suffix is that of
            another format.
        Unsupported: when bytes between objects are not zero.
    """
    with files.open(source) as file:
        require_suffix(target, ".safetensors")
        directory = directory_of(file.catalog.native, file.path)
        carried = (as_zt_model(file).catalog.attributes or {})[ATTRIBUTE]
        if not isinstance(carried, Mapping) or carried.keys() & {"gap", "strays"}:
            raise Unsupported(
                "bytes beside the objects are not zero, and safetensors has no place for them",
                code="ninfer-strays",
                path=file.path,
            )
        tensors = {}
        for row, name in enumerate(directory.ids):
            stored = directory.stored(row)
            part = Part(directory.blob(stored), "u8")
            tensors[name] = Tensor(name, (stored.nbytes,), "dense", {"data": part})
        text = json.dumps(dict(carried), ensure_ascii=False)
        catalog = Catalog("safetensors", tensors, {ATTRIBUTE: text}, None, file.catalog.files)
        # All of it is carried, in one attribute.
        options = Options(overwrite=overwrite, drop=BY_ARTIFACT, progress=progress)
        return settle(DerivedFile(file, catalog), SAFETENSORS, Path(target), options).write()


@operation()
def import_objects(
    source: PathLike,
    target: PathLike,
    *,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write the artifact of one file that `export_objects` wrote as safetensors.

    Raises:
        InvalidInput: when `source` holds none, or one whose objects were changed in size, or the
            suffix of `target` is that of another format.
        ReadFailed: when something cannot be read or written.
    """
    with files.open(source) as file:
        require_suffix(target, ".ninfer")
        planned = _carried_plan(file, Path(target).name)
        directory = planned.directory

        def data(stored: Stored) -> Iterator[memoryview]:
            part = file.catalog.tensors[stored.id].parts["data"]
            return file.chunks(part, ("objects", stored.id))

        lacking = [name for name in directory.ids if name not in file.catalog.tensors]
        if lacking:
            detail = f"the object {quoted(lacking[0])} is gone"
            raise InvalidInput(detail, code="ninfer-altered", path=file.path)
        require_packed(directory)
        objects = [directory.stored(row) for row in range(len(directory.ids))]
        return write_set(
            planned,
            objects_payload(objects, data, directory.payload_bytes),
            Path(target),
            overwrite=overwrite,
            progress=progress,
        )


def _carried_plan(file: File, entry: str) -> Plan:
    found = (file.catalog.attributes or {}).get(ATTRIBUTE)
    try:
        carried = json.loads(found) if isinstance(found, str) else {}
        text = carried["directory"].encode("utf-8")
        json_bytes, artifact_id = carried["json_bytes"], bytes.fromhex(carried["artifact_id"])
        if type(json_bytes) is not int or not len(text) <= json_bytes < 1 << 40:
            raise ValueError("no size")  # noqa: TRY301 - one way out for all that is wrong
        return restore(text, json_bytes, entry=entry, artifact_id=artifact_id)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, (InvalidInput, Rejected)):
            raise
        raise InvalidInput(
            "the file does not hold the objects of an artifact", code="not-ninfer", path=file.path
        ) from error
