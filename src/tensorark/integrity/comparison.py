"""Comparing files with what was signed of them, whoever signed it and in whichever form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tensorark.core.progress import Progress
from tensorark.core.rules import Finding, difference
from tensorark.errors import ReadFailed, quoted
from tensorark.files.shards import digest_of_file
from tensorark.integrity.signature_document import Signed

VERDICTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "signature-invalid": "invalid signature",
        "signature-key": "signed by another key",
        "signature-swapped": "names are swapped",
        "signature-missing": "incomplete",
        "signature-differs": "not what was signed",
        "signature-name": "renamed",
    }
)
"""What a check comes to, by the codes of its findings, the weightiest first."""


def verdict_of(findings: Iterable[Finding]) -> str:
    """Return ``authentic``, or the weightiest of `VERDICTS`."""
    codes = {each.rule for each in findings}
    return next((text for code, text in VERDICTS.items() if code in codes), "authentic")


def hash_file(
    path: Path,
    name: str,
    known: str | None = None,
    progress: Progress = lambda _done: None,
) -> Signed | None:
    """Return size and sha256 of a file, under the name `name`; None when it is missing.

    Raises:
        ReadFailed: when it cannot be read.
    """
    try:
        digest = known or digest_of_file(path, "sha256")
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    except ReadFailed as error:
        if error.code == "missing-file":
            return None
        raise
    progress(size)
    return Signed(name=name, size=size, sha256=digest)


def compare(
    expected: Sequence[Signed], found: Sequence[Signed | None], what: str
) -> Iterator[Finding]:
    """Yield what is missing, in the place of another, or different; both are in one order."""
    owners = {(each.size, each.sha256): each.name for each in expected}
    for wanted, each in zip(expected, found, strict=True):
        where = (what, wanted.name)
        if each is None:
            detail = f"{quoted(wanted.name)} is missing"
            yield difference("signature-missing", where, detail)
        elif (each.size, each.sha256) in owners and each.sha256 != wanted.sha256:
            other = owners[each.size, each.sha256]
            detail = f"under the name {quoted(wanted.name)} lies what was signed as {quoted(other)}"
            yield difference("signature-swapped", where, detail)
        elif each.size != wanted.size:
            yield difference(
                "signature-differs",
                where,
                f"{quoted(wanted.name)} has another size than was signed",
                expected=f"{wanted.size} bytes",
                found=each.size,
            )
        elif each.sha256 != wanted.sha256:
            yield difference(
                "signature-differs",
                where,
                f"{quoted(wanted.name)} is not what was signed",
                expected=wanted.sha256,
                found=each.sha256,
            )
