"""Every block of the pages that a newcomer reads runs as it stands, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/guide").glob("*.md")),
]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda p: p.name)
def test_the_blocks_of_a_page_run(page, tmp_path):
    tark = Path(sys.executable).with_name("tark")
    path = f"{tark.parent}{os.pathsep}{os.environ['PATH']}"
    names = {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        for kind, text in blocks(page):
            if kind == "python":
                exec(compile(text, str(page), "exec"), names)  # noqa: S102 - our own pages
                continue
            for command in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
                done = subprocess.run(  # noqa: S602 - our own pages, as a reader would type them
                    command,
                    shell=True,
                    capture_output=True,
                    text=True,
                    check=False,
                    env=os.environ | {"PATH": path},
                )
                said = re.search(r"# exits with (\d+)", command)
                expected = int(said[1]) if said else 0
                assert done.returncode == expected, (command, done.stdout, done.stderr)
    finally:
        os.chdir(before)


def test_every_link_between_pages_leads_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
