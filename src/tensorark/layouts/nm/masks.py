"""N:M masks as bits and as booleans, and what they do to flat weights.

Owns the order of bits, groups and mask bytes. Everything works in blocks of a few hundred thousand
weights, so that beside the result no more than a few MiB are used, whatever the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorark.errors import InvalidInput
from tensorark.layouts.nm.rules import Pattern, Sparse, mask_size
from tensorark.layouts.numbers.dtypes import Array

Bits = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]

BLOCK: Final = 1 << 18
"""Weights that are worked on at a time: with their mask they stay in the cache."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of weights and the mask bytes for it: whole groups of `m`, the last maybe short.

    `octets` is None where no mask covers the run: its weights are kept.
    """

    run: slice
    octets: Octets | None
    m: int

    @property
    def count(self) -> int:
        """Number of weights."""
        return int(self.run.stop) - int(self.run.start)


def pieces(octets: Octets, sparse: Sparse, start: int, stop: int) -> Iterator[Piece]:
    """Cut the weights [start, stop) into pieces; `start` is the first of a group."""
    m, packing = sparse.pattern.m, sparse.packing
    if packing == "none":
        covered = start
    else:
        whole = sparse.elements // m * m
        covered = min(stop, whole if packing == "floor" else sparse.elements)
        step = max(1, BLOCK // m) * m
        for first in range(start, covered, step):
            yield from _piece(octets, sparse, first, min(first + step, covered))
    for first in range(covered, stop, BLOCK):
        yield Piece(slice(first, min(first + BLOCK, stop)), None, 1)


def _piece(octets: Octets, sparse: Sparse, first: int, last: int) -> Iterator[Piece]:
    m, width = sparse.pattern.m, sparse.pattern.mask_width
    group, end = first // m, -(-last // m)
    if sparse.packing == "truncated":
        padded = np.zeros((end - group, width), np.uint8)
        padded[:, 0] = octets[group:end]
        held = padded.reshape(-1)
    else:
        held = octets[group * width : end * width]
    if m <= BLOCK:
        yield Piece(slice(first, last), held, m)
        return
    for at in range(first, last, BLOCK):  # one huge group, cut at whole mask bytes
        until = min(at + BLOCK, last)
        inner = held[(at - first) // 8 : -(-(until - first) // 8)]
        yield Piece(slice(at, until), inner, until - at)


def bits_of(octets: Octets, m: int, count: int) -> Bits:
    """Return for `count` weights whether each is kept."""
    if m < 8:
        found = _stencils(m, 0).take(octets.astype(np.intp), axis=0, mode="clip")
        found = found.reshape(-1).view(np.bool_)
    elif m % 8 == 0:
        found = np.unpackbits(octets, bitorder="little").view(np.bool_)
    else:
        rows = octets.reshape(-1, -(-m // 8))
        found = np.unpackbits(rows, axis=1, bitorder="little")[:, :m].reshape(-1).view(np.bool_)
    return found[:count]


@cache
def _flags(m: int) -> Bits:
    """Return, for each byte, its lowest `m` bits as booleans."""
    octets = np.arange(256, dtype=np.uint8)[:, None]
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :m].astype(np.bool_)


@cache
def _stencils(m: int, size: int) -> Array:
    """Return, for each byte, `m` integers of `size` bytes that are all ones where a bit is set.

    With `size` 0 they are the bits, a byte each. Joined to the widest integers that they fill, so
    that looking one up is one load.
    """
    table: Array = _flags(m).view(np.uint8)
    if size:
        ones = np.array(-1, f"i{size}").view(f"u{size}")
        table = np.where(_flags(m), ones, ones.dtype.type(0))
    width = m * max(size, 1)
    if width in {1, 2, 4, 8}:
        return np.ascontiguousarray(table).view(f"u{width}").reshape(256)
    if width % 8 == 0:
        return np.ascontiguousarray(table).view("u8")
    return table


def unpack_mask(mask: memoryview | Octets, sparse: Sparse) -> Bits:
    """Return for each weight, in flat order, whether the mask keeps it."""
    octets = octets_of(mask)
    found = np.empty(sparse.elements, np.bool_)
    for piece in pieces(octets, sparse, 0, sparse.elements):
        bits = None if piece.octets is None else bits_of(piece.octets, piece.m, piece.count)
        found[piece.run] = True if bits is None else bits
    return found


def pack_mask(keep: Bits, pattern: Pattern) -> Octets:
    """Return the mask bytes of flat booleans, the unused bits of each group clear.

    Raises:
        InvalidInput: for a pattern without groups.
    """
    if pattern.is_dense:
        raise InvalidInput("a dense tensor has no mask", code="pattern", found=str(pattern))
    m, width = pattern.m, pattern.mask_width
    if m % 8 == 0:
        octets = np.packbits(keep, bitorder="little")
        missing = mask_size(keep.size, pattern) - octets.size
        return np.concatenate([octets, np.zeros(missing, np.uint8)]) if missing else octets
    found = np.zeros((-(-keep.size // m), width), np.uint8)
    step = max(1, BLOCK // m)
    for group in range(0, len(found), step):
        rows = keep[group * m : (group + step) * m]
        if rows.size % m:
            rows = np.concatenate([rows, np.zeros(-rows.size % m, np.bool_)])
        _pack(rows.reshape(-1, m), found[group : group + step])
    return found.reshape(-1)


def _pack(rows: Bits, out: Octets) -> None:
    """Pack the booleans of each row, the first into the lowest bit; short rows column by column."""
    m = rows.shape[1]
    if m > 8:
        out[:] = np.packbits(rows, axis=1, bitorder="little")
        return
    flags = rows.view(np.uint8)
    packed = out[:, 0]
    if m in {2, 4}:
        wide = flags.view(f"<u{m}")[:, 0]  # flags of a row side by side: shift them together
        for bit in range(1, m):
            packed |= ((wide >> (7 * bit)) & (1 << bit)).astype(np.uint8)
        packed |= (wide & 1).astype(np.uint8)
        return
    for bit in range(m):
        packed |= flags[:, bit] << bit


def apply(weights: Array, mask: memoryview | Octets, sparse: Sparse, *, out: Array | None) -> Array:
    """Return flat weights with those that the mask does not keep set to +0.

    `out` may be `weights` itself.
    """
    octets = octets_of(mask)
    size = weights.dtype.itemsize
    plain = weights.view(f"u{size}")
    target = np.empty_like(weights) if out is None else out
    into = target.view(f"u{size}")
    for piece in pieces(octets, sparse, 0, weights.size):
        if piece.octets is None:
            into[piece.run] = plain[piece.run]
        else:
            _mask(plain[piece.run], piece, into[piece.run])
    return target


def _mask(weights: Array, piece: Piece, out: Array) -> None:
    """Write the masked weights of one piece to `out`."""
    octets, m = piece.octets, piece.m
    if octets is None or (m > 8 and m % 8):
        bits = np.True_ if octets is None else bits_of(octets, m, weights.size)
        np.multiply(weights, bits, out=out)
        return
    if m == 2:
        octets, m = _join(octets), 8
    m = min(m, 8)  # a mask byte covers as many weights, whatever the group
    whole = weights.size // m
    stencils = _stencils(m, weights.dtype.itemsize)
    wide = (whole, *stencils.shape[1:]) if stencils.ndim > 1 else (whole,)
    found = stencils.take(octets[:whole].astype(np.intp), axis=0, mode="clip")
    plain = weights[: whole * m].view(stencils.dtype).reshape(wide)
    np.bitwise_and(plain, found, out=out[: whole * m].view(stencils.dtype).reshape(wide))
    if rest := weights.size - whole * m:
        np.multiply(weights[-rest:], bits_of(octets[whole:], m, rest), out=out[-rest:])


def _join(octets: Octets) -> Octets:
    """Join the bits of each four groups of 2 to one byte, which covers 8 weights."""
    missing = -octets.size % 4
    whole = np.concatenate([octets, np.zeros(missing, np.uint8)]) if missing else octets
    four = whole.view("<u4")
    found = four & 3
    for bit, place in ((6, 12), (12, 48), (18, 192)):
        found |= (four >> bit) & place
    return found.astype(np.uint8)


def compact(weights: Array, mask: memoryview | Octets, sparse: Sparse) -> Array:
    """Return the kept weights alone, in flat order."""
    octets = octets_of(mask)
    found = []
    for piece in pieces(octets, sparse, 0, sparse.elements):
        held = weights[piece.run]
        if piece.octets is not None:
            held = np.compress(bits_of(piece.octets, piece.m, piece.count), held)
        found.append(held)
    return np.concatenate(found) if found else weights[:0].copy()


def spread(values: Array, keep: Bits) -> Array:
    """Return flat weights with `values` where `keep` says so, +0 elsewhere.

    Raises:
        InvalidInput: when there are not as many values as places.
    """
    places = int(np.count_nonzero(keep))
    if places != values.size:
        detail = "the kept values are not as many as the mask says"
        raise InvalidInput(detail, code="mask", expected=places, found=values.size)
    full = np.zeros(keep.size, values.dtype)
    taken = 0
    for start in range(0, keep.size, BLOCK):
        at = np.flatnonzero(keep[start : start + BLOCK])
        full[start : start + BLOCK][at] = values[taken : taken + at.size]
        taken += at.size
    return full


def octets_of(data: Any) -> Octets:
    """Return bytes as an array, without copying."""
    return data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
