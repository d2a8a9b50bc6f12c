"""Kinds of what files hold beside the values of tensors, and what a format keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tensorark.core.model import Catalog

Names = Callable[[], Iterable[str]]
"""Gives the names of what is held of a kind."""

BY_MODEL: Final = frozenset({"names", "shapes", "attributes", "tensor-attributes"})
"""Kinds that models of every format hold."""

BY_ARTIFACT: Final = frozenset(
    {
        "bindings",
        "components",
        "configs",
        "encodings",
        "provenance",
        "resources",
        "roles",
        "uses",
    }
)
"""Kinds that artifacts hold beside tensors; their metadata are attributes of the file."""

BY_LENIENCE: Final = frozenset({"unusable"})
"""Kinds that are left out because the source was opened leniently: listed, and never refused."""

KINDS: Final = (
    BY_MODEL | BY_ARTIFACT | BY_LENIENCE | {"fields", "gaps", "members", "objects", "tensors"}
)
"""Every kind: beside those above fields of a directory that its format does not define, bytes that
no entry speaks of, members of an archive that are no arrays, arrays that mean nothing outside of
numpy, and tensors that the target cannot hold."""


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """One thing that a source holds and its target does not."""

    kind: str
    name: str


def _keep_no_more(_catalog: Catalog, _stem: str, _kind: str, _name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Keeps:
    """What a format keeps: `kinds` as a whole; of others what `some` says, by kind and name.

    `some` is asked with the catalog to be written, the name of the file without its suffix, the
    kind and the name.
    """

    kinds: frozenset[str] = frozenset()
    some: Callable[[Catalog, str, str, str], bool] = _keep_no_more
