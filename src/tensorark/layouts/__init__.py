"""The layouts we interpret, as far as metadata goes: parts, types, sizes, attributes.

One module for each; rules judge all objects of a file that have a layout at once. They hold for any
file that carries such an object, and again before one is decoded. No numpy, no payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tensorark.core.model import Tensor
from tensorark.core.rules import Reading
from tensorark.layouts.affine.rules import AFFINE
from tensorark.layouts.coo.rules import COO
from tensorark.layouts.csr.rules import CSR
from tensorark.layouts.dense.rules import DENSE
from tensorark.layouts.gguf.rules import GGUF, is_gguf
from tensorark.layouts.mx.rules import MX
from tensorark.layouts.ninfer.rules import NINFER, is_ninfer
from tensorark.layouts.nm.rules import NM
from tensorark.layouts.profile import AnyProfile, Described, Profile, described
from tensorark.layouts.quant.rules import QUANT

__all__ = ["PROFILES", "Described", "Profile", "check", "described", "profile_of"]

PROFILES: Final[Mapping[str, AnyProfile]] = MappingProxyType(
    {each.id: each for each in (DENSE, CSR, COO, QUANT, MX, GGUF, AFFINE, NM, NINFER)}
)
"""The profiles by id; those of the GGUF and NInfer families stand for all their members."""


def profile_of(layout: str) -> AnyProfile | None:
    """Return the profile of a layout; None where it has none here."""
    if is_gguf(layout):
        return GGUF
    if is_ninfer(layout):
        return NINFER
    return PROFILES.get(layout)


_ALONE: Final = Reading()


def check(profile: Profile[Any], tensor: Tensor, reading: Reading = _ALONE) -> Any:
    """Judge what the file says of `tensor` by the rules of `profile`, and return its record.

    Opening has done that already, unless it was told to read structurally.

    Raises:
        Rejected: for the first rule that it breaks.
    """
    record = profile.parse(described(tensor))
    reading.require(profile.rules, [record])
    return record
