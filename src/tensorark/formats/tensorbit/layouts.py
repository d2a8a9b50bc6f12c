"""Where the bytes of a blob lie, and which tensor of the model they are.

Owns the one place where header and index meet: the header decides about counts, offsets, pattern
and precision, the index about name, shape, quantized types and scales. Pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorark.core.model import Part, Raw, Span, Tensor
from tensorark.formats.tensorbit.frame import FIELDS, PRECISIONS, QUANTIZED_CODES, Header
from tensorark.formats.tensorbit.index import Claim, shape_of
from tensorark.layouts.nm.rules import ID, KEY, QUANTIZED, Pattern, weight_size

STORAGE: Mapping[str, str] = {"fp32": "f32", "fp16": "f16", "bf16": "bf16", "fp64": "f64"}
"""The storage types of the four precisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A blob in its file: what its header says and, in a container, what the index says of it.

    `limit` is where the blobs of the file must end; `row` the place in the index, None for a file
    of its own; `file` the label of the file that holds it.
    """

    header: Header
    claim: Claim
    limit: int
    row: int | None = None

    @property
    def offset(self) -> int:
        """First byte of the blob in its file."""
        return self.claim.offset

    @property
    def file(self) -> str | None:
        """Label of the file that holds the blob."""
        return self.claim.file

    @property
    def dtype(self) -> str:
        """Name of the element type: the index decides about quantized ones, else the header."""
        claimed, code = self.claim.dtype, self.header.precision
        if claimed is not None and claimed in QUANTIZED:
            return claimed
        if code < len(PRECISIONS):
            return PRECISIONS[code]
        return claimed or PRECISIONS[0]

    @property
    def header_dtype(self) -> str | None:
        """Name of the type that the precision of the header gives; None where it gives none."""
        code = self.header.precision
        return PRECISIONS[code] if code < len(PRECISIONS) else None

    @property
    def is_typed(self) -> bool:
        """Whether header or index give a type that exists."""
        return self.header.precision < len(PRECISIONS) or self.claim.dtype is not None

    @property
    def pattern(self) -> Pattern:
        """The N:M of the header."""
        return Pattern(self.header.n, self.header.m)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights, without scales."""
        return weight_size(STORAGE.get(self.dtype, self.dtype), self.header.weights)

    @property
    def scale_bytes(self) -> int:
        """Bytes of the scales; only quantized weights have any."""
        return 4 * self.claim.scale_count if self.dtype in QUANTIZED else 0

    @property
    def weights(self) -> Span:
        """Where the weights lie."""
        return Span(self.offset + self.header.weights_offset, self.weight_bytes, self.file)

    @property
    def scales(self) -> Span:
        """Where the scales lie: right behind the weights."""
        return Span(self.weights.end, self.scale_bytes, self.file)

    @property
    def mask(self) -> Span:
        """Where the mask lies; its offset means nothing where it is empty."""
        return Span(self.offset + self.header.masks_offset, self.header.mask_bytes, self.file)

    @property
    def end(self) -> int:
        """First byte after everything that belongs to the blob."""
        return max(self.scales.end, self.mask.end if self.header.mask_bytes else 0)

    @property
    def is_quantized(self) -> bool:
        """Whether the weights are int8 or int4."""
        return self.dtype in QUANTIZED_CODES

    def place(self, name: str) -> tuple[str | int, ...]:
        """Return the place of one field of the header, for a message."""
        inside = () if self.row is None else ("tensors", self.row)
        return (*inside, "header", name)

    def at(self, name: str) -> int:
        """Return the file offset of one field of the header."""
        return self.offset + _OFFSETS[name]


_OFFSETS: Mapping[str, int] = {
    "magic": 0,
    "version": 4,
    "nm_n": 8,
    "nm_m": 12,
    "num_weights": 16,
    "num_mask_bytes": 24,
    "weights_offset": 32,
    "masks_offset": 40,
    "precision": 48,
    "reserved": FIELDS.size,
}


def build_tensor(blob: Blob) -> Tensor:
    """Return the tensor of a judged blob: `dense` without a pattern, else `tensorbit.nm/1`.

    int4, and whatever has scales, is that too: its bytes are no plain numbers.
    """
    shape = shape_of(blob.claim, blob.header.weights)
    if shape is None:  # tolerated: the header counts, and the weights lie flat
        shape = (blob.header.weights,)
    storage = QUANTIZED[blob.dtype][0] if blob.is_quantized else STORAGE[blob.dtype]
    weights = Part(Raw((blob.weights,)), storage)
    attributes = {KEY: facts} if (facts := _facts(blob)) else None
    if blob.pattern.is_dense and not blob.scale_bytes and blob.dtype != "int4":
        return Tensor(blob.claim.name, shape, "dense", {"data": weights}, attributes)
    parts = {"weights": weights}
    if blob.header.mask_bytes:
        parts["mask"] = Part(Raw((blob.mask,)), "u8")
    if blob.scale_bytes:
        parts["scales"] = Part(Raw((blob.scales,)), "f32")
    return Tensor(blob.claim.name, shape, ID, parts, attributes)


def _facts(blob: Blob) -> dict[str, object]:
    """Return what a tensor says of itself beside its bytes, so that it can be written back."""
    facts: dict[str, object] = {}
    if not blob.pattern.is_dense:
        facts |= {"n": blob.pattern.n, "m": blob.pattern.m}
    if blob.is_quantized:
        facts |= {"n": blob.pattern.n, "m": blob.pattern.m, "dtype": blob.dtype}
        if blob.claim.group_size:
            facts["group_size"] = blob.claim.group_size
        if blob.header.precision:
            facts["precision"] = blob.header.precision
    if blob.claim.extra:
        facts["extra"] = dict(blob.claim.extra)
    return facts
