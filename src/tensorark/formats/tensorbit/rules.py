"""The rules about blobs in their file: headers, places, and what an index says against them.

Judged in phases, each over all blobs, so that a later one can rely on what an earlier one found in
order. Nothing is read here; the rules that need payload stand in `layouts.nm.content`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.formats.tensorbit.frame import (
    HEADER_SIZE,
    MAGIC,
    PRECISIONS,
    QUANTIZED_CODES,
    VERSION,
)
from tensorark.formats.tensorbit.index import Claim, product, shape_of
from tensorark.formats.tensorbit.layouts import Blob
from tensorark.layouts.nm.rules import mask_size, packing_of

Blobs = Sequence[Blob]

# ------------------------------------------------------------------- before the headers are read


@rule("tb.blob-bounds", section="loading", stage="open")
def blob_bounds(doc: Sequence[tuple[int, Claim, int]]) -> Iterator[Fault]:
    """The header of a blob ends before the index begins, or before its file ends."""
    for row, claim, limit in doc:
        if claim.offset + HEADER_SIZE > limit:
            detail = "a blob begins too far back: its header does not fit before the index"
            if claim.file is not None:
                detail = "the file of a tensor is too short for a header"
            expected = f"at most {limit - HEADER_SIZE}"
            yield Fault(("tensors", row, "offset"), detail, expected, claim.offset)


ENTRY_RULES: Final[tuple[Rule[Sequence[tuple[int, Claim, int]]], ...]] = (blob_bounds,)

# ----------------------------------------------------------------------------------------- headers


@rule("tb.magic", section="header", stage="open")
def magic(doc: Blobs) -> Iterator[Fault]:
    """A blob begins with TB01."""
    for blob in doc:
        if blob.header.magic != MAGIC:
            detail = "no blob begins here"
            yield _fault(blob, "magic", detail, MAGIC.hex(" "), blob.header.magic.hex(" "))


@rule("tb.version", section="header", stage="open")
def version(doc: Blobs) -> Iterator[Fault]:
    """The version is 1."""
    for blob in _real(doc):
        if blob.header.version != VERSION:
            detail = "a version that does not exist"
            yield _fault(blob, "version", detail, VERSION, blob.header.version)


@rule("tb.pattern", section="header", stage="open")
def pattern(doc: Blobs) -> Iterator[Fault]:
    """N is at most M."""
    for blob in _real(doc):
        if blob.header.n > blob.header.m:
            detail = "more weights are kept than a group has"
            found = f"{blob.header.n}:{blob.header.m}"
            yield _fault(blob, "nm_n", detail, "N of at most M", found)


@rule("tb.precision", section="precision", stage="open")
def precision(doc: Blobs) -> Iterator[Fault]:
    """The precision is 0 to 3; beside int8 and int4 it is 0, or 7 and 8."""
    for blob in _real(doc):
        code = blob.header.precision
        allowed = QUANTIZED_CODES.get(blob.claim.dtype or "", range(len(PRECISIONS)))
        if code not in allowed:
            expected = "one of " + " ".join(map(str, allowed))
            yield _fault(blob, "precision", "an unknown precision", expected, code)


HEADER_RULES: Final[tuple[Rule[Blobs], ...]] = (magic, version, pattern, precision)

# ------------------------------------------------------------------------------------------ places


@rule("tb.weights-offset", section="layout", stage="open")
def weights_offset(doc: Blobs) -> Iterator[Fault]:
    """The weights begin after the header."""
    for blob in doc:
        found = blob.header.weights_offset
        if found < HEADER_SIZE:
            detail = "the weights begin inside the header"
            yield _fault(blob, "weights_offset", detail, f"at least {HEADER_SIZE}", found)


@rule("tb.weights-bounds", section="layout", stage="open")
def weights_bounds(doc: Blobs) -> Iterator[Fault]:
    """The weights, and the scales behind them, end before the index, or with the file."""
    for blob in doc:
        if blob.scales.end > blob.limit:
            detail = "the weights run past the end of what the file holds"
            expected = f"an end of at most {blob.limit}"
            yield _fault(blob, "num_weights", detail, expected, blob.scales.end)


WEIGHT_RULES: Final[tuple[Rule[Blobs], ...]] = (weights_offset, weights_bounds)


@rule("tb.mask-size", section="mask", stage="open")
def mask_bytes(doc: Blobs) -> Iterator[Fault]:
    """A mask has ceil(M / 8) bytes for each group of M weights, or is absent.

    Taken too: no bytes for a short last group, and one byte a group for M above 8, which the public
    tools write.
    """
    for blob in doc:
        elements, found = blob.header.weights, blob.header.mask_bytes
        if packing_of(elements, blob.pattern, found) is None:
            detail = f"the mask does not fit {elements} weights at {blob.pattern}"
            expected = f"{mask_size(elements, blob.pattern)} bytes"
            yield _fault(blob, "num_mask_bytes", detail, expected, found)


MASK_RULES: Final[tuple[Rule[Blobs], ...]] = (mask_bytes,)


@rule("tb.mask-order", section="layout", stage="open")
def mask_order(doc: Blobs) -> Iterator[Fault]:
    """The mask begins where the weights and their scales end, or later."""
    for blob in doc:
        if blob.header.mask_bytes and blob.mask.offset < blob.scales.end:
            detail = "the mask begins inside the weights"
            expected = f"at least {blob.scales.end - blob.offset}"
            yield _fault(blob, "masks_offset", detail, expected, blob.header.masks_offset)


@rule("tb.mask-bounds", section="layout", stage="open")
def mask_bounds(doc: Blobs) -> Iterator[Fault]:
    """The mask ends before the index, or with the file."""
    for blob in doc:
        if blob.header.mask_bytes and blob.mask.end > blob.limit:
            detail = "the mask runs past the end of what the file holds"
            expected = f"an end of at most {blob.limit}"
            yield _fault(blob, "masks_offset", detail, expected, blob.mask.end)


MASK_PLACE_RULES: Final[tuple[Rule[Blobs], ...]] = (mask_order, mask_bounds)

# --------------------------------------------------------------------------- header against index


@rule("tb.pattern-differs", section="index", stage="open")
def pattern_differs(doc: Blobs) -> Iterator[Fault]:
    """The index gives the N:M of the header."""
    for blob in doc:
        n, m = blob.claim.n, blob.claim.m
        if n not in {None, blob.header.n} or m not in {None, blob.header.m}:
            detail = "index and header give different patterns"
            yield _claim(blob, "nm_n", detail, str(blob.pattern), f"{n}:{m}")


@rule("tb.count-differs", section="index", stage="open")
def count_differs(doc: Blobs) -> Iterator[Fault]:
    """The index gives the counts of the header."""
    for blob in doc:
        for name, claimed, found in (
            ("num_weights", blob.claim.weights, blob.header.weights),
            ("num_mask_bytes", blob.claim.mask_bytes, blob.header.mask_bytes),
        ):
            if claimed not in {None, found}:
                yield _claim(blob, name, "index and header give different counts", found, claimed)


@rule("tb.dtype-differs", section="precision", stage="open")
def dtype_differs(doc: Blobs) -> Iterator[Fault]:
    """The index gives the precision of the header; int8 and int4 are the index's own."""
    for blob in doc:
        claimed = blob.claim.dtype
        if claimed is not None and claimed != blob.dtype:
            detail = "index and header give different types"
            yield _claim(blob, "dtype", detail, blob.dtype, claimed)


@rule("tb.size-differs", section="precision", stage="open")
def size_differs(doc: Blobs) -> Iterator[Fault]:
    """Where header and index differ about the type, the mask begins right behind the weights.

    int8 and int4 are always such a type. Bytes between the two are then weights or scales of which
    only one of them speaks.
    """
    for blob in doc:
        end = blob.scales.end - blob.offset
        if blob.claim.dtype not in {None, blob.header_dtype} and blob.header.masks_offset > end:
            detail = f"the header leaves more room for the weights than {blob.dtype} takes"
            where = ("tensors", blob.row or 0, "dtype")
            found = blob.header.masks_offset
            yield Fault(where, detail, f"masks_offset {end}", found, blob.at("masks_offset"))


@rule("tb.shape", section="index", stage="open")
def shape(doc: Blobs) -> Iterator[Fault]:
    """A shape has as many elements as the header counts, in at most 64 dimensions.

    One dimension may be written as [n], [n, 1] or [n, 0].
    """
    for blob in doc:
        if shape_of(blob.claim, blob.header.weights) is None:
            claimed = blob.claim.shape or ()
            found = "×".join(map(str, claimed[:8])) or "[]"
            detail = "the shape does not fit the number of weights"
            count = product(claimed)
            if len(claimed) == 2 and count and not blob.header.weights % count:
                detail += "; the public pruning tool keeps only two dimensions of more"
            yield _claim(blob, "shape", detail, f"{blob.header.weights} elements", found)


AGREEMENT_RULES: Final[tuple[Rule[Blobs], ...]] = (
    pattern_differs,
    count_differs,
    dtype_differs,
    size_differs,
    shape,
)

# --------------------------------------------------------------------------------- blobs together


@rule("tb.overlap", section="file", stage="open")
def overlap(doc: Blobs) -> Iterator[Fault]:
    """Two blobs have one offset, or no byte in common."""
    groups: dict[str | None, list[Blob]] = {}
    for blob in doc:
        groups.setdefault(blob.file, []).append(blob)
    for blobs in groups.values():
        reached, last = 0, -1
        for blob in sorted(blobs, key=lambda each: each.offset):
            if blob.offset < reached and blob.offset != last:
                where = ("tensors", blob.row or 0, "offset")
                expected = f"at least {reached}"
                yield Fault(where, "two blobs overlap", expected, blob.offset)
            reached, last = max(reached, blob.end), blob.offset


@rule("tb.blob-end", section="layout", stage="open")
def blob_end(doc: Blobs) -> Iterator[Fault]:
    """A `.tb` ends where its blob does."""
    for blob in doc:
        if (blob.row is None or blob.file is not None) and blob.end < blob.limit:
            detail = f"{blob.limit - blob.end} bytes follow the blob"
            where = () if blob.row is None else ("tensors", blob.row)
            yield Fault(where, detail, blob.end, blob.limit, blob.end)


TOGETHER_RULES: Final[tuple[Rule[Blobs], ...]] = (overlap, blob_end)

BLOB_PHASES: Final[tuple[tuple[Rule[Blobs], ...], ...]] = (
    HEADER_RULES,
    WEIGHT_RULES,
    MASK_RULES,
    MASK_PLACE_RULES,
    AGREEMENT_RULES,
    TOGETHER_RULES,
)
"""The phases in order: a phase is judged only when the ones before it found nothing."""

TOLERATED: Final = frozenset(
    {
        "tb.name-unique",
        "tb.entry-shape",
        "tb.entry-dtype",
        "tb.blob-bounds",
        "tb.magic",
        "tb.version",
        "tb.pattern",
        "tb.precision",
        "tb.weights-offset",
        "tb.weights-bounds",
        "tb.mask-size",
        "tb.mask-order",
        "tb.mask-bounds",
        "tb.pattern-differs",
        "tb.count-differs",
        "tb.dtype-differs",
        "tb.size-differs",
        "tb.shape",
        "tb.overlap",
        "tb.blob-end",
    }
)
"""Rules that the public loader does not enforce: a lenient reading notes what breaks them."""

UNUSABLE: Final = frozenset(
    {
        "tb.name-unique",
        "tb.blob-bounds",
        "tb.magic",
        "tb.pattern",
        "tb.weights-offset",
        "tb.weights-bounds",
        "tb.mask-size",
        "tb.mask-order",
        "tb.mask-bounds",
        "tb.size-differs",
    }
)
"""Of those, the ones without which a blob has no sure bytes: a lenient reading leaves it out."""


UNUSABLE_ALONE: Final = UNUSABLE | {"tb.precision"}
"""The same for a `.tb`, whose type no index can tell."""


def _real(doc: Blobs) -> Iterable[Blob]:
    """Return the blobs that are blobs: elsewhere the other fields are noise."""
    return (blob for blob in doc if blob.header.magic == MAGIC)


def _fault(blob: Blob, name: str, detail: str, expected: object, found: object) -> Fault:
    return Fault(blob.place(name), detail, expected, found, blob.at(name))


def _claim(blob: Blob, name: str, detail: str, expected: object, found: object) -> Fault:
    return Fault(("tensors", blob.row or 0, name), detail, expected, found)
