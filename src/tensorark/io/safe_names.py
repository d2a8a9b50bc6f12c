"""The one function that turns a name found in a file into a path.

Owns the rule that a file may name only its neighbors. Must never open anything; whoever swaps a
link between this check and the open owns the folder anyway.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from tensorark.errors import ReadFailed, Rejected, Unsupported, quoted

# What Windows takes for something else: a drive or a stream, or a name without its end.
_NOT_ON_WINDOWS: Final = re.compile(r":|[. ]\Z")


def beside(directory: str | os.PathLike[str], name: str) -> Path:
    """Return the path of the file `name` in `directory`, whether or not it exists.

    `directory` is the folder in which the naming file was opened, before links are followed. A link
    may lead to another place inside the folder, or into the ``blobs`` of a Hugging Face cache when
    the folder is one of its snapshots.

    Raises:
        Rejected: when `name` is not a single step of a path (code ``unsafe-name``).
        Unsupported: when this system has no file of that name (code ``file-name``).
        ReadFailed: when a link leads out of the folder (code ``unsafe-link``).
    """
    if not _is_plain(name):
        raise Rejected(
            f"{quoted(name)} is not the name of a file in the same folder", code="unsafe-name"
        )
    if os.name == "nt" and _NOT_ON_WINDOWS.search(name):
        raise Unsupported(
            f"Windows has no file {quoted(name)}", code="file-name", path=str(directory)
        )
    path = Path(directory) / name
    try:
        home = os.path.realpath(directory)
        target = os.path.realpath(path)
    except (OSError, ValueError) as error:
        raise ReadFailed(f"cannot look up {quoted(name)}: {error}", path=str(directory)) from error
    if not (_inside(target, home) or _in_cache(target, home)):
        raise ReadFailed(
            f"the link {quoted(name)} leads out of its folder",
            code="unsafe-link",
            path=str(directory),
            hint="put the file itself into the folder",
        )
    return path


def below(directory: str | os.PathLike[str], name: str) -> Path:
    """Return the path of the file `name` below `directory`, step by step as `beside` does.

    Raises:
        Rejected: when a step of `name` is no plain file name (code ``unsafe-name``).
        ReadFailed: when a link leads out of its folder (code ``unsafe-link``).
    """
    path = Path(directory)
    for step in name.split("/"):
        path = beside(path, step)
    return path


def _is_plain(name: str) -> bool:
    """Tell whether `name` is one step of a path, as `.ninfer` §3.3 has it for every format."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return name not in {"", ".", ".."} and not set(name) & {"/", "\\", "\0"}


def _inside(target: str, home: str) -> bool:
    return target.startswith(home.rstrip(os.sep) + os.sep)


def _in_cache(target: str, home: str) -> bool:
    """Say whether `home` is <cache>/snapshots/<revision>[/…] and `target` is <cache>/blobs/<hash>.

    Both are real paths, so a ``blobs`` that is itself a link elsewhere does not pass.
    """
    parts = Path(home).parts
    caches = (Path(*parts[:at]) for at in range(1, len(parts) - 1) if parts[at] == "snapshots")
    return any(Path(target).parent == cache / "blobs" for cache in caches)
