"""A tensor of an opened file, as users hold it: facts at once, numbers when they are asked for.

Owns laziness: nothing is read until an array is wanted, and then no more than is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from tensorark.errors import LimitExceeded, NotFound, Unsupported
from tensorark.model import Encoded, Part, Raw, Span, Tensor

if TYPE_CHECKING:
    import numpy as np
    import torch

    from tensorark.codecs.numbers import Array

_DENSE: Final = "dense"
_CPU: Final = (1, 0)


class Payload(Protocol):
    """What a view needs of its file: the bytes of parts and spans."""

    def payload(self, part: Part, where: tuple[str | int, ...] = ()) -> memoryview:
        """Return the decoded bytes of a part, read-only."""
        ...

    def private(self, part: Part) -> memoryview | None:
        """Return the bytes of a part for writing, without copying; None where that cannot be."""
        ...

    @property
    def is_mapped(self) -> bool:
        """Whether payload is a view of a mapping, so that slices need no planning."""
        ...

    @property
    def decoded_limit(self) -> int:
        """Most bytes that one array may take."""
        ...


class TensorView:
    """One tensor of an opened file.

    Facts (`name`, `shape`, `dtype`, `layout`, `parts`, `attributes`, …) cost nothing. `numpy`,
    `torch`, indexing, ``np.asarray`` and DLPack read; `raw` gives bytes without interpreting them.
    """

    __slots__ = ("_file", "tensor")

    def __init__(self, file: Payload, tensor: Tensor) -> None:
        self._file = file
        self.tensor = tensor

    def __repr__(self) -> str:
        shape = "×".join(str(each) for each in self.shape) or "scalar"
        return f"<TensorView {self.name!r} {self.dtype} {shape} {self.layout}>"

    @property
    def name(self) -> str:
        """Name in the file."""
        return self.tensor.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical shape, row-major, in elements."""
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.tensor.shape)

    @property
    def size(self) -> int:
        """Number of logical elements."""
        return self.tensor.elements

    @property
    def nbytes(self) -> int:
        """Decoded size of all parts, in bytes."""
        return self.tensor.nbytes

    @property
    def layout(self) -> str:
        """Layout id, as published: ``dense`` or a profile."""
        return self.tensor.layout

    @property
    def dtype(self) -> str:
        """Id of the elements: the logical type where there is one, else the storage type."""
        part = self._main
        return part.type or part.dtype

    @property
    def logical_type(self) -> str | None:
        """Logical type id, or None where it is the storage type."""
        return self._main.type

    @property
    def parts(self) -> Mapping[str, Part]:
        """Parts by role."""
        return self.tensor.parts

    @property
    def attributes(self) -> Mapping[str, object]:
        """Attributes of this tensor; empty where the file has none."""
        return self.tensor.attributes or MappingProxyType({})

    @property
    def _main(self) -> Part:
        parts = self.tensor.parts
        return parts.get("data") or parts.get("values") or next(iter(parts.values()))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def raw(self, role: str = "data") -> memoryview:
        """Return the stored bytes of a part, uninterpreted; encoded parts stay encoded.

        Raises:
            NotFound: when there is no such part.
        """
        part = self._part(role)
        if isinstance(part.blob, Encoded):
            part = Part(Raw(part.blob.spans), part.dtype, part.type)
        return self._file.payload(part, self._where(role))

    def tobytes(self) -> bytes:
        """Return the values as row-major little-endian bytes."""
        return self.numpy().tobytes()

    def numpy(self, *, copy: bool = False) -> Array:
        """Return the values: a read-only view where the layout allows it, a new array with `copy`.

        Raises:
            Rejected: when the payload breaks a rule of its type or layout.
            Unsupported: when the layout, the type or the encoding is unknown.
        """
        import numpy as np

        from tensorark.codecs.layouts import assemble

        self._check_size()
        try:
            values = assemble(self.tensor, self._read)
        except (MemoryError, OverflowError) as error:
            raise self._too_large() from error
        return np.array(values) if copy else values

    def torch(self) -> torch.Tensor:
        """Return the values as a torch tensor on the CPU, without copying where that is safe.

        Writing to it never reaches the file.

        Raises:
            Unsupported: when torch has no such type, or is not installed.
        """
        try:
            from tensorark.codecs.torch import from_array, from_buffer, torch_dtype
        except ImportError as error:
            hint = "pip install 'tensorark[torch]'"
            raise Unsupported("torch is not installed", code="no-torch", hint=hint) from error

        dtype = torch_dtype(self.dtype)
        data = self.private() if self.dtype != "bool" else None  # bool bytes are checked by numpy()
        shared = None if data is None else from_buffer(data, dtype, self.shape)
        return from_array(self.numpy(copy=True), dtype) if shared is None else shared

    def private(self) -> memoryview | None:
        """Return the payload of a dense tensor for writing, without copying; None if impossible.

        Changes stay in this process and never reach the file.
        """
        if self.layout != _DENSE or not isinstance(self._main.blob, Raw):
            return None
        return self._file.private(self._main)

    def __array__(
        self,
        dtype: np.dtype[Any] | None = None,
        copy: bool | None = None,  # noqa: FBT001 - the protocol's signature
    ) -> Array:
        import numpy as np

        values = self.numpy()
        if dtype is not None and values.dtype != dtype:
            if copy is False:
                raise ValueError("a conversion cannot be done without copying")
            return values.astype(dtype)
        return np.array(values) if copy else values

    def __dlpack__(self, **options: Any) -> Any:
        import numpy as np

        from tensorark.codecs.numbers import numpy_dtype

        data = self.private()
        if data is None or self.dtype in {"bool", "f4_e2m1"}:
            values = self.numpy(copy=True)
        else:
            element = numpy_dtype(self._main.dtype, self._main.type)
            values = np.frombuffer(data, element).reshape(self.shape)
        return values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU

    def __getitem__(self, index: Any) -> Any:
        """Index like numpy; basic indices read no more than a page beyond each run they need.

        Raises:
            IndexError: for the indices for which numpy raises it.
        """
        from tensorark import slicing
        from tensorark.codecs import numbers

        part = self._main
        mapped = self._file.is_mapped and part.type not in {"bool", "f4_e2m1"}
        if mapped or self.layout != _DENSE or not slicing.is_basic(index) or not self.size:
            return self.numpy()[index]
        if not isinstance(part.blob, Raw) or len(part.blob.spans) != 1:
            return self.numpy()[index]
        element = numbers.numpy_dtype(part.dtype, part.type)
        selection = slicing.select(self.shape, index)

        def read(start: int, count: int) -> Array:
            return self._elements(part, start, count)

        return slicing.gather(selection, element.itemsize, element, read)

    def _elements(self, part: Part, start: int, count: int) -> Array:
        """Read elements [start, start + count) of a dense part stored in one span."""
        from tensorark.codecs import numbers

        element = numbers.numpy_dtype(part.dtype, part.type)
        (span,) = part.blob.spans
        if numbers.is_packed(part.type):
            first, end = start // 2, -(-(start + count) // 2)
            data = self._file.payload(_cut(part, span, first, end - first), self._where("data"))
            return numbers.unpack_nibbles(data)[start % 2 :][:count].view(element)
        piece = _cut(part, span, start * element.itemsize, count * element.itemsize)
        data = self._file.payload(piece, self._where("data"))
        return numbers.decode(data, (part.dtype, part.type), (count,), self._where("data"))

    def _read(self, role: str) -> memoryview:
        return self._file.payload(self.tensor.parts[role], self._where(role))

    def _part(self, role: str) -> Part:
        try:
            return self.tensor.parts[role]
        except KeyError:
            found = ", ".join(self.tensor.parts)
            where = ("objects", self.name, "parts")
            raise NotFound("no such part", where=where, expected=role, found=found) from None

    def _where(self, role: str) -> tuple[str | int, ...]:
        return ("objects", self.name, "parts", role)

    def _check_size(self) -> None:
        if max(self.nbytes, self.size) > self._file.decoded_limit:
            raise self._too_large()

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded(
            "the array is too large for this process",
            code="decoded-size",
            where=("objects", self.name),
            found=f"{prod(self.shape)} elements",
        )


def _cut(part: Part, span: Span, start: int, length: int) -> Part:
    return Part(Raw((Span(span.offset + start, length, span.file),)), part.dtype, part.type)


def unknown_encoding(encoding: str, where: tuple[str | int, ...]) -> Unsupported:
    """Return the refusal to decode a part under an encoding that is not known (§5.3)."""
    return Unsupported(
        "the encoding is unknown, so the part is not decoded",
        code="unknown-encoding",
        section="5.3",
        where=where,
        found=encoding,
        hint="raw() gives the stored bytes",
    )
