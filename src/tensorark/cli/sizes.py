"""What models and files take: payload, sizes, bytes that the disk holds, and holes of a `.zt`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tensorark import files
from tensorark.files import PathLike
from tensorark.report.text import nbytes_text

_BLOCK: Final = 512
"""Bytes of the unit in which systems count what a file takes."""
_WORTH: Final = 1 << 20
"""Bytes of holes that are worth a word."""


def payload_of(model: PathLike) -> int:
    """Return the bytes of all tensors of a model: what a verb that reads them all counts up to."""
    with files.open(model) as file:
        return sum(tensor.nbytes for tensor in file.catalog.tensors.values())


def sizes_of(paths: Sequence[str]) -> dict[str, Any]:
    """Return the bytes of files, and those that the disk holds: None where nobody can tell."""
    found = [Path(each).stat() for each in paths if Path(each).is_file()]
    blocks = [getattr(each, "st_blocks", None) for each in found]
    known = [each * _BLOCK for each in blocks if each is not None]
    return {
        "file_bytes": sum(each.st_size for each in found),
        "disk_bytes": sum(known) if len(known) == len(found) else None,
    }


def sizes_text(sizes: dict[str, Any]) -> str:
    """Write sizes shortly: ``125.3 MiB (8.2 MiB on disk)``."""
    whole, held = sizes["file_bytes"], sizes["disk_bytes"]
    text = nbytes_text(whole)
    return text if held is None or held >= whole else f"{text} ({nbytes_text(held)} on disk)"


def holes_note(sizes: dict[str, Any], payload: int) -> str:
    """Name the option that leaves smaller holes, where most of a canonical file is holes."""
    holes = sizes["file_bytes"] - payload
    if holes < max(_WORTH, payload):
        return ""
    return (
        f"note: canonical form begins each tensor at a multiple of 64 KiB, so {nbytes_text(holes)} "
        f"of the file are holes; --compact makes it smaller, and not canonical"
    )
