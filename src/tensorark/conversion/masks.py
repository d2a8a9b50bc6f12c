"""Sparse checkpoints as N:M tensors: masks of other tools imported, patterns found in zeros.

Importing gathers the tensors of a sparse layer into one `tensorbit.nm/1` tensor. Values are those
that the checkpoint means, exactly; a layer whose mask follows no N:M becomes dense, and what is not
understood stays as it is, with the reason told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tensorark.conversion.dense import octets, reader
from tensorark.conversion.quantized import Recasting
from tensorark.core.model import Catalog, Part, Tensor
from tensorark.core.types import DTYPES
from tensorark.errors import Rejected
from tensorark.files import File
from tensorark.files.derived import Pieces, Recast, computed
from tensorark.layouts.nm.rules import ID, KEY, Pattern, mask_size

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tensorark.layouts.numbers.dtypes import Array

    Bits = npt.NDArray[np.bool_]

_FLOATS: Final = frozenset({"f64", "f32", "f16", "bf16"})
_QUARTERS: Final = frozenset({"f8_e4m3fn", "f8_e5m2"})
_ASP: Final = re.compile(r"(?P<prefix>(?:.*\.)?)__(?P<name>\w+)_mma_mask")
_ROWS: Final = 1 << 21
"""Weights that are worked on at a time, in whole rows."""


class _Left(Exception):
    """A layer stays as it is, for this reason."""


@dataclass(slots=True)
class _Work:
    """The catalog that is being made: tensors by name, and how to compute parts."""

    file: File
    tensors: dict[str, Tensor]
    made: dict[str, Pieces] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def put(self, new: Tensor, old: list[str], made: dict[str, Pieces]) -> None:
        """Put `new` in the place of the tensors `old`."""
        if new.name in self.tensors and new.name not in old:
            raise _Left(f"there is a tensor {new.name!r} already")
        place = list(self.tensors).index(old[0])
        rest = [each for name, each in self.tensors.items() if name not in old]
        before = [name for name in list(self.tensors)[:place] if name not in old]
        rest.insert(len(before), new)
        self.tensors = {each.name: each for each in rest}
        self.made |= made
        self.names.append(new.name)
        self.replaced += old

    def result(self) -> Recasting:
        """Return what was done."""
        return Recasting(tuple(self.names), tuple(self.replaced), dict(self.left))


def import_masks(file: File) -> tuple[File, Recasting]:
    """Return `file` with the masks of other tools made part of the weights that they belong to.

    Understood are compressed-tensors' ``sparse-24-bitmask`` and ``sparse-bitmask``, whether they
    name the layer or, as its first releases did, the full parameter; the pairs of
    ``torch.nn.utils.prune`` and the masks of ASP. Reads the masks, to find their patterns.
    """
    return _recast(file, _import)


def detect_masks(file: File) -> tuple[File, Recasting]:
    """Return `file` with each matrix whose zeros follow an N:M as an N:M tensor.

    Reads all matrices. Weights stay as they are; each group keeps N weights, zeros among them.
    """
    return _recast(file, _detect)


def _recast(file: File, each: Callable[[_Work, str], None]) -> tuple[File, Recasting]:
    work = _Work(file, dict(file.catalog.tensors))
    for name in file.catalog.tensors:
        if name not in work.tensors:
            continue
        try:
            each(work, name)
        except _Left as reason:
            work.left[name] = str(reason)
        except Rejected as error:
            if error.code != "mask-values":  # such a mask is none; payload that is broken is
                raise
            work.left[name] = error.detail
    catalog = Catalog("zt", work.tensors, file.catalog.attributes, None, file.catalog.files)
    return Recast(file, catalog, work.made), work.result()


def _import(work: _Work, name: str) -> None:
    stem, _, role = name.rpartition(".")
    if role == "compressed" and f"{stem}.bitmask" in work.tensors:
        _import_bitmask(work, stem)
    elif name.endswith("_orig") and name.removesuffix("_orig") + "_mask" in work.tensors:
        _import_pruned(work, name.removesuffix("_orig"))
    elif match := _ASP.fullmatch(name):
        weights = match["prefix"] + match["name"]
        if weights not in work.tensors:
            raise _Left(f"there is no tensor {weights!r} that it could mask")
        _import_asp(work, weights, name)


# ------------------------------------------------------------------------------ compressed-tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bitmask:
    """Weights stored as the kept values and a bit for each place, rows padded to whole bytes.

    A vector is one row.
    """

    file: File
    values: Tensor
    bits: Tensor
    shape: tuple[int, int]
    starts: tuple[int, ...] | None

    @property
    def step(self) -> int:
        """Rows that are worked on at a time."""
        return max(1, _ROWS // max(self.shape[1], 1))

    def keeps(self) -> Iterator[tuple[int, Bits]]:
        """Yield the first row and the flags of some rows."""
        import numpy as np

        width = -(-self.shape[1] // 8)
        read = reader(self.file, self.bits)
        for first in range(0, self.shape[0], self.step):
            last = min(first + self.step, self.shape[0])
            data = np.frombuffer(read("data", first * width, last * width), np.uint8)
            found = np.unpackbits(data.reshape(-1, width), axis=1, bitorder="little")
            yield first, found[:, : self.shape[1]].view(np.bool_)

    def dense(self) -> Iterator[memoryview]:
        """Yield the bytes of the matrix with its zeros.

        Raises:
            Rejected: when there are not as many values as bits.
        """
        import numpy as np

        from tensorark.layouts.nm.masks import spread
        from tensorark.layouts.numbers.dtypes import numpy_dtype

        part = self.values.parts["data"]
        element = numpy_dtype(part.dtype, part.type)
        read, at = reader(self.file, self.values), 0
        size = element.itemsize
        for first, keep in self.keeps():
            count = int(np.count_nonzero(keep))
            if self.starts is not None:
                counts = keep.sum(axis=1)
                expected = at + np.concatenate([[0], np.cumsum(counts)[:-1]])
                if list(expected) != list(self.starts[first : first + len(keep)]):
                    raise self._wrong("a row does not begin where its bits say")
            if (at + count) * size > part.nbytes:
                raise self._wrong("there are fewer values than bits")
            held = np.frombuffer(read("data", at * size, (at + count) * size), element)
            yield octets(spread(held, keep.reshape(-1)))
            at += count
        if at * size != part.nbytes:
            raise self._wrong("there are more values than bits")

    def _wrong(self, detail: str) -> Rejected:
        where = ("objects", self.bits.name)
        return Rejected(detail, code="compressed.bitmask", path=self.file.path, where=where)


def _parameter(stem: str) -> str:
    """Return the name of the weights behind ``<stem>.compressed``: a layer's, or a full one."""
    return stem if stem.rpartition(".")[2] in {"weight", "bias"} else f"{stem}.weight"


def _import_bitmask(work: _Work, stem: str) -> None:
    parameter = _parameter(stem)
    names = [f"{stem}.{role}" for role in ("compressed", "bitmask", "shape")]
    if names[2] not in work.tensors:
        raise _Left(f"there is no {names[2]!r}")
    offsets = f"{stem}.row_offsets"
    starts = None
    if offsets in work.tensors:
        names.append(offsets)
    values, bits, shape = (_plain(work, name) for name in names[:3])
    if _type(shape) != "i64" or shape.elements not in {1, 2}:
        raise _Left("its shape is neither two integers nor one")
    stored = values.parts["data"]
    if _type(values) not in {*_FLOATS, "i8", *_QUARTERS}:
        raise _Left(f"its values are {stored.type or stored.dtype}")
    full = tuple(int(each) for each in _integers(work, shape))
    rows, columns = (1, *full)[-2:]
    if min(full) < 0 or bits.shape != (*full[:-1], -(-columns // 8)):
        raise _Left("the bitmask does not fit the shape")
    if _type(bits) != "u8":
        raise _Left("the bitmask is not made of bytes")
    if offsets in work.tensors:
        found = _plain(work, offsets)
        if _type(found) != "i64" or found.shape != full[:-1]:
            raise _Left("the row offsets are not one integer for each row")
        starts = tuple(int(each) for each in _integers(work, found))
    elif columns % 4 or len(full) != 2 or values.shape != (rows, columns // 2):
        raise _Left("the kept values are not half of the shape")
    matrix = _Bitmask(
        file=work.file, values=values, bits=bits, shape=(rows, columns), starts=starts
    )
    if stored.type is not None:  # N:M tensors hold no such type
        weight = computed(f"{parameter} weights", rows * columns, stored.dtype, stored.type)
        parts: dict[str, Part] = {"data": weight}
        dense = Tensor(parameter, full, "dense", parts, values.attributes)
        work.put(dense, names, {f"{parameter} weights": matrix.dense})
        return
    pattern = Pattern(2, 4) if starts is None else None
    tensor = _sparse(
        parameter,
        full,
        _Source(values.parts["data"].dtype, matrix.dense, lambda: (k for _, k in matrix.keeps())),
        pattern,
        values.attributes,
    )
    work.put(tensor.tensor, names, tensor.made)


def _integers(work: _Work, tensor: Tensor) -> Array:
    import numpy as np

    return np.frombuffer(reader(work.file, tensor)("data"), "<i8")


# ---------------------------------------------------------------------- masks beside their weights


def _import_pruned(work: _Work, name: str) -> None:
    """Make ``weight_orig`` and ``weight_mask`` of torch the weight that they mean."""
    original, mask = _plain(work, f"{name}_orig"), _plain(work, f"{name}_mask")
    if original.shape != mask.shape:
        raise _Left("weights and mask have different shapes")
    dtype = _type(original)
    if dtype not in _FLOATS:
        raise _Left("the weights are not floats")
    flags = partial(_flags, work.file, mask)
    source = _Source(dtype, partial(_masked, work.file, original, flags), flags)
    made = _sparse(name, original.shape, source, None, original.attributes)
    work.put(made.tensor, [original.name, mask.name], made.made)


def _masked(
    file: File, weight: Tensor, flags: Callable[[], Iterator[Bits]]
) -> Iterator[memoryview]:
    """Yield the bytes of weights, those without their flag as zeros."""
    import numpy as np

    from tensorark.layouts.numbers.dtypes import numpy_dtype

    element = numpy_dtype(weight.parts["data"].dtype)
    found = _rows(file, weight, element, _step(weight.shape))
    for values, keep in zip(found, flags(), strict=True):
        plain = values.view(f"u{element.itemsize}")
        yield octets(np.where(keep, plain, plain.dtype.type(0)))


def _import_asp(work: _Work, name: str, mask_name: str) -> None:
    """Make the mask that ASP keeps beside a weight part of it; the weight stays as it is.

    ASP prunes convolutions along their input channels, which lie apart unless the kernel is a
    point: such a weight is dense, with zeros where the mask has them.
    """
    weight, mask = _plain(work, name), _plain(work, mask_name)
    if weight.shape != mask.shape:
        raise _Left("weights and mask have different shapes")
    part = weight.parts["data"]
    if _type(weight) not in _FLOATS:
        raise _Left("the weights are not floats")
    matrix = weight.shape
    while matrix and matrix[-1] == 1:
        matrix = matrix[:-1]
    flags = partial(_flags, work.file, replace(mask, shape=matrix))
    pattern = _pattern_of(flags(), matrix)
    source = _Source(part.dtype, None, flags, part)
    if pattern is None:
        flags = partial(_flags, work.file, mask)
        source = _Source(part.dtype, partial(_masked, work.file, weight, flags), flags)
    made = _sparse(name, weight.shape, source, pattern, weight.attributes)
    work.put(made.tensor, [name, mask_name], made.made)


def _detect(work: _Work, name: str) -> None:
    """Make a matrix whose zeros follow an N:M an N:M tensor; its attributes may name which."""
    tensor = work.tensors[name]
    part = tensor.parts.get("data")
    if tensor.layout != "dense" or part is None or part.dtype not in _FLOATS:
        return
    stated = _stated(tensor)
    if part.type is not None or not tensor.elements or (len(tensor.shape) != 2 and not stated):
        return

    def flags() -> Iterator[Bits]:
        from tensorark.layouts.nm.zeros import nonzero
        from tensorark.layouts.numbers.dtypes import numpy_dtype

        for values in _rows(work.file, tensor, numpy_dtype(part.dtype), _step(tensor.shape)):
            yield nonzero(values.reshape(-1)).reshape(values.shape)

    pattern = _pattern_of(flags(), tensor.shape, stated)
    if pattern is None:
        return
    source = _Source(part.dtype, None, flags, part)
    made = _sparse(name, tensor.shape, source, pattern, tensor.attributes)
    work.put(made.tensor, [name], made.made)


def _stated(tensor: Tensor) -> Pattern | None:
    """Return the pattern that the attributes of a tensor name, as our dense export leaves them."""
    facts = (tensor.attributes or {}).get(KEY)
    n, m = (facts.get("n"), facts.get("m")) if isinstance(facts, dict) else (None, None)
    if isinstance(n, int) and isinstance(m, int) and 0 < n < m <= 1 << 16:
        return Pattern(n, m)
    return None


# ---------------------------------------------------------------------------------------- making


@dataclass(frozen=True, slots=True)
class _Source:
    """Where weights and flags come from; `stored` is the part that already holds the weights."""

    dtype: str
    weights: Pieces | None
    flags: Callable[[], Iterator[Bits]]
    stored: Part | None = None


@dataclass(frozen=True, slots=True)
class _Made:
    """A tensor of which some parts are computed."""

    tensor: Tensor
    made: dict[str, Pieces]


def _sparse(
    name: str,
    shape: tuple[int, ...],
    source: _Source,
    pattern: Pattern | None,
    attributes: Any,
) -> _Made:
    """Return an N:M tensor, or a dense one where the flags follow no pattern."""
    made: dict[str, Pieces] = {}
    elements = 1
    for dimension in shape:
        elements *= dimension
    found = pattern or _pattern_of(source.flags(), shape)
    key = f"{name} weights"
    weights = source.stored
    if weights is None:
        if source.weights is None:
            raise AssertionError("weights come from somewhere")
        made[key] = source.weights
        weights = computed(key, DTYPES[source.dtype] * elements, source.dtype)
    held = {k: v for k, v in (attributes or {}).items() if k != KEY}
    if found is None:
        return _Made(Tensor(name, shape, "dense", {"data": weights}, held or None), made)
    mask = f"{name} mask"
    made[mask] = partial(mask_pieces, source.flags, found)
    parts = {"weights": weights, "mask": computed(mask, mask_size(elements, found), "u8")}
    quantized = {"dtype": "int8"} if source.dtype == "i8" else {}
    held[KEY] = {"n": found.n, "m": found.m, **quantized}
    return _Made(Tensor(name, shape, ID, parts, held), made)


def mask_pieces(flags: Callable[[], Iterator[Bits]], pattern: Pattern) -> Iterator[memoryview]:
    """Yield the mask bytes of flags, with zeros added so that each whole group keeps N weights."""
    import numpy as np

    from tensorark.layouts.nm.masks import pack_mask
    from tensorark.layouts.nm.zeros import fill

    rest: Bits = np.empty(0, np.bool_)
    for keep in flags():
        flat = np.concatenate([rest, keep.reshape(-1)]) if rest.size else keep.reshape(-1)
        whole = flat.size // pattern.m * pattern.m
        rest = flat[whole:].copy()
        if whole:
            yield pack_mask(fill(flat[:whole], pattern), pattern).data
    if rest.size:
        yield pack_mask(rest, pattern).data


def _pattern_of(
    flags: Iterator[Bits], shape: tuple[int, ...], stated: Pattern | None = None
) -> Pattern | None:
    """Return the tightest N:M along the last axis; None where there is none."""
    from tensorark.layouts.nm.zeros import Search

    length = shape[-1] if shape else 0
    search = Search(length, stated)
    for keep in flags:
        search.add(keep.reshape(-1))
        if search.is_hopeless:
            return None
    return search.found


def _plain(work: _Work, name: str) -> Tensor:
    tensor = work.tensors[name]
    if tensor.layout != "dense" or tensor.parts.keys() != {"data"}:
        raise _Left(f"{name!r} is not dense")
    return tensor


def _type(tensor: Tensor) -> str:
    """Return the type of the elements of a dense tensor; never that of its storage instead."""
    part = tensor.parts["data"]
    return f"logical {part.type}" if part.type in DTYPES else part.type or part.dtype


def _step(shape: tuple[int, ...]) -> int:
    """Return how many rows make about `_ROWS` weights."""
    columns = shape[-1] if shape else 1
    return max(1, _ROWS // max(columns, 1))


def _rows(file: File, tensor: Tensor, element: Any, step: int) -> Iterator[Array]:
    import numpy as np

    columns = tensor.shape[-1] if tensor.shape else 1
    rows = tensor.elements // columns if columns else 0
    read, size = reader(file, tensor), element.itemsize
    for first in range(0, rows, step):
        last = min(first + step, rows)
        data = read("data", first * columns * size, last * columns * size)
        yield np.frombuffer(data, element).reshape(last - first, columns)


def _flags(file: File, mask: Tensor) -> Iterator[Bits]:
    """Yield the flags of a mask of booleans, or of numbers that are 0 or 1.

    Raises:
        Rejected: for any other number.
    """
    import numpy as np

    from tensorark.layouts.numbers.dtypes import numpy_dtype

    part = mask.parts["data"]
    element = np.dtype(np.uint8) if part.type == "bool" else numpy_dtype(part.dtype, part.type)
    for values in _rows(file, mask, element, _step(mask.shape)):
        keep = values == element.type(1)
        if not (keep | (values == element.type(0))).all():
            raise Rejected(
                "a mask holds something else than 0 and 1",
                code="mask-values",
                path=file.path,
                where=("objects", mask.name),
            )
        yield keep
