"""Verifying payload: digests and the rules that need bytes, tensor by tensor, on all cores.

Climbs the integrity ladder of `.zt` (§6.1) and says which rungs were climbed.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from tensorark import files
from tensorark.core.brief import brief
from tensorark.core.conversation import drive
from tensorark.core.progress import Progress
from tensorark.core.rules import Finding
from tensorark.errors import InvalidInput, LimitExceeded, ReadFailed, Rejected, Unsupported
from tensorark.files import File, PathLike
from tensorark.files.shard_digests import check_shards
from tensorark.integrity.digests import workers
from tensorark.integrity.judge_tensor import Tally, judge_tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verifying found.

    `parts` were looked at, `checked` of them against a digest; `undigested` carry none; `refused`
    could not be judged, each with the reason: something is unknown, or decodes to more than is
    allowed. `findings` are the faults; `nbytes` were read.
    `shards` are the files whose whole-file digest was checked, which only a deep verify does.
    `protected` are the encoded parts that hold under the checksums of their encoding, the transport
    rung. `judged` are the parts whose payload passed the content rules of a format that carries no
    digests (`.ninfer`, masks of Tensorbit, CRCs of npz): not proof, but more than nothing. `notes`
    are about what no rule forbids and is still worth telling (gaps, slack, negative scales of a
    `.ninfer`, blobs of a `.tbm` without an entry). `missing` are the shards that are not there,
    with the tensors that lie in them, which are not judged and not counted.
    """

    __repr__ = brief

    parts: int
    checked: int
    undigested: int
    nbytes: int
    refused: tuple[Unsupported | LimitExceeded, ...] = ()
    findings: tuple[Finding, ...] = ()
    shards: int = 0
    protected: int = 0
    judged: int = 0
    notes: tuple[Finding, ...] = ()
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing that was looked at is wrong."""
        return not self.findings

    @property
    def complete(self) -> bool:
        """Whether every part was checked against a digest, none being missing."""
        return self.ok and not self.missing and self.checked == self.parts


def verify(
    model: PathLike,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    deep: bool = False,
) -> Verification:
    """Read every payload byte of a model and judge it: digests, types, layouts.

    Uses `threads` (all cores by default); memory stays near 8 MiB or a few frames for each thread,
    but for index arrays of sparse tensors and objects of NInfer, which are held whole. Shards of a
    `.zt` whose parts carry no digests are read whole as well and compared with the digests that the
    file gives for them (§7.3), with `deep` all of them; when one is another file, it stops there.
    Shards that are not there are told as `missing`, and the rest is judged all the same.

    Raises:
        ReadFailed: when payload cannot be read.
        InvalidInput: when `threads` is negative.
    """
    count, report = threads or os.cpu_count() or 1, progress or (lambda _done: None)
    if count < 1:
        raise InvalidInput("at least one thread must read", code="threads", found=threads)
    with files.open(model) as file:
        return _verify(file, count, report, deep=deep)


def _verify(file: File, threads: int, progress: Progress, *, deep: bool) -> Verification:
    missing = _missing(file)
    labels = {*file.catalog.files} if deep else file.unproven()
    shards = check_shards(file, threads=threads, progress=progress, labels=labels - missing.keys())
    total = Tally(nbytes=shards.nbytes)
    total.refused += shards.refused
    total.findings += shards.findings
    # Parts in a shard that is another file would only repeat that it is.
    if not shards.findings:
        gone = {name for names in missing.values() for name in names}
        for batch in _judge_tensors(file, gone, threads, progress):
            total.add(batch)
        if not missing:
            _judge_others(file, total)
    return Verification(
        parts=total.parts,
        checked=total.checked,
        undigested=total.undigested,
        nbytes=total.nbytes,
        refused=tuple(total.refused),
        findings=tuple(total.findings),
        shards=shards.checked,
        protected=total.protected,
        judged=total.judged,
        notes=tuple(total.notes),
        missing=missing,
    )


def _missing(file: File) -> dict[str, tuple[str, ...]]:
    """Return the shards that are not there; one that is another file is a fault and not missing."""
    if not file.catalog.files:
        return {}

    def is_gone(label: str) -> bool:
        try:
            file.source.size(label)
        except ReadFailed as error:
            return error.code == "missing-shard"
        except Rejected:
            pass
        return False

    missing = file.missing()
    absent = file.source.absent(missing)
    return {label: missing[label] for label in missing if label in absent or is_gone(label)}


def _judge_others(file: File, tally: Tally) -> None:
    """Judge what a file holds beside tensors: resources, and payload that its format has rules of.

    Then it tells what lies in nothing.
    """
    first = len(tally.findings)
    for where, part in file.format.resources(file.catalog):
        try:
            nbytes = len(file.payload(part, where))
        except Rejected as error:
            tally.keep(error, first)
            continue
        tally.parts += 1
        tally.undigested += 1
        tally.judged += 1
        tally.nbytes += nbytes
    if file.format.payload_rules is not None:
        tally.refused += drive(file.format.payload_rules(file.catalog, tally.reading), file.source)
    try:
        tally.notes += files.survey(file)
    except Rejected as error:  # of a file that is another one
        tally.keep(error, first)


def _judge_tensors(
    file: File, gone: Container[str], threads: int, progress: Progress
) -> Iterator[Tally]:
    """Judge all tensors but those that are `gone`."""

    def judge(names: list[str]) -> Tally:
        tally = Tally()
        for name in names:
            tensor = file.catalog.tensors[name]
            if name in gone:
                progress(tensor.nbytes)
                continue
            before = tally.nbytes
            judge_tensor(file, tensor, tally)
            nbytes = tally.nbytes - before
            if nbytes:  # else it lies in a file that cannot be used
                file.evict(tensor)
            progress(nbytes)
        return tally

    batches = file.batches() if file.describes_tensors else []
    with workers(threads) as pool:
        yield from pool.map(judge, batches)
