"""What the manifest alone must say about layouts that we interpret: `dense` and the profiles.

Metadata rules only (§5): parts, dtypes and sizes, in unbounded integers. They stand in
`layouts`, because decoding relies on them too; here they are laid over a manifest. Objects of
other layouts pass: they are listed and never interpreted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import prod
from typing import Any, Final

from tensorark.core.rules import Reading, Rule
from tensorark.core.types import size_of
from tensorark.errors import Rejected
from tensorark.formats.zt.manifest import Manifest
from tensorark.layouts import LAYOUTS, layout_of
from tensorark.layouts.layout import Description

_DENSE: Final = "dense"
_NONE: Final[Mapping[str, object]] = {}


class Objects:
    """The objects of a manifest, as each profile reads its own: `records` by profile id.

    Dense objects that are plainly in order are left out: there may be a hundred thousand of them.
    """

    __slots__ = ("records",)

    def __init__(self, manifest: Manifest) -> None:
        self.records: dict[str, list[Any]] = defaultdict(list)
        known = {layout: layout_of(layout) for layout in {*manifest.layouts}}
        firsts, shapes = manifest.firsts, manifest.shapes
        for index, layout in enumerate(manifest.layouts):
            if layout == _DENSE:
                first = firsts[index]
                if (
                    firsts[index + 1] == first + 1
                    and manifest.roles[first] == "data"
                    and size_of(manifest.dtypes[first], manifest.types[first], prod(shapes[index]))
                    == manifest.sizes[first]
                ):
                    continue
            profile = known[layout]
            if profile is not None:
                self.records[profile.id].append(profile.parse(_describe(manifest, index)))


def _describe(manifest: Manifest, index: int) -> Description:
    dtypes, types, sizes = manifest.dtypes, manifest.types, manifest.sizes
    return Description(
        manifest.object_place(index),
        manifest.shapes[index],
        manifest.object_attributes[index] or _NONE,
        {
            manifest.roles[part]: (dtypes[part], types[part], sizes[part])
            for part in range(manifest.firsts[index], manifest.firsts[index + 1])
        },
    )


def judge_layouts(manifest: Manifest, reading: Reading) -> None:
    """Judge what a manifest says of objects whose layouts we interpret.

    Raises:
        Rejected: for the first rule broken; when `reading` gathers, after all layouts were judged.
    """
    records = Objects(manifest).records
    first: Rejected | None = None
    for profile in LAYOUTS.values():
        if profile.id not in records:
            continue
        try:
            reading.require(profile.rules, records[profile.id], manifest.offset_of)
        except Rejected as error:
            if reading.gathered is None:
                raise
            first = first or error
    if first is not None:
        raise first


LAYOUT_RULES: Final[tuple[Rule[Any], ...]] = tuple(
    judged for profile in LAYOUTS.values() for judged in profile.rules
)
