"""Writing a NInfer set whose payload is computed meanwhile, object by object."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensorark.core.progress import Progress
from tensorark.core.writing import Options, Writing
from tensorark.errors import InvalidInput
from tensorark.formats.ninfer.directory import Stored
from tensorark.formats.ninfer.plan import Plan, part_name, plan
from tensorark.formats.ninfer.write import outputs_of
from tensorark.writing.planned import carry_out, hear_outputs

if TYPE_CHECKING:
    from typing_extensions import Buffer


_ZEROS: Final = bytes(1 << 16)


def write_set(
    plan: Plan,
    payload: Iterable[Buffer],
    target: Path,
    *,
    overwrite: bool = False,
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write the set of `plan` beside `target`, its entry, and return the names of its files.

    `payload` gives the whole logical payload in order. Every file is complete and on the disk
    before the first one gets its name; the entry gets its own last. After a failure none of them is
    there, and a set that was there is as it was.

    Raises:
        InvalidInput: when a file exists already, is an input, or the payload has another length.
        ReadFailed: when the system refuses.
    """
    writing = _spread(plan, payload, progress)
    outputs = hear_outputs(next(writing))
    return carry_out(writing, outputs, target, options=Options(overwrite=overwrite))


def plan_set(
    members: Mapping[str, Any],
    payload_bytes: int,
    target: Path,
    *,
    artifact_id: bytes | None = None,
    max_file_bytes: int | None = None,
    overwrite: bool = False,
) -> Plan:
    """Plan a set with the entry `target`, under names that are free; `members` is its directory.

    Raises:
        InvalidInput: when a reader would reject the directory, or the limit leaves no room.
    """
    return plan(
        members,
        payload_bytes,
        entry=target.name,
        turn=_turn_of(target, overwrite=overwrite),
        artifact_id=artifact_id or uuid.uuid4().bytes,
        max_file_bytes=max_file_bytes,
    )


def _turn_of(target: Path, *, overwrite: bool) -> int:
    """Return the turn whose names of continuations are free beside `target` (see `part_name`).

    Without `overwrite` it is the first one: whatever has a name of it is in the way.
    """
    turn = 0
    if overwrite:
        with suppress(OSError):
            taken = {path.name for path in target.absolute().parent.iterdir()}
            while part_name(target.name, 1, turn) in taken:
                turn += 1
    return turn


def _spread(plan: Plan, payload: Iterable[Buffer], progress: Progress) -> Writing:
    """Write a payload that is computed meanwhile, as long as it was planned."""
    yield outputs_of(plan)
    left = plan.payload_bytes
    for chunk in payload:
        data = memoryview(chunk).cast("B")
        left -= len(data)
        if left < 0:
            raise _wrong_length(plan, "more")
        progress(len(data))
        yield data
    if left:
        raise _wrong_length(plan, f"{left} fewer")


def _wrong_length(plan: Plan, found: str) -> InvalidInput:
    return InvalidInput(
        "the payload is not as long as planned",
        code="ninfer-payload",
        section="11.4",
        expected=f"{plan.payload_bytes} bytes",
        found=found,
    )


def objects_payload(
    objects: Iterable[Stored], data: Callable[[Stored], Iterable[Buffer]], nbytes: int = 0
) -> Iterator[Buffer]:
    """Yield the payload of objects in order, with zeros between them; `data` gives their bytes.

    What is left of `nbytes` behind the last one is zeros too.

    Raises:
        InvalidInput: when an object has another number of bytes than was planned.
    """
    end = 0
    for each in objects:
        yield from _zeros(each.offset - end)
        done = 0
        for chunk in data(each):
            done += memoryview(chunk).nbytes
            if done > each.nbytes:
                break
            yield chunk
        if done != each.nbytes:
            raise InvalidInput(
                "an object has not the bytes it was planned with",
                code="ninfer-object",
                section="11.4",
                where=("objects", each.id),
                expected=f"{each.nbytes} bytes",
                found=done,
            )
        end = each.offset + each.nbytes
    yield from _zeros(nbytes - end)


def _zeros(length: int) -> Iterator[bytes]:
    while length > 0:
        yield _ZEROS[:length]
        length -= len(_ZEROS)
