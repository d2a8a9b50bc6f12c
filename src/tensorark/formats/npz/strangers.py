"""Zip archives that hold no arrays: which are checkpoints of others, and what to do with them.

Goes by the names of the members alone. Nothing is unpacked, and no pickle is looked into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorark.errors import Error, Rejected, Unsupported, quoted

_TORCH: Final = "load it where you trust it, then `tensorark.torch.save_file` (or safetensors)"


@dataclass(frozen=True, slots=True)
class _Stranger:
    """One kind of archive: the last steps of names by which it is known, and what to say."""

    code: str
    title: str
    marks: tuple[str, ...]
    hint: str


# In this order: a program holds a pickle as well.
_KINDS: Final = (
    _Stranger("file.torchscript", "a TorchScript program", ("constants.pkl",), _TORCH),
    _Stranger("file.torch-export", "an exported torch program", ("archive_format",), _TORCH),
    _Stranger("file.torch", "a torch checkpoint", ("data.pkl", ".format_version"), _TORCH),
    _Stranger(
        "file.keras",
        "a Keras model",
        ("model.weights.h5",),
        "load it with Keras, and save its arrays with `numpy.savez`",
    ),
)


def stranger(names: Sequence[str]) -> Error:
    """Return the refusal of an archive whose members have these `names`."""
    last = {name.rpartition("/")[2] for name in names}
    found = f"{len(names)} members, such as {quoted(names[0])}"
    for kind in _KINDS:
        if last.intersection(kind.marks):
            return Unsupported(f"this is {kind.title}", code=kind.code, hint=kind.hint, found=found)
    return Rejected(
        "this is a zip archive without arrays", code="file.zip", hint="unpack it first", found=found
    )
