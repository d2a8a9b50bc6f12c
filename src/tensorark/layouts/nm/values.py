"""The layout `tensorbit.nm/1` as values: masked, scaled, counted, and judged against its mask.

Owns how a tensor of that layout is read, range by range, so that beside the result no more than a
few MiB are used. What bits and bytes of masks mean is known by `masks`, what zeros tell by `zeros`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.core.model import Tensor
from tensorark.core.rules import Fault, Reading, Rule, rule
from tensorark.errors import Where
from tensorark.layouts.nm import rules as profile
from tensorark.layouts.nm.masks import (
    Bits,
    Octets,
    apply,
    bits_of,
    compact,
    kept,
    mask_of,
    octets_of,
    pieces,
    spread,
)
from tensorark.layouts.nm.rules import Packing, Pattern, Sparse
from tensorark.layouts.nm.zeros import (
    Search,
    detect,
    differences,
    filled,
    nonzero,
    per_group,
    signed_zeros,
)
from tensorark.layouts.numbers.dtypes import Array, numpy_dtype, unpack_nibbles
from tensorark.layouts.payload import Bytes
from tensorark.layouts.values import Values, reshape

__all__ = [
    "CONTENT_RULES",
    "VALUES",
    "Census",
    "Search",
    "Window",
    "apply",
    "assemble",
    "census",
    "checked",
    "compact",
    "detect",
    "differences",
    "elements",
    "filled",
    "judge",
    "kept",
    "mask_of",
    "nonzero",
    "spread",
    "stored",
    "window_of",
]

CHUNK: Final = 1 << 21
"""Weights that are read at a time."""

# ------------------------------------------------------------------------------------------ values


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Assemble `tensorbit.nm/1`: what the mask does not keep is 0, quantised weights are scaled."""
    return reshape(elements(tensor, read, 0, tensor.elements), tensor)


def stored(tensor: Tensor, read: Bytes) -> Array:
    """Return the values as they are stored, whatever the mask says; int8 and int4 are scaled.

    Raises:
        Rejected: when the metadata breaks a rule of the layout.
    """
    window = Window(tensor, read, checked(tensor), masked=False)
    return reshape(window.values(0, tensor.elements), tensor)


def elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Array:
    """Return the flat elements [start, stop), masked, reading what they need and no more.

    int8 and int4 become f32 where they have scales, else int8.

    Raises:
        Rejected: when the metadata breaks a rule of the layout.
    """
    window = window_of(tensor, read)
    group = window.sparse.pattern.m if window.masked else 1
    # Whole groups: the mask says how many there are, so a cut one would pass for the short last.
    first, last = start // group * group, min(-(-stop // group) * group, tensor.elements)
    found = window.values(first, last)
    return found if (first, last) == (start, stop) else found[start - first : stop - first].copy()


@dataclass(frozen=True, slots=True)
class Window:
    """Reads a tensor range by range; `masked` says whether the mask is applied."""

    tensor: Tensor
    read: Bytes
    sparse: Sparse
    masked: bool

    @property
    def is_scaled(self) -> bool:
        """Whether the weights are codes with scales."""
        return self.sparse.is_quantized and "scales" in self.tensor.parts

    @property
    def element(self) -> np.dtype[Any]:
        """The numpy type of the values."""
        if not self.sparse.is_quantized:
            return numpy_dtype(self.sparse.dtype)
        return np.dtype(np.float32 if self.is_scaled else np.int8)

    def cuts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut [start, stop) into ranges of about `CHUNK` weights, at the ends of groups."""
        m = max(self.sparse.pattern.m, 2)  # an even step, so that packed codes are cut at bytes
        step = max(1, CHUNK // m) * m * (1 + m % 2)
        for at in range(start, stop, step):
            yield at, min(at + step, stop)

    def values(self, start: int, stop: int) -> Array:
        """Return the values [start, stop); `start` is the first of a group."""
        full = np.empty(max(stop - start, 0), self.element)
        for at, end in self.cuts(start, stop):
            found = full[at - start : end - start]
            if self.masked:
                weights = found if self.is_scaled else self.raw(at, end)
                if self.is_scaled:
                    self._scale(at, end, found)
                apply(weights, self.octets(at, end), self.part(at, end), out=found)
            elif self.is_scaled:
                self._scale(at, end, found)
            else:
                found[:] = self.raw(at, end)
        return full

    def octets(self, start: int, stop: int) -> Octets:
        """Return the mask bytes of the groups that begin in [start, stop), where they have any."""
        width = 1 if self.sparse.packing == "truncated" else self.sparse.pattern.mask_width
        first, last = start // self.sparse.pattern.m, -(-stop // self.sparse.pattern.m)
        held = self.tensor.parts["mask"].nbytes
        return octets_of(self.read("mask", min(first * width, held), min(last * width, held)))

    def part(self, start: int, stop: int) -> Sparse:
        """Return how [start, stop) is to be read by itself."""
        return replace(self.sparse, elements=stop - start)

    def raw(self, start: int, stop: int) -> Array:
        """Return the weights [start, stop) as they are stored; int4 unpacked, nothing scaled."""
        if self.sparse.dtype == "int4":
            data = self.read("weights", start // 2, -(-stop // 2))
            return codes_of(data, start % 2, stop - start)
        element = np.dtype(np.int8) if self.sparse.is_quantized else numpy_dtype(self.sparse.dtype)
        size = element.itemsize
        return np.frombuffer(self.read("weights", start * size, stop * size), element)

    def _scale(self, start: int, stop: int, out: Array) -> None:
        """Write the weights [start, stop), each times the scale of its group, to `out`."""
        weights = self.raw(start, stop)
        count = self.tensor.parts["scales"].nbytes // 4
        group = self.sparse.group_size or max(self.sparse.elements, 1)
        at = np.arange(start, stop, dtype=np.uint64) // np.uint64(group)
        first, last = min(start // group, count), min((stop - 1) // group + 1, count)
        scales = np.frombuffer(self.read("scales", 4 * first, 4 * last), "<f4")
        known = at < count
        out[:] = 1  # a group without a scale has 1
        out[known] = scales[at[known].astype(np.intp) - first]
        with np.errstate(over="ignore", invalid="ignore"):
            out *= weights


def window_of(tensor: Tensor, read: Bytes) -> Window:
    """Return the window on a `tensorbit.nm/1` tensor, or on a dense one as if it had no mask.

    Raises:
        Rejected: when the metadata breaks a rule of the layout.
    """
    if tensor.layout == profile.ID:
        sparse = checked(tensor)
        return Window(tensor, read, sparse, masked=sparse.packing != "none")
    part = tensor.parts["data"]
    renamed = replace(tensor, parts={"weights": part})

    def renaming(role: str, start: int = 0, stop: int | None = None) -> memoryview:
        return read("data" if role == "weights" else role, start, stop)

    whole = Sparse(
        elements=tensor.elements, pattern=profile.DENSE, packing="none", dtype=part.dtype
    )
    return Window(renamed, renaming, whole, masked=False)


def checked(tensor: Tensor, reading: Reading | None = None) -> Sparse:
    """Return how the weights of `tensor` are to be read, its metadata judged by the profile.

    Raises:
        Rejected: when it breaks a rule.
    """
    return profile.LAYOUT.check(tensor, reading or Reading()).sparse


def codes_of(data: memoryview, skip: int, count: int) -> npt.NDArray[np.int8]:
    """Return `count` int4 codes of packed bytes after the first `skip`; the low nibble is first."""
    nibbles = unpack_nibbles(data)[skip : skip + count]
    return ((nibbles ^ 8) - np.uint8(8)).view(np.int8)


# ---------------------------------------------------------------------------------------- counting


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What the weights and the mask of a tensor hold, counted.

    `kept` counts set bits, without a mask weights that are not zero. `stray` weights are not zero
    though their bit is clear, `idle` ones are zero though their bit is set, `negative_zeros` are
    -0.0. `bits` says how many whole groups keep how many weights, `last` how many the short last
    group keeps. `first_stray` and `first_wrong` are the first such weight and the first whole group
    that does not keep N, -1 where there is none.
    """

    where: Where = ()
    elements: int
    pattern: Pattern
    packing: Packing
    zeros: int
    negative_zeros: int
    kept: int
    stray: int
    idle: int
    bits: dict[int, int] = field(default_factory=dict)
    last: int | None = None
    first_stray: int = -1
    first_wrong: int = -1

    @property
    def sparsity(self) -> float:
        """Share of weights that are 0 after masking; 0.0 for an empty tensor."""
        return (self.zeros + self.stray) / self.elements if self.elements else 0.0


@dataclass(slots=True)
class _Tally:
    """The counts while they grow."""

    zeros: int = 0
    negative_zeros: int = 0
    kept: int = 0
    stray: int = 0
    idle: int = 0
    bits: dict[int, int] = field(default_factory=dict)
    last: int | None = None
    first_stray: int = -1
    first_wrong: int = -1


def census(tensor: Tensor, read: Bytes) -> Census:
    """Count what the weights and the mask of a tensor hold, in one pass.

    Takes a `tensorbit.nm/1` tensor, or a dense one of a float or integer type.

    Raises:
        Rejected: when the metadata breaks a rule of the layout.
    """
    window = window_of(tensor, read)
    sparse = window.sparse
    tally = _Tally()
    carried = 0
    for start, stop in window.cuts(0, sparse.elements):
        octets = window.octets(start, stop) if window.masked else octets_of(b"")
        weights = window.raw(start, stop)
        for piece in pieces(octets, window.part(start, stop), 0, stop - start):
            nonzero, negative = signed_zeros(weights[piece.run])
            tally.negative_zeros += negative
            bits = None if piece.octets is None else bits_of(piece.octets, piece.m, piece.count)
            run = slice(start + piece.run.start, start + piece.run.stop)
            _count(tally, nonzero, bits, run, masked=window.masked)
            if bits is not None:
                carried = _count_groups(tally, bits, run, sparse, carried)
    return Census(
        where=("objects", tensor.name),
        elements=sparse.elements,
        pattern=sparse.pattern,
        packing=sparse.packing,
        zeros=tally.zeros,
        negative_zeros=tally.negative_zeros,
        kept=tally.kept,
        stray=tally.stray,
        idle=tally.idle,
        bits=dict(sorted(tally.bits.items())),
        last=tally.last,
        first_stray=tally.first_stray,
        first_wrong=tally.first_wrong,
    )


def _count(tally: _Tally, nonzero: Bits, bits: Bits | None, run: slice, *, masked: bool) -> None:
    """Count a run of weights; those that no bit stands for are kept, if there is a mask at all."""
    zeros = nonzero.size - int(np.count_nonzero(nonzero))
    tally.zeros += zeros
    if bits is None:
        tally.kept += nonzero.size if masked else nonzero.size - zeros
        tally.idle += zeros if masked else 0
        return
    stray = nonzero & ~bits
    strays, set_bits = int(np.count_nonzero(stray)), int(np.count_nonzero(bits))
    if strays and tally.first_stray < 0:
        tally.first_stray = int(run.start) + int(np.argmax(stray))
    tally.kept += set_bits
    tally.stray += strays
    tally.idle += set_bits - (nonzero.size - zeros - strays)


def _count_groups(tally: _Tally, bits: Bits, run: slice, sparse: Sparse, carried: int) -> int:
    """Count the bits of each group of a run; return those of a group that goes on behind it."""
    m, n = sparse.pattern.m, sparse.pattern.n
    if run.start % m or (bits.size < m and run.stop < sparse.elements):  # part of one huge group
        carried += int(np.count_nonzero(bits))
        if run.stop % m and run.stop < sparse.elements:
            return carried
        sums, whole = np.array([carried]), 0 if run.stop % m else 1
    else:
        whole = bits.size // m
        sums = per_group(bits[: whole * m], m)
        if rest := bits.size - whole * m:
            sums = np.append(sums, np.count_nonzero(bits[-rest:]))
    if len(sums) > whole:
        tally.last = int(sums[-1])
    for count, groups in zip(*np.unique(sums[:whole], return_counts=True), strict=True):
        tally.bits[int(count)] = tally.bits.get(int(count), 0) + int(groups)
    wrong = sums[:whole] != n
    if tally.first_wrong < 0 and wrong.any():
        tally.first_wrong = int(run.start) // m + int(np.argmax(wrong))
    return 0


# ------------------------------------------------------------------------------------------- rules


@rule("tb.pruned-zero", section="layout", stage="content")
def pruned_zero(found: Census) -> Iterator[Fault]:
    """A weight whose mask bit is clear is 0.0."""
    if found.stray:
        detail = "weights are not zero though their mask bit is clear"
        where = (*found.where, "parts", "weights", found.first_stray)
        yield Fault(where, detail, "none", found.stray)


@rule("tb.mask-count", section="mask", stage="content")
def mask_count(found: Census) -> Iterator[Fault]:
    """Every group keeps N weights, a short last group at most N."""
    if found.packing in {"none", "truncated"}:
        return
    wrong = sum(groups for count, groups in found.bits.items() if count != found.pattern.n)
    if wrong:
        detail = f"groups that do not keep {found.pattern.n} weights: {wrong}"
        counts = ", ".join(f"{count} in {groups}" for count, groups in found.bits.items())
        where = (*found.where, "parts", "mask", found.first_wrong)
        yield Fault(where, detail, f"{found.pattern.n} in each", counts)
    elif found.last is not None and found.last > found.pattern.n:
        where = (*found.where, "parts", "mask")
        detail = "the short last group keeps too many weights"
        yield Fault(where, detail, f"at most {found.pattern.n}", found.last)


@rule("tb.mask-truncated", section="mask", stage="content")
def mask_truncated(found: Census) -> Iterator[Fault]:
    """A mask has a bit for each weight of a group, also where M exceeds 8.

    The public pruning tool writes one byte a group and sets weights 8 and up to zero.
    """
    if found.packing == "truncated":
        detail = f"one mask byte a group at {found.pattern}: weights 8 and up count as pruned"
        expected = f"{found.pattern.mask_width} bytes a group"
        yield Fault((*found.where, "parts", "mask"), detail, expected, "1 byte a group")


CONTENT_RULES: Final[tuple[Rule[Census], ...]] = (pruned_zero, mask_count, mask_truncated)


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check metadata, and the mask against the weights."""
    checked(tensor, reading)
    reading.require(CONTENT_RULES, census(tensor, read))


VALUES: Final = Values(profile.LAYOUT, assemble, elements, judge)
