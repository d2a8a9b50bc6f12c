"""How two models differ: the values that a comparison gives."""

from __future__ import annotations

from dataclasses import dataclass

from tensorark.core.brief import brief


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How one tensor differs, or one statement of an artifact.

    `what` is ``shape``, ``type``, ``layout``, ``parts``, ``attributes`` or ``values``; `left` and
    `right` are the two sides. For values, `elements` of them differ, the first at `first` (a flat
    index), by at most `largest`; None where they are no numbers, or of an id that is not known.

    Of an artifact, `what` is also ``binding``, ``use``, ``component``, ``config``, ``role``,
    ``encoding``, ``metadata`` or ``provenance``, and the sides are JSON, None where it is not said.
    """

    __repr__ = brief

    name: str
    what: str
    left: object = None
    right: object = None
    elements: int | None = None
    first: int | None = None
    largest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of two models: names on one side only, changes, and the number of equals.

    True where there is one. `attributes` are the keys of attributes of the file that differ.
    """

    __repr__ = brief

    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    changes: tuple[Change, ...]
    equal: int
    attributes: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether all is the same that the content digest covers.

        Names, shapes, types, layouts, attributes and values of tensors, and whatever an artifact
        says beside them. Attributes of the whole file are listed and do not count.
        """
        return not (self.only_left or self.only_right or self.changes)

    def __bool__(self) -> bool:
        """Tell whether there is a difference."""
        return not self.is_equal
