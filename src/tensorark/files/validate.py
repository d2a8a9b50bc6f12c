"""Validating: every fault of a file by the rules of its format, without payload."""

from __future__ import annotations

from tensorark.core.conversation import drive
from tensorark.core.limits import DEFAULT, Limits
from tensorark.core.rules import Finding, Reading, finding_of
from tensorark.errors import (
    InvalidInput,
    Rejected,
)
from tensorark.files.file import File, PathLike
from tensorark.files.open import open_with


def validate(
    path: PathLike,
    *,
    limits: Limits = DEFAULT,
    canonical: bool = False,
    architecture: bool = False,
    notes: list[Finding] | None = None,
) -> list[Finding]:
    """Return every fault of the first stage that finds any; an empty list means valid.

    Reads no payload; with `canonical`, canonical form (`.zt` §6.3) is judged too, which reads all
    of the file, since the digests of parts have to be theirs; with `architecture`, what the
    architecture of a NInfer artifact calls for: parameters, their shapes, components (§11.3).

    `notes` is a list to which is added what no rule forbids and is worth telling: blobs of a
    Tensorbit container that have no entry, and other bytes there that belong to none.

    Raises:
        InvalidInput: when the format has no canonical form or no architecture.
        Unsupported: when the file is of a format that is not read.
        ReadFailed: when it cannot be read.
    """
    gathered: list[Finding] = []
    reading = Reading(limits, gathered)
    try:
        # What was let pass when a file was opened is judged now.
        with open_with(path, reading) as file:
            if canonical:
                if file.format.canonical is None:
                    raise InvalidInput("canonical form is a matter of `.zt`", code="not-zt")
                drive(file.format.canonical(file.catalog, reading, digests=True), file.source)
            if architecture:
                if file.format.architecture is None:
                    raise InvalidInput("architectures are a matter of NInfer", code="not-ninfer")
                gathered += file.format.architecture(file.catalog)
            if notes is not None:
                notes += survey(file)
    except Rejected as error:
        if not gathered:
            # No rule of a format made it: the file is something else.
            gathered.append(finding_of(error, "frame"))
    return gathered


def survey(file: File) -> list[Finding]:
    """Return notes about what lies in a file and no rule forbids; reads only that.

    Raises:
        Rejected: when a file of the model is another one.
    """
    notes: list[Finding] = []
    if file.format.survey is not None:
        try:
            drive(file.format.survey(file.catalog, Reading(gathered=notes)), file.source)
        except Rejected as error:
            if all(each.rule != error.code for each in notes):
                raise
    return notes
