"""Layouts as arrays: how the parts of a tensor combine into values.

One function a layout, looked up by the layout's id. Unknown layouts are refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from tensorark.codecs.content import CSR_RULES, PART_RULES, Content, Csr
from tensorark.codecs.numbers import Array, decode
from tensorark.errors import Unsupported
from tensorark.model import Part, Tensor
from tensorark.rules import Reading
from tensorark.vocab import DTYPES

Bytes = Callable[[str], memoryview]
"""Gives the decoded bytes of the part with this role."""

DENSE: Final = "dense"


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Return the values of `tensor`, a row-major array of its shape.

    Raises:
        Rejected: when the payload breaks a rule of the layout or of a type.
        Unsupported: when the layout, or a type in it, is unknown (§5.2).
    """
    return find(tensor)(tensor, read)


def find(tensor: Tensor) -> Callable[[Tensor, Bytes], Array]:
    """Return the function that assembles the layout of `tensor`.

    Raises:
        Unsupported: when there is none.
    """
    found = _LAYOUTS.get(tensor.layout)
    if found is None:
        raise Unsupported(
            "the layout is unknown, so the tensor is not interpreted",
            code="unknown-layout",
            section="5.2",
            where=("objects", tensor.name, "layout"),
            expected="one of " + " ".join(_LAYOUTS),
            found=tensor.layout,
            hint="raw() gives the bytes of each part",
        )
    return found


def ids(part: Part) -> tuple[str, str | None]:
    """Return the storage type and the logical type of a part."""
    return part.dtype, part.type


def dense(tensor: Tensor, read: Bytes) -> Array:
    """Assemble `dense` (§5.1): one part, row-major."""
    where = ("objects", tensor.name, "parts", "data")
    return decode(read("data"), ids(tensor.parts["data"]), tensor.shape, where)


def sparse_csr(tensor: Tensor, read: Bytes) -> Array:
    """Assemble `zt.sparse_csr/1` into a full matrix; what is not stored is zero."""
    csr = read_csr(tensor, read, Reading())
    values = tensor.parts["values"]
    where = ("objects", tensor.name, "parts", "values")
    stored = decode(read("values"), ids(values), (csr.indices.size,), where)
    full = np.zeros(tensor.shape, stored.dtype)
    ends = csr.indptr.astype(np.int64)
    rows = np.repeat(np.arange(tensor.shape[0]), ends[1:] - ends[:-1])
    full[rows, csr.indices.astype(np.int64)] = stored
    return full


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check what the layout of `tensor` demands of its payload, beyond what its types do.

    Raises:
        Rejected: when the payload breaks a rule, unless `reading` gathers.
        Unsupported: when the layout is unknown.
    """
    if find(tensor) is sparse_csr:
        csr = read_csr(tensor, read, reading)
        values = tensor.parts["values"]
        content = Content(
            where=("objects", tensor.name, "parts", "values"),
            data=read("values"),
            type=values.type,
            elements=csr.indices.size,
        )
        reading.require(PART_RULES, content)


def read_csr(tensor: Tensor, read: Bytes, reading: Reading) -> Csr:
    """Return the index arrays of a CSR tensor, checked by the rules of the profile."""
    part = tensor.parts["indices"]
    element = np.dtype("<u4" if DTYPES[part.dtype] == 4 else "<u8")
    csr = Csr(
        where=("objects", tensor.name),
        columns=tensor.shape[1],
        indptr=np.frombuffer(read("indptr"), element),
        indices=np.frombuffer(read("indices"), element),
    )
    reading.require(CSR_RULES, csr)
    return csr


_LAYOUTS: Final[Mapping[str, Callable[[Tensor, Bytes], Array]]] = MappingProxyType(
    {DENSE: dense, "zt.sparse_csr/1": sparse_csr}
)
