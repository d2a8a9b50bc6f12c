"""Casting floats on purpose, with the error that it makes. No other conversion rounds anything.

Owns the step from one float type to another. Each value is rounded once, to nearest, ties to even;
what does not fit becomes infinite and is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tensorark.core.brief import brief
from tensorark.core.model import Part, Tensor
from tensorark.core.types import DTYPES
from tensorark.errors import InvalidInput
from tensorark.files import File
from tensorark.files.derived import derive_file, derive_part, octets
from tensorark.layouts.nm.rules import ID, QUANTIZED, members
from tensorark.layouts.payload import Reader

if TYPE_CHECKING:
    from tensorark.layouts.numbers.dtypes import Array

FLOATS: Final = ("f64", "f32", "f16", "bf16")
_VALUES: Final = 1 << 20
_NOTED: Final = 1 << 16
"""Values that the report looks at at a time: their wide forms stay in the cache."""


@dataclass(slots=True)
class Casting:
    """What casting did, complete once the target is written.

    `names` are the tensors that were cast to `dtype`. `max_error` is the largest absolute
    difference between finite values, `changed` counts values that are not what they were,
    `overflowed` finite ones that became infinite.
    """

    __repr__ = brief

    dtype: str
    names: list[str] = field(default_factory=list)
    values: int = 0
    changed: int = 0
    overflowed: int = 0
    max_error: float = 0.0


def cast(file: File, dtype: str) -> tuple[File, Casting]:
    """Return `file` with its float weights as `dtype`, and the report of what that changes.

    Takes dense tensors and the weights of `tensorbit.nm/1`; everything else stays as it is.

    Raises:
        InvalidInput: when `dtype` is no float type.
    """
    if dtype not in FLOATS:
        raise InvalidInput("no float type", code="cast", expected=" ".join(FLOATS), found=dtype)
    report = Casting(dtype)
    tensors: dict[str, Tensor] = {}
    for name, tensor in file.catalog.tensors.items():
        role = _role(tensor)
        if role is None or tensor.parts[role].dtype == dtype:
            tensors[name] = tensor
            continue
        report.names.append(name)
        size = tensor.parts[role].nbytes // DTYPES[tensor.parts[role].dtype] * DTYPES[dtype]
        made = derive_part(partial(_pieces, file, tensor, role, report), size, dtype)
        parts: dict[str, Part] = {**tensor.parts, role: made}
        tensors[name] = replace(tensor, parts=parts)
    return derive_file(file, tensors), report


def _role(tensor: Tensor) -> str | None:
    """Return the part that holds floats to be cast; None where there is none."""
    role = {"dense": "data", ID: "weights"}.get(tensor.layout)
    part = tensor.parts.get(role or "")
    if part is None or part.type is not None or part.dtype not in FLOATS:
        return None
    quantized = tensor.layout == ID and members(tensor.attributes).get("dtype") in QUANTIZED
    return None if quantized else role


def _pieces(file: File, tensor: Tensor, role: str, report: Casting) -> Iterator[memoryview]:
    import numpy as np

    from tensorark.layouts.numbers.dtypes import numpy_dtype
    from tensorark.layouts.numbers.rounding import round_to

    part = tensor.parts[role]
    element, goal = numpy_dtype(part.dtype), numpy_dtype(report.dtype)
    read, count = Reader(file, tensor), part.nbytes // element.itemsize
    for start in range(0, count, _VALUES):
        stop = min(start + _VALUES, count)
        data = read(role, start * element.itemsize, stop * element.itemsize)
        before = np.frombuffer(data, element)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            after = round_to(before, goal)
            for at in range(0, before.size, _NOTED):
                _note(before[at : at + _NOTED], after[at : at + _NOTED], report)
        yield octets(after)


def _note(left: Array, right: Array, report: Casting) -> None:
    import numpy as np

    # Every f16 and bf16 is an f32, so nothing is rounded here unless an f64 takes part.
    wide = np.float64 if 8 in {left.dtype.itemsize, right.dtype.itemsize} else np.float32
    before, after = left.astype(wide), right.astype(wide)
    report.values += before.size
    places = np.flatnonzero(before != after)
    if not places.size:
        return
    before, after = before[places], after[places]
    finite = np.isfinite(before) & np.isfinite(after)
    report.changed += int(np.count_nonzero(~np.isnan(before)))
    report.overflowed += int(np.count_nonzero(np.isinf(after) & np.isfinite(before)))
    if finite.any():
        worst = float(np.abs(before[finite] - after[finite]).max())
        report.max_error = max(report.max_error, worst)
