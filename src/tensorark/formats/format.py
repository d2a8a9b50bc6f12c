"""What a format is: a value with a name, a way to recognise it, a conversation, and its rules.

Formats never import each other, never read files and never import numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorark.core.conversation import Steps
from tensorark.core.model import Catalog
from tensorark.core.rules import Reading, Rule

SizeOf = Callable[[str | None], int]
"""Size in bytes of the opened file (None) or of the file labelled so; raises `ReadFailed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A container format.

    `sniff(head, tail, size)` says whether a file with these first `head` bytes, last 64 bytes and
    size is meant to be one; it is total and never raises. `read` is the conversation that opens it.
    `judge`, where a format defers rules about a tensor until it is interpreted, judges one by name.
    `crc`, where a format keeps one over more than the payload, gives the CRC-32 of a tensor by
    name, and that of what comes before its payload, or None.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Callable[[bytes, bytes, int], bool]
    read: Callable[[SizeOf, Reading], Steps[Catalog]]
    rules: tuple[Rule[Any], ...]
    judge: Callable[[Catalog, str, Reading], None] | None = None
    crc: Callable[[Catalog, str], tuple[int, int] | None] | None = None
    head: int = 64
