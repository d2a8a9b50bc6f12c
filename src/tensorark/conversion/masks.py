"""Sparse checkpoints as N:M tensors: masks of other tools imported, patterns found in zeros.

Importing gathers the tensors of a sparse layer into one `tensorbit.nm/1` tensor. Values are those
that the checkpoint means, exactly; a layer whose mask follows no N:M becomes dense, and what is not
understood stays as it is, with the reason told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tensorark.conversion.layers import Layers, Left, Recasting, replace_layers
from tensorark.core.model import Tensor
from tensorark.core.types import DTYPES
from tensorark.errors import Rejected
from tensorark.files import File
from tensorark.files.derived import derive_part, octets
from tensorark.layouts.nm.rules import ID, KEY, Pattern, mask_size
from tensorark.layouts.payload import Reader

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


def import_masks(file: File) -> tuple[File, Recasting]:
    """Return `file` with the masks of other tools made part of the weights that they belong to.

    Understood are compressed-tensors' ``sparse-24-bitmask`` and ``sparse-bitmask``, whether they
    name the layer or, as its first releases did, the full parameter; the pairs of
    ``torch.nn.utils.prune`` and the masks of ASP. Reads the masks, to find their patterns.
    """
    return replace_layers(file, _import, stays=_is_no_mask)


def detect_masks(file: File) -> tuple[File, Recasting]:
    """Return `file` with each matrix whose zeros follow an N:M as an N:M tensor.

    Reads all matrices. Weights stay as they are; each group keeps N weights, zeros among them.
    """
    return replace_layers(file, _detect, stays=_is_no_mask)


def _is_no_mask(error: Rejected) -> bool:
    """Tell whether what was taken for a mask is none; payload may be broken as well."""
    return error.code == "mask-values"


def _import(layers: Layers, name: str) -> None:
    stem, _, role = name.rpartition(".")
    if role == "compressed" and f"{stem}.bitmask" in layers.tensors:
        _import_bitmask(layers, stem)
    elif name.endswith("_orig") and name.removesuffix("_orig") + "_mask" in layers.tensors:
        _import_pruned(layers, name.removesuffix("_orig"))
    elif match := _ASP.fullmatch(name):
        weights = match["prefix"] + match["name"]
        if weights not in layers.tensors:
            raise Left(f"there is no tensor {weights!r} that it could mask")
        _import_asp(layers, weights, name)


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
        read = Reader(self.file, self.bits)
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
        read, at = Reader(self.file, self.values), 0
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


def _import_bitmask(layers: Layers, stem: str) -> None:
    parameter = _parameter(stem)
    names = [f"{stem}.{role}" for role in ("compressed", "bitmask", "shape")]
    if names[2] not in layers.tensors:
        raise Left(f"there is no {names[2]!r}")
    offsets = f"{stem}.row_offsets"
    starts = None
    if offsets in layers.tensors:
        names.append(offsets)
    values, bits, shape = (_plain(layers, name) for name in names[:3])
    if _type(shape) != "i64" or shape.elements not in {1, 2}:
        raise Left("its shape is neither two integers nor one")
    held = values.parts["data"]
    if _type(values) not in {*_FLOATS, "i8", *_QUARTERS}:
        raise Left(f"its values are {held.type or held.dtype}")
    full = tuple(int(each) for each in _integers(layers, shape))
    rows, columns = (1, *full)[-2:]
    if min(full) < 0 or bits.shape != (*full[:-1], -(-columns // 8)):
        raise Left("the bitmask does not fit the shape")
    if _type(bits) != "u8":
        raise Left("the bitmask is not made of bytes")
    if offsets in layers.tensors:
        found = _plain(layers, offsets)
        if _type(found) != "i64" or found.shape != full[:-1]:
            raise Left("the row offsets are not one integer for each row")
        starts = tuple(int(each) for each in _integers(layers, found))
    elif columns % 4 or len(full) != 2 or values.shape != (rows, columns // 2):
        raise Left("the kept values are not half of the shape")
    matrix = _Bitmask(
        file=layers.file, values=values, bits=bits, shape=(rows, columns), starts=starts
    )
    if held.type is not None:  # N:M tensors hold no such type
        weights = derive_part(matrix.dense, rows * columns, held.dtype, held.type)
        dense = Tensor(parameter, full, "dense", {"data": weights}, values.attributes)
        layers.replace(names, [dense])
        return
    weights = derive_part(matrix.dense, DTYPES[held.dtype] * rows * columns, held.dtype)
    pattern = Pattern(2, 4) if starts is None else None
    whole = Tensor(parameter, full, "dense", {"data": weights}, values.attributes)
    layers.replace(names, [_sparse(whole, lambda: (k for _, k in matrix.keeps()), pattern)])


def _integers(layers: Layers, tensor: Tensor) -> Array:
    import numpy as np

    return np.frombuffer(Reader(layers.file, tensor)("data"), "<i8")


# ---------------------------------------------------------------------- masks beside their weights


def _import_pruned(layers: Layers, name: str) -> None:
    """Make ``weight_orig`` and ``weight_mask`` of torch the weight that they mean."""
    original, mask = _plain(layers, f"{name}_orig"), _plain(layers, f"{name}_mask")
    if original.shape != mask.shape:
        raise Left("weights and mask have different shapes")
    if _type(original) not in _FLOATS:
        raise Left("the weights are not floats")
    flags = partial(_flags, layers.file, mask)
    weights = replace(_mask(layers.file, original, flags), name=name)
    layers.replace([original.name, mask.name], [_sparse(weights, flags)])


def _mask(file: File, weight: Tensor, flags: Callable[[], Iterator[Bits]]) -> Tensor:
    """Return weights of which those without their flag are zeros."""
    part = weight.parts["data"]
    data = derive_part(partial(_apply_mask, file, weight, flags), part.nbytes, part.dtype)
    return replace(weight, parts={"data": data})


def _apply_mask(
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


def _import_asp(layers: Layers, name: str, mask_name: str) -> None:
    """Make the mask that ASP keeps beside a weight part of it; the weight stays as it is.

    ASP prunes convolutions along their input channels, which lie apart unless the kernel is a
    point: such a weight is dense, with zeros where the mask has them.
    """
    weight, mask = _plain(layers, name), _plain(layers, mask_name)
    if weight.shape != mask.shape:
        raise Left("weights and mask have different shapes")
    if _type(weight) not in _FLOATS:
        raise Left("the weights are not floats")
    matrix = weight.shape
    while matrix and matrix[-1] == 1:
        matrix = matrix[:-1]
    flags = partial(_flags, layers.file, replace(mask, shape=matrix))
    pattern = _pattern_of(flags(), matrix)
    if pattern is None:
        flags = partial(_flags, layers.file, mask)
        weight = _mask(layers.file, weight, flags)
    layers.replace([name, mask_name], [_sparse(weight, flags, pattern)])


def _detect(layers: Layers, name: str) -> None:
    """Make a matrix whose zeros follow an N:M an N:M tensor; its attributes may name which."""
    tensor = layers.tensors[name]
    part = tensor.parts.get("data")
    if tensor.layout != "dense" or part is None or part.dtype not in _FLOATS:
        return
    stated = _pattern_in(tensor)
    if part.type is not None or not tensor.elements or (len(tensor.shape) != 2 and not stated):
        return

    def flags() -> Iterator[Bits]:
        from tensorark.layouts.nm.zeros import nonzero
        from tensorark.layouts.numbers.dtypes import numpy_dtype

        for values in _rows(layers.file, tensor, numpy_dtype(part.dtype), _step(tensor.shape)):
            yield nonzero(values.reshape(-1)).reshape(values.shape)

    pattern = _pattern_of(flags(), tensor.shape, stated)
    if pattern is None:
        return
    layers.replace([name], [_sparse(tensor, flags, pattern)])


def _pattern_in(tensor: Tensor) -> Pattern | None:
    """Return the pattern that the attributes of a tensor name, as our dense export leaves them."""
    facts = (tensor.attributes or {}).get(KEY)
    n, m = (facts.get("n"), facts.get("m")) if isinstance(facts, dict) else (None, None)
    if isinstance(n, int) and isinstance(m, int) and 0 < n < m <= 1 << 16:
        return Pattern(n, m)
    return None


# ---------------------------------------------------------------------------------------- making


def _sparse(
    tensor: Tensor, flags: Callable[[], Iterator[Bits]], pattern: Pattern | None = None
) -> Tensor:
    """Return a dense tensor as an N:M one; dense as it is where the flags follow no pattern."""
    weights = tensor.parts["data"]
    found = pattern or _pattern_of(flags(), tensor.shape)
    attributes = {k: v for k, v in (tensor.attributes or {}).items() if k != KEY}
    if found is None:
        return replace(tensor, attributes=attributes or None)
    mask = derive_part(partial(_mask_pieces, flags, found), mask_size(tensor.elements, found), "u8")
    quantized = {"dtype": "int8"} if weights.dtype == "i8" else {}
    attributes[KEY] = {"n": found.n, "m": found.m, **quantized}
    parts = {"weights": weights, "mask": mask}
    return replace(tensor, layout=ID, parts=parts, attributes=attributes)


def _mask_pieces(flags: Callable[[], Iterator[Bits]], pattern: Pattern) -> Iterator[memoryview]:
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


def _plain(layers: Layers, name: str) -> Tensor:
    tensor = layers.tensors[name]
    if tensor.layout != "dense" or tensor.parts.keys() != {"data"}:
        raise Left(f"{name!r} is not dense")
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
    read, size = Reader(file, tensor), element.itemsize
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
