"""The interface of `safetensors.safe_open` over any opened file, for muscle memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from tensorark.files.file import File
from tensorark.files.view import TensorView
from tensorark.formats.safetensors.dtypes import NAMES

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class SafeOpen(Generic[A]):
    """An opened file that gives tensors of one framework."""

    file: File
    whole: Callable[[TensorView], A]
    part: Callable[[Any], A]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.file.close()

    def keys(self) -> list[str]:
        """Return the names of the tensors, sorted."""
        return sorted(self.file)

    def offset_keys(self) -> list[str]:
        """Return the names of the tensors in the order of their bytes."""
        first = {name: self.file[name].parts for name in self.file}
        return sorted(
            first,
            key=lambda name: [
                (span.file or "", span.offset)
                for part in first[name].values()
                for span in part.blob.spans
            ],
        )

    def metadata(self) -> dict[str, str] | None:
        """Return the file's text attributes, as they stand there; None where it has none."""
        read = self.file.format.metadata
        catalog = self.file.catalog
        attributes = catalog.attributes if read is None else read(catalog)
        if attributes is None:
            return None
        return {key: value for key, value in attributes.items() if isinstance(value, str)}

    def get_tensor(self, name: str) -> A:
        """Return the tensor `name`."""
        return self.whole(self.file[name])

    def get_slice(self, name: str) -> Slice[A]:
        """Return a handle that reads slices of the tensor `name`."""
        return Slice(self.file[name], self.part)


@dataclass(frozen=True, slots=True)
class Slice(Generic[A]):
    """Reads slices of one tensor; indexes as numpy does."""

    view: TensorView
    part: Callable[[Any], A]

    def get_shape(self) -> list[int]:
        """Return the shape in elements."""
        return list(self.view.shape)

    def get_dtype(self) -> str:
        """Return the element type by its name in safetensors, or by ours where it has none."""
        for part in self.view.parts.values():
            return NAMES.get((part.dtype, part.type), self.view.dtype)
        return self.view.dtype

    def __getitem__(self, index: Any) -> A:
        return self.part(self.view[index])
