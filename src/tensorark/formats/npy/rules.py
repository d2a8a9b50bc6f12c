"""What an array file must fulfil, one function each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.wire.npy import Header, HeaderFault
from tensorark.wire.npy_types import Dtype


@dataclass(frozen=True, slots=True)
class ArrayFile:
    """A file of one array: its size in bytes, what its header says, and what that means."""

    size: int
    header: Header
    dtype: Dtype

    @property
    def nbytes(self) -> int:
        """Bytes behind the header."""
        return self.size - self.header.length


@rule("npy.header", section="npy", stage="schema")
def header(bad: HeaderFault) -> Iterator[Fault]:
    """The file begins with a header of version 1 to 3 whose three members have their types."""
    yield Fault((), bad.detail, bad.expected, bad.found, bad.offset)


@rule("npy.data-size", section="npy", stage="open")
def data_size(file: ArrayFile) -> Iterator[Fault]:
    """Behind the header lie as many bytes as shape and dtype call for."""
    if file.dtype.width is None:  # objects and records: nothing says how long they are
        return
    expected = file.dtype.width * prod(file.header.shape)
    if file.nbytes != expected:
        detail = "the array has another size than its shape"
        yield Fault((), detail, expected, file.nbytes, file.header.length)


RULES: Final[tuple[Rule[Any], ...]] = (header, data_size)
