"""Attributes of a catalog in one value; they have their types since it was opened."""

from __future__ import annotations

from tensorark.core.model import Catalog
from tensorark.wire.attributes import Carried


def brought_home(catalog: Catalog) -> Carried:
    """Return the attributes of a catalog and of its tensors."""
    return Carried(catalog.attributes, catalog.tensor_attributes)
