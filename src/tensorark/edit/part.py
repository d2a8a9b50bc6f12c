"""A model divided into containers of a largest size, each a model of its own."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tensorark import files
from tensorark.conversion.ledger import settle
from tensorark.conversion.pipeline import target_of
from tensorark.core.model import NORMAL, Catalog
from tensorark.core.progress import Progress
from tensorark.core.writing import Options
from tensorark.edit.account import Mended, write
from tensorark.edit.tensorbit_config import without_order
from tensorark.errors import InvalidInput, quoted
from tensorark.files import File, PathLike
from tensorark.files.derived import DerivedFile
from tensorark.formats.tensorbit.frame import HEADER_SIZE
from tensorark.io.inputs import operation


@operation()
def part(
    source: PathLike,
    target: PathLike,
    max_bytes: int,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    align: int | None = None,
    drop: Collection[str] = (),
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[Mended]:
    """Divide a model into containers of at most `max_bytes` bytes of blobs each, in order.

    They are named ``<stem>-00001-of-00003.tbm`` and so on, and each is a model of its own; with the
    `format` ``tensorbit-directory`` they are directories, named the same without a suffix. What
    they do not keep is refused unless `drop` names its kind (`conversion.ledger`).

    Raises:
        InvalidInput: when a tensor does not fit into one, or the format takes no `align`.
        Unsupported: when something would be lost, or the target cannot hold a tensor.
    """
    goal = Path(target)
    kind = target_of(goal, format)
    if align is not None and "align" not in kind.options:
        raise InvalidInput(f"{kind.name} takes no align", code="option", found=align)
    with files.open(source) as file:
        options = Options(overwrite=overwrite, align=align, drop=frozenset(drop), progress=progress)
        groups = _divide(file, max_bytes)
        pieces = []
        for number, names in enumerate(groups, start=1):
            name = f"{goal.stem}-{number:05}-of-{len(groups):05}{goal.suffix}"
            chosen = {each: file.catalog.tensors[each] for each in names}
            attributes = without_order(file.catalog.attributes)
            piece = DerivedFile(file, Catalog(NORMAL, chosen, attributes, None))
            pieces.append(settle(piece, kind, goal.with_name(name), options))
        return [write(each) for each in pieces]


def _divide(file: File, max_bytes: int) -> list[list[str]]:
    """Divide the names of tensors, in order, so that no group has more bytes than it may."""
    groups: list[list[str]] = [[]]
    used = 0
    for name, tensor in file.catalog.tensors.items():
        size = HEADER_SIZE + tensor.nbytes
        if size > max_bytes:
            raise InvalidInput(
                f"{quoted(name)} does not fit into one container",
                code="max-bytes",
                where=("objects", name),
                expected=f"at least {size} bytes",
                found=max_bytes,
            )
        if groups[-1] and used + size > max_bytes:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += size
    return groups
