"""Plans a safetensors file: its header, byte for byte, and the order of its tensors.

Pure: what is planned here is written elsewhere. The same tensors and metadata always make the same
bytes; data starts at a multiple of 64 and no tensor is misaligned for its elements. What the format
cannot hold is refused by name before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tensorark.core.model import Tensor
from tensorark.errors import InvalidInput, quoted
from tensorark.formats.safetensors.dtypes import DTYPES, NAMES
from tensorark.formats.safetensors.header import METADATA, U64, overflows

ALIGNMENT: Final = 64
"""Where data starts: a cache line, and the widest load of current processors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A file to be written: `header`, then the bytes of the tensors in `order`, nothing between.

    `header` includes its length, `size` is that of the whole file.
    """

    header: bytes
    order: tuple[str, ...]
    size: int


def plan(tensors: Sequence[Tensor], metadata: Mapping[str, str] | None) -> Plan:
    """Plan a file: tensors of wider elements first, those of one width by name, bytewise.

    `metadata` None leaves ``__metadata__`` out, an empty map writes it empty.

    Raises:
        InvalidInput: for what `refusal` refuses, a name given twice, metadata that is not text.
    """
    for tensor in tensors:
        reason = refusal(tensor)
        if reason is not None:
            detail = f"{quoted(tensor.name)} cannot be stored: {reason}"
            raise InvalidInput(detail, where=(tensor.name,))
    ordered = sorted(tensors, key=_place)
    members = [f'"{METADATA}":{_metadata(metadata)}'] if metadata is not None else []
    seen: set[str] = set()
    begin = 0
    for tensor in ordered:
        if tensor.name in seen:
            raise InvalidInput(f"{quoted(tensor.name)} is given twice", where=(tensor.name,))
        seen.add(tensor.name)
        end = begin + tensor.parts["data"].nbytes
        members.append(entry(tensor, begin, end))
        begin = end
    text = ("{" + ",".join(members) + "}").encode("utf-8")
    # Spaces, which JSON lets pass; the eight bytes of the length count for the alignment of data.
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    header = len(text).to_bytes(8, "little") + text
    return Plan(
        header=header,
        order=tuple(tensor.name for tensor in ordered),
        size=len(header) + begin,
    )


def plan_header(
    tensors: Iterable[Tensor], data_start: int, metadata: Mapping[str, str] | None
) -> bytes:
    """Return another header for a file whose data, from `data_start` on, stays as it is.

    `tensors` are those of the file, in the order of its header.

    Raises:
        InvalidInput: for metadata that is not text.
    """
    members = [f'"{METADATA}":{_metadata(metadata)}'] if metadata is not None else []
    for tensor in tensors:
        (span,) = tensor.parts["data"].blob.spans
        begin = span.offset - data_start
        members.append(entry(tensor, begin, begin + span.length))
    text = ("{" + ",".join(members) + "}").encode("utf-8")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def refusals(tensors: Iterable[Tensor]) -> Iterator[tuple[str, str]]:
    """Yield the name of every tensor that safetensors cannot hold, and why.

    What it can hold without attributes or digests is not refused.
    """
    for tensor in tensors:
        reason = refusal(tensor)
        if reason is not None:
            yield tensor.name, reason


def refusal(tensor: Tensor) -> str | None:
    """Say why safetensors cannot hold `tensor`; None if it can.

    An encoded part is no reason: its decoded bytes are written.
    """
    if tensor.name == METADATA:
        return f"the name {METADATA} is reserved"
    if not _is_unicode(tensor.name):
        return "its name is not Unicode text"
    if tensor.layout != "dense":
        return f"layout {quoted(tensor.layout)} has no counterpart"
    if set(tensor.parts) != {"data"}:
        return "it has other parts than data"
    part = tensor.parts["data"]
    name = NAMES.get((part.dtype, part.type))
    if name is None:
        return f"type {quoted(part.type or part.dtype)} over {part.dtype} has no counterpart"
    if min(tensor.shape, default=0) < 0 or overflows(tensor.shape):
        return "its shape has too many elements"
    elements, width, nbytes = tensor.elements, _bits(name), part.nbytes
    if elements * width % 8:
        return f"its {elements} elements of {width} bits do not fill whole bytes"
    if nbytes * 8 != elements * width or nbytes >= U64:
        return f"its shape needs {elements * width // 8} bytes, its data has {nbytes}"
    return None


def entry(tensor: Tensor, begin: int, end: int) -> str:
    """Return the member of a header that places `tensor` at the bytes `begin` … `end`."""
    part = tensor.parts["data"]
    shape = ",".join(map(str, tensor.shape))
    return (
        f'{text_of(tensor.name)}:{{"dtype":"{NAMES[part.dtype, part.type]}","shape":[{shape}],'
        f'"data_offsets":[{begin},{end}]}}'
    )


def text_of(text: str) -> str:
    """Quote `text` as JSON, in UTF-8 rather than escapes, as the public library does."""
    return json.dumps(text, ensure_ascii=False)


def _place(tensor: Tensor) -> tuple[int, bytes]:
    part = tensor.parts["data"]
    return -_bits(NAMES[part.dtype, part.type]), tensor.name.encode("utf-8")


def _bits(name: str) -> int:
    return DTYPES[name].bits or 0


def _metadata(metadata: Mapping[str, str]) -> str:
    for key, value in metadata.items():
        each: tuple[object, object] = (key, value)
        if not all(isinstance(text, str) and _is_unicode(text) for text in each):
            raise InvalidInput(f"metadata of {key!r} is not Unicode text", where=(METADATA,))
    return "{" + ",".join(f"{text_of(k)}:{text_of(metadata[k])}" for k in sorted(metadata)) + "}"


def _is_unicode(text: str) -> bool:
    """Whether `text` has a UTF-8 encoding: lone surrogates have none."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
