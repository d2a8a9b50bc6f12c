"""One tensor that is pruned on its way from file to file, and the account of what that removed.

Owns the choice of weights by magnitude, by scores or by a mask of the caller, a block at a time.
Which tensors are pruned is decided by `tensorark.edit.prune`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import isfinite, prod, sqrt
from typing import TYPE_CHECKING, Final

from tensorark.core.model import Tensor
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
_NOTED: Final = 1 << 16
"""Weights that the report looks at at a time: their wide values stay in the cache."""
_CACHED: Final = 32 << 20
"""Bytes of masks that are kept between the two parts of a tensor, instead of made twice."""
_TINY: Final = 1e-20
"""Sums of squares of floats below this have lost digits."""


@dataclass(slots=True)
class Norm:
    """A Euclidean norm in the making: squares relative to a scale, so that none overflows."""

    scale: float = 0.0
    squares: float = 0.0

    def add(self, values: Array) -> None:
        """Take in some values; in doubles only where floats do not do: that is much slower."""
        import numpy as np

        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            total = float(np.dot(values, values))
            if isfinite(total) and total > _TINY:
                self.join(Norm(1.0, total))
                return
            largest = float(np.abs(values).max(initial=0.0))
            if not isfinite(largest):
                self.join(Norm(1.0, largest))
            elif largest:
                wide = values.astype(np.float64) / largest
                self.join(Norm(largest, float(np.dot(wide, wide))))

    def join(self, other: Norm) -> None:
        """Take in the values of another norm."""
        if other.scale > self.scale:
            self.squares = self.squares * (self.scale / other.scale) ** 2 + other.squares
            self.scale = other.scale
        elif other.scale:
            self.squares += other.squares * (other.scale / self.scale) ** 2

    def over(self, other: Norm) -> float:
        """Return this norm relative to another, 0.0 where that is 0; NaN where values are."""
        if not other.scale or not other.squares:
            return 0.0
        ratio = self.squares / other.squares if isfinite(other.squares) else float("nan")
        return sqrt(ratio) * (self.scale / other.scale)


@dataclass(slots=True)
class Pruned:
    """What was done to one tensor, complete once the target is written.

    `masked` tells whether the target has the mask, not the zeros alone. `zeros_before` and `zeros`
    count weights that are 0. `error` is the norm of what was removed relative to that of the tensor
    (Frobenius), `largest` the largest magnitude removed, `nan` how many of the removed are NaN.
    """

    name: str
    pattern: str
    elements: int
    masked: bool = False
    zeros_before: int = 0
    zeros: int = 0
    largest: float = 0.0
    nan: int = 0
    _removed: Norm = field(default_factory=Norm, repr=False)
    _total: Norm = field(default_factory=Norm, repr=False)

    @property
    def error(self) -> float:
        """Norm of what was removed, relative to that of the tensor; 0.0 for zeros."""
        return self._removed.over(self._total)

    @property
    def sparsity(self) -> float:
        """Share of weights that are 0."""
        return self.zeros / self.elements if self.elements else 0.0

    def note(self, before: Array, after: Array) -> None:
        """Take account of some weights, before and after."""
        import numpy as np

        wide = np.float32 if before.dtype.itemsize <= 2 else np.float64
        for start in range(0, before.size, _NOTED):
            was = before[start : start + _NOTED].astype(wide)
            # A weight stays as it is or becomes +0, whose bits are zeros.
            words = after[start : start + _NOTED].view(f"u{after.dtype.itemsize}")
            gone = np.where(words == 0, was, wide(0))
            zeros = was.size - int(np.count_nonzero(was))
            self.zeros_before += zeros
            self.zeros += zeros + int(np.count_nonzero(gone))
            self._total.add(was)
            self._removed.add(gone)
            largest = float(np.abs(gone, out=gone).max(initial=0.0))
            if largest != largest:  # noqa: PLR0124 - a NaN was removed
                self.nan += int(np.count_nonzero(np.isnan(gone)))
                largest = float(np.fmax.reduce(gone, initial=0.0))
            self.largest = max(self.largest, largest)

    def join(self, other: Pruned) -> None:
        """Take in what was done to another tensor."""
        self.elements += other.elements
        self.zeros_before += other.zeros_before
        self.zeros += other.zeros
        self.largest = max(self.largest, other.largest)
        self.nan += other.nan
        self._total.join(other._total)
        self._removed.join(other._removed)


Chooser = Callable[[int, "Array"], "Bits"]
"""Tells which weights stay, of those from the first one on that it gets; in the order of groups."""


class Work:
    """One tensor on its way: reads weights, chooses, gives masked weights and mask bytes.

    Groups of M lie along `axis`; along another than the last no mask can be stored, whose groups
    are of neighbours.
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

    def staged(self) -> None:
        """Let the smaller half of the whole tensor be zeroed first, as the public tool does."""
        self._chooser, self._finish = self._largest_of_half, self._without_the_smaller

    def scored(self, scores: TensorView) -> None:
        """Let weights stay that have the N largest scores of their group."""

        def chooser(start: int, weights: Array) -> Bits:
            from tensorark.layouts.nm import magnitude

            found = scores.elements(start, start + weights.size)
            return magnitude.select(
                self._grouped(magnitude.ranks(found, scores.name)), self._pattern
            )

        self._chooser = chooser

    def masked_by(self, mask: TensorView) -> None:
        """Let weights stay whose value in `mask` is not zero."""

        def chooser(start: int, weights: Array) -> Bits:
            import numpy as np

            found = mask.elements(start, start + weights.size)
            keep: Bits = self._grouped(found != np.zeros((), found.dtype))
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

        return magnitude.select(self._grouped(magnitude.magnitudes(weights)), self._pattern)

    def _largest_of_half(self, _start: int, weights: Array) -> Bits:
        from tensorark.layouts.nm import magnitude

        keys = _squares(weights)
        keys[keys < self._threshold()] = 0
        return magnitude.select(self._grouped(keys), self._pattern)

    # ---------------------------------------------------------------------------- what comes of it

    def result(self, *, masked: bool) -> Tensor:
        """Return the pruned tensor, its parts to be computed: with a mask, or dense."""
        tensor, pattern = self._tensor, self._pattern
        part = tensor.parts["data"]
        weights = derive_part(self._weights, part.nbytes, part.dtype)
        if self._inner != 1:  # no reader could find groups that are not of neighbours
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

    def _grouped(self, values: Array) -> Array:
        """Return the values of whole slabs group by group."""
        if self._inner == 1:
            return values
        slabs = values.reshape(-1, self._pattern.m, self._inner)
        return slabs.transpose(0, 2, 1).reshape(-1)

    def _weights(self) -> Iterator[memoryview]:
        for start, before in self._blocks():
            after = self._pruned(start, before)
            if self._finish is not None:
                after = self._finish(before, after)
            if start >= self._noted:
                self.report.note(before, after)
                self._noted = start + before.size
            yield octets(after)

    def _pruned(self, start: int, before: Array) -> Array:
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
        return _kept(before, keep)

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
        return _kept(after, _squares(before) >= self._threshold())

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


def _kept(weights: Array, keep: Bits) -> Array:
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
