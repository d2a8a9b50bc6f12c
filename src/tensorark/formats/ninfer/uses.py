"""Auxiliary inputs of uses (§8): what each role asks of its binding and of its values.

Judged when a use is taken or verified, never when a file is opened. Bytes are few and plain, so no
numbers are needed: signs, permutations and one divisor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Final

from tensorark.core.rules import Fault, Rule, rule
from tensorark.errors import Unsupported, quoted
from tensorark.formats.ninfer.directory import Directory, Use
from tensorark.formats.ninfer.parameters import Parameter, parameter

DIVISOR: Final = "activation_input_divisor"
SIGNS: Final = "hadamard_signs"
COLUMNS: Final = "input_columns"

HADAMARD_BLOCK: Final = 1024

_FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {DIVISOR: "fp32", SIGNS: "bf16", COLUMNS: "int32"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auxiliary:
    """An auxiliary of a use, beside the parameter that is used; `data` is None until it is read."""

    where: tuple[str | int, ...]
    role: str
    parameter: Parameter
    values: Parameter
    data: bytes | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the values are stored contiguously in the format of the role."""
        exact = all(each.exact for each in self.values.pieces)
        return exact and self.values.formats == (_FORMATS[self.role],)


def auxiliaries(directory: Directory) -> Iterator[Auxiliary]:
    """Yield the auxiliaries of every use, in order, unread."""
    for index, use in enumerate(directory.uses):
        yield from of_use(directory, use, ("uses", index))


def of_use(
    directory: Directory, use: Use, where: tuple[str | int, ...] = ()
) -> Iterator[Auxiliary]:
    """Yield the auxiliaries of one use, unread."""
    if use.auxiliaries:
        used = parameter(directory, use.parameter, directory.bindings[use.parameter])
        for role, binding in use.auxiliaries.items():
            yield Auxiliary(
                where=(*where, "auxiliaries", role),
                role=role,
                parameter=used,
                values=parameter(directory, role, binding),
            )


def refuse_role(found: Auxiliary) -> None:
    """Refuse a role that nobody defined: what it does to the computation is not known.

    Raises:
        Unsupported: for an unknown role.
    """
    if found.role not in _FORMATS:
        raise Unsupported(
            f"the auxiliary role {quoted(found.role)} is unknown",
            code="unknown-auxiliary",
            section="8",
            where=found.where,
            expected="one of " + " ".join(_FORMATS),
            found=quoted(found.role),
        )


def _binding(found: Auxiliary, elements: int | None) -> Iterator[Fault]:
    """Yield the fault of values that are of another format or number than their role asks for."""
    if not found.is_plain:
        expected = f"{_FORMATS[found.role]}, contiguous"
        formats = ", ".join(found.values.formats)
        yield Fault(found.where, f"`{found.role}` has another encoding", expected, formats)
    elif elements is not None and found.values.elements != elements:
        expected, number = f"{elements} elements", found.values.elements
        yield Fault(found.where, f"`{found.role}` has the wrong length", expected, number)


def _width(found: Auxiliary) -> int | None:
    """Return the input width of the used parameter; None where it is no matrix."""
    shape = found.parameter.shape
    return shape[1] if len(shape) == 2 else None


@rule("ninfer.activation-divisor", section="8", stage="content")
def activation_divisor(found: Auxiliary) -> Iterator[Fault]:
    """`activation_input_divisor` is one contiguous fp32 element, positive and finite."""
    if found.role != DIVISOR:
        return
    faults = list(_binding(found, 1))
    yield from faults
    if not faults and found.data is not None:
        (value,) = struct.unpack("<f", found.data)
        if not 0 < value < inf:
            yield Fault(found.where, "not a divisor", "a positive finite number", value)


@rule("ninfer.hadamard-signs", section="8", stage="content")
def hadamard_signs(found: Auxiliary) -> Iterator[Fault]:
    """`hadamard_signs` are K contiguous bf16 elements +1 or -1, K the input width, K % 1024 = 0."""
    if found.role != SIGNS:
        return
    width = _width(found)
    if width is None or width % HADAMARD_BLOCK:
        expected = f"an input width that is a multiple of {HADAMARD_BLOCK}"
        shape = list(found.parameter.shape)
        yield Fault(found.where, "the parameter cannot be rotated", expected, shape)
        return
    faults = list(_binding(found, width))
    yield from faults
    if not faults and found.data is not None:
        words = struct.unpack(f"<{width}H", found.data)
        bad = next((at for at, word in enumerate(words) if word not in (0x3F80, 0xBF80)), None)
        if bad is not None:
            word = f"the word {words[bad]:#06x}"
            yield Fault(found.where, f"element {bad} is no sign", "+1 or -1", word)


@rule("ninfer.input-columns", section="8", stage="content")
def input_columns(found: Auxiliary) -> Iterator[Fault]:
    """`input_columns` is a permutation, int32, of the K input columns of a gguf_* matrix."""
    if found.role != COLUMNS:
        return
    width = _width(found)
    formats = found.parameter.formats
    if width is None or not all(each.startswith("gguf_") for each in formats):
        shape = f"{', '.join(formats)} of shape {list(found.parameter.shape)}"
        yield Fault(found.where, "the parameter has no such columns", "a gguf_* matrix", shape)
        return
    faults = list(_binding(found, width))
    yield from faults
    if not faults and found.data is not None:
        columns = struct.unpack(f"<{width}i", found.data)
        seen = bytearray(width)
        for at, column in enumerate(columns):
            if not 0 <= column < width or seen[column]:
                expected = f"each of 0 to {width - 1} once"
                yield Fault(found.where, f"element {at} repeats or leaves", expected, column)
                return
            seen[column] = 1


USE_RULES: Final[tuple[Rule[Auxiliary], ...]] = (
    activation_divisor,
    hadamard_signs,
    input_columns,
)
"""Judged without `data` first, so that only what has the right size is read."""
