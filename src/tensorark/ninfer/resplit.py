"""An artifact in other files: split again, or joined. Payload and directory stay as they are."""

from __future__ import annotations

import uuid
from pathlib import Path

from tensorark import files
from tensorark.conversion.ledger import gaps_of
from tensorark.conversion.ninfer import refuse_strays, sound_payload
from tensorark.core.progress import Progress
from tensorark.files import PathLike
from tensorark.files.parameters import directory_of
from tensorark.formats.ninfer.write import replan
from tensorark.io.inputs import operation
from tensorark.writing.artifact import turn_of, write_set


@operation()
def resplit(
    source: PathLike,
    target: PathLike,
    *,
    max_file_bytes: int | None = None,
    artifact_id: bytes | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write the artifact at `source` again in files of at most `max_file_bytes`, or in one.

    Payload, gaps included, and directory are copied as they are but for the files table; the set
    gets a new id. Returns the names of the files, the entry first.

    Raises:
        InvalidInput: when `source` is no artifact, the limit leaves no room, or a target exists.
        Unsupported: when bytes before the payload are not zero.
        Rejected: when a continuation is not the one that is meant.
        ReadFailed: when a continuation is missing.
    """
    with files.open(source) as file:
        directory = directory_of(file.catalog.native, file.path)
        refuse_strays(file, gaps_of(file, "bytes "))
        planned = replan(
            directory,
            entry=Path(target).name,
            turn=turn_of(Path(target), overwrite=overwrite),
            artifact_id=artifact_id or uuid.uuid4().bytes,
            max_file_bytes=max_file_bytes,
        )
        return write_set(
            planned,
            sound_payload(file, directory),
            Path(target),
            overwrite=overwrite,
            progress=progress,
        )
