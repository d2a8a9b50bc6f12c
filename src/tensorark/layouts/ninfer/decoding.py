"""From encoded objects to arrays: rows of one, or all of it, block by block.

Owns the way from the planes of an object to the codes and scales that the numeric formats work on.
Temporary memory stays at a few MiB whatever the size of the object; nothing is judged, since
reading an object is not verifying it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensorark.errors import RAW, InvalidInput, Unsupported
from tensorark.layouts.ninfer import fp8, groups, nvfp4
from tensorark.layouts.ninfer.geometry import DIRECT, GROUPED, NVFP4, ROW_SCALED, Geometry
from tensorark.layouts.ninfer.small_floats import Floats, Octets, little

Array = npt.NDArray[Any]
Planes = Mapping[str, Octets]
"""The bytes of some rows, by the role of the plane they belong to."""

BLOCK: Final = 1 << 18
"""Elements that are decoded or encoded at a time: codes and values of as many stay in the cache."""

ELEMENT: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "fp32": np.dtype("<f4"),
        "int32": np.dtype("<i4"),
    }
)
"""The numpy type of each format of plain words; all others decode to float32."""


def decode(
    whole: Geometry,
    data: memoryview,
    start: int = 0,
    stop: int | None = None,
    *,
    out: Floats | None = None,
) -> Array:
    """Return rows [start, stop) of an encoded object as [rows, columns].

    Plain words are a view of `data`; everything else is a new float32 array, or `out`. Codes and
    scales that the format forbids are decoded as what their words say.

    Raises:
        Unsupported: for blocks of GGUF, which are kept as they are.
        InvalidInput: when `data` is not the object, or has no such rows.
    """
    stop = whole.rows if stop is None else stop
    if not 0 <= start <= stop <= whole.rows:
        found = f"rows {start} to {stop}"
        expected = f"rows within {whole.rows}"
        raise InvalidInput("no such rows", code="rows", expected=expected, found=found)
    planes = planes_of(whole, data)
    if whole.format in DIRECT:
        words = planes["data"].reshape(whole.rows, -1)[start:stop]
        return words.view(ELEMENT[whole.format])
    decoder = _decoder(whole.format)
    if out is None:
        out = np.empty((stop - start, whole.columns), np.float32)
    decoder(whole, planes, start, out)
    return out


def planes_of(whole: Geometry, data: memoryview) -> dict[str, Octets]:
    """Return the bytes of each plane of an encoded object.

    Raises:
        InvalidInput: when `data` does not have the size of the object (code ``object-size``).
    """
    if len(data) != whole.nbytes:
        raise InvalidInput(
            "these are not the bytes of the object",
            code="object-size",
            expected=f"{whole.nbytes} bytes",
            found=len(data),
        )
    octets = np.frombuffer(data, np.uint8)
    return {each.role: octets[each.offset : each.offset + each.nbytes] for each in whole.planes}


_Decoder = Callable[[Geometry, Planes, int, Floats], None]


def _decoder(format_: str) -> _Decoder:
    if format_ in GROUPED:
        return _decode_groups
    if format_ == NVFP4:
        return _decode_nvfp4
    if format_ in ROW_SCALED:
        return _decode_fp8
    raise Unsupported(
        "the blocks of GGUF types are kept as they are; turning them into numbers is not built",
        code="gguf-blocks",
        section="6.1",
        found=format_,
        hint=RAW,
    )


def _blocks(rows: int, columns: int, step: int) -> Iterator[tuple[slice, slice]]:
    """Cut a matrix into blocks of about `BLOCK` elements, columns in multiples of `step`."""
    width = min(columns, max(1, BLOCK // step) * step)
    height = max(1, BLOCK // width)
    for row in range(0, rows, height):
        for column in range(0, columns, width):
            yield (
                slice(row, min(row + height, rows)),
                slice(column, min(column + width, columns)),
            )


def _decode_groups(whole: Geometry, planes: Planes, start: int, out: Floats) -> None:
    coding, stored = groups.CODINGS[whole.format], GROUPED[whole.format]
    window = slice(start, start + len(out))
    base = planes["base"].reshape(whole.rows, -1, stored.base)[window]
    high = planes["high"].reshape(whole.rows, base.shape[1], stored.high)[window]
    scales = little(planes["scales"], "<f2").reshape(whole.rows, -1)[window]
    for rows, columns in _blocks(len(out), whole.columns, stored.group):
        part = (rows, slice(columns.start // stored.group, -(-columns.stop // stored.group)))
        codes = groups.unpack(coding, base[part], high[part])
        target = out[rows, columns]
        if target.shape[1] % stored.group:
            values = np.empty(codes.shape, np.float32)
            groups.reconstruct(codes, scales[part], values)
            target[...] = values.reshape(len(values), -1)[:, : target.shape[1]]
        else:
            groups.reconstruct(codes, scales[part], target.reshape(codes.shape))


def _decode_nvfp4(whole: Geometry, planes: Planes, start: int, out: Floats) -> None:
    codes = planes["codes"].reshape(whole.rows, -1)
    tiles = planes["scales"].reshape(whole.rows // nvfp4.TILE, -1)
    divisors = little(planes["divisors"], "<f4")
    height = max(1, BLOCK // whole.columns)
    stop = start + len(out)
    for tile in range(start // nvfp4.TILE, -(-stop // nvfp4.TILE)):
        first = tile * nvfp4.TILE
        scales = nvfp4.unswizzle(tiles[tile], nvfp4.TILE)
        divisor = divisors[first // whole.segment]
        last = min(stop, first + nvfp4.TILE)
        for row in range(max(start, first), last, height):
            end = min(row + height, last)
            nvfp4.reconstruct(
                codes[row:end],
                scales[row - first : end - first],
                divisor,
                out[row - start : end - start],
            )


def _decode_fp8(whole: Geometry, planes: Planes, start: int, out: Floats) -> None:
    codes, words = fp8_planes(whole, planes)
    scales = fp8.scale_values(words[start : start + len(out)], fp8.SCALE_OF[whole.format])
    codes = codes[start : start + len(out)]
    for rows, columns in _blocks(len(out), whole.columns, 1):
        fp8.reconstruct(codes[rows, columns], scales[rows], out[rows, columns])


def fp8_planes(whole: Geometry, planes: Planes) -> tuple[Octets, npt.NDArray[np.uint16]]:
    """Return codes [rows, columns] and scale words [rows], wherever the layout keeps them."""
    if "rows" in planes:
        records = planes["rows"].reshape(whole.rows, -1)
        return records[:, : whole.columns], little(records[:, whole.columns :], "<u2").reshape(-1)
    return planes["codes"].reshape(whole.rows, -1), little(planes["scales"], "<u2")
