"""Layers of a model replaced by others: which tensors take the place of which, and the account.

Owns what all steps share that gather the tensors of a layer into one, or take it apart. What is not
understood stays as it is, and the reason is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tensorark.core.brief import brief
from tensorark.core.model import Tensor
from tensorark.errors import Rejected
from tensorark.files import File
from tensorark.files.derived import derive_file


class Left(Exception):
    """A layer stays as it is, for this reason."""


@dataclass(frozen=True, slots=True)
class Recasting:
    """What importing or exporting did: tensors made, tensors they replace, layers left, and why."""

    __repr__ = brief

    made: tuple[str, ...]
    replaced: tuple[str, ...]
    left: Mapping[str, str]


class Layers:
    """The tensors of `file` by name while some of them are replaced."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.tensors = dict(file.catalog.tensors)
        self.made: list[str] = []
        self.replaced: list[str] = []
        self._places: dict[str, str] = {}

    def replace(self, old: Sequence[str], new: Sequence[Tensor]) -> None:
        """Put the tensors `new` where the first of `old` is.

        Raises:
            Left: when another tensor has the name of one.
        """
        for each in new:
            if each.name in self.tensors and each.name not in old:
                raise Left(f"there is a tensor {each.name!r} already")
        place = self._places.get(old[0], old[0])
        for name in old:
            del self.tensors[name]
        for each in new:
            self.tensors[each.name] = each
            self._places[each.name] = place
        self.made += [each.name for each in new]
        self.replaced += old

    def in_order(self) -> dict[str, Tensor]:
        """Return the tensors, new ones in the places of the old."""
        rank = {name: number for number, name in enumerate(self.file.catalog.tensors)}

        def place(name: str) -> int:
            return rank[self._places.get(name, name)]

        return {name: self.tensors[name] for name in sorted(self.tensors, key=place)}


def replace_layers(
    file: File,
    replace: Callable[[Layers, str], None],
    stays: Callable[[Rejected], bool] = lambda _error: False,
) -> tuple[File, Recasting]:
    """Return `file` with its layers as `replace` makes them, which is called with every name.

    A layer stays where that raises `Left`, or breaks a rule of which `stays` says so.
    """
    layers = Layers(file)
    left: dict[str, str] = {}
    for name in file.catalog.tensors:
        if name not in layers.tensors:
            continue
        try:
            replace(layers, name)
        except Left as reason:
            left[name] = str(reason)
        except Rejected as error:
            if not stays(error):
                raise
            left[name] = error.detail
    done = Recasting(tuple(layers.made), tuple(layers.replaced), left)
    return derive_file(file, layers.in_order()) if layers.made else file, done
