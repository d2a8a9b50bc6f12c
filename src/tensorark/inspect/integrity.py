"""What verifying proved, in the terms of the integrity ladder of `.zt` (§6.1).

Owns the verdict: without a digest nothing is proven, and no wording here may suggest otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorark.api import File
from tensorark.inspect.report import finding
from tensorark.inspect.text import counted, nbytes_text
from tensorark.verification import Verification

_UNPROVEN = frozenset({"unknown-algorithm", "unknown-encoding"})


def checked(file: File, found: Verification, *, complete: bool) -> dict[str, Any]:
    """Return verdict, rungs, findings and refusals of a verification.

    The verdict is ``damaged``, ``verified``, ``verified in part`` (some parts carry no digest),
    ``nothing checked`` (none does) or ``not proven`` (a digest could not be judged, or `complete`
    demands one that is not there).
    """
    refused = [error for error in found.refused if error.code in _UNPROVEN]
    return {
        "verdict": _verdict(found, bool(refused), complete=complete),
        "parts": found.parts,
        "checked": found.checked,
        "undigested": found.undigested,
        "nbytes": found.nbytes,
        "shards": found.shards,
        "findings": [finding(each) for each in found.findings],
        "refused": [str(error) for error in found.refused],
        "notes": [finding(each) for each in found.notes],
        "rungs": _rungs(file, found),
    }


def exit_code(value: Mapping[str, Any]) -> int:
    """Return the exit code of what `checked` gave."""
    codes = {"damaged": 1, "verified": 0, "verified in part": 0}
    return codes.get(value["verdict"], 4)


def _verdict(found: Verification, refused: bool, *, complete: bool) -> str:  # noqa: FBT001
    if found.findings:
        return "damaged"
    if refused or (complete and found.undigested):
        return "not proven"
    if found.parts and not found.checked and not found.shards:
        return "nothing checked"
    return "verified in part" if found.undigested else "verified"


def _rungs(file: File, found: Verification) -> list[dict[str, str]]:
    """Name each rung, the cheapest first, and how far it was climbed."""
    native = file.format.name == "zt"
    size = nbytes_text(found.nbytes)
    content = f"{found.checked:,} of {counted(found.parts, 'part')} match their digest ({size})"
    if not found.checked:
        content = f"not climbed: none of {counted(found.parts, 'part')} was checked by a digest"
    rungs = [
        ("structure", "bounds and every rule that needs no payload hold"),
        ("manifest", "its hash matches" if native else "not climbed: this format has no hash"),
        ("content", content),
    ]
    if found.findings:
        rungs[2] = ("content", f"damaged: {counted(len(found.findings), 'fault')} above")
    if file.catalog.files:
        total = counted(len(file.catalog.files), "shard")
        whole = f"{found.shards:,} of {total} match their whole-file digest"
        rungs.append(("shards", whole if found.shards else "not climbed: see --deep"))
    rungs.append(("artifact", "not climbed: compare `tark id --file` with a digest you trust"))
    rungs.append(("model", "not climbed: compare `tark id` with a digest you trust"))
    return [{"rung": rung, "result": result} for rung, result in rungs]
