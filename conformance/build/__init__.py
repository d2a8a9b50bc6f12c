"""The engine of the corpora: what is one file, one index, one list, for every format.

A format's own builders lie in `<format>/build`, and nothing but that folder makes a corpus one.
Nothing here or there imports a library that reads or writes such files: the corpus must be able to
contradict every one of them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from .collection import Collection


def corpora() -> dict[str, Collection]:
    """Return the corpora by format: every folder beside this one that has builders."""
    folders = sorted(Path(__file__).parents[1].glob("*/build/corpus.py"))
    names = [each.parents[1].name for each in folders]
    return {name: import_module(f"conformance.{name}.build.corpus").CORPUS for name in names}
