"""Plans an archive of arrays: names, headers, and the records of the zip, byte for byte.

Pure: what is planned here is written elsewhere. Arrays are stored, in the order of their names,
with their data at multiples of 64; nothing depends on time or machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tensorark.core.model import Tensor
from tensorark.errors import quoted
from tensorark.formats.npz import marker
from tensorark.formats.npz.rules import SUFFIX
from tensorark.wire.npy import header_bytes
from tensorark.wire.npy_types import VOIDS, array_refusal, descr_of
from tensorark.wire.zip import (
    END,
    END64,
    END64_MAGIC,
    END_MAGIC,
    ENTRY,
    ENTRY_MAGIC,
    LOCAL,
    LOCAL_MAGIC,
    LOCATOR,
    LOCATOR_MAGIC,
    STORED,
    UTF8,
)

ALIGNMENT: Final = 64
CRC_AT: Final = 14
"""Where in a local header the CRC lies, which is known when the data have passed."""

_FULL16: Final = (1 << 16) - 1
_FULL32: Final = (1 << 32) - 1
_PADDING: Final = 0xD935  # the extra field by which zips are aligned elsewhere as well
_DATE: Final = 1 << 5 | 1  # the first day of 1980, which is the zero of the format
_PLAIN, _WIDE = 20, 45  # versions needed to extract
_REGULAR: Final = 0o100644 << 16
_LONGEST: Final = _FULL16 - len(SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One array to be written: `head` is its header, behind which `nbytes` follow."""

    name: bytes
    head: bytes
    nbytes: int

    @property
    def size(self) -> int:
        """Bytes of the whole member."""
        return len(self.head) + self.nbytes

    @property
    def flags(self) -> int:
        """The flags: whether the name is UTF-8."""
        return 0 if self.name.isascii() else UTF8

    def local(self, offset: int) -> bytes:
        """Return its local header at `offset`, without a CRC, padded so that data are aligned."""
        wide = self.size >= _FULL32
        extra = _wide(self.size, self.size) if wide else b""
        begin = offset + LOCAL.size + len(self.name) + len(extra) + len(self.head)
        missing = -begin % ALIGNMENT
        if 0 < missing < 4:  # an extra field has a header of four bytes
            missing += ALIGNMENT
        if missing:
            extra += _extra(_PADDING, bytes(missing - 4))
        size = _FULL32 if wide else self.size
        version = _WIDE if wide else _PLAIN
        fixed = LOCAL.pack(
            LOCAL_MAGIC, version, self.flags, STORED, 0, _DATE, 0, size, size,
            len(self.name), len(extra),
        )  # fmt: skip
        return fixed + self.name + extra

    def entry(self, offset: int, crc: int) -> bytes:
        """Return its entry in the directory."""
        size, large, far = self.size, self.size >= _FULL32, offset >= _FULL32
        words = ([size, size] if large else []) + ([offset] if far else [])
        extra = _wide(*words) if words else b""
        size = _FULL32 if large else size
        version = _WIDE if words else _PLAIN
        fixed = ENTRY.pack(
            # 3: made on Unix, without which the mode of the file means nothing.
            ENTRY_MAGIC, 3 << 8 | version, version, self.flags, STORED, 0, _DATE, crc, size, size,
            len(self.name), len(extra), 0, 0, 0, _REGULAR, min(offset, _FULL32),
        )  # fmt: skip
        return fixed + self.name + extra


def _wide(*words: int) -> bytes:
    return _extra(1, b"".join(word.to_bytes(8, "little") for word in words))


def _extra(id_: int, body: bytes) -> bytes:
    return id_.to_bytes(2, "little") + len(body).to_bytes(2, "little") + body


def end_records(offset: int, length: int, count: int) -> bytes:
    """Return the end of an archive whose directory of `count` entries lies at `offset`."""
    records = b""
    if count >= _FULL16 or offset >= _FULL32 or length >= _FULL32:
        # Less 12: the record does not count its magic and the field with its size.
        records = END64.pack(
            END64_MAGIC, END64.size - 12, 3 << 8 | _WIDE, _WIDE, 0, 0, count, count, length, offset
        ) + LOCATOR.pack(LOCATOR_MAGIC, 0, offset + length, 1)
    few = min(count, _FULL16)
    return records + END.pack(
        END_MAGIC, 0, 0, few, few, min(length, _FULL32), min(offset, _FULL32), 0
    )


def plan(tensor: Tensor) -> Member:
    """Plan the member of one tensor, which is none of `refusals`."""
    part = tensor.parts["data"]
    descr = descr_of(part.dtype, part.type) or ""
    return Member(
        name=(tensor.name + SUFFIX).encode("utf-8"),
        head=header_bytes(descr, tensor.shape),
        nbytes=part.nbytes,
    )


def plan_marker(text: bytes) -> Member:
    """Plan the member that carries what arrays cannot."""
    name = (marker.NAME + SUFFIX).encode("utf-8")
    return Member(name=name, head=header_bytes("|u1", (len(text),)), nbytes=len(text))


def void_types(tensors: Iterable[Tensor]) -> dict[str, str]:
    """Return the types of the tensors that are voids to numpy, by name."""
    types = {}
    for tensor in tensors:
        part = tensor.parts["data"]
        if (part.dtype, part.type) in VOIDS:
            types[tensor.name] = part.type or part.dtype
    return types


def refusals(tensors: Iterable[Tensor]) -> Iterator[tuple[str, str]]:
    """Yield the name of every tensor that an archive of arrays cannot hold, and why."""
    held = list(tensors)
    names = {each.name for each in held}
    for tensor in held:
        reason = _refusal(tensor)
        if tensor.name.endswith(SUFFIX) and tensor.name.removesuffix(SUFFIX) in names:
            reason = f"numpy reads {quoted(tensor.name.removesuffix(SUFFIX))} under this name"
        if reason is not None:
            yield tensor.name, reason


def _refusal(tensor: Tensor) -> str | None:
    if tensor.name == marker.NAME:
        return f"the name {marker.NAME} is reserved"
    if "\0" in tensor.name:
        return "zip readers cut a name at a zero byte"
    try:
        name = tensor.name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not Unicode text"
    if len(name) > _LONGEST:
        return f"its name is longer than {_LONGEST} bytes"
    return array_refusal(tensor, voids=True)
