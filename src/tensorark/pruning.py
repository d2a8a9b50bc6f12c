"""Pruning on purpose: of each M weights the N largest stay, with a report of what that took away.

Nothing else in the library changes weights to zero. Which tensors are pruned, and how, is chosen by
patterns of names; what is not pruned is kept bit for bit and listed with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tensorark import api
from tensorark.api import File, PathLike
from tensorark.carry import brought_home
from tensorark.conversion import not_itself, target_of
from tensorark.conversion.dense import octets, reader
from tensorark.conversion.recast import Pieces, Recast, computed
from tensorark.conversion.target import Options, Progress
from tensorark.errors import InvalidInput
from tensorark.matching import matcher, require_matches
from tensorark.model import Catalog, Part, Tensor
from tensorark.vocab.layouts.nm import ID, KEY, Pattern, mask_size, parse_pattern

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tensorark.codecs.magnitude import Keys
    from tensorark.codecs.masks import Octets
    from tensorark.codecs.numbers import Array

__all__ = ["DENSE_NAMES", "Pruned", "Pruning", "choose", "prune"]

DENSE_NAMES: Final = re.compile(
    r"(^|[._])(\w*norm\w*|ln(_\w+)?|embed\w*|\w*embeddings?|wte|wpe|lm_head|head|output|classifier"
    r"|rotary\w*|router|gate)\.(weight|bias)$|bias$|position_ids$"
)
"""Names that are not pruned unless a pattern asks for it: norms, embeddings, heads, routers."""

Recipe = Literal["magnitude", "tensorbit"]
"""`magnitude` keeps the N largest of each group. `tensorbit` first sets the smaller half of the
whole tensor to zero, as the public pruning tool does, so more than (M - N) / M end as zeros."""

_FLOATS: Final = frozenset({"f64", "f32", "f16", "bf16"})
_KNOW_MASKS: Final = frozenset({"zt", "tbm", "tb", "tensorbit-directory"})
_WEIGHTS: Final = 1 << 20
"""Weights that are pruned at a time."""
_NOTED: Final = 1 << 16
"""Weights that the report looks at at a time: their wide values stay in the cache."""
_CACHED: Final = 32 << 20
"""Bytes of masks that are kept between the two parts of a tensor, instead of made twice."""


@dataclass(slots=True)
class Pruned:
    """What was done to one tensor, complete once the target is written.

    `zeros_before` and `zeros` count weights that are 0. `error` is the norm of what was removed
    relative to that of the tensor (Frobenius), `largest` the largest magnitude removed.
    """

    name: str
    pattern: str
    elements: int
    zeros_before: int = 0
    zeros: int = 0
    largest: float = 0.0
    _removed: float = field(default=0.0, repr=False)
    _total: float = field(default=0.0, repr=False)

    @property
    def error(self) -> float:
        """Norm of what was removed, relative to that of the tensor; 0.0 for zeros."""
        return sqrt(self._removed / self._total) if self._total else 0.0

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
            self._total += _square(was)
            self._removed += _square(gone)
            self.largest = max(self.largest, float(np.abs(gone, out=gone).max(initial=0.0)))


def _square(values: Array) -> float:
    """Return the sum of squares, in doubles only where floats overflow: that is much slower."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        total = float(np.dot(values, values))
        if np.isfinite(total):
            return total
        wide = values.astype(np.float64)
        return float(np.dot(wide, wide))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What pruning did: the files written, the tensors pruned, those left dense and why."""

    source: str
    target_format: str
    files: tuple[str, ...]
    pruned: tuple[Pruned, ...]
    dense: Mapping[str, str]


def prune(
    source: PathLike,
    target: PathLike,
    *,
    pattern: str = "2:4",
    choices: Sequence[tuple[str, str]] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    recipe: Recipe = "magnitude",
    format: str | None = None,  # noqa: A002 - the word users know
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> Pruning:
    """Prune the model at `source` into `target`, N of each M weights along the last axis kept.

    Matrices of floats are pruned to `pattern`, except norms, embeddings, heads and routers. Names
    are matched by shell patterns, exactly as spelt: `exclude` keeps tensors dense, `include` prunes
    tensors that would stay dense, `choices` gives pairs of a name pattern and an ``N:M`` or
    ``dense``, of which the first that matches decides. Tensors that are asked for by
    name are cut into flat groups where their rows hold no whole ones.

    A `.zt` or Tensorbit target gets masks, any other the zeros alone.

    Raises:
        InvalidInput: when a pattern is none, or source and target are one file.
        NotFound: when a pattern matches no tensor.
        Unsupported: when the target cannot hold something.
    """
    kind = target_of(target, format)
    default = parse_pattern(pattern)
    chosen = [(glob, None if text == "dense" else parse_pattern(text)) for glob, text in choices]
    if recipe not in ("magnitude", "tensorbit"):
        expected = "magnitude or tensorbit"
        raise InvalidInput("no such recipe", code="recipe", expected=expected, found=recipe)
    with api.open(source) as file:
        not_itself(file, target)
        require_matches([*(glob for glob, _ in choices), *include, *exclude], file)
        home = brought_home(file.catalog)
        pruned: list[Pruned] = []
        dense: dict[str, str] = {}
        made: dict[str, Pieces] = {}
        tensors: dict[str, Tensor] = {}
        for name, tensor in file.catalog.tensors.items():
            plain = replace(tensor, attributes=home.tensors.get(name))
            found = choose(plain, default, choices=chosen, include=include, exclude=exclude)
            if isinstance(found, str):
                dense[name] = found
                tensors[name] = plain
                continue
            work = _Work(file, plain, found, recipe, Pruned(name, str(found), plain.elements))
            pruned.append(work.report)
            tensors[name] = work.made(made, masked=kind.name in _KNOW_MASKS)
        catalog = Catalog("zt", tensors, home.file, None, file.catalog.files)
        options = Options(overwrite=overwrite, progress=progress)
        files = kind.write(Recast(file, catalog, made), Path(target), options)
        return Pruning(
            source=file.path,
            target_format=kind.name,
            files=tuple(files),
            pruned=tuple(pruned),
            dense=dense,
        )


def choose(
    tensor: Tensor,
    default: Pattern,
    *,
    choices: Sequence[tuple[str, Pattern | None]] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Pattern | str:
    """Return the pattern to which `tensor` is pruned, or the reason why it stays dense."""
    name = tensor.name
    reason = _unfit(tensor)
    if reason is not None:
        return reason
    chosen = next((found for glob, found in choices if matcher([glob])(name)), default)
    wanted = matcher([*(glob for glob, _ in choices), *include])(name)
    if chosen is None or matcher(exclude)(name):
        return "excluded"
    pattern = chosen
    if not wanted:
        if len(tensor.shape) != 2:
            return "no matrix"
        if DENSE_NAMES.search(name):
            return "norms, embeddings, heads and routers stay dense"
    if wanted and not tensor.elements % pattern.m:
        return pattern  # in flat groups, which may cross the ends of rows
    if tensor.shape[-1] % pattern.m:
        return f"rows of {tensor.shape[-1]} are no multiple of {pattern.m}"
    return pattern


def _unfit(tensor: Tensor) -> str | None:
    """Say why a tensor cannot be pruned at all; None if it can."""
    if tensor.layout == ID:
        return "has a mask already"
    part = tensor.parts.get("data")
    if tensor.layout != "dense" or part is None:
        return f"layout {tensor.layout}"
    if part.type is not None or part.dtype not in _FLOATS:
        return f"type {part.type or part.dtype}"
    return None if tensor.shape and tensor.elements else "no rows"


class _Work:
    """One tensor on its way: reads weights, chooses, gives masked weights and mask bytes."""

    def __init__(
        self, file: File, tensor: Tensor, pattern: Pattern, recipe: Recipe, report: Pruned
    ) -> None:
        from tensorark.codecs.numbers import numpy_dtype

        self.report = report
        self._tensor = tensor
        self._pattern = pattern
        self._is_staged = recipe == "tensorbit"
        self._least: int | None = None
        self._read = reader(file, tensor)
        self._element = numpy_dtype(tensor.parts["data"].dtype)
        self._cache: dict[int, Octets] = {}
        self._noted = 0

    def made(self, made: dict[str, Pieces], *, masked: bool) -> Tensor:
        """Return the pruned tensor, its parts to be computed: with a mask, or dense."""
        tensor, pattern = self._tensor, self._pattern
        part = tensor.parts["data"]
        facts = {KEY: {"n": pattern.n, "m": pattern.m}}
        attributes = {**(tensor.attributes or {}), **facts}
        key = f"{tensor.name} pruned"
        made[key] = self._weights
        weights = computed(key, part.nbytes, part.dtype)
        if not masked:
            return replace(tensor, parts={"data": weights}, attributes=attributes)
        mask = f"{tensor.name} mask"
        made[mask] = self._masks
        size = mask_size(tensor.elements, pattern)
        parts: dict[str, Part] = {"weights": weights, "mask": computed(mask, size, "u8")}
        return replace(tensor, layout=ID, parts=parts, attributes=attributes)

    def _cuts(self) -> Iterator[tuple[int, int]]:
        step = max(1, _WEIGHTS // self._pattern.m) * self._pattern.m
        for start in range(0, self._tensor.elements, step):
            yield start, min(start + step, self._tensor.elements)

    def _at(self, start: int, stop: int) -> Array:
        import numpy as np

        size = self._element.itemsize
        return np.frombuffer(self._read("data", start * size, stop * size), self._element)

    def _weights(self) -> Iterator[memoryview]:
        from tensorark.codecs import nm
        from tensorark.vocab.layouts.nm import Sparse

        for start, stop in self._cuts():
            before = self._at(start, stop)
            octets_ = self._choice(start, before)
            sparse = Sparse(
                elements=stop - start,
                pattern=self._pattern,
                packing="groups",
                dtype=self._tensor.parts["data"].dtype,
            )
            after = nm.apply(before, octets_, sparse, out=None)
            if self._is_staged:
                after = self._without_the_smaller(before, after)
            if start >= self._noted:
                self.report.note(before, after)
                self._noted = stop
            yield octets(after)

    def _masks(self) -> Iterator[memoryview]:
        for start, stop in self._cuts():
            yield octets(self._choice(start, self._at(start, stop)))

    def _choice(self, start: int, weights: Array) -> Octets:
        """Return the mask bytes of some weights, from the cache the second time."""
        from tensorark.codecs import magnitude, nm

        held = self._cache.pop(start, None)
        if held is not None:
            return held
        keep = magnitude.select(self._keys(weights), self._pattern)
        found = nm.mask_of(keep, self._pattern)
        if mask_size(self._tensor.elements, self._pattern) <= _CACHED:
            self._cache[start] = found
        return found

    def _keys(self, weights: Array) -> Keys:
        """Return the keys by which weights are ranked."""
        from tensorark.codecs import magnitude

        if not self._is_staged:
            return magnitude.magnitudes(weights)
        import numpy as np

        keys = _squares(weights)
        return np.where(keys >= self._threshold(), keys, np.uint32(0))

    def _without_the_smaller(self, before: Array, after: Array) -> Array:
        import numpy as np

        plain = after.view(f"u{after.dtype.itemsize}")
        stays = _squares(before) >= self._threshold()
        found: Array = np.where(stays, plain, plain.dtype.type(0)).view(after.dtype)
        return found

    def _threshold(self) -> int:
        """Return the key of the smallest weight that the first step of the public tool keeps."""
        if self._least is None:
            import numpy as np

            from tensorark.codecs.magnitude import Threshold

            count = self._tensor.elements
            keep = max(1, int(np.float32(0.5) * np.float32(count)))
            search = Threshold(count - keep)
            for feed in (search.coarse, search.fine):
                for start, stop in self._cuts():
                    feed(_squares(self._at(start, stop)))
            self._least = search.value
        return self._least


def _squares(weights: Array) -> npt.NDArray[np.uint32]:
    """Return integers in the order of the squares of weights, computed in f32."""
    import numpy as np

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        wide = weights.astype(np.float32)
        return (wide * wide).view(np.uint32)
