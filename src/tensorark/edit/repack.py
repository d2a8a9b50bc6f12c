"""A `.zt` written anew: canonical, without the generations and blobs that nothing refers to."""

from __future__ import annotations

from collections.abc import Collection

from tensorark import files
from tensorark.conversion.pipeline import Conversion, convert
from tensorark.core.progress import Progress
from tensorark.errors import Hint, InvalidInput
from tensorark.files import PathLike
from tensorark.io.inputs import operation
from tensorark.writing.assembly import require_suffix


@operation()
def repack(
    source: PathLike,
    target: PathLike,
    *,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Conversion:
    """Write the `.zt` at `source` anew as `target`: canonical, with nothing left that is not used.

    What it does not keep is refused unless `drop` names its kind (`conversion.ledger`).

    Raises:
        InvalidInput: when `source` is no `.zt`, is split, or is `target`.
        Rejected: when it is broken, or payload does not match its digest.
        ReadFailed: when something cannot be read or written.
    """
    require_suffix(target)
    with files.open(source) as file:
        if not file.format.grows:
            raise InvalidInput(
                "only a `.zt` is repacked; `convert` writes one from any format",
                code="not-zt",
                path=file.path,
                found=file.format.title,
            )
        if file.catalog.files:
            raise InvalidInput(
                "the model is split: canonical form is one file",
                code="sharded",
                section="6.3",
                path=file.path,
                hint=Hint("merge() makes one file of it", tark="`tark merge` makes one file of it"),
            )
    return convert(source, target, format="zt", drop=drop, overwrite=overwrite, progress=progress)
