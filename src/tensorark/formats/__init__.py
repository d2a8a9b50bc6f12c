"""The formats that are read, in order of recognition; each loaded when it is first asked for."""

from collections.abc import Sequence
from importlib import import_module
from typing import Final, overload

from tensorark.formats.format import Format

_HOMES: Final = (
    ("zt", "ZT"),
    ("safetensors", "SAFETENSORS_INDEX"),
    ("safetensors", "SAFETENSORS"),
    ("ninfer", "NINFER"),
    ("tensorbit", "TENSORBIT"),
    ("tensorbit", "TENSORBIT_BLOB"),
    ("tensorbit", "TENSORBIT_DIRECTORY"),
    ("npz", "NPZ"),
    ("npy", "NPY"),
)


class Formats(Sequence[Format]):
    """The formats as a sequence that loads what is taken from it.

    Opening a file asks one after the other whether it is theirs, and so never loads those behind
    the one that says yes: half of the time of a short command was loading readers.
    """

    def __len__(self) -> int:
        """Count the formats, loading none."""
        return len(_HOMES)

    @overload
    def __getitem__(self, index: int) -> Format: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Format]: ...

    def __getitem__(self, index: int | slice) -> Format | Sequence[Format]:
        """Load a format, or several."""
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        package, name = _HOMES[index]
        found: Format = getattr(import_module(f"{__name__}.{package}"), name)
        return found


FORMATS: Final = Formats()
"""No two formats claim the same file, so the order is only one of speed."""
