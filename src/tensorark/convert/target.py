"""What a target of a conversion is: a value with a name, its suffixes, and how to write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensorark.api import File

Progress = Callable[[int], None]
"""Called with the number of payload bytes that have just passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller may choose; a target refuses options that do not fit it.

    `align` is the placement of blobs in a `.zt`, a multiple of 4096, None for canonical form;
    `max_shard_size` the most bytes of one file of a shard set, None for a single file.
    """

    overwrite: bool = False
    align: int | None = None
    max_shard_size: int | None = None
    progress: Progress = lambda _done: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A format that is written: `options` names the options it takes beside `overwrite`.

    `write` writes an opened model to a path and returns the files it made. It refuses what the
    format cannot hold before the first byte, and publishes everything or nothing.
    """

    name: str
    suffixes: tuple[str, ...]
    options: frozenset[str]
    write: Callable[[File, Path, Options], list[str]]
