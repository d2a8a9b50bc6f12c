"""Reading a `.npy`: one array with the name of its file. Nothing is evaluated or unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorark.core.conversation import Steps
from tensorark.core.ledger import Names
from tensorark.core.model import Blob, Catalog, Encoded, Part, Raw, Span, Tensor
from tensorark.core.rules import Reading
from tensorark.formats.format import SizeOf
from tensorark.formats.npy import rules
from tensorark.formats.npy.rules import ArrayFile
from tensorark.wire.npy import MAGIC, HeaderFault, length_of, parse_header
from tensorark.wire.npy_types import PREFIX, dtype_of

NAME: Final = "npy"
SUFFIX: Final = ".npy"

_FILE: Final = "npy.file/1"
"""Encoding: an array file as it is; decodes to row-major little-endian."""

_GUESS: Final = 256
"""Bytes in which a header ends, mostly."""


def sniff(head: bytes, _tail: bytes, _size: int) -> bool:
    """Whether the file begins as an array file does."""
    return head.startswith(MAGIC)


def read(size_of: SizeOf, reading: Reading) -> Steps[Catalog]:
    """Open one array, in at most two round trips; `native` is an `ArrayFile`."""
    size = size_of(None)
    (head,) = yield [Span(0, min(size, _GUESS))]
    try:
        length = length_of(head)
        if len(head) < length <= size:
            (head,) = yield [Span(0, length)]
        header = parse_header(head)
    except HeaderFault as bad:
        reading.require((rules.header,), bad)
        raise
    file = ArrayFile(size, header, dtype_of(header.descr))
    reading.require((rules.data_size,), file)
    name = reading.name.removesuffix(SUFFIX) or "array"
    part = Part(_blob(file), file.dtype.dtype, file.dtype.type)
    return Catalog(NAME, {name: Tensor(name, header.shape, "dense", {"data": part})}, native=file)


def _blob(file: ArrayFile) -> Blob:
    """Say where the bytes are: as they are where they need no change."""
    header, dtype = file.header, file.dtype
    # Order is a matter of two dimensions that both have something to order.
    is_ordered = header.fortran_order and sum(n != 1 for n in header.shape) > 1
    if dtype.width is not None and (is_ordered or dtype.is_swapped):
        return Encoded((Span(0, file.size),), _FILE, file.nbytes)
    return Raw((Span(header.length, file.nbytes),))


def holds(origin: Catalog, now: Catalog) -> Mapping[str, Names]:
    """State arrays that mean nothing outside of numpy; names are those of files."""
    types = {name: each.parts["data"].type or "" for name, each in origin.tensors.items()}
    return {
        "names": lambda: now.tensors.keys() - origin.tensors.keys(),
        "objects": lambda: [name for name, type_ in types.items() if type_.startswith(PREFIX)],
    }
