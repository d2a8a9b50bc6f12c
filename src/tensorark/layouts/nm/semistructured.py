"""The packed form of 2:4 matrices that CUTLASS kernels read, as torch makes it: values and meta.

Owns the codes of kept places and the order in which the kernels want them. Sizes must fit the
kernels; a matrix that keeps more than half of a group is refused, never trimmed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.errors import InvalidInput
from tensorark.layouts.nm.zeros import nonzero
from tensorark.layouts.numbers.dtypes import Array


@dataclass(frozen=True, slots=True)
class Form:
    """How elements of a type are packed: group size, sizes that kernels ask for, meta words.

    `rows` and `columns` must divide the matrix; a meta word of `word` bytes holds `codes` codes.
    Rows are reordered in blocks of `block`, `way` of which interleave.
    """

    group: int
    rows: int
    columns: int
    word: int
    codes: int

    @property
    def block(self) -> int:
        """Rows that are reordered together."""
        return 32 if self.word == 2 else 16

    @property
    def way(self) -> int:
        """Rows of a block that come to lie beside each other."""
        return self.block // 8


FORMS: Final = {
    "f16": Form(4, 32, 64, 2, 4),
    "bf16": Form(4, 32, 64, 2, 4),
    "i8": Form(4, 16, 128, 4, 8),
    "f32": Form(2, 32, 32, 2, 4),
}
"""The types that CUTLASS kernels take; f32 is packed as 1:2."""

# For each set of places that are not zero: two bits for each of the two places that are kept. One
# value alone is kept with a zero beside it, and which one is what torch does.
_CODES: Final = {
    (): 0xE,
    (0,): 0x8,
    (1,): 0x9,
    (2,): 0xE,
    (3,): 0xE,
    (0, 1): 0x4,
    (0, 2): 0x8,
    (1, 2): 0x9,
    (0, 3): 0xC,
    (1, 3): 0xD,
    (2, 3): 0xE,
}
_FULL: Final = 0xFF
_BY_FLAGS: Final = np.array(
    [_CODES.get(tuple(i for i in range(4) if flags >> i & 1), _FULL) for flags in range(16)],
    np.uint8,
)
_HALVES: Final = np.array([0xE, 0x4, 0xE, _FULL], np.uint8)
"""Codes of pairs: a 32-bit value is two half words, both kept or both not."""


def codes_of(matrix: Array, form: Form) -> npt.NDArray[np.uint8]:
    """Return the code of each group of some rows.

    Raises:
        InvalidInput: when a group holds too many values.
    """
    flags = nonzero(np.ascontiguousarray(matrix).reshape(-1)).reshape(-1, form.group)
    weight = (1 << np.arange(form.group)).astype(np.uint8)
    sets = (flags.view(np.uint8) * weight).sum(axis=1, dtype=np.uint8)
    codes: npt.NDArray[np.uint8] = (_BY_FLAGS if form.group == 4 else _HALVES)[sets]
    if (codes == _FULL).any():
        place = int(np.argmax(codes == _FULL)) * form.group
        raise InvalidInput(
            f"a group of {form.group} holds more than {form.group // 2} values",
            code="pattern",
            where=(place // matrix.shape[1], place % matrix.shape[1]),
            hint="prune it, or apply its mask",
        )
    return codes


def kept_of(matrix: Array, codes: npt.NDArray[np.uint8], form: Form) -> Array:
    """Return the kept values of some rows, half as many."""
    groups = matrix.reshape(-1, form.group)
    if form.group == 4:
        kept = np.stack([codes & 3, codes >> 2], axis=1).astype(np.intp)
    else:
        kept = (codes == _HALVES[0]).astype(np.intp)[:, None]
    return np.take_along_axis(groups, kept, axis=1).reshape(len(matrix), -1)


def meta_of(codes: Iterable[npt.NDArray[np.uint8]], rows: int, form: Form) -> npt.NDArray[Any]:
    """Return the meta of a matrix from the codes of all its rows, a run of rows at a time."""
    element = np.dtype(f"<u{form.word}")
    shifts = (4 * np.arange(form.codes)).astype(element)
    words = [
        np.bitwise_or.reduce(each.reshape(-1, form.codes).astype(element) << shifts, axis=1)
        for each in codes
    ]
    return _reorder(np.concatenate(words).reshape(rows, -1), form)


def form_of(shape: tuple[int, ...], dtype: str) -> Form:
    """Return how a matrix of this shape and type is packed.

    Raises:
        InvalidInput: when no kernel takes it.
    """
    form = FORMS.get(dtype)
    if form is None:
        raise InvalidInput(
            "no kernel takes this type", code="dtype", expected=" ".join(FORMS), found=dtype
        )
    if len(shape) != 2 or 0 in shape or shape[0] % form.rows or shape[1] % form.columns:
        raise InvalidInput(
            f"no kernel takes this size in {dtype}",
            code="shape",
            expected=f"multiples of {form.rows} and {form.columns}",
            found="×".join(map(str, shape)),
        )
    return form


def meta_shape(shape: tuple[int, ...], form: Form) -> tuple[int, int]:
    """Return the shape of the meta of a matrix."""
    return shape[0], shape[1] // form.group // form.codes


def _reorder(words: npt.NDArray[Any], form: Form) -> npt.NDArray[Any]:
    """Put the words of a meta where the kernels look for them."""
    rows = len(words)
    row, column = np.arange(rows)[:, None], np.arange(words.shape[1])[None, :]
    block = row % form.block
    row = row - block + block % 8 * form.way + block // 8
    # In each square of two by two the two words off the diagonal change places.
    turned = (row % 2 != column % 2).astype(np.int64)
    step = turned * (1 - 2 * (row % 2))
    row, column = row + step, column - step
    found = np.empty(words.size, words.dtype)
    found[column // 2 * 2 * rows + 2 * row + column % 2] = words
    return found.reshape(words.shape).view(f"<i{form.word}")
