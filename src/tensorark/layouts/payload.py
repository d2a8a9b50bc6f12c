"""Judging payload by what types and layouts demand of it, for whoever verifies or writes.

Owns how that is done in bounded memory: types judge pieces as they pass, layouts read the ranges
they need. Digests and the rules of encodings are judged where bytes are decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tensorark.core.model import Part, Raw, Tensor
from tensorark.core.rules import Reading
from tensorark.core.types import RESTRICTED, size_of
from tensorark.errors import Where
from tensorark.layouts import layout_of

Ranges = Callable[[int, int], memoryview]
"""Reads decoded bytes [start, start + length) of a part."""


WINDOW: Final = 8 << 20
"""Bytes of an encoded part that are decoded at least."""


class Holder(Protocol):
    """Whatever gives decoded bytes of parts in ranges."""

    def ranges(self, part: Part, where: tuple[str | int, ...] = ()) -> Ranges:
        """Return what reads ranges of a part."""
        ...


def is_ruled(layout: str) -> bool:
    """Tell whether a layout demands anything of its payload beyond what types do."""
    found = layout_of(layout)
    return found is not None and found.judges_payload


def judge_layout(holder: Holder, tensor: Tensor, reading: Reading) -> None:
    """Judge what the layout of `tensor` demands of its payload, metadata included.

    Raises:
        Rejected: when it breaks a rule.
        Unsupported: when the layout, or a type in it, is unknown.
    """
    from tensorark.layouts.gate import judge

    judge(tensor, Reader(holder, tensor), reading)


class Passing:
    """The bytes of a part as they pass, piece by piece: judged by what its type forbids.

    `elements` is their number, where the layout tells. Types that allow all bytes cost nothing.
    """

    __slots__ = ("_elements", "_end", "_type", "_where", "nbytes")

    def __init__(
        self, dtype: str, type_: str | None, where: Where, elements: int | None = None
    ) -> None:
        self._type = type_
        self._where = where
        self._elements = elements
        restricted = elements is not None and type_ in RESTRICTED
        self._end = size_of(dtype, type_, elements or 0) if restricted else None
        self.nbytes = 0

    def judge(self, piece: memoryview, reading: Reading) -> None:
        """Judge the next bytes.

        Raises:
            Rejected: when they break a rule.
        """
        start = self.nbytes
        self.nbytes += len(piece)
        if self._type not in RESTRICTED:
            return
        from tensorark.layouts.numbers.content import CONTENT_RULES, Content

        elements = self._elements if self.nbytes == self._end else None
        content = Content(
            where=self._where, data=piece, type=self._type, elements=elements, start=start
        )
        reading.require(CONTENT_RULES, content)


class Reader:
    """Gives the decoded bytes of the parts of a tensor, whole or in ranges that ascend.

    Of an encoded part at least `window` bytes are decoded: small ranges would decode its frames
    again and again. `whole` reads a part that is asked for as a whole, if that is another way.
    """

    __slots__ = ("_holder", "_ranges", "_tensor", "_whole", "_window", "_windows")

    def __init__(
        self,
        holder: Holder,
        tensor: Tensor,
        *,
        window: int = WINDOW,
        whole: Callable[[Part, tuple[str | int, ...]], memoryview] | None = None,
    ) -> None:
        self._holder = holder
        self._tensor = tensor
        self._window = window
        self._whole = whole
        self._ranges: dict[str, Ranges] = {}
        self._windows: dict[str, tuple[int, memoryview]] = {}

    def __call__(self, role: str, start: int = 0, stop: int | None = None) -> memoryview:
        """Return the bytes [start, stop) of the part with this role."""
        part = self._tensor.parts[role]
        where = ("objects", self._tensor.name, "parts", role)
        if stop is None and start == 0 and self._whole is not None:
            return self._whole(part, where)
        end = part.nbytes if stop is None else stop
        if role not in self._ranges:
            self._ranges[role] = self._holder.ranges(part, where)
        if isinstance(part.blob, Raw):
            return self._ranges[role](start, end - start)
        begin, window = self._windows.get(role, (0, memoryview(b"")))
        if not begin <= start <= end <= begin + len(window):
            begin, length = start, min(max(end - start, self._window), part.nbytes - start)
            window = self._ranges[role](begin, length)
            self._windows[role] = (begin, window)
        return window[start - begin : end - begin]
