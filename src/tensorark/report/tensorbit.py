"""What is known about a Tensorbit model in sentences: its faults, and what writing it anew changes.

Owns the words. Nothing is written; `edit.tensorbit_repair` does what is promised here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorark import files
from tensorark.core.brief import brief
from tensorark.core.conversation import drive
from tensorark.core.model import Span
from tensorark.core.rules import Finding
from tensorark.errors import Error, Hint, Rejected, Unsupported, place
from tensorark.files import File, PathLike
from tensorark.formats.tensorbit.read import Record, record_of
from tensorark.formats.tensorbit.repair import blobs_of, names_of, repair, repair_facts
from tensorark.formats.tensorbit.runtime import Remark, remarks
from tensorark.formats.tensorbit.survey import Survey, describe_blob, survey_container
from tensorark.formats.tensorbit.walk import FoundBlob, walk
from tensorark.io.local import LocalSource
from tensorark.layouts.nm.rules import members

_SHOWN: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known about a Tensorbit file: faults, what the public runtime makes of it, blobs.

    `blobs` were found by walking; `repairs` are what writing it anew would change, None where that
    is refused, for the `reason`. `orphans` are the blobs of which no entry speaks, and `gaps` the
    other bytes of which none does. `masks` are those that were not read.
    """

    __repr__ = brief

    findings: tuple[Finding, ...]
    remarks: tuple[Remark, ...]
    blobs: int
    repairs: tuple[str, ...] | None
    reason: Error | None = None
    orphans: tuple[FoundBlob, ...] = ()
    gaps: tuple[Span, ...] = ()
    masks: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The same in sentences."""
        found = [
            f"{each.detail[:1].upper()}{each.detail[1:]}, at {place(each.where)} ({each.rule})."
            for each in self.findings[:_SHOWN]
        ]
        if self.findings and self.blobs:
            found.append(f"Walking from blob to blob finds {self.blobs} of them.")
        if self.findings and self.repairs is not None:
            lost = " --drop gaps" if self.orphans or self.gaps else ""
            found.append(f"`tark repack{lost}` writes a right one.")
            found += _some([f"It would change this: {each}." for each in self.repairs], "changes")
        elif self.findings and self.reason is not None:
            found.append(f"`tark repack` is refused: {self.reason.detail}.")
            hint = self.reason.hint
            found += [f"{hint.tark}."] if isinstance(hint, Hint) else []
        found += _some(
            [f"A blob has no entry in the index: {_copy_of(each)}" for each in self.orphans],
            "blobs without an entry",
        )
        found += _some(
            [f"Bytes {each.offset} to {each.end} belong to no entry." for each in self.gaps], "gaps"
        )
        if self.masks:
            found.append("Whether weights and masks agree is what `tark verify` judges.")
        return (*found, *_some([f"{each.detail}." for each in self.remarks], "remarks"))


def explain(path: PathLike) -> Explanation:
    """Say what is wrong with a Tensorbit file, and what the public runtime makes of it.

    Raises:
        Rejected: when its index cannot be read at all.
        InvalidInput: when it is of another format.
    """
    with files.open(path, lenient=True) as file:
        return _explain(file, record_of(file.catalog, file.path))


def _explain(file: File, record: Record) -> Explanation:
    blobs = drive(blobs_of(record), file.source)
    repairs: tuple[str, ...] | None = None
    reason: Error | None = None
    try:
        right, changes = repair(record, blobs, names_of(record.index))
    except (Rejected, Unsupported) as error:
        right, reason = record, error.located(file.path)
        places = {claim.offset for claim in record.index.claims}
        lost = Survey(tuple(each for each in blobs if each.offset not in places))
    else:
        _, more = repair_facts(members(file.catalog.attributes), record.index)
        repairs = (*changes, *more, *(f"{name}: left out" for name in right.left_out))
        lost = drive(survey_container(right), file.source)
    return Explanation(
        findings=record.forgiven,
        remarks=tuple(remarks(record)),
        blobs=len(blobs),
        repairs=repairs,
        reason=reason,
        orphans=lost.orphans,
        gaps=lost.dirty,
        masks=sum(blob.header.mask_bytes > 0 for blob in right.blobs),
    )


def remains(path: PathLike) -> list[str]:
    """Say which blobs are left of a container whose index cannot be read."""
    name = os.fspath(path)
    if not os.path.isfile(name):  # noqa: PTH113 - unlike that of `Path`, it never raises
        return []
    with LocalSource(name) as source:
        found = drive(walk(source.size()), source)
    return _some([f"A blob is left: {_copy_of(each)}" for each in found], "blobs")


def _some(words: Sequence[str], what: str) -> list[str]:
    """Return the first few of many sentences, and how many more there are."""
    more = len(words) - _SHOWN
    return [*words[:_SHOWN], *([f"And {more} more {what}."] if more > 0 else [])]


def _copy_of(blob: FoundBlob) -> str:
    """Say what a blob is, and how to make a `.tb` of it."""
    return (
        f"{describe_blob(blob)}. To take it out: tail -c +{blob.offset + 1} FILE | "
        f"head -c {blob.end - blob.offset} > COPY.tb"
    )
