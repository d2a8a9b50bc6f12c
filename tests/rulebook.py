"""Every rule of the library and every corpus, for the tests that tie one to the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tensorark.core.rules import all_rules

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"

CORPORA: dict[str, dict[str, Any]] = {
    index["format"]: index
    for index in (json.loads(path.read_bytes()) for path in CONFORMANCE.rglob("index.json"))
}
"""The index of every corpus by the format it names."""


RULES = {rule.id: rule for rule in all_rules()}
