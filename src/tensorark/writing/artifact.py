"""Writing a planned NInfer set: the payload spread over its files, all of them published or none.

Owns the order of publication (continuations first, the entry last) and what is taken back when it
fails half way. Knows nothing of what the payload means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tensorark import files
from tensorark.core.progress import Progress
from tensorark.errors import InvalidInput
from tensorark.formats.ninfer.directory import Stored
from tensorark.formats.ninfer.write import Plan, part_name
from tensorark.io.fileset import publish_set
from tensorark.writing.writer import revalidate

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorark.io.sink import Sink


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
    names = [each.name for each in plan.files[1:]]
    owns = re.compile(re.escape(target.name) + r"(\.r[1-9][0-9]*)?\.part-[0-9]{4,}").fullmatch
    with publish_set(target, names, overwrite=overwrite, members=_members, owns=owns) as made:
        entry, sinks = made
        _spread(plan, payload, [entry, *sinks], progress)
        revalidate(entry, canonical_form=False)
    return [str(target.with_name(each.name)) for each in plan.files]


def turn_of(target: Path, *, overwrite: bool) -> int:
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


def _members(entry: Path) -> list[str]:
    """Return the names of the continuations of an artifact.

    Raises:
        Error: when it is none.
    """
    with files.open(entry, io="pread") as file:
        return [*file.catalog.files] if file.format.name == "ninfer" else []


def _spread(plan: Plan, payload: Iterable[Buffer], sinks: list[Sink], progress: Progress) -> None:
    """Write the payload into the files, one after the other, each behind its head."""
    room = [each.payload_bytes for each in plan.files]
    for each, sink in zip(plan.files, sinks, strict=True):
        sink.write(each.head)
    at = 0
    for chunk in payload:
        rest = memoryview(chunk).cast("B")
        progress(len(rest))
        while rest:
            if at == len(sinks):
                raise _wrong_length(plan, "more")
            part = rest[: room[at]]
            sinks[at].write(part)
            room[at] -= len(part)
            rest = rest[len(part) :]
            at += not room[at]
    if at != len(sinks):
        raise _wrong_length(plan, f"{sum(room)} fewer")


def _wrong_length(plan: Plan, found: str) -> InvalidInput:
    return InvalidInput(
        "the payload is not as long as planned",
        code="ninfer-payload",
        section="11.4",
        expected=f"{plan.payload_bytes} bytes",
        found=found,
    )


def objects_payload(
    objects: Iterable[Stored], data: Callable[[Stored], Iterable[Buffer]]
) -> Iterator[Buffer]:
    """Yield the payload of objects in order, with zeros between them; `data` gives their bytes.

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


def _zeros(length: int) -> Iterator[bytes]:
    while length > 0:
        yield _ZEROS[:length]
        length -= len(_ZEROS)
