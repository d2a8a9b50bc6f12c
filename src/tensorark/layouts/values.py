"""The layouts that become values, by id. Unknown ones are refused, never guessed (§5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.errors import RAW, Unsupported
from tensorark.layouts import check, profile_of
from tensorark.layouts.affine.values import MLX_AFFINE
from tensorark.layouts.content import PART_RULES, Content
from tensorark.layouts.coo.values import COO_CELLS
from tensorark.layouts.csr.values import CSR
from tensorark.layouts.dense.rules import DENSE
from tensorark.layouts.gguf.rules import is_gguf
from tensorark.layouts.gguf.values import GGUF_BLOCKS
from tensorark.layouts.layout import Bytes, Layout, ids
from tensorark.layouts.mx.values import MX_BLOCKS
from tensorark.layouts.ninfer.geometry import PREFIX
from tensorark.layouts.ninfer.values import LAYOUTS as NINFER
from tensorark.layouts.nm.values import NM
from tensorark.layouts.numbers.dtypes import (
    Array,
    decode,
    is_packed,
    numpy_dtype,
    unpack_nibbles,
)
from tensorark.layouts.quant.values import QUANT_GROUP


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Return the values of `tensor`, a row-major array of its shape.

    Raises:
        Rejected: when the payload breaks a rule of the layout or of a type.
        Unsupported: when the layout, or a type in it, is unknown.
    """
    return admit(tensor, read).assemble(tensor, read)


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check what the layout of `tensor` demands of its payload, beyond what its types do.

    Raises:
        Rejected: when the payload breaks a rule, unless `reading` gathers.
        Unsupported: when the layout is unknown.
    """
    find(tensor).judge(tensor, read, reading)


def admit(tensor: Tensor, read: Bytes) -> Layout:
    """Return the layout of `tensor`: the gate that every way to numbers passes.

    The layout and all types must be known, and the byte that an odd number of packed elements ends
    in is judged whatever is read; the rest a layout judges as it reads, metadata included.

    Raises:
        Rejected: when the last byte breaks a rule of its type.
        Unsupported: when the layout, or a type in it, is unknown (§4.2, §5.2).
    """
    layout = find(tensor)
    if tensor.layout == DENSE.id:
        check(DENSE, tensor)
    if tensor.layout.startswith(PREFIX):
        return layout  # its types are judged with it
    for role, part in tensor.parts.items():
        where = ("objects", tensor.name, "parts", role)
        if part.type is not None:
            try:
                numpy_dtype(*ids(part))
            except Unsupported as error:
                profile = profile_of(tensor.layout)
                if profile is not None:
                    check(profile, tensor)  # a rule that forbids the type says more
                error.where = where
                raise
        if role == "data" and is_packed(part.type) and tensor.elements % 2 and part.nbytes:
            last = read(role, part.nbytes - 1, part.nbytes)
            judged = Content(where=where, data=last, type=part.type, elements=tensor.elements)
            Reading().require(PART_RULES, judged)
    return layout


def find(tensor: Tensor) -> Layout:
    """Return the layout of `tensor`.

    Raises:
        Unsupported: when it is unknown.
    """
    found = GGUF_BLOCKS if is_gguf(tensor.layout) else LAYOUTS.get(tensor.layout)
    if found is None:
        raise Unsupported(
            "the layout is unknown, so the tensor is not interpreted",
            code="unknown-layout",
            section="5.2",
            where=("objects", tensor.name, "layout"),
            expected="one of " + " ".join([*LAYOUTS, "gguf.<type>/1"]),
            found=tensor.layout,
            hint=RAW,
        )
    return found


def _dense(tensor: Tensor, read: Bytes) -> Array:
    """Assemble `dense` (§5.1): one part, row-major."""
    where = ("objects", tensor.name, "parts", "data")
    return decode(read("data"), ids(tensor.parts["data"]), tensor.shape, where)


def _dense_elements(tensor: Tensor, read: Bytes, start: int, stop: int) -> Array:
    """Return the elements [start, stop) of a `dense` tensor from the bytes that hold them."""
    part = tensor.parts["data"]
    where = ("objects", tensor.name, "parts", "data")
    if not is_packed(part.type):
        width = numpy_dtype(*ids(part)).itemsize
        return decode(read("data", start * width, stop * width), ids(part), (stop - start,), where)
    nibbles = unpack_nibbles(read("data", start // 2, -(-stop // 2)))
    return nibbles[start % 2 :][: stop - start].view(numpy_dtype(*ids(part)))


LAYOUTS: Final[Mapping[str, Layout]] = MappingProxyType(
    {
        "dense": Layout(_dense, elements=_dense_elements),
        "zt.sparse_csr/1": CSR,
        "zt.sparse_coo/1": COO_CELLS,
        "zt.quant_group/1": QUANT_GROUP,
        "zt.mx/1": MX_BLOCKS,
        "mlx.affine/1": MLX_AFFINE,
        "tensorbit.nm/1": NM,
        **NINFER,
    }
)
