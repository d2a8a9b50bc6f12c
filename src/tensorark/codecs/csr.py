"""The layout `zt.sparse_csr/1` as values: a full matrix, and its rules about payload."""

from __future__ import annotations

import numpy as np

from tensorark.codecs.content import CSR_RULES, PART_RULES, Content, Csr
from tensorark.codecs.layout import Bytes, Layout, ids
from tensorark.codecs.numbers import Array, decode
from tensorark.model import Tensor
from tensorark.rules import Reading
from tensorark.vocab import DTYPES


def assemble(tensor: Tensor, read: Bytes) -> Array:
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
    """Check the index arrays, and the values with the count that they give."""
    csr = read_csr(tensor, read, reading)
    content = Content(
        where=("objects", tensor.name, "parts", "values"),
        data=read("values"),
        type=tensor.parts["values"].type,
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


CSR = Layout(assemble, judge)
