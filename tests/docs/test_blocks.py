"""Every block of the pages that a newcomer reads runs as it stands, in the order of the page."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/guide").glob("*.md")),
]
BLOCK = re.compile(r"^```(python|console|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = {"README.md", "quickstart.md"}
"""Pages for people who have nothing before them: what a block prints stands beside it."""


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


def agree(said: str, shown: str) -> bool:
    """Whether the output is what the page shows; ``…`` stands for what differs from run to run."""
    pattern = re.escape(shown.strip()).replace("…", ".*?")
    return re.fullmatch(pattern, said.strip(), re.DOTALL) is not None


def run_console(text: str, page: Path) -> None:
    """Run the commands of a block, one after the other, and compare what is shown under each."""
    tark = Path(sys.executable).with_name("tark")
    path = f"{tark.parent}{os.pathsep}{os.environ['PATH']}"
    for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", text, re.MULTILINE):
        done = subprocess.run(  # noqa: S602 - our own pages, as a reader would type them
            command,
            shell=True,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PATH": path, "COLUMNS": "100"},
        )
        said = re.search(r"# exits with (\d+)", command)
        expected = int(said[1]) if said else 0
        assert done.returncode == expected, (command, done.stdout, done.stderr)
        if shown.strip() or page.name in SHOWN:
            assert agree(done.stdout, shown), (command, done.stdout, shown)


def run_page(page: Path) -> None:
    """Run the blocks of a page in the order of the page, as a reader would."""
    names = {"__name__": "__main__"}
    found = blocks(page)
    for at, (kind, text) in enumerate(found):
        if kind == "console":
            run_console(text, page)
        if kind != "python":
            continue
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(text, str(page), "exec"), names)  # noqa: S102 - our own pages
        shown = found[at + 1][1] if [*found, ("", "")][at + 1][0] == "output" else None
        if shown is not None or page.name in SHOWN:
            assert agree(printed.getvalue(), shown or ""), (text, printed.getvalue(), shown)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda p: p.name)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_the_first_pages_run_one_after_the_other_and_again(tmp_path, monkeypatch):
    """As a newcomer does it, who has one folder and tries things twice."""
    monkeypatch.chdir(tmp_path)
    first = [page for page in PAGES if page.name in SHOWN]
    assert len(first) == len(SHOWN)
    for page in (*first, *first):
        run_page(page)


def test_every_link_between_pages_leads_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
