"""Any model as the `.zt` model that it converts to: what identity, diffs and signatures cover."""

from __future__ import annotations

from dataclasses import replace

from tensorark.core.conversation import drive
from tensorark.core.model import NORMAL
from tensorark.errors import Unsupported
from tensorark.files import File
from tensorark.files.folder import require_whole


def normalize(file: File) -> File:
    """Return a model in the terms of `.zt`: the same tensors, attributes with their types.

    What else a format has, and is part of what a model is, becomes objects. A `.zt` is itself.
    """
    if file.format.numbered:
        require_whole(file.path)
    if file.catalog.is_normal:
        return file
    if file.format.normalize is not None:
        return file.with_catalog(*file.format.normalize(file.catalog))
    tensors = file.catalog.tensors
    if not all(file.catalog.tensor_attributes.values()):  # no attributes are none
        tensors = {
            name: replace(each, attributes=each.attributes or None)
            for name, each in tensors.items()
        }
    attributes = file.catalog.attributes or None
    catalog = replace(file.catalog, format=NORMAL, tensors=tensors, attributes=attributes)
    return file.with_catalog(catalog)


def as_zt_model(file: File) -> File:
    """Return a model as a `.zt` carries it: `normalize` it, with all that it takes to come back.

    Raises:
        Unsupported: when something has no place there.
    """
    if file.format.carry is None or file.catalog.native is None:  # a step made something else
        return normalize(file)
    model = normalize(file)
    try:
        attributes = drive(file.format.carry(file.catalog), file.source)
    except Unsupported as error:
        error.located(file.path)
        raise
    return model.with_catalog(replace(model.catalog, attributes=attributes))
