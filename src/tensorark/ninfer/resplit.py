"""An artifact in other files: split again, or joined. Payload and directory stay as they are."""

from __future__ import annotations

from pathlib import Path

from tensorark import files
from tensorark.conversion.ledger import gaps_of
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.files import PathLike
from tensorark.formats.ninfer import NINFER
from tensorark.formats.ninfer.directory import directory_of
from tensorark.formats.ninfer.write import refuse_strays
from tensorark.io.inputs import operation
from tensorark.writing.planned import write


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
    options = Options(
        overwrite=overwrite,
        max_shard_size=max_file_bytes,
        artifact_id=artifact_id,
        progress=progress,
    )
    with files.open(source) as file:
        directory_of(file.catalog.native, file.path)
        refuse_strays(gaps_of(file, "bytes "), file.path)
        return write(file, Path(target), NINFER, options)
