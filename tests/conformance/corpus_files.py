"""Where the tests of the corpus find files: ours, and published ones beside the repository."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance import run

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "conformance"


def shared() -> Path | None:
    """Return the folder of published material, if there is one: TENSORARK_SHARED, or ../shared."""
    named = os.environ.get("TENSORARK_SHARED")
    folder = Path(named) if named else ROOT.parent / "shared"
    return folder if folder.is_dir() else None


def vectors(name: str) -> Path | None:
    """Return a folder of published files with an index, if it is there."""
    folder = shared()
    found = folder / "vectors" / name if folder else None
    return found if found and (found / "index.json").exists() else None


def index() -> dict[str, Any]:
    """Return the index of our corpus."""
    return json.loads((CORPUS / "index.json").read_bytes())


def published(name: str) -> dict[str, Any]:
    """Return the lines of a published index by path, none if it is not there."""
    folder = vectors(name)
    return json.loads((folder / "index.json").read_bytes())["files"] if folder else {}


@contextmanager
def image(path: str) -> Iterator[Path]:
    """Provide a file of our corpus, a sparse recipe as a sparse file."""
    with run.image(CORPUS / path) as made:
        yield made
