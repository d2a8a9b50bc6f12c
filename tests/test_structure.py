"""The house: what stands where, and that nobody asks which format a file is of."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "tensorark"
MODULES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def rows():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    return [re.split(r" [|:] ", row) for row in layers]


def imports(name):
    """Yield every module that one imports, within functions and for types too."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[name].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (name, package)
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in MODULES else node.module


def test_no_module_imports_itself_by_way_of_others():
    graph = {name: {each for each in imports(name) if each in MODULES} - {name} for name in MODULES}
    while graph:
        imported = set().union(*graph.values())
        ends = {name for name, others in graph.items() if not others or name not in imported}
        if not ends:
            break
        graph = {name: others - ends for name, others in graph.items() if name not in ends}
    assert sorted(graph) == []


def test_ten_rows_hold_every_room():
    rooms = {name.split(".")[1] for name in MODULES if "." in name}
    held = [room for row in rows() for room in row]
    assert len(rows()) <= 10
    assert sorted(held) == sorted(rooms)


def test_the_page_on_the_architecture_draws_these_rows():
    page = (ROOT / "docs" / "design" / "architecture.md").read_text("utf-8")
    drawn = page.split("```\n")[1].splitlines()
    named = [re.split(r" · ", re.split(r" {2,}", line)[0]) for line in drawn if line[:1].strip()]
    assert [sorted(row) for row in named] == [sorted(set(row) - {"__main__"}) for row in rows()]


ASKING = re.compile(
    r"format\.name (?:==|!=|in|not in) [\"'{(]"
    r"|catalog\.format(?:\.startswith| (?:==|!=|in|not in) )"
    r"|isinstance\([^()]*\bnative,"
)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_nobody_outside_of_formats_asks_which_format_a_file_is_of(name):
    if name.startswith("tensorark.formats."):
        return
    assert ASKING.findall(MODULES[name].read_text("utf-8")) == []
