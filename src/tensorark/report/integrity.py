"""What verifying proved, in the terms of the integrity ladder of `.zt` (§6.1).

Owns the verdict: without a digest nothing is proven, and no wording here may suggest otherwise;
where the rules of a format were applied to payload, that is said, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorark.core.model import Encoded
from tensorark.errors import LimitExceeded
from tensorark.files import File
from tensorark.integrity.verify import Verification
from tensorark.report.report import finding
from tensorark.report.text import count_text, nbytes_text

_UNPROVEN = frozenset({"unknown-algorithm", "unknown-encoding"})


def verification_facts(file: File, found: Verification, *, complete: bool) -> dict[str, Any]:
    """Return verdict, rungs, findings and refusals of a verification.

    The verdict is ``damaged``, ``incomplete`` (shards are missing), ``verified``, ``verified in
    part`` (some parts carry no digest, or none does and checksums or the content rules of the
    format judged some), ``nothing checked`` (none of these) or ``not proven`` (a digest, or a part
    that has nothing else, could not be judged, or `complete` demands a digest that is not there).
    """
    refused = [
        error
        for error in found.refused
        if error.code in _UNPROVEN or isinstance(error, LimitExceeded)
    ]
    return {
        "verdict": _verdict(file, found, bool(refused), complete=complete),
        "parts": found.parts,
        "checked": found.checked,
        "undigested": found.undigested,
        "protected": found.protected,
        "judged": found.judged,
        "nbytes": found.nbytes,
        "shards": found.shards,
        "findings": [finding(each) for each in found.findings],
        "missing": {label: list(names) for label, names in found.missing.items()},
        "refused": [error.message for error in found.refused],
        "notes": [finding(each) for each in found.notes],
        "rungs": _rungs(file, found),
    }


def exit_code(value: Mapping[str, Any]) -> int:
    """Return the exit code of what `verification_facts` gave."""
    codes = {"damaged": 1, "verified": 0, "verified in part": 0, "incomplete": 5}
    return codes.get(value["verdict"], 4)


def _verdict(
    file: File,
    found: Verification,
    refused: bool,  # noqa: FBT001
    *,
    complete: bool,
) -> str:
    if found.findings:
        return "damaged"
    if found.missing:
        return "incomplete"
    if refused or (complete and found.undigested):
        return "not proven"
    has_parts = found.parts > 0 or not file.describes_tensors  # a shard has blobs
    if has_parts and not (found.checked or found.shards or found.judged or found.protected):
        return "nothing checked"
    if found.refused and not found.checked and found.protected < found.parts:
        return "not proven"
    return "verified in part" if found.undigested else "verified"


def _rungs(file: File, found: Verification) -> list[dict[str, str]]:
    """Name each rung, the cheapest first, and how far it was climbed."""
    size = nbytes_text(found.nbytes)
    content = f"{found.checked:,} of {count_text(found.parts, 'part')} match their digest ({size})"
    if not found.checked:
        content = f"not climbed: none of {count_text(found.parts, 'part')} was checked by a digest"
    if found.judged:  # by a format that carries no digests
        few = "" if found.judged == found.parts else f"{found.judged:,} of "
        judged = (
            f"{few}{count_text(found.parts, 'part')} judged by the rules of their format ({size})"
        )
        content = f"no digests; {judged}"
    if found.findings:
        content = f"damaged: {count_text(len(found.findings), 'fault')} above"
    rungs = [
        ("structure", "bounds and every rule that needs no payload hold"),
        ("manifest", _manifest(file)),
        ("transport", _transport(file, found)),
        ("content", content),
    ]
    if file.catalog.files:
        total = count_text(len(file.catalog.files), "shard")
        whole = f"{found.shards:,} of {total} match their whole-file digest"
        rungs.append(("shards", whole if found.shards else "not climbed: see --deep"))
    rungs.append(("artifact", "not climbed: compare `tark id --file` with a digest you trust"))
    rungs.append(("model", "not climbed: compare `tark id` with a digest you trust"))
    return [{"rung": rung, "result": result} for rung, result in rungs]


def _manifest(file: File) -> str:
    if not file.format.has_digests:
        return "not climbed: this format has no hash"
    if not file.describes_tensors:
        return "not climbed: a data shard has no manifest"
    return "its hash matches"


def _transport(file: File, found: Verification) -> str:
    """Say how many encoded parts hold under the checksums of their encoding."""
    if file.format.checksum is not None:
        return f"{found.protected:,} of {count_text(found.parts, 'part')} match their CRC-32"
    tensors = file.catalog.tensors.values() if file.describes_tensors else ()
    parts = (part for tensor in tensors for part in tensor.parts.values())
    encoded = sum(isinstance(part.blob, Encoded) for part in parts)
    if not encoded:
        return "not climbed: no part is encoded"
    if not found.protected:
        return f"not climbed: none of {count_text(encoded, 'encoded part')} holds by checksums"
    return (
        f"{found.protected:,} of {count_text(encoded, 'encoded part')} protected by frame checksums"
    )
