"""FP8 with one multiplier a row: E4M3FN codes under a BF16 or FP16 scale (§6.1).

Owns the values of rows of codes and the encoder `fp8_row_maxabs`. Never sees an object.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from tensorark.errors import InvalidInput
from tensorark.layouts.ninfer.groups import require_finite
from tensorark.layouts.ninfer.small_floats import (
    E4M3_MAX,
    Floats,
    Octets,
    Words,
    bf16_values,
    bf16_words,
    e4m3_values,
    e4m3_words,
    look_up,
)

ScaleType = Literal["bf16", "fp16"]

SCALE_OF: Final[dict[str, ScaleType]] = {
    "fp8_e4m3fn_row_bf16": "bf16",
    "fp8_e4m3fn_row_fp16": "fp16",
}
"""The type of the row scales of each format."""


def scale_values(words: Words, kind: ScaleType) -> Floats:
    """Return the values of row scales."""
    return bf16_values(words) if kind == "bf16" else words.view(np.float16).astype(np.float32)


def reconstruct(codes: Octets, scales: Floats, out: Floats) -> None:
    """Write ``f32(code) * f32(scale)``, rounded once, into `out`; `scales` hold one a row."""
    look_up(e4m3_values(), codes, out)
    with np.errstate(invalid="ignore", over="ignore"):  # words that are illegal
        out *= scales[:, np.newaxis]


def quantize(values: Floats, kind: ScaleType = "bf16") -> tuple[Octets, Words]:
    """Return codes [rows, columns] and scale words [rows] of float32 values.

    Values are rounded to BF16 first; then each row is scaled so that its largest magnitude becomes
    448. The scale is never below the smallest subnormal unless the row is zero.

    Raises:
        InvalidInput: for values that are not finite, and for rows that are too small or too large
            for their scale (codes ``encode-nonfinite``, ``encode-scale``).
    """
    rounded = bf16_values(bf16_words(values))
    largest = np.abs(rounded).max(axis=1)
    require_finite(largest)
    words = _scale_words(largest / E4M3_MAX, kind)
    live = largest != 0
    words[live & (words == 0)] = 1
    scales = scale_values(words, kind)
    inverse = np.zeros_like(scales)
    with np.errstate(over="ignore"):
        np.divide(np.float32(1), scales, out=inverse, where=live)
    scaled = rounded * np.where(np.isfinite(inverse), inverse, 0)[:, np.newaxis]
    if not (np.isfinite(scales).all() and np.isfinite(inverse).all() and np.isfinite(scaled).all()):
        raise InvalidInput(
            "a row is too small or too large for its scale",
            code="encode-scale",
            section="6.1",
            found=float(largest[live].min()),
        )
    np.clip(scaled, -E4M3_MAX, E4M3_MAX, out=scaled)
    scaled[~live] = 0  # minus zero becomes zero in a row of zeros
    return e4m3_words(scaled), words


def _scale_words(wanted: Floats, kind: ScaleType) -> Words:
    if kind == "bf16":
        return bf16_words(wanted)
    with np.errstate(over="ignore"):
        return wanted.astype(np.float16).view(np.uint16)
