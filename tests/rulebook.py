"""Every rule of the library and every corpus, for the tests that tie one to the other."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import tensorark
from tensorark.core.rules import Rule

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"

CORPORA: dict[str, dict[str, Any]] = {
    index["format"]: index
    for index in (json.loads(path.read_bytes()) for path in CONFORMANCE.rglob("index.json"))
}
"""The index of every corpus by the format it names."""


def library_rules() -> dict[str, list[Rule[Any]]]:
    """Every rule object of the library by id, wherever it is defined."""
    found: dict[str, list[Rule[Any]]] = {}
    for module in pkgutil.walk_packages(tensorark.__path__, "tensorark."):
        if module.name == "tensorark.__main__":
            continue
        for value in vars(importlib.import_module(module.name)).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Rule) and each not in found.setdefault(each.id, []):
                    found[each.id].append(each)
    return found


RULES = library_rules()
