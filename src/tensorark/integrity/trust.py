"""What whoever signs or verifies vouches for, so that it is not computed anew."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tensorark.errors import Rejected, quoted
from tensorark.files import PathLike
from tensorark.io.open_file import read_bytes

Known = Mapping[str, str]
"""sha256 digests that the caller vouches for, in hexadecimal, by file name."""

NOTHING: Final[Known] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Trust:
    """What is taken as given: the sha256 digests that a `.zt` gives, and those of files."""

    digests: bool
    known: Known


def read_sums(path: PathLike) -> dict[str, str]:
    """Read the digests that ``sha256sum`` writes, by file name, for `known`.

    Raises:
        Rejected: when a line is anything else.
    """
    found: dict[str, str] = {}
    for line in read_bytes(path).decode("utf-8", "surrogateescape").splitlines():
        match = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        if match is None or found.setdefault(match[2], match[1]) != match[1]:
            raise Rejected(
                "a line is none that sha256sum writes, or gives a name twice",
                code="known",
                path=os.fspath(path),
                found=quoted(line),
            )
    return found
