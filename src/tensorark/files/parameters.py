"""Logical parameters of an opened NInfer artifact as numbers.

Owns decoding across objects: ranges are read by the rows that hold them, reordered and joined. Only
the files that a parameter needs are opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from tensorark.errors import LimitExceeded, Unsupported, escaped
from tensorark.files.view import Payload, TensorView
from tensorark.formats.ninfer.directory import Directory
from tensorark.formats.ninfer.parameters import Parameter, Parameters, choose_shape, logical_tensor

if TYPE_CHECKING:
    from tensorark.layouts.numbers.dtypes import Array


class Tensors(Payload, Protocol):
    """What a parameter needs of its file: the tensors by name, and bytes."""

    def __getitem__(self, name: str, /) -> TensorView:
        """Return a tensor."""
        ...


class ParameterView:
    """One logical parameter of an opened artifact.

    Facts (`name`, `shape`, `pieces`) cost nothing; `numpy` and `elements` read and decode no more
    rows than they need.
    """

    __slots__ = ("_file", "parameter")

    def __init__(self, file: Tensors, parameter: Parameter) -> None:
        self._file = file
        self.parameter = parameter

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.shape)) or "scalar"
        return f"<ParameterView {self.name!r} {escaped('+'.join(self.parameter.formats))} {shape}>"

    @property
    def name(self) -> str:
        """Name of the parameter."""
        return self.parameter.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Natural shape: of the object, of whole rows of one width, or flat."""
        return self.parameter.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.parameter.elements

    @property
    def formats(self) -> tuple[str, ...]:
        """The numeric formats that the parameter is stored in."""
        return self.parameter.formats

    def numpy(self, shape: tuple[int, ...] | None = None) -> Array:
        """Return the values, in `shape` where it is given, else in the natural shape.

        bf16, fp32 and int32 keep their type; everything else is float32, and so are parameters that
        join floats of several formats.

        Raises:
            InvalidInput: when the parts do not cover `shape`.
            Rejected: when an object cannot be read.
            Unsupported: when a format is unknown, or integers are joined with floats.
        """
        wanted = choose_shape(self.parameter, shape)
        tensor = logical_tensor(self.parameter, wanted)
        if tensor is not None:
            for each in self.parameter.pieces:
                self._file.judge(each.stored.id)
            return TensorView(self._file, replace(tensor, name=self._object)).numpy()
        return self.elements(0, self.size).reshape(wanted)

    @property
    def _object(self) -> str:
        return self.parameter.pieces[0].stored.id

    def elements(self, start: int, stop: int) -> Array:
        """Return the flat elements [start, stop), decoding the rows that hold them and no others.

        Raises:
            IndexError: when there are no such elements.
        """
        import numpy as np

        if not 0 <= start <= stop <= self.size:
            raise IndexError(f"elements [{start}, {stop}) of {self.size}")
        if stop - start > self._file.decoded_limit:
            raise self._too_large(stop - start)
        try:
            out = np.empty(stop - start, self._element())
        except (MemoryError, ValueError) as error:
            raise self._too_large(stop - start) from error
        done = 0
        for each in self.parameter.pieces:
            begin, end = each.range.begin, each.range.end
            first, last = max(start, done), min(stop, done + end - begin)
            if first < last:
                view = self._file[each.stored.id]
                values = view.elements(begin + first - done, begin + last - done)
                out[first - start : last - start] = values
            done += end - begin
        return out

    def _element(self) -> Any:
        """Return the numpy type in which all pieces are exact."""
        import numpy as np

        from tensorark.layouts.numbers.dtypes import numpy_dtype

        plain = {"bf16": "bf16", "fp32": "f32", "int32": "i32"}
        names = {plain.get(each, "f32") for each in self.formats}
        if len(names) == 1:
            return numpy_dtype(names.pop())
        if "i32" in names:
            raise Unsupported(
                "the parameter joins integers and floats",
                code="mixed-parts",
                section="7.1",
                where=("bindings", self.name),
                found=", ".join(self.formats),
            )
        return np.dtype(np.float32)

    def _too_large(self, elements: int) -> LimitExceeded:
        return LimitExceeded(
            "the array is too large for this process",
            code="decoded-size",
            where=("bindings", self.name),
            found=f"{elements} elements",
        )


class ParameterViews(Mapping[str, ParameterView]):
    """The logical parameters of an opened artifact, by name."""

    __slots__ = ("_file", "_parameters")

    def __init__(self, file: Tensors, directory: Directory) -> None:
        self._file = file
        self._parameters = Parameters(directory)

    def __getitem__(self, name: str) -> ParameterView:
        """Return the parameter `name`.

        Raises:
            NotFound: when it is not bound.
        """
        return ParameterView(self._file, self._parameters[name])

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)
