"""How the library answers a corpus: one outcome and the rules named, for each operation."""

from __future__ import annotations

from pathlib import Path

import tensorark
from tensorark.integrity.verify import verify

Answer = tuple[str, list[str]]


def answer(operation: str, path: Path) -> Answer:
    """Return ``accept``, ``reject`` or ``refuse``, and the rules that were found broken."""
    try:
        with tensorark.open(path) as file:
            if operation == "decode":
                return _decode(file)
            if operation == "verify":
                return _verify(file)
        asked = {operation: True} if operation in {"canonical", "architecture"} else {}
        return _found(path, **asked) if asked else ("accept", [])
    except tensorark.Rejected:
        return _found(path)
    except (tensorark.Unsupported, tensorark.LimitExceeded):
        return "refuse", []


def _found(path: Path, **asked: bool) -> Answer:
    rules = [finding.rule for finding in tensorark.validate(path, **asked)]
    return ("reject" if rules else "accept"), rules


def _decode(file: tensorark.File) -> Answer:
    for name in file:
        try:
            file[name].numpy()
        except tensorark.Rejected as error:
            return "reject", [error.code]
        except (tensorark.Unsupported, tensorark.LimitExceeded):
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
