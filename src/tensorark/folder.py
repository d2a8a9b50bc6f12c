"""What models a folder holds: files, shard sets under their index, and blobs without one.

Looks at names only; what the files are is found out when they are opened.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tensorark.errors import InvalidInput, ReadFailed, printable
from tensorark.formats import FORMATS

_log = logging.getLogger("tensorark")

_INDEX_SUFFIX: Final = ".index.json"


def entry_of(folder: str | os.PathLike[str]) -> str:
    """Return the one model in a folder: its shard index if there is one, else its only file.

    Raises:
        InvalidInput: when there is none, or more than one to choose from.
    """
    found = entries_of(folder)
    indexes = [each for each in found if each.endswith(_INDEX_SUFFIX)]
    if len(indexes) == 1 and len(found) > 1:
        strays = ", ".join(Path(each).name for each in found if each not in indexes)
        words = printable(f"{os.fspath(folder)}: the index is read; beside it lie {strays}")
        _log.warning("%s", words)
    chosen = indexes if len(indexes) == 1 else found
    if len(chosen) == 1:
        return chosen[0]
    raise InvalidInput(
        "the folder holds more than one model: name one" if found else "the folder holds no model",
        code="folder",
        path=os.fspath(folder),
        found=", ".join(Path(each).name for each in found[:6]) or None,
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
    models = models_of([name for name in names if name.endswith(suffixes)])
    indexes = [name for name in models if name.endswith(_INDEX_SUFFIX)]
    stems = [name.removesuffix(_INDEX_SUFFIX) for name in indexes]
    shards = _shards_of(models, stems)
    return [str(Path(folder) / name) for name in models if name not in shards]


def _shards_of(names: Sequence[str], indexes: Sequence[str]) -> set[str]:
    """Return the names that are shards of others: ``<stem>-00001-of-00002.<suffix>``."""
    found = set()
    for name in names:
        match = re.fullmatch(r"(.+)-\d{5}-of-\d{5}(\.\w+)", name)
        if match and (match[1] + match[2] in indexes or match[1] + match[2] in names):
            found.add(name)
    return found
