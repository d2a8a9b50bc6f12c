"""Writing a planned NInfer set: the payload spread over its files, all of them published or none.

Owns the order of publication (continuations first, the entry last) and what is taken back when it
fails half way. Knows nothing of what the payload means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tensorark.errors import InvalidInput
from tensorark.formats.ninfer.directory import Stored
from tensorark.formats.ninfer.write import Plan
from tensorark.io.publish import publish
from tensorark.writer import revalidate

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tensorark.io.sink import Sink

Progress = Callable[[int], None]

_ZEROS: Final = bytes(1 << 16)


def write_set(
    plan: Plan,
    payload: Iterable[Buffer],
    target: Path,
    *,
    overwrite: bool = False,
    inputs: Iterable[Path] = (),
    progress: Progress = lambda _done: None,
) -> list[str]:
    """Write the set of `plan` beside `target`, its entry, and return the names of its files.

    `payload` gives the whole logical payload in order. Every file is complete and on the disk
    before the first one gets its name; the entry gets its own last. After a failure none of them is
    there. `inputs` are files that are read meanwhile and never written.

    Raises:
        InvalidInput: when a file exists already, is an input, or the payload has another length.
        ReadFailed: when the system refuses.
    """
    paths = [target.with_name(each.name) for each in plan.files]
    _refuse_inputs(paths, list(inputs))
    revealed: list[Path] = []
    with (
        _taken_back(revealed),
        ExitStack() as unpublished,
    ):  # published in the reverse of this order
        sinks = [
            unpublished.enter_context(_revealing(path, revealed, overwrite=overwrite))
            for path in paths
        ]
        _spread(plan, payload, sinks, progress)
        revalidate(sinks[0], canonical_form=False)
    return [str(path) for path in paths]


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


@contextmanager
def _revealing(path: Path, revealed: list[Path], *, overwrite: bool) -> Iterator[Sink]:
    """Publish a file, and note it when that made a new name."""
    new = not path.exists()
    with publish(path, overwrite=overwrite) as sink:
        yield sink
    if new:
        revealed.append(path)


@contextmanager
def _taken_back(revealed: list[Path]) -> Iterator[None]:
    """Remove what was published of a set that is not complete."""
    try:
        yield
    except BaseException:
        for path in revealed:
            with suppress(OSError):
                path.unlink()
        raise


def _refuse_inputs(paths: Iterable[Path], inputs: list[Path]) -> None:
    present = [each for each in inputs if each.exists()]
    for path in paths:
        if path.exists() and any(path.samefile(each) for each in present):
            detail = "a file of the set is one that is read; inputs are never written"
            raise InvalidInput(detail, code="same-file", path=str(path))
