"""Matrices as they take the inputs of a model, where an artifact feeds them something else.

Owns the way back from what uses do to inputs (§8). Uses do not leave an artifact, so their rotation
has to be undone in the values. Permuted columns are refused: only blocks of GGUF have them, which
are not decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from tensorark.core.conversation import drive
from tensorark.core.rules import Reading
from tensorark.errors import InvalidInput, Unsupported
from tensorark.files import File
from tensorark.files.parameters import ParameterView, ParameterViews
from tensorark.formats.ninfer.directory import Directory, Use
from tensorark.formats.ninfer.payload import judge_auxiliary
from tensorark.formats.ninfer.uses import COLUMNS, SIGNS, Auxiliary, of_use, refuse_role

if TYPE_CHECKING:
    from tensorark.layouts.numbers.dtypes import Array

_TABLE: Final = "text/token_embedding"
_HEAD: Final = "text/output_head"
"""The table has no use: where the head is rotated, its rows are, by the signs of the head."""


class RestoredView:
    """A matrix that is stored rotated, as it is without that; has what `ParameterView` has."""

    __slots__ = ("_signs", "_view")

    def __init__(self, view: ParameterView, signs: Array) -> None:
        self._view = view
        self._signs = signs

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and the width of the input."""
        return self._view.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._view.size

    @property
    def formats(self) -> tuple[str, ...]:
        """The numeric format of the values, which are computed in float32."""
        return ("fp32",)

    def numpy(self, shape: tuple[int, ...] | None = None) -> Array:
        """Return the values, in `shape` where it is given."""
        return self.elements(0, self.size).reshape(self.shape if shape is None else shape)

    def elements(self, start: int, stop: int) -> Array:
        """Return the flat elements [start, stop), decoding the rows that hold them.

        Raises:
            IndexError: when there are no such elements.
        """
        from tensorark.layouts.numbers.hadamard import inverse_hadamard_transform

        width = self.shape[1]
        first, last = start // width, -(-stop // width)
        rows = self._view.elements(first * width, last * width).reshape(-1, width)
        values = inverse_hadamard_transform(rows, self._signs).reshape(-1)
        return values[start - first * width : stop - first * width]


class RestoredViews(Mapping[str, "ParameterView | RestoredView"]):
    """The parameters of an artifact by name, each as it takes the input that its author meant.

    Raises:
        Rejected: on access, when an auxiliary breaks a rule.
        Unsupported: when a role is unknown, or the uses of a parameter do not agree.
    """

    __slots__ = ("_directory", "_file", "_known", "_uses", "_views")

    def __init__(self, file: File, directory: Directory) -> None:
        self._file = file
        self._directory = directory
        self._views = ParameterViews(file, directory)
        self._known: dict[object, Array] = {}
        self._uses: dict[str, list[Use]] = defaultdict(list)
        for use in directory.uses:
            self._uses[use.parameter].append(use)

    def __getitem__(self, name: str) -> ParameterView | RestoredView:
        """Return the parameter `name`.

        Raises:
            NotFound: when it is not bound.
        """
        view = self._views[name]
        user = name if name in self._uses or name != _TABLE else _HEAD
        uses = self._uses.get(user, ())
        signs = [self._signs(use) for use in uses]
        first = signs[0] if signs else None
        if any(not _same(first, each) for each in signs):
            raise _unclear(name, "uses turn the input of a parameter in several ways")
        return view if first is None else RestoredView(view, first)

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def _signs(self, use: Use) -> Array | None:
        """Return the signs by which a use rotates its input, if it does."""
        found = {each.role: each for each in of_use(self._directory, use)}
        for each in found.values():
            refuse_role(each)
        if COLUMNS in found:
            raise _unclear(use.parameter, "a use permutes the input of a parameter")
        return self._judge(use, found[SIGNS]) if SIGNS in found else None

    def _judge(self, use: Use, found: Auxiliary) -> Array:
        """Return the values of an auxiliary, which many uses may share; each is read once."""
        pieces = tuple(each.range for each in found.values.pieces)
        key = (pieces, found.parameter.shape[1:], found.parameter.formats)
        if key not in self._known:
            self._known[key] = auxiliary(self._file, self._directory, use, SIGNS)
        return self._known[key]


def _same(left: Array | None, right: Array | None) -> bool:
    if left is None or right is None:
        return left is right
    return left is right or left.tobytes() == right.tobytes()


def _unclear(name: str, detail: str) -> Unsupported:
    return Unsupported(
        f"{detail}, and no weight without uses is the same",
        code="inputs",
        section="8",
        where=("bindings", name),
    )


def auxiliary(file: File, directory: Directory, use: Use, role: str) -> Array:
    """Return the values of an auxiliary of `use`, judged: a divisor, signs or columns.

    Raises:
        Rejected: when the binding or its values are not what the role asks for.
        Unsupported: when the role is unknown.
        InvalidInput: when the use has no such auxiliary.
    """
    for each in of_use(directory, use):
        if each.role == role:
            drive(judge_auxiliary(file.catalog, each, Reading()), file.source)
            return ParameterView(file, each.values).numpy()
    raise InvalidInput("the use has no such auxiliary", code="no-auxiliary", found=role)
