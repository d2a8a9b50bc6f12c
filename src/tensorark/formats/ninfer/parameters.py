"""Logical parameters (§7): a second catalog over the objects, and where each parameter lies.

Pure: a parameter is element ranges of objects, and where those are whole words it is also spans of
bytes. Numbers are made by `files.parameters`. Never guesses a shape that only code can know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import cast

from tensorark.core.matching import near
from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.errors import InvalidInput, NotFound
from tensorark.formats.ninfer.directory import (
    Binding,
    Directory,
    Range,
    StoredTensor,
    tensor_of,
)
from tensorark.layouts.ninfer.geometry import DIRECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One element range of an object: `rows` says whether it is whole rows, and which.

    `spans` is where the bytes lie that hold it: exactly the range where the object is stored as
    plain words, else the whole object, of which planes hold the elements.
    """

    range: Range
    stored: StoredTensor
    rows: tuple[int, int] | None
    spans: tuple[Span, ...]
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A logical parameter: its pieces in order and its natural shape.

    The shape is that of the object where it is one whole object, ``[rows, K]`` where it is whole
    rows of matrices of one width, else flat: what code makes of it, the file does not say.
    """

    name: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]
    whole: bool

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def formats(self) -> tuple[str, ...]:
        """The numeric formats of the pieces, each once."""
        return tuple(dict.fromkeys(each.stored.format for each in self.pieces))


class Parameters(Mapping[str, Parameter]):
    """The logical parameters of a directory by name; each is made on access."""

    __slots__ = ("_bindings", "_directory")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._bindings = directory.bindings

    def __getitem__(self, name: str) -> Parameter:
        """Return the parameter `name`.

        Raises:
            NotFound: when it is not bound.
        """
        if name not in self._bindings:
            raise NotFound(
                "no such parameter",
                code="no-parameter",
                where=("bindings", str(name)),
                hint=lambda: near(str(name), self),
            )
        return parameter(self._directory, name, self._bindings[name])

    def __contains__(self, name: object) -> bool:
        return name in self._bindings

    def __iter__(self) -> Iterator[str]:
        return iter(self._bindings)

    def __len__(self) -> int:
        return len(self._bindings)


def parameters(directory: Directory) -> Parameters:
    """Return the logical parameters of `directory`."""
    return Parameters(directory)


def parameter(directory: Directory, name: str, binding: Binding) -> Parameter:
    """Return what `binding` means, of the bindings of `directory` or of an auxiliary."""
    pieces = tuple(_piece(directory, each) for each in binding.ranges)
    shape: tuple[int, ...] = (binding.elements,)
    if binding.whole:
        shape = pieces[0].stored.shape
    else:
        widths = {each.stored.shape[1] if each.rows else 0 for each in pieces}
        if len(widths) == 1 and 0 not in widths:
            (width,) = widths
            shape = (binding.elements // width, width)
    return Parameter(name=name, shape=shape, pieces=pieces, whole=binding.whole)


def _piece(directory: Directory, each: Range) -> Piece:
    stored = cast("StoredTensor", directory.object(each.object))
    rows = None
    if len(stored.shape) == 2:
        first, before = divmod(each.begin, stored.shape[1])
        last, behind = divmod(each.end, stored.shape[1])
        rows = (first, last) if not before and not behind else None
    tensor = tensor_of(stored, Raw(()))
    exact = tensor.layout == "dense"
    if exact:
        width = DIRECT[stored.format]
        place = stored.offset + each.begin * width
        spans = directory.address.spans(place, (each.end - each.begin) * width)
    else:
        spans = directory.address.spans(stored.offset, stored.nbytes)
    return Piece(range=each, stored=stored, rows=rows, spans=spans, exact=exact)


def logical_tensor(found: Parameter, shape: tuple[int, ...] | None = None) -> Tensor | None:
    """Return a parameter as a tensor of the model, without a byte being decoded or moved.

    That is possible where all pieces are plain words of one type, or where it is one whole object;
    None elsewhere. `shape` is its shape where that is known better.

    Raises:
        InvalidInput: when `shape` has another number of elements.
    """
    wanted = choose_shape(found, shape)
    first = found.pieces[0]
    spans = tuple(span for each in found.pieces for span in each.spans)
    if all(each.exact for each in found.pieces) and len(found.formats) == 1:
        stored = tensor_of(first.stored, Raw(spans))
        part = Part(Raw(spans), stored.parts["data"].dtype)
        return Tensor(found.name, wanted, "dense", {"data": part})
    if found.whole and wanted == first.stored.shape:
        stored = tensor_of(first.stored, Raw(spans))
        return Tensor(found.name, wanted, stored.layout, stored.parts, stored.attributes)
    return None


def choose_shape(found: Parameter, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return `shape`, or the natural one where it is None.

    Raises:
        InvalidInput: when `shape` has another number of elements (code ``parameter-shape``): the
            parameter does not cover what is wanted of it.
    """
    if shape is None:
        return found.shape
    if prod(shape) != found.elements or min(shape, default=1) < 0:
        raise InvalidInput(
            "the parts of the parameter do not cover this shape",
            code="parameter-shape",
            section="7.1",
            where=("bindings", found.name),
            expected=f"{prod(shape)} elements",
            found=found.elements,
        )
    return tuple(shape)
