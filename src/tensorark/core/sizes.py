"""Sizes as people write them: the one reading of ``5GB`` and ``64KiB``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tensorark.errors import InvalidInput

UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "": 1,
        "b": 1,
        **{f"{letter}b": int(1000**power) for power, letter in enumerate("kmgt", 1)},
        **{f"{letter}ib": int(1024**power) for power, letter in enumerate("kmgt", 1)},
    }
)


def size_of(size: int | str) -> int:
    """Return the bytes that 4096, ``64KiB`` (binary), ``5GB`` or ``1.5GB`` (decimal) mean.

    Raises:
        InvalidInput: when it is no size (code ``size``).
    """
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?\s*([a-z]*)", size.strip().lower())
    unit = UNITS.get(match[3]) if match else None
    if match is None or unit is None:
        expected = "4096, 64KiB (binary) or 5GB (decimal)"
        raise InvalidInput("this is no size", code="size", expected=expected, found=size)
    fraction = match[2] or "0"
    more, rest = divmod(int(fraction) * unit, int(10 ** len(fraction)))
    if rest:
        raise InvalidInput("this is no whole number of bytes", code="size", found=size)
    return int(match[1]) * unit + more
