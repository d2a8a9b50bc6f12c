"""The bytes of planned objects: rows are read, encoded and given out plane by plane.

Owns the order of bytes. What belongs behind the first plane waits, in a temporary file where it is
large, so that memory stays at some tens of MiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from math import prod
from tempfile import SpooledTemporaryFile
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from tensorark.errors import Error, InvalidInput
from tensorark.layouts.ninfer import nvfp4
from tensorark.layouts.ninfer.content import CONTENT_RULES, Payload
from tensorark.layouts.ninfer.geometry import DIRECT, NVFP4, Geometry, geometry
from tensorark.layouts.ninfer.make import Method, as_float32, cast_direct, encode_rows, join
from tensorark.layouts.ninfer.small_floats import Octets, as_octets, bf16_words
from tensorark.ninfer.pack.checkpoint import Rows
from tensorark.ninfer.pack.plan import Member, Parent
from tensorark.ninfer.pack.recipe import IMPORT

Array = npt.NDArray[Any]

BLOCK: Final = 1 << 20
"""Elements that are read and encoded at a time."""

_KEPT: Final = 16 << 20
"""Bytes of a plane that are kept in memory before they go to a temporary file."""

_COPIED: Final = 1 << 20


def encode(parent: Parent) -> Iterator[bytes | memoryview]:
    """Yield the bytes of an object, in order.

    Raises:
        InvalidInput: for values that the format cannot hold, naming the parameters.
        ReadFailed: when a checkpoint cannot be read.
    """
    if parent.format in DIRECT:
        return _words(parent)
    return _planes(parent)


def _words(parent: Parent) -> Iterator[memoryview]:
    for member in parent.members:
        if member.rows is None:
            yield as_octets(np.array(member.ids, "<i4")).data
            continue
        for values in _windows(member.rows):
            with _about(member):
                octets = as_octets(cast_direct(values, parent.format))
            yield octets.reshape(-1).data


def _windows(rows: Rows) -> Iterator[Array]:
    step = max(1, BLOCK // rows.columns)
    for start in range(0, rows.count, step):
        yield rows.read(start, min(start + step, rows.count))


def _planes(parent: Parent) -> Iterator[bytes | memoryview]:
    whole = geometry(parent.format, parent.layout, parent.shape, parent.divisors)
    first, *behind = whole.planes
    with ExitStack() as files:
        waiting = {each.role: files.enter_context(SpooledTemporaryFile(_KEPT)) for each in behind}
        for planes in _encode_rows(parent, whole):
            yield planes[first.role].reshape(-1).data
            for each in behind:
                if each.role in planes:
                    waiting[each.role].write(planes[each.role].reshape(-1).data)
        end = first.nbytes
        for each in behind:
            yield bytes(each.offset - end)
            waiting[each.role].seek(0)
            while chunk := waiting[each.role].read(_COPIED):
                yield chunk
            end = each.offset + each.nbytes


def _encode_rows(parent: Parent, whole: Geometry) -> Iterator[Mapping[str, Octets]]:
    """Yield the planes of some rows after the other; divisors come last."""
    step = max(whole.unit, BLOCK // whole.columns // whole.unit * whole.unit)
    divisors = _divisors(parent, step)
    for start in range(0, whole.rows, step):
        stop = min(start + step, whole.rows)
        with _about(*_between(parent, start, stop)):
            if parent.method == IMPORT:
                yield _import(parent, whole, start, stop)
            else:
                values = _values(parent, start, stop)
                method = cast("Method", parent.method)
                divisor = divisors[0] if divisors is not None else None
                yield encode_rows(whole, values, method=method, divisor=divisor)
    if divisors is not None:
        yield {whole.planes[0].role: np.empty(0, np.uint8), "divisors": as_octets(divisors)}


def _divisors(parent: Parent, step: int) -> npt.NDArray[np.float32] | None:
    """Return the divisors of an nvfp4 object: those of its sources, or one for all values."""
    if parent.format != NVFP4:
        return None
    if parent.method == IMPORT:
        found = [each.rows.divisor for each in parent.members if each.rows is not None]
        return np.array(found[: parent.divisors], np.float32)
    largest = 0.0
    for start in range(0, parent.shape[0], step):
        stop = min(start + step, parent.shape[0])
        with _about(*_between(parent, start, stop)):
            magnitudes = np.abs(as_float32(_values(parent, start, stop)))
            # What is not a number is told where rows are encoded, with their parameter.
            largest = max(largest, float(np.nanmax(magnitudes, initial=0)))
    with _about(*parent.members):
        return np.array([nvfp4.divisor_of(largest)], np.float32)


def _import(parent: Parent, whole: Geometry, start: int, stop: int) -> dict[str, Octets]:
    """Return the planes of rows whose codes and scales are taken as they are, having judged them.

    Raises:
        InvalidInput: when the format forbids one of them.
    """
    pieces = [
        each.rows.nvfp4(begin, end) if parent.format == NVFP4 else each.rows.fp8(begin, end)
        for each, begin, end in _pieces(parent, start, stop)
        if each.rows is not None
    ]
    codes = np.concatenate([codes for codes, _ in pieces])
    scales = np.concatenate([scales for _, scales in pieces])
    planes: dict[str, Octets] = {"codes": codes.reshape(-1)}
    if parent.format == NVFP4:
        planes["scales"] = nvfp4.swizzle(scales)
    else:
        planes["scales"] = as_octets(bf16_words(scales))
    divisor = as_octets(np.ones(1, np.float32))
    alone = geometry(parent.format, parent.layout, (stop - start, whole.columns))
    payload = Payload((), alone, memoryview(join(alone, {**planes, "divisors": divisor})))
    for each in CONTENT_RULES:
        for fault in each(payload):
            raise InvalidInput(
                f"what the checkpoint holds cannot be imported: {fault.detail}",
                code=each.id,
                section=each.section,
                expected=fault.expected,
                found=fault.found,
            )
    return planes


def _values(parent: Parent, start: int, stop: int) -> Array:
    pieces = [
        each.rows.read(begin, end)
        for each, begin, end in _pieces(parent, start, stop)
        if each.rows is not None
    ]
    if len({each.dtype for each in pieces}) > 1:
        pieces = [as_float32(each) for each in pieces]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _pieces(parent: Parent, start: int, stop: int) -> Iterator[tuple[Member, int, int]]:
    """Yield the members that have rows [start, stop) of the parent, and which of theirs."""
    before = 0
    for member in parent.members:
        count = prod(member.parameter.shape[:-1])
        begin, end = max(start - before, 0), min(stop - before, count)
        if begin < end:
            yield member, begin, end
        before += count


def _between(parent: Parent, start: int, stop: int) -> list[Member]:
    return [member for member, _, _ in _pieces(parent, start, stop)]


@contextmanager
def _about(*members: Member) -> Iterator[None]:
    """Say in errors which parameters they are about."""
    try:
        yield
    except Error as error:
        if not error.where:
            error.where = tuple(each.parameter.name for each in members[:2])
        raise
