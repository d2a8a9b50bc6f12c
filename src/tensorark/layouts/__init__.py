"""The layouts that are interpreted, a folder each, and their one table.

In the folder of a layout `rules` judges what metadata says of an object and exports a `LAYOUT`;
`values` turns its parts into numbers and exports `VALUES`, loaded when a tensor is read; `make`
lays arrays out in its parts. Of these `rules` alone is loaded here, so that nothing needs numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from tensorark.layouts.layout import AnyLayout

_FOLDERS: Final = (
    "dense",
    "csr",
    "coo",
    "quant",
    "mx",
    "gguf",
    "affine",
    "nm",
    "ninfer",
)

LAYOUTS: Final[Mapping[str, AnyLayout]] = MappingProxyType(
    {folder: import_module(f"{__name__}.{folder}.rules").LAYOUT for folder in _FOLDERS}
)
"""The layouts by folder, in the order in which a file is judged by them."""

_FOLDER_OF: Final = {
    id_: folder
    for folder, layout in LAYOUTS.items()
    if layout.pattern is None
    for id_ in layout.members or (layout.id,)
}
_PATTERNS: Final = [
    (layout.pattern, folder) for folder, layout in LAYOUTS.items() if layout.pattern is not None
]

IDS: Final = (*_FOLDER_OF, *(layout.id for layout in LAYOUTS.values() if layout.pattern))
"""The ids that are known; for a family whose members are not listed, what stands for them."""


def folder_of(id_: str) -> str | None:
    """Return the folder of a layout; None where it is unknown."""
    found = _FOLDER_OF.get(id_)
    if found is None:
        return next((folder for pattern, folder in _PATTERNS if pattern.fullmatch(id_)), None)
    return found


def layout_of(id_: str) -> AnyLayout | None:
    """Return the layout with this id; None where it is unknown."""
    folder = folder_of(id_)
    return None if folder is None else LAYOUTS[folder]
