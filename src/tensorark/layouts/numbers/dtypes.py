"""Storage types and logical types as numpy arrays, both ways.

Owns the one table between ids and numpy dtypes. Every array is row-major and little-endian on its
way out, whatever it was on its way in; nothing is reinterpreted, rounded or cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.core.rules import Reading
from tensorark.core.types import TYPES
from tensorark.errors import RAW, InvalidInput, Unsupported, Where, quoted
from tensorark.layouts.numbers.content import CONTENT_RULES, Content

Array = npt.NDArray[Any]

BLOCK: Final = 4 << 20
"""Bytes of an array that are gathered at a time while it is written."""

_NATIVE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "f64": "<f8",
        "f32": "<f4",
        "f16": "<f2",
        "i64": "<i8",
        "i32": "<i4",
        "i16": "<i2",
        "i8": "i1",
        "u64": "<u8",
        "u32": "<u4",
        "u16": "<u2",
        "u8": "u1",
        "bool": "?",
        "complex64": "<c8",
        "complex128": "<c16",
    }
)

_EXTENDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bf16": "bfloat16",
        "f8_e4m3fn": "float8_e4m3fn",
        "f8_e5m2": "float8_e5m2",
        "f8_e4m3fnuz": "float8_e4m3fnuz",
        "f8_e5m2fnuz": "float8_e5m2fnuz",
        "f8_e8m0": "float8_e8m0fnu",
        "f4_e2m1": "float4_e2m1fn",
    }
)


@cache
def numpy_dtype(dtype: str, type_: str | None = None) -> np.dtype[Any]:
    """Return the numpy dtype of one element; `ml_dtypes` gives the small floats.

    Raises:
        Unsupported: when the logical type is unknown: it is never read as its storage type (§4.2).
    """
    name = dtype if type_ is None else type_
    is_known = type_ is None or type_ in TYPES
    if is_known and name in _NATIVE:
        return np.dtype(_NATIVE[name])
    if is_known and name in _EXTENDED:
        import ml_dtypes  # costs start-up time, and few files need it

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _EXTENDED[name]))
        return extended
    raise Unsupported(
        "the logical type is unknown, so its bytes are not interpreted",
        code="unknown-type",
        section="4.2",
        expected="one of " + " ".join(TYPES),
        found=quoted(name),
        hint=RAW,
    )


def is_packed(type_: str | None) -> bool:
    """Tell whether two elements share a byte."""
    return type_ == "f4_e2m1"


def decode(
    data: memoryview,
    part: tuple[str, str | None],
    shape: Sequence[int],
    where: Where = (),
) -> Array:
    """Return `data` as an array of `shape`: a view without copying, except for packed types.

    `part` is the storage type and the logical type, if any; `where` names the place in errors.

    Raises:
        Rejected: for bytes that the type forbids (Appendix A).
        Unsupported: when the logical type is unknown, or numpy holds no array of this shape.
    """
    dtype, type_ = part
    element = numpy_dtype(dtype, type_)
    count = prod(shape)
    if type_ is not None:  # no storage type forbids any bytes (§4.1)
        content = Content(where=where, data=data, type=type_, elements=count)
        Reading().require(CONTENT_RULES, content)
    values: Array
    if type_ is not None and is_packed(type_):
        values = unpack_nibbles(data)[:count].view(element)
    else:
        values = np.frombuffer(data, element)
    try:
        return values.reshape(shape)
    except (ValueError, OverflowError) as error:  # a shape without elements: sizes were checked
        raise Unsupported(
            "numpy holds no array of this shape", code="numpy-shape", where=where, found=shape
        ) from error


def unpack_nibbles(data: memoryview) -> npt.NDArray[np.uint8]:
    """Return the nibbles of `data`, the low one of each byte first (Appendix A)."""
    packed = np.frombuffer(data, np.uint8)
    nibbles = np.empty(2 * len(packed), np.uint8)
    np.bitwise_and(packed, 15, out=nibbles[0::2])
    np.right_shift(packed, 4, out=nibbles[1::2])
    return nibbles


@cache
def _ids() -> Mapping[np.dtype[Any], tuple[str, str | None]]:
    ids: dict[np.dtype[Any], tuple[str, str | None]] = {}
    for name in (*_NATIVE, *_EXTENDED):
        known = TYPES.get(name)
        ids[numpy_dtype(name) if known is None else numpy_dtype(known.dtype, name)] = (
            (name, None) if known is None else (known.dtype, name)
        )
    return ids


def ids_of(element: np.dtype[Any], where: Where = ()) -> tuple[str, str | None]:
    """Return the storage type and the logical type, if any, that hold elements of `element`.

    Raises:
        InvalidInput: when nothing holds them without a conversion.
    """
    little = element.newbyteorder("<") if element.type.__module__ == "numpy" else element
    found = _ids().get(little)
    if found is None:
        raise InvalidInput(
            "no storage type holds this numpy dtype",
            code="dtype",
            where=where,
            found=str(element),
            hint="convert the array first",
        )
    return found


def nbytes_of(array: Array) -> int:
    """Return the number of bytes that `encode` gives for `array`."""
    _, type_ = ids_of(array.dtype)
    return (array.size + 1) // 2 if is_packed(type_) else array.size * array.itemsize


def encode(array: Array) -> Iterator[memoryview]:
    """Yield the bytes of `array` in row-major little-endian order, whatever its strides.

    Contiguous arrays are given as they lie in memory, others block by block, so that the extra
    memory stays near `BLOCK`.
    """
    _, type_ = ids_of(array.dtype)
    if is_packed(type_):
        yield from _pack_nibbles(array)
        return
    swapped = array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and _BIG_ENDIAN)
    for block in _blocks(array):
        plain = np.ascontiguousarray(block)
        if swapped:
            plain = plain.byteswap()
        yield plain.reshape(-1).view(np.uint8).data


_BIG_ENDIAN: Final = np.little_endian is False


def _blocks(array: Array) -> Iterator[Array]:
    """Cut an array into row-major blocks of at most about `BLOCK` bytes."""
    if array.flags.c_contiguous or array.nbytes <= BLOCK or array.ndim == 0:
        yield array
        return
    rows = max(1, BLOCK * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        block = array[start : start + rows]
        if rows == 1:
            yield from _blocks(block[0])
        else:
            yield block


def _pack_nibbles(array: Array) -> Iterator[memoryview]:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for start in range(0, flat.size, 2 * BLOCK):
        codes = flat[start : start + 2 * BLOCK] & 15
        packed = codes[0::2].copy()
        packed[: codes.size // 2] |= codes[1::2] << 4
        yield packed.data
