"""What the weights and the mask of a tensor hold, counted in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tensorark.core.model import Tensor
from tensorark.errors import Where
from tensorark.layouts.layout import Bytes
from tensorark.layouts.nm.masks import Bits, bits_of, octets_of, pieces
from tensorark.layouts.nm.rules import Packing, Pattern
from tensorark.layouts.nm.window import window_of
from tensorark.layouts.nm.zeros import per_group, signed_zeros


@dataclass(slots=True, kw_only=True)
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
    zeros: int = 0
    negative_zeros: int = 0
    kept: int = 0
    stray: int = 0
    idle: int = 0
    bits: dict[int, int] = field(default_factory=dict)
    last: int | None = None
    first_stray: int = -1
    first_wrong: int = -1

    @property
    def sparsity(self) -> float:
        """Share of weights that are 0 after masking; 0.0 for an empty tensor."""
        return (self.zeros + self.stray) / self.elements if self.elements else 0.0


def count(tensor: Tensor, read: Bytes) -> Census:
    """Count what the weights and the mask of a tensor hold, in one pass.

    Takes a `tensorbit.nm/1` tensor, or a dense one of a float or integer type.

    Raises:
        Rejected: when the metadata breaks a rule of the layout.
    """
    window = window_of(tensor, read)
    sparse = window.sparse
    found = Census(
        where=("objects", tensor.name),
        elements=sparse.elements,
        pattern=sparse.pattern,
        packing=sparse.packing,
    )
    carried = 0
    for start, stop in window.cuts(0, sparse.elements):
        octets = window.octets(start, stop) if window.masked else octets_of(b"")
        weights = window.raw(start, stop)
        for piece in pieces(octets, window.part(start, stop), 0, stop - start):
            nonzero, negative = signed_zeros(weights[piece.run])
            found.negative_zeros += negative
            bits = None if piece.octets is None else bits_of(piece.octets, piece.m, piece.count)
            run = slice(start + piece.run.start, start + piece.run.stop)
            _count(found, nonzero, bits, run, masked=window.masked)
            if bits is not None:
                carried = _count_groups(found, bits, run, carried)
    found.bits = dict(sorted(found.bits.items()))
    return found


def _count(tally: Census, nonzero: Bits, bits: Bits | None, run: slice, *, masked: bool) -> None:
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


def _count_groups(tally: Census, bits: Bits, run: slice, carried: int) -> int:
    """Count the bits of each group of a run; return those of a group that goes on behind it."""
    m, n = tally.pattern.m, tally.pattern.n
    if run.start % m or (bits.size < m and run.stop < tally.elements):  # part of one huge group
        carried += int(np.count_nonzero(bits))
        if run.stop % m and run.stop < tally.elements:
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
