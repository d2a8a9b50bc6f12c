"""The weights of one tensor pruned on their way from file to file.

Owns the choice of weights by magnitude, by scores or by a mask of the caller, a block at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

from tensorark.core.model import Tensor
from tensorark.edit.prune.report import Pruned
from tensorark.errors import InvalidInput, quoted
from tensorark.files import File
from tensorark.files.derived import derive_part, octets
from tensorark.files.view import TensorView
from tensorark.layouts.nm.rules import ID, KEY, Pattern, Sparse, mask_size
from tensorark.layouts.payload import Reader

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tensorark.layouts.nm.masks import Bits, Octets
    from tensorark.layouts.numbers.dtypes import Array

_WEIGHTS: Final = 1 << 20
"""Weights that are pruned at a time."""
_CACHED: Final = 32 << 20
"""Bytes of masks that are kept between the two parts of a tensor, instead of made twice."""
Chooser = Callable[[int, "Array"], "Bits"]
"""Tells which weights stay, of those from the first one on that it gets; in the order of groups."""


class Pruner:
    """One tensor on its way: reads weights, chooses, gives masked weights and mask bytes.

    Groups of M lie along `axis`; along another than the last no mask can be stored, whose groups
    are of neighbors.
    """

    def __init__(self, file: File, tensor: Tensor, pattern: Pattern, axis: int) -> None:
        from tensorark.layouts.numbers.dtypes import numpy_dtype

        self.report = Pruned(tensor.name, str(pattern), tensor.elements)
        self._tensor = tensor
        self._pattern = pattern
        self._inner = prod(tensor.shape[axis + 1 :])
        self._chooser: Chooser = self._largest
        self._finish: Callable[[Array, Array], Array] | None = None
        self._least: int | None = None
        self._file = file
        self._element = numpy_dtype(tensor.parts["data"].dtype)
        self._cache: dict[int, Octets] = {}
        self._noted = 0

    # ----------------------------------------------------------------------- how weights are chosen

    def stage(self) -> None:
        """Let the smaller half of the whole tensor be zeroed first, as the public tool does."""
        self._chooser, self._finish = self._largest_of_half, self._without_the_smaller

    def take_scores(self, scores: TensorView) -> None:
        """Let weights stay that have the N largest scores of their group."""

        def chooser(start: int, weights: Array) -> Bits:
            from tensorark.layouts.nm import magnitude

            found = scores.elements(start, start + weights.size)
            return magnitude.select(self._group(magnitude.ranks(found, scores.name)), self._pattern)

        self._chooser = chooser

    def take_mask(self, mask: TensorView) -> None:
        """Let weights stay whose value in `mask` is not zero."""

        def chooser(start: int, weights: Array) -> Bits:
            import numpy as np

            found = mask.elements(start, start + weights.size)
            keep: Bits = self._group(found != np.zeros((), found.dtype))
            held = np.count_nonzero(keep.reshape(-1, self._pattern.m), axis=1)
            wrong = np.flatnonzero(held != self._pattern.n)
            if wrong.size:
                raise InvalidInput(
                    f"the mask of {quoted(mask.name)} is not of {self._pattern}",
                    code="mask-pattern",
                    where=("objects", mask.name),
                    expected=f"{self._pattern.n} kept in each group",
                    found=f"{held[wrong[0]]} in group {start // self._pattern.m + int(wrong[0])}",
                )
            return keep

        self._chooser = chooser

    def _largest(self, _start: int, weights: Array) -> Bits:
        from tensorark.layouts.nm import magnitude

        return magnitude.select(self._group(magnitude.magnitudes(weights)), self._pattern)

    def _largest_of_half(self, _start: int, weights: Array) -> Bits:
        from tensorark.layouts.nm import magnitude

        keys = _squares(weights)
        keys[keys < self._threshold()] = 0
        return magnitude.select(self._group(keys), self._pattern)

    # ---------------------------------------------------------------------------- what comes of it

    def prune(self, *, masked: bool) -> Tensor:
        """Return the pruned tensor, its parts to be computed: with a mask, or dense."""
        tensor, pattern = self._tensor, self._pattern
        part = tensor.parts["data"]
        weights = derive_part(self._weights, part.nbytes, part.dtype)
        if self._inner != 1:  # no reader could find groups that are not of neighbors
            return replace(tensor, parts={"data": weights})
        facts = {KEY: {"n": pattern.n, "m": pattern.m}}
        attributes = {**(tensor.attributes or {}), **facts}
        if not masked:
            return replace(tensor, parts={"data": weights}, attributes=attributes)
        self.report.masked = True
        mask = derive_part(self._masks, mask_size(tensor.elements, pattern), "u8")
        parts = {"weights": weights, "mask": mask}
        return replace(tensor, layout=ID, parts=parts, attributes=attributes)

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield the weights in whole slabs, each with the number of its first one."""
        import numpy as np

        read, size = Reader(self._file, self._tensor), self._element.itemsize
        slab = self._pattern.m * self._inner
        step = max(1, _WEIGHTS // slab) * slab
        for start in range(0, self._tensor.elements, step):
            stop = min(start + step, self._tensor.elements)
            yield start, np.frombuffer(read("data", start * size, stop * size), self._element)

    def _group(self, values: Array) -> Array:
        """Return the values of whole slabs group by group."""
        if self._inner == 1:
            return values
        slabs = values.reshape(-1, self._pattern.m, self._inner)
        return slabs.transpose(0, 2, 1).reshape(-1)

    def _weights(self) -> Iterator[memoryview]:
        for start, before in self._blocks():
            after = self._prune(start, before)
            if self._finish is not None:
                after = self._finish(before, after)
            if start >= self._noted:
                self.report.note(before, after)
                self._noted = start + before.size
            yield octets(after)

    def _prune(self, start: int, before: Array) -> Array:
        from tensorark.layouts.nm import masks

        if self._inner == 1:
            sparse = Sparse(
                elements=before.size,
                pattern=self._pattern,
                packing="groups",
                dtype=self._tensor.parts["data"].dtype,
            )
            return masks.apply(before, self._mask(start, before), sparse, out=None)
        groups = self._chooser(start, before).reshape(-1, self._inner, self._pattern.m)
        keep = groups.transpose(0, 2, 1).reshape(-1)
        return _keep(before, keep)

    def _masks(self) -> Iterator[memoryview]:
        for start, weights in self._blocks():
            yield octets(self._mask(start, weights))

    def _mask(self, start: int, weights: Array) -> Octets:
        """Return the mask bytes of some weights, from the cache the second time."""
        from tensorark.layouts.nm import masks

        held = self._cache.pop(start, None)
        if held is not None:
            return held
        found = masks.pack_mask(self._chooser(start, weights), self._pattern)
        if mask_size(self._tensor.elements, self._pattern) <= _CACHED:
            self._cache[start] = found
        return found

    def _without_the_smaller(self, before: Array, after: Array) -> Array:
        return _keep(after, _squares(before) >= self._threshold())

    def _threshold(self) -> int:
        """Return the key of the smallest weight that the first step of the public tool keeps."""
        if self._least is None:
            import numpy as np

            from tensorark.layouts.nm.magnitude import Threshold

            count = self._tensor.elements
            keep = max(1, int(np.float32(0.5) * np.float32(count)))
            search = Threshold(count - keep)
            for feed in (search.coarse, search.fine):
                for _, weights in self._blocks():
                    feed(_squares(weights))
            self._least = search.value
        return self._least


def _keep(weights: Array, keep: Bits) -> Array:
    """Return weights with +0 for those that do not stay, and the bits of the others."""
    import numpy as np

    plain = weights.view(f"u{weights.dtype.itemsize}")
    found: Array = np.where(keep, plain, plain.dtype.type(0)).view(weights.dtype)
    return found


def _squares(weights: Array) -> npt.NDArray[np.uint32]:
    """Return integers in the order of the squares of weights, computed in f32."""
    import numpy as np

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        wide = weights.astype(np.float32)
        return (wide * wide).view(np.uint32)
