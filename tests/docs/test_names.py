"""What the documents name is there: files of the project, modules, and what they hold."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
ROOMS = "core|wire|io|layouts|encodings|formats|files|writing|conversion|integrity|edit|report|cli"
QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:src|tests|tools|docs|conformance|bench|requirements)/[\w./-]*\w/?")
INSIDE = re.compile(rf"(?:{ROOMS})/[\w/]+(?:\.py)?")
DOTTED = re.compile(rf"(?:tensorark\.[a-z_]|(?:{ROOMS})\.[a-z_])[\w.]*")


def is_there(name: str) -> bool:
    """Tell whether a dotted name is a module, or what one holds."""
    steps = name.removesuffix("()").split(".")
    steps = steps if steps[0] == "tensorark" else ["tensorark", *steps]
    value = import_module("tensorark")
    for at, step in enumerate(steps[1:], 2):
        try:
            value = import_module(".".join(steps[:at]))
        except ImportError:
            if not hasattr(value, step):
                return False
            value = getattr(value, step)
    return True


def missing(page: Path):
    for quoted in QUOTED.findall(page.read_text("utf-8")):
        if PATH.fullmatch(quoted) and not (ROOT / quoted).exists():
            yield quoted
        if INSIDE.fullmatch(quoted):
            path = ROOT / "src" / "tensorark" / quoted
            if not (path.exists() or path.with_suffix(".py").exists()):
                yield quoted
        if DOTTED.fullmatch(quoted) and quoted not in DATA and not is_there(quoted):
            yield quoted


DATA = {
    "tensorark.attributes",
    "tensorark.checkpoint",
    "tensorark.ninfer",
    "tensorark.role",
    "tensorark.set",
}
"""Keys and names in files, which are no modules."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_is_there(page):
    assert [*missing(page)] == []
