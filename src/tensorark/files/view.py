"""A tensor of an opened file, as users hold it: facts at once, numbers when they are asked for.

Owns laziness: nothing is read until an array is wanted, and then no more than is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from tensorark.core.model import Encoded, Part, Raw, Tensor
from tensorark.core.types import DTYPES, RESTRICTED, TYPES
from tensorark.errors import LimitExceeded, NotFound, Unsupported, escaped
from tensorark.layouts import layout_of
from tensorark.layouts.dense.rules import LAYOUT as DENSE
from tensorark.layouts.layout import Bytes
from tensorark.layouts.payload import WINDOW, Ranges, Reader

if TYPE_CHECKING:
    import numpy as np
    import torch

    from tensorark.layouts.numbers.dtypes import Array
    from tensorark.layouts.values import Values

_DENSE: Final = "dense"
_CPU: Final = (1, 0)


class Payload(Protocol):
    """What a view needs of its file: the bytes of parts and spans."""

    def payload(self, part: Part, where: tuple[str | int, ...] = ()) -> memoryview:
        """Return the decoded bytes of a part, read-only."""
        ...

    def ranges(self, part: Part, where: tuple[str | int, ...] = ()) -> Ranges:
        """Return what reads decoded bytes [start, start + length) of a part."""
        ...

    def judge(self, name: str) -> None:
        """Judge a tensor by the rules that its format defers until it is interpreted."""
        ...

    def copied(self, part: Part, where: tuple[str | int, ...] = ()) -> memoryview:
        """Return the stored bytes of a part in memory of the caller's own."""
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
        _, dtype, shape, layout = self.facts
        return f"<TensorView {self.name!r} {dtype} {shape} {layout}>"

    @property
    def facts(self) -> tuple[str, str, str, str]:
        """Name, type, shape and layout as text, with what a screen would obey escaped."""
        shape = "×".join(str(each) for each in self.shape) or "scalar"
        return escaped(self.name), escaped(self.dtype), shape, escaped(self.layout)

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
        """Id of the elements, as `numpy` gives them: f32 for quantized layouts.

        Else the logical type where there is one, or the storage type.
        """
        layout = None if self.layout == _DENSE else layout_of(self.layout)
        found = None if layout is None else layout.element_of(self.tensor)
        if found is not None:
            return found
        part = self._main
        return part.type or part.dtype

    @property
    def logical_type(self) -> str | None:
        """Logical type id of what is stored, or None where it is the storage type."""
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
        main = (parts.get(role) for role in ("data", "values", "weights"))
        return next((part for part in main if part is not None), next(iter(parts.values())))

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

    def decoded(self, role: str = "data") -> memoryview:
        """Return the decoded bytes of a part, uninterpreted.

        Raises:
            NotFound: when there is no such part.
            Unsupported: when its encoding is unknown.
        """
        return self._file.payload(self._part(role), self._where(role))

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

        values, read = self._admit()
        try:
            if copy and self.layout == _DENSE and _is_plain(self._main):
                data = self._file.copied(self._main, self._where("data"))
                return values.assemble(self.tensor, lambda *_: data)
            array = values.assemble(self.tensor, read)
        except (MemoryError, OverflowError) as error:
            raise self._too_large() from error
        is_shared = not array.flags.writeable  # else it was assembled or decoded for us alone
        return np.array(array) if copy and is_shared else array

    def torch(self) -> torch.Tensor:
        """Return the values as a torch tensor on the CPU, without copying where that is safe.

        Writing to it never reaches the file. f4_e2m1 comes in pairs, as torch holds it: the last
        dimension is half as long.

        Raises:
            Unsupported: when torch has no such type, or is not installed.
        """
        try:
            from tensorark.layouts.numbers.torch import from_array, from_buffer, torch_dtype
        except ImportError as error:
            hint = "pip install 'tensorark[torch]'"
            raise Unsupported("torch is not installed", code="no-torch", hint=hint) from error

        data = self._writable()
        dtype = torch_dtype(self.dtype)
        shared = None if data is None else from_buffer(data, dtype, self.shape)
        return from_array(self.numpy(copy=True), dtype) if shared is None else shared

    def _writable(self) -> memoryview | None:
        """Return the payload as values for writing, past the gate; None if that needs a copy."""
        self._admit()
        if self._main.type in RESTRICTED:
            return None
        return self.private()

    def private(self) -> memoryview | None:
        """Return the payload of a dense tensor for writing, without copying; None if impossible.

        Changes stay in this process and never reach the file.
        """
        if self.layout != _DENSE or not isinstance(self._main.blob, Raw):
            return None
        DENSE.check(self.tensor)
        return self._file.private(self._main)

    def __array__(
        self,
        dtype: np.dtype[Any] | None = None,
        copy: bool | None = None,  # noqa: FBT001 - the protocol's signature
    ) -> Array:
        import numpy as np

        from tensorark.layouts.numbers.rounding import round_to

        values = self.numpy()
        if dtype is not None and values.dtype != dtype:
            if copy is False:
                raise ValueError("a conversion cannot be done without copying")
            return round_to(values, np.dtype(dtype))
        return np.array(values) if copy else values

    def __dlpack__(self, **options: Any) -> Any:
        import numpy as np

        from tensorark.layouts.numbers.dtypes import numpy_dtype

        data = self._writable()
        if not data:
            values = self.numpy(copy=True)
        else:
            element = numpy_dtype(self._main.dtype, self._main.type)
            values = np.frombuffer(data, element).reshape(self.shape)
        if values.dtype.type.__module__ != "numpy":  # numpy exports none of its guests
            return self.torch().__dlpack__(**options)
        return values.__dlpack__(**options)

    def __iter__(self) -> Iterator[Any]:
        for at in range(len(self)):  # as numpy does: a scalar is not iterated
            yield self[at]

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU

    def __getitem__(self, index: Any) -> Any:
        """Index like numpy; basic indices read no more than a page beyond each run they need.

        Raises:
            IndexError: for the indices for which numpy raises it.
        """
        from tensorark.files import slicing
        from tensorark.layouts.numbers.dtypes import numpy_dtype

        values, read = self._admit()
        partial, part = values.elements, self._main
        mapped = self._file.is_mapped and self.layout == _DENSE and _is_plain(part)
        if mapped or partial is None or not slicing.is_basic(index) or not self.size:
            return self.numpy()[index]
        selection = slicing.select(self.shape, index)
        try:
            if self.layout != _DENSE:
                first, last = slicing.extent(selection)
                return slicing.pick(selection, partial(self.tensor, read, first, last), first)
            element = numpy_dtype(part.dtype, part.type)

            def run(start: int, count: int) -> Array:
                return partial(self.tensor, read, start, start + count)

            return slicing.gather(selection, element.itemsize, element, run)
        except (MemoryError, OverflowError) as error:
            raise self._too_large() from error

    def elements(self, start: int, stop: int) -> Array:
        """Return the flat elements [start, stop) in row-major order.

        Reads no more than what holds them, where the layout allows that.

        Raises:
            IndexError: when there are no such elements.
        """
        if not 0 <= start <= stop <= self.size:
            raise IndexError(f"elements [{start}, {stop}) of {self.size}")
        values, read = self._admit()
        if values.elements is None or start == stop:
            return self.numpy().reshape(-1)[start:stop]
        try:
            return values.elements(self.tensor, read, start, stop)
        except (MemoryError, OverflowError) as error:
            raise self._too_large() from error

    def _admit(self) -> tuple[Values, Bytes]:
        """Pass the gate that stands before all values: return what makes them and reads the parts.

        Raises:
            LimitExceeded: when there are more values than are allowed.
            Rejected: when the tensor breaks a rule that its format judges late.
            Unsupported: when the layout, or a type in it, is unknown.
        """
        from tensorark.layouts.gate import find, values_of

        tensor = self.tensor
        if tensor.layout == _DENSE:
            window = 0  # what is read are runs that a slice needs
        else:
            self._check_size()
            window = WINDOW  # what is read ascends
        self._file.judge(tensor.name)
        read = Reader(self._file, tensor, window=window, whole=self._file.payload)
        values = values_of(tensor.layout) or find(tensor)
        values.admit(tensor, read)
        return values, read

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
        """Require that there are not more values than are allowed.

        A dense tensor never has more than its file has, or than its encoding may give.
        """
        known = TYPES.get(self.dtype)
        bits = 8 * DTYPES.get(self.dtype, 1) if known is None else max(known.bits, 8)
        if self.size * bits // 8 > self._file.decoded_limit:
            raise self._too_large()

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded(
            "the array is too large for this process",
            code="decoded-size",
            where=("objects", self.name),
            found=f"{prod(self.shape)} elements",
        )


def _is_plain(part: Part) -> bool:
    """Tell whether the stored bytes of a part are its elements, in one place.

    Those of a restricted type are judged, or unpacked, on their way.
    """
    raw = isinstance(part.blob, Raw) and len(part.blob.spans) == 1
    return raw and part.type not in RESTRICTED
