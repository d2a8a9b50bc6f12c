"""How the library answers the corpus: one outcome and the rules named, for each operation."""

from __future__ import annotations

from pathlib import Path

import tensorark
from tensorark.integrity.verify import verify

Answer = tuple[str, list[str]]


def answer(operation: str, path: Path) -> Answer:
    """Return ``accept``, ``reject`` or ``refuse``, and the rules that were found broken."""
    findings = tensorark.validate(path, canonical=operation == "canonical")
    if findings:
        return "reject", [finding.rule for finding in findings]
    if operation in {"open", "canonical"}:
        return "accept", []
    with tensorark.open(path) as file:
        return _decode(file) if operation == "decode" else _verify(file)


def _decode(file: tensorark.File) -> Answer:
    for name in file:
        try:
            file[name].numpy()
        except tensorark.Rejected as error:
            return "reject", [error.code]
        except tensorark.Unsupported:
            return "refuse", []
        except tensorark.ReadFailed as error:
            if error.code != "missing-shard":  # the corpus keeps shards away on purpose
                raise
    return "accept", []


def _verify(file: tensorark.File) -> Answer:
    found = verify(file)
    if found.findings:
        return "reject", [finding.rule for finding in found.findings]
    return ("refuse" if found.refused else "accept"), []
