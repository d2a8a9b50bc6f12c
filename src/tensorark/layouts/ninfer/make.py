"""From arrays to encoded objects: rows of one, or all of it, block by block.

Owns the choice of the encoder and the way from its codes and scales to the planes of an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from tensorark.errors import InvalidInput, Unsupported
from tensorark.layouts.ninfer import fp8, groups, nvfp4
from tensorark.layouts.ninfer.decoding import BLOCK, ELEMENT, Array, Planes
from tensorark.layouts.ninfer.geometry import DIRECT, GROUPED, NVFP4, ROW_SCALED, Geometry
from tensorark.layouts.ninfer.scale_search import search as search_scales
from tensorark.layouts.ninfer.small_floats import Floats, Octets, as_octets
from tensorark.layouts.numbers.rounding import round_to

Method = Literal[
    "cast_direct",
    "grouped_absmax",
    "grouped_search",
    "fp8_row_maxabs",
    "nvfp4_absmax",
    "nvfp4_maxabs",
]

METHODS: Final[Mapping[str, tuple[Method, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(DIRECT, ("cast_direct",)),
        **{
            name: ("grouped_absmax", "grouped_search")
            for name in GROUPED
            if groups.CODINGS[name].qmax
        },
        **dict.fromkeys(ROW_SCALED, ("fp8_row_maxabs",)),
        NVFP4: ("nvfp4_absmax", "nvfp4_maxabs"),
    }
)
"""How each format is made from floats, the default first; what is missing here never is."""


def encode_rows(
    whole: Geometry,
    values: Array,
    *,
    method: Method | None = None,
    divisor: np.float32 | None = None,
) -> dict[str, Octets]:
    """Encode some rows of an object, [rows, columns], and return their bytes by plane.

    Rows are independent, so that the bytes of an object are the planes of its rows one after the
    other. For nvfp4 they come in multiples of 128, and `divisor` is that of the whole matrix
    (`tensorark.layouts.ninfer.nvfp4.divisor_of`).

    Raises:
        Unsupported: for a format that is never made from floats (code ``encode-format``).
        InvalidInput: for an unknown method, and for values that the format cannot hold.
    """
    method = method_of(whole.format, method)
    if method == "cast_direct":
        return {"data": as_octets(cast_direct(values, whole.format)).reshape(-1)}
    floats = as_float32(values)
    if method in {"grouped_absmax", "grouped_search"}:
        return _encode_groups(whole, floats, search=method == "grouped_search")
    if method == "fp8_row_maxabs":
        return _encode_fp8(whole, floats)
    if divisor is None:
        raise InvalidInput("nvfp4 needs the divisor of the whole matrix", code="encode-divisor")
    codes, scales = nvfp4.quantize(floats, divisor, rescued=method == "nvfp4_absmax")
    return {"codes": codes.reshape(-1), "scales": nvfp4.swizzle(scales)}


def method_of(format_: str, method: str | None = None) -> Method:
    """Return the method that makes `format_` from floats: `method`, or the default one.

    Raises:
        Unsupported: for a format that is never made from floats (code ``encode-format``).
        InvalidInput: for a method that does not make this format (code ``encode-method``).
    """
    known = METHODS.get(format_)
    if known is None:
        raise Unsupported(
            "this format is not made from floats: only trained codes are imported",
            code="encode-format",
            section="6.1",
            expected="one of " + " ".join(METHODS),
            found=format_,
        )
    for each in known:
        if method in {None, each}:
            return each
    raise InvalidInput(
        f"{format_} is not made by this method",
        code="encode-method",
        expected=" or ".join(known),
        found=method,
    )


def encode(whole: Geometry, values: Array, *, method: Method | None = None) -> bytes:
    """Encode an object from its values [rows, columns], all of it in memory.

    Raises:
        Unsupported: for a format that is never made from floats.
        InvalidInput: for an unknown method, and for values that the format cannot hold.
    """
    if values.shape != (whole.rows, whole.columns):
        expected, found = (whole.rows, whole.columns), values.shape
        raise InvalidInput(
            "not the rows of the object", code="rows", expected=expected, found=found
        )
    divisor = None
    if whole.format == NVFP4:
        divisor = nvfp4.divisor_of(float(np.abs(as_float32(values)).max()))
    height = max(whole.unit, BLOCK // whole.columns // whole.unit * whole.unit)
    pieces: dict[str, list[Octets]] = {each.role: [] for each in whole.planes}
    for row in range(0, whole.rows, height):
        block = values[row : row + height]
        encoded = encode_rows(whole, block, method=method, divisor=divisor)
        for role, octets in encoded.items():
            pieces[role].append(octets)
    if divisor is not None:
        pieces["divisors"].append(as_octets(np.full(1, divisor, np.float32)))
    return join(whole, {role: np.concatenate(each) for role, each in pieces.items() if each})


def join(whole: Geometry, planes: Planes) -> bytes:
    """Return the bytes of an object from those of its planes, with zeros between them."""
    octets = np.zeros(whole.nbytes, np.uint8)
    for plane in whole.planes:
        if plane.nbytes:
            octets[plane.offset : plane.offset + plane.nbytes] = planes[plane.role].reshape(-1)
    return octets.tobytes()


def _encode_groups(whole: Geometry, floats: Floats, *, search: bool) -> dict[str, Octets]:
    stored = GROUPED[whole.format]
    per_row = whole.plane("scales").stride // 2
    padded = np.zeros((len(floats), per_row * stored.group), np.float32)
    padded[:, : whole.columns] = floats
    values = padded.reshape(len(floats), per_row, stored.group)
    quantize = search_scales if search else groups.quantize
    codes, scales = quantize(groups.CODINGS[whole.format], values)
    return pack_groups(whole.format, codes, scales)


def pack_groups(format_: str, codes: groups.Codes, scales: groups.Scales) -> dict[str, Octets]:
    """Return rows of codes [rows, groups, group] and scales [rows, groups] by plane.

    Raises:
        InvalidInput: for codes that the format has no word for (code ``encode-code``).
    """
    coding = groups.CODINGS[format_]
    if codes.size and (codes.min() < coding.low or codes.max() > coding.high):
        raise InvalidInput(
            "a code has no word",
            code="encode-code",
            section="6.1",
            expected=f"{coding.low} to {coding.high}",
            found=int(codes.min()) if codes.min() < coding.low else int(codes.max()),
        )
    base, high = groups.pack(coding, codes)
    return {
        "base": base.reshape(-1),
        "high": high.reshape(-1),
        "scales": as_octets(scales).reshape(-1),
    }


def _encode_fp8(whole: Geometry, floats: Floats) -> dict[str, Octets]:
    codes, words = fp8.quantize(floats, fp8.SCALE_OF[whole.format])
    scales = as_octets(words.reshape(-1, 1))
    if any(each.role == "rows" for each in whole.planes):
        return {"rows": np.concatenate([codes, scales], axis=1).reshape(-1)}
    return {"codes": codes.reshape(-1), "scales": scales.reshape(-1)}


def as_float32(values: Array) -> Floats:
    """Return values as float32: exact from smaller floats, rounded to nearest from float64.

    Raises:
        InvalidInput: for values that are no floats (code ``encode-values``).
    """
    _require_floats(values, "fp32")
    return round_to(values, np.dtype(np.float32))


def _require_floats(values: Array, format_: str) -> None:
    if values.dtype.kind not in "fV" or values.dtype.itemsize == 1:
        raise _not_convertible(values, format_)


def cast_direct(values: Array, format_: str) -> Array:
    """Return values in the words of `format_`: the same bits where they are its words already.

    Floats are rounded once, to nearest with ties to even; integers must fit.

    Raises:
        InvalidInput: for integers that do not fit int32, and between floats and integers.
    """
    wanted = ELEMENT[format_]
    if values.dtype == wanted:
        return values
    if format_ == "int32":
        if values.dtype.kind not in "iu":
            raise _not_convertible(values, format_)
        if values.size and not -(1 << 31) <= values.min() <= values.max() < 1 << 31:
            raise InvalidInput(
                "an integer does not fit int32", code="encode-values", found=int(values.max())
            )
        return values.astype(wanted)
    _require_floats(values, format_)
    return round_to(values, wanted)


def _not_convertible(values: Array, format_: str) -> InvalidInput:
    return InvalidInput(
        "values of this type are not converted",
        code="encode-values",
        expected="floats" if format_ != "int32" else "integers",
        found=str(values.dtype),
    )
