"""Counting zeros and mask bits of opened files, tensor by tensor, without keeping any of them.

Owns the facts about sparsity that users see. Judges nothing: what is a fault is said by the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tensorark import files
from tensorark.core.brief import brief
from tensorark.files import PathLike
from tensorark.files.view import TensorView
from tensorark.layouts.layout import Bytes
from tensorark.layouts.nm.census import count
from tensorark.layouts.nm.rules import ID, LAYOUT
from tensorark.layouts.nm.window import CHUNK, window_of
from tensorark.layouts.nm.zeros import Search, nonzero
from tensorark.layouts.payload import Reader

_COUNTABLE = frozenset({"f64", "f32", "f16", "bf16", "i8", "i16", "i32", "i64", "u8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the weights and the mask of one tensor hold.

    `pattern` is the N:M of the file, None for dense; `detected` the tightest that the zeros of a
    dense matrix obey. `zeros` counts weights that are 0 once the mask is applied, `stray` those
    that are not zero though their bit is clear, `idle` those that are zero though it is set.
    `bits` says how many whole groups keep how many, `wrong` how many do not keep N.
    """

    __repr__ = brief

    name: str
    pattern: str | None
    detected: str | None
    packing: str
    elements: int
    zeros: int
    kept: int
    stray: int
    idle: int
    negative_zeros: int
    bits: Mapping[int, int]
    wrong: int

    @property
    def sparsity(self) -> float:
        """Share of weights that are 0 once the mask is applied."""
        return self.zeros / self.elements if self.elements else 0.0


def counts(
    model: PathLike,
    names: Iterable[str] | None = None,
    *,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Counts]:
    """Yield what each tensor holds that is dense or N:M; others are passed over.

    Raises:
        Rejected: when the metadata of a tensor breaks a rule of its layout.
        NotFound: when there is no tensor of a name.
    """
    with files.open(model) as file:
        for name in file if names is None else names:
            view = file[name]
            if _is_countable(view):
                for part in view.parts.values():
                    file.prove_part(part)
                yield _count(view, Reader(file, view.tensor))
            if progress is not None:
                progress(view.nbytes)


def first_groups(view: TensorView, count: int) -> Iterator[tuple[int, str, str]]:
    """Yield number, mask bytes and bits of the first groups of an N:M tensor, first weight first.

    A kept weight is 1. Nothing for a tensor without a mask.
    """
    if view.layout != ID or "mask" not in view.parts:
        return
    sparse = LAYOUT.check(view.tensor).sparse
    if sparse.packing == "none" or not sparse.pattern.m:
        return
    width = 1 if sparse.packing == "truncated" else sparse.pattern.mask_width
    octets = view.raw("mask")[: min(count, 1 << 16) * width]
    for group in range(len(octets) // width):
        held = bytes(octets[group * width : (group + 1) * width])
        bits = "".join(f"{octet:08b}"[::-1] for octet in held)[: min(sparse.pattern.m, 64)]
        yield group, held[:8].hex(" "), bits


def _is_countable(view: TensorView) -> bool:
    if view.layout == ID:
        return True
    part = view.parts.get("data")
    return (
        view.layout == "dense"
        and part is not None
        and part.type is None
        and part.dtype in _COUNTABLE
    )


def _count(view: TensorView, read: Bytes) -> Counts:
    found = count(view.tensor, read)
    sparse = view.layout == ID and not found.pattern.is_dense
    wrong = sum(groups for bits, groups in found.bits.items() if bits != found.pattern.n)
    detected = None if sparse else _detect(view, read)
    return Counts(
        name=view.name,
        pattern=str(found.pattern) if sparse else None,
        detected=detected,
        packing=found.packing,
        elements=found.elements,
        zeros=found.zeros + found.stray,
        kept=found.kept,
        stray=found.stray,
        idle=found.idle,
        negative_zeros=found.negative_zeros,
        bits=found.bits,
        wrong=0 if found.packing == "truncated" else wrong,
    )


def _detect(view: TensorView, read: Bytes) -> str | None:
    """Return the tightest N:M of a dense matrix."""
    if view.layout != "dense" or view.ndim != 2 or not view.size:
        return None
    window = window_of(view.tensor, read)
    columns = view.shape[1]
    search = Search(columns)
    step = max(1, CHUNK // columns) * columns
    for start in range(0, view.size, step):
        search.add(nonzero(window.raw(start, min(start + step, view.size))))
        if search.is_hopeless:
            return None
    return None if search.found is None else str(search.found)
