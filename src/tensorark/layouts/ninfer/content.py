"""What the payload of an encoded object must obey: legal words, and zeros where nothing is (§6).

Judged when a file is verified, never when an object is decoded. Each rule tells the first place
that breaks it, by row and column; negative scales of grouped formats are legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import Where
from tensorark.layouts.ninfer.decoding import fp8_planes, planes_of
from tensorark.layouts.ninfer.geometry import GROUPED, NVFP4, ROW_SCALED, Geometry
from tensorark.layouts.ninfer.groups import CODINGS, unpack
from tensorark.layouts.ninfer.nvfp4 import TILE, unswizzle
from tensorark.layouts.ninfer.small_floats import Octets, Words, little

_ROWS_BYTES: Final = 1 << 20
"""Bytes of a plane that are looked at at a time."""

_MINUS_ZERO: Final = 0x8000
_NAN: Final = 0x7F


@dataclass(frozen=True)
class Payload:
    """The bytes of one encoded object, as long as its geometry says."""

    where: Where
    whole: Geometry
    data: memoryview

    @cached_property
    def planes(self) -> dict[str, Octets]:
        """The bytes by plane."""
        return planes_of(self.whole, self.data)

    @property
    def used(self) -> int:
        """Groups of a row that hold logical elements."""
        return -(-self.whole.columns // GROUPED[self.whole.format].group)

    @cached_property
    def group_scales(self) -> Words:
        """The FP16 words of a grouped object, [rows, groups of a row], padding included."""
        words: Words = little(self.planes["scales"], "<u2").reshape(self.whole.rows, -1)
        return words

    def codes(self, rows: npt.NDArray[np.intp], at: npt.NDArray[np.intp]) -> npt.NDArray[np.int8]:
        """Return the codes of single groups, given by their row and number in it."""
        stored = GROUPED[self.whole.format]
        base = self.planes["base"].reshape(self.whole.rows, -1, stored.base)
        high = self.planes["high"].reshape(self.whole.rows, base.shape[1], stored.high)
        return unpack(CODINGS[self.whole.format], base[rows, at], high[rows, at])


def _first(flags: npt.NDArray[np.bool_]) -> tuple[int, int] | None:
    """Return row and column of the first true entry."""
    if not flags.any():
        return None
    row, column = divmod(int(np.argmax(flags)), flags.shape[1])
    return row, column


def _search(
    rows: int, nbytes: int, flags: Callable[[slice], npt.NDArray[np.bool_]]
) -> tuple[int, int] | None:
    """Return the first place that `flags` gives, asked for a few rows of `nbytes` at a time."""
    step = max(1, _ROWS_BYTES // max(1, nbytes))
    for start in range(0, rows, step):
        found = _first(flags(slice(start, min(rows, start + step))))
        if found is not None:
            return start + found[0], found[1]
    return None


def _word(word: int, digits: int = 2) -> str:
    return f"0x{word:0{digits}x}"


@rule("ninfer.code-word", section="6.1", stage="content")
def code_word(doc: Payload) -> Iterator[Fault]:
    """A code is one its format has: no 0x80 in q8, no 0b10 in t2, no NaN in FP8."""
    whole = doc.whole
    if whole.format == "q8_g32_fp16":
        codes = doc.planes["base"].reshape(whole.rows, -1)[:, : whole.columns]
        found = _search(whole.rows, whole.columns, lambda rows: codes[rows] == 0x80)
        if found is not None:
            yield _at(doc, found, "an illegal code", "-127 to 127", -128)
    elif whole.format == "t2_g128_fp16":
        found = _search(whole.rows, whole.columns, lambda rows: _unpack(doc, rows) == -2)
        if found is not None:
            yield _at(doc, found, "an illegal code", "-1, 0 or 1", -2)
    elif whole.format in ROW_SCALED:
        codes, _ = fp8_planes(whole, doc.planes)
        found = _search(whole.rows, whole.columns, lambda rows: (codes[rows] & _NAN) == _NAN)
        if found is not None:
            yield _at(doc, found, "a code is NaN", "a number", _word(codes[found]))


def _unpack(doc: Payload, rows: slice) -> npt.NDArray[np.int8]:
    """Return the codes of logical elements of some rows, [rows, columns]."""
    at = np.arange(doc.used)
    codes = doc.codes(np.arange(rows.start, rows.stop)[:, np.newaxis], at)
    return codes.reshape(len(codes), -1)[:, : doc.whole.columns]


@rule("ninfer.scale-word", section="6.1", stage="content")
def scale_word(doc: Payload) -> Iterator[Fault]:
    """A scale is finite; it is not minus zero, except in q2, nor negative in FP8 and nvfp4."""
    whole = doc.whole
    if whole.format in GROUPED:
        scales = doc.group_scales[:, : doc.used]
        bad, expected = _not_finite(scales, 0x7C00), "a finite FP16 number"
        if not CODINGS[whole.format].offset:
            bad |= scales == _MINUS_ZERO
            expected += ", not minus zero"
        found = _first(bad)
        if found is not None:
            column = found[1] * GROUPED[whole.format].group
            word = _word(scales[found], 4)
            yield _at(doc, (found[0], column), "an illegal scale", expected, word)
    elif whole.format in ROW_SCALED:
        _, words = fp8_planes(whole, doc.planes)
        is_bf16 = whole.format == "fp8_e4m3fn_row_bf16"
        bad = _not_finite(words, 0x7F80 if is_bf16 else 0x7C00) | (words >= _MINUS_ZERO)
        if bad.any():
            row = int(np.argmax(bad))
            expected = "a finite number that is not negative"
            yield _at(doc, (row, 0), "an illegal scale", expected, _word(words[row], 4))
    elif whole.format == NVFP4:
        yield from _nvfp4_scale(doc)


def _not_finite(words: Words, exponent: int) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = (words & exponent) == exponent
    return flags


def _nvfp4_scale(doc: Payload) -> Iterator[Fault]:
    stored = doc.planes["scales"]
    if not stored.size or int(stored.max()) < _NAN:
        return
    for tile, octets in enumerate(stored.reshape(-1, doc.whole.columns // 16 * TILE)):
        scales = unswizzle(octets, TILE)
        found = _first(scales >= _NAN)
        if found is not None:
            place = (tile * TILE + found[0], found[1] * 16)
            expected = "a number that is not negative, at most 0x7e"
            yield _at(doc, place, "an illegal scale", expected, _word(scales[found]))
            return


@rule("ninfer.zero-scale", section="6.1", stage="content")
def zero_scale(doc: Payload) -> Iterator[Fault]:
    """Under a scale of zero all codes are zero; q2 and nvfp4 do not ask for it."""
    whole = doc.whole
    if whole.format in ROW_SCALED:
        codes, words = fp8_planes(whole, doc.planes)
        for row in np.flatnonzero(words == 0):
            live = (codes[row] & _NAN) != 0
            if live.any():
                place = (int(row), int(np.argmax(live)))
                yield _at(doc, place, "a code under a scale of zero", 0, _word(codes[place]))
                return
    elif whole.format in GROUPED and not CODINGS[whole.format].offset:
        yield from _zero_groups(doc)


def _zero_groups(doc: Payload) -> Iterator[Fault]:
    rows, at = np.nonzero(doc.group_scales[:, : doc.used] == 0)
    group = GROUPED[doc.whole.format].group
    step = _ROWS_BYTES // group
    for start in range(0, len(rows), step):
        row, number = rows[start : start + step], at[start : start + step]
        codes = doc.codes(row, number)
        columns = number[:, np.newaxis] * group + np.arange(group)
        found = _first((codes != 0) & (columns < doc.whole.columns))
        if found is not None:
            place = (int(row[found[0]]), int(columns[found]))
            yield _at(doc, place, "a code under a scale of zero", 0, int(codes[found]))
            return


@rule("ninfer.divisor-word", section="6.1", stage="content")
def divisor_word(doc: Payload) -> Iterator[Fault]:
    """A weight divisor of nvfp4 is positive and finite."""
    if doc.whole.format != NVFP4:
        return
    divisors = little(doc.planes["divisors"], "<f4")
    bad = ~(np.isfinite(divisors) & (divisors > 0))
    if bad.any():
        index = int(np.argmax(bad))
        detail = f"divisor {index} is not one"
        yield Fault(doc.where, detail, "a positive finite number", float(divisors[index]))


@rule("ninfer.padding-word", section="6.2", stage="content")
def padding_word(doc: Payload) -> Iterator[Fault]:
    """Codes behind the last column of a row are zero, and so are scales of groups of padding."""
    whole = doc.whole
    if whole.format not in GROUPED:
        return
    group, per_row = GROUPED[whole.format].group, doc.group_scales.shape[1]
    first = whole.columns // group
    if first == per_row:
        return
    at = np.arange(first, per_row)
    skip = whole.columns - first * group

    def coded(rows: slice) -> npt.NDArray[np.bool_]:
        codes = doc.codes(np.arange(rows.start, rows.stop)[:, np.newaxis], at)
        padding: npt.NDArray[np.bool_] = codes.reshape(len(codes), -1)[:, skip:] != 0
        return padding

    found = _search(whole.rows, at.size * group, coded)
    if found is not None:
        place = (found[0], whole.columns + found[1])
        yield _at(doc, place, "a padding code is not zero", 0, "another code")
        return
    found = _first(doc.group_scales[:, doc.used :] != 0) if doc.used < per_row else None
    if found is not None:
        place = (found[0], (doc.used + found[1]) * group)
        word = _word(doc.group_scales[found[0], doc.used + found[1]], 4)
        yield _at(doc, place, "the scale of a padding group is not zero", "0x0000", word)


@rule("ninfer.plane-gap", section="6.2", stage="content")
def plane_gap(doc: Payload) -> Iterator[Fault]:
    """The bytes between two planes of an object are zero."""
    end = 0
    for plane in doc.whole.planes:
        gap = np.frombuffer(doc.data[end : plane.offset], np.uint8)
        if gap.any():
            at = end + int(np.argmax(gap != 0))
            detail = f"byte {at} of the object lies between two planes and is not zero"
            yield Fault(doc.where, detail, 0, int(doc.data[at]))
            return
        end = plane.offset + plane.nbytes


def _at(
    doc: Payload, place: tuple[int, int], detail: str, expected: object, found: object
) -> Fault:
    row, column = place
    return Fault(doc.where, f"row {row}, column {column}: {detail}", expected, found)


CONTENT_RULES: Final[tuple[Rule[Payload], ...]] = (
    code_word,
    scale_word,
    zero_scale,
    divisor_word,
    padding_word,
    plane_gap,
)
