"""What models a folder holds: files, shard sets under their index, and blobs without one.

Which files an index makes one model of is what it says, however it and they are called; a file that
calls itself one of several is no model of its own. What else the files are is found out when they
are opened.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tensorark.core.limits import DEFAULT
from tensorark.core.model import Span
from tensorark.errors import Error, InvalidInput, ReadFailed, printable
from tensorark.formats import FORMATS
from tensorark.io.open_file import OpenFile

_log = logging.getLogger("tensorark")

_INDEX: Final = re.compile(r".+\.index(\.[\w-]+)?\.json")
_PIECE: Final = re.compile(
    r"(?P<stem>.*?)(?P<before>[-._]?)(?P<at>(?<![0-9])[0-9]+)(?P<of>[-_]of[-_])(?P<count>[0-9]+)"
    r"(?P<after>(?![0-9]).*\.safetensors)",
    re.IGNORECASE,
)
_SHOWN: Final = 6


def entry_of(folder: str | os.PathLike[str]) -> str:
    """Return the one model in a folder: its shard index if there is one, else its only file.

    Raises:
        InvalidInput: when there is none, or more than one to choose from.
    """
    found = entries_of(folder)
    indexes = [each for each in found if _INDEX.fullmatch(Path(each).name)]
    if len(indexes) == 1 and len(found) > 1:
        strays = ", ".join(Path(each).name for each in found if each not in indexes)
        words = printable(f"{os.fspath(folder)}: the index is read; beside it lie {strays}")
        _log.warning("%s", words)
    chosen = indexes if len(indexes) == 1 else found
    if chosen and all(map(piece_of, chosen)):
        raise _incomplete(chosen[0])
    if len(chosen) == 1:
        return chosen[0]
    raise InvalidInput(
        "the folder holds more than one model: name one" if found else "the folder holds no model",
        code="folder",
        path=os.fspath(folder),
        found=", ".join(Path(each).name for each in found[:_SHOWN]) or None,
    )


def members_of(folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of the blobs of a folder that holds several and no file that lists them."""
    from tensorark.formats.tensorbit import BLOB_SUFFIX

    found = [Path(each).name for each in entries_of(folder)]
    is_bare = len(found) > 1 and all(name.endswith(BLOB_SUFFIX) for name in found)
    return tuple(found) if is_bare else ()


def entries_of(folder: str | os.PathLike[str]) -> list[str]:
    """Return the models in a folder by name; the shards that an index lists are left out."""
    from tensorark.formats.tensorbit import models_of

    suffixes = tuple(suffix for each in FORMATS for suffix in each.suffixes)
    try:
        names = sorted(each.name for each in Path(folder).iterdir() if each.is_file())
    except OSError as error:
        raise ReadFailed(error.strerror or str(error), path=os.fspath(folder)) from error
    indexes = [name for name in names if _INDEX.fullmatch(name)]
    models = models_of([name for name in names if name.endswith(suffixes) or name in indexes])
    shards = _shards_of(models)
    for name in indexes:
        shards |= _index_members(Path(folder, name), names)
    return [str(Path(folder) / name) for name in models if name not in shards]


def _shards_of(names: Sequence[str]) -> set[str]:
    """Return the names that are shards of others: ``<stem>-00001-of-00002.<suffix>``."""
    found = set()
    for name in names:
        match = re.fullmatch(r"(.+)-\d{5}-of-\d{5}(\.\w+)", name)
        if match and match[1] + match[2] in names:
            found.add(name)
    return found


def _index_members(index: Path, names: Sequence[str]) -> set[str]:
    """Return the files that an index makes one model of; by its name where it cannot be read."""
    from tensorark.formats.safetensors import list_shards

    try:
        opened = OpenFile(index, mapped=False)
        return set(list_shards(bytes(opened.view(Span(0, min(opened.size, DEFAULT.index_file))))))
    except Error:
        stem = index.name.partition(".safetensors")[0]
        return {
            name for name in names if (match := _PIECE.fullmatch(name)) and match["stem"] == stem
        }


def piece_of(path: str | os.PathLike[str]) -> int:
    """Return of how many files a safetensors file calls itself one; 0 for a model of its own."""
    match = _PIECE.fullmatch(Path(path).name)
    return int(match["count"]) if match and int(match["count"]) > 1 else 0


def require_whole(path: str | os.PathLike[str]) -> None:
    """Require a safetensors file to be a model, and not one shard of several.

    Raises:
        ReadFailed: when its name says that there are more (code ``missing-shard``).
    """
    if piece_of(path):
        raise _incomplete(path)


def _incomplete(path: str | os.PathLike[str]) -> ReadFailed:
    """Describe a file that is one of several, and say which of them are not there."""
    name = Path(path).name
    match = _PIECE.fullmatch(name)
    assert match is not None  # noqa: S101 - `piece_of` has told
    count, width = int(match["count"]), len(match["at"])
    start, end = match.span("at")
    others = (f"{name[:start]}{at:0{width}}{name[end:]}" for at in _first(count))
    missing = [each for each in others if not Path(path).with_name(each).is_file()]
    return ReadFailed(
        f"the file is one of {count} shards, and not a model by itself",
        code="missing-shard",
        path=os.fspath(path),
        expected="the index that names them all",
        found=f"without {', '.join(missing[:_SHOWN])}" if missing else "no index was opened",
        hint="open the index of the set; a file that is a model of its own has another name",
    )


def _first(count: int) -> range:
    return range(1, min(count, 10_000) + 1)
