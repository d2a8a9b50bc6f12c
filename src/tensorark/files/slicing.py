"""Reading a slice of a tensor: numpy's own indexing decides what, contiguous runs are read.

Numpy basic indexing is not imitated but asked: an array that stands for the tensor, whose memory is
never touched, is indexed, and offset, shape and strides of the result say what to read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tensorark.layouts.numbers.dtypes import Array

PAGE: Final = 4096
"""Gaps below a page are read through: a request costs more than the bytes."""

ReadElements = Callable[[int, int], Array]
"""Gives elements [start, start + count) of the flattened tensor."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which elements an index selects: those at `offset` + Σ iₖ·strideₖ, counted in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: bool


def is_basic(index: object) -> bool:
    """Tell whether `index` is numpy basic indexing: integers, slices, Ellipsis and None."""
    steps = index if isinstance(index, tuple) else (index,)
    return all(
        step is None or step is Ellipsis or isinstance(step, slice) or _is_integer(step)
        for step in steps
    )


def _is_integer(step: object) -> bool:
    if isinstance(step, bool | np.bool_ | np.ndarray):
        return False  # these select by mask, or by array
    try:
        operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def select(shape: tuple[int, ...], index: Any) -> Selection:
    """Return what the basic `index` selects of a row-major tensor of `shape`.

    Raises:
        IndexError: as numpy does, and for the same indices.
    """
    steps = index if isinstance(index, tuple) else (index,)
    # One byte stands for an element, so that strides and offsets count elements. Indexing computes
    # addresses only; with an Ellipsis even a full index gives a view and does not read.
    anchor = np.zeros(1, np.int8)
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    whole = as_strided(anchor, shape, strides)
    explicit = any(step is Ellipsis for step in steps)
    view = whole[steps] if explicit else whole[(*steps, Ellipsis)]
    offset = _address(view) - _address(whole)
    return Selection(offset, view.shape, view.strides, view.ndim == 0 and not explicit)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def extent(selection: Selection) -> tuple[int, int]:
    """Return the first element that `selection` needs, and the one behind the last."""
    if 0 in selection.shape:
        return 0, 0
    reach = [
        stride * (length - 1)
        for length, stride in zip(selection.shape, selection.strides, strict=True)
    ]
    first = selection.offset + sum(each for each in reach if each < 0)
    return first, selection.offset + sum(each for each in reach if each > 0) + 1


def pick(selection: Selection, block: Array, first: int) -> Any:
    """Return the selected elements out of `block`, which holds the elements from `first` on.

    The result is a new array, or a scalar of numpy.
    """
    if 0 in selection.shape:
        return np.empty(selection.shape, block.dtype)
    strides = [stride * block.itemsize for stride in selection.strides]
    result = as_strided(block[selection.offset - first :], selection.shape, strides).copy()
    return result[()] if selection.scalar else result


def gather(selection: Selection, width: int, element: np.dtype[Any], read: ReadElements) -> Any:
    """Read the selected elements, `width` bytes each, into a new array, or a scalar of numpy.

    Reads at most a page more than is needed for each contiguous run.
    """
    if 0 in selection.shape:
        return np.empty(selection.shape, element)
    offset = selection.offset
    axes: list[tuple[int, int]] = []
    flipped: list[Any] = []
    for length, stride in zip(selection.shape, selection.strides, strict=True):
        if length > 1:
            axes.append((length, abs(stride)))
            flipped.append(slice(None, None, -1 if stride < 0 else 1))
            offset += min(0, stride * (length - 1))
    split, extent = _inner(axes, width)
    outer, inner = axes[:split], axes[split:]
    out = np.empty([length for length, _ in axes], element)
    for place, shift in _positions(outer):
        block = read(offset + shift, extent)
        # not `as_strided`, which does not know the types of ml_dtypes
        out[(*place, ...)] = np.ndarray(
            [length for length, _ in inner],
            element,
            block.view(np.uint8).data,
            strides=[stride * element.itemsize for _, stride in inner],
        )
    result = out[(*flipped, ...)].reshape(selection.shape)
    return result[()] if selection.scalar else result


def _inner(axes: list[tuple[int, int]], width: int) -> tuple[int, int]:
    """Return how many leading axes are read run by run, and the elements of one run."""
    extent = 1
    for split in range(len(axes), 0, -1):
        length, stride = axes[split - 1]
        if (stride - extent) * width >= PAGE:
            return split, extent
        extent += stride * (length - 1)
    return 0, extent


def _positions(axes: list[tuple[int, int]]) -> Iterator[tuple[tuple[Any, ...], int]]:
    for place in product(*(range(length) for length, _ in axes)):
        yield place, sum(i * stride for i, (_, stride) in zip(place, axes, strict=True))
