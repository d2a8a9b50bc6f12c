"""The layouts that become values, by id. Unknown ones are refused, never guessed (§5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tensorark.codecs.affine import MLX_AFFINE
from tensorark.codecs.coo import COO_CELLS
from tensorark.codecs.csr import CSR
from tensorark.codecs.gguf import GGUF_BLOCKS
from tensorark.codecs.layout import Bytes, Layout, ids
from tensorark.codecs.mx import MX_BLOCKS
from tensorark.codecs.ninfer.layouts import LAYOUTS as NINFER
from tensorark.codecs.nm import NM
from tensorark.codecs.numbers import Array, decode
from tensorark.codecs.quant import QUANT_GROUP
from tensorark.errors import RAW, Unsupported
from tensorark.model import Tensor
from tensorark.rules import Reading
from tensorark.vocab.layouts import check
from tensorark.vocab.layouts.dense import DENSE
from tensorark.vocab.layouts.gguf import is_gguf


def assemble(tensor: Tensor, read: Bytes) -> Array:
    """Return the values of `tensor`, a row-major array of its shape.

    Raises:
        Rejected: when the payload breaks a rule of the layout or of a type.
        Unsupported: when the layout, or a type in it, is unknown.
    """
    return find(tensor).assemble(tensor, read)


def judge(tensor: Tensor, read: Bytes, reading: Reading) -> None:
    """Check what the layout of `tensor` demands of its payload, beyond what its types do.

    Raises:
        Rejected: when the payload breaks a rule, unless `reading` gathers.
        Unsupported: when the layout is unknown.
    """
    find(tensor).judge(tensor, read, reading)


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
    check(DENSE, tensor)
    where = ("objects", tensor.name, "parts", "data")
    return decode(read("data"), ids(tensor.parts["data"]), tensor.shape, where)


LAYOUTS: Final[Mapping[str, Layout]] = MappingProxyType(
    {
        "dense": Layout(_dense),
        "zt.sparse_csr/1": CSR,
        "zt.sparse_coo/1": COO_CELLS,
        "zt.quant_group/1": QUANT_GROUP,
        "zt.mx/1": MX_BLOCKS,
        "mlx.affine/1": MLX_AFFINE,
        "tensorbit.nm/1": NM,
        **NINFER,
    }
)
