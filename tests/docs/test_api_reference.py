"""The page about the Python interface leaves no public name out."""

import inspect
import runpy
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "api.md"


@pytest.fixture(scope="module")
def generator():
    return runpy.run_path(str(ROOT / "tools" / "api_reference.py"))


def test_every_public_name_is_described(generator):
    text = PAGE.read_text("utf-8")
    for name in generator["MODULES"]:
        module = import_module(name)
        for each in module.__all__:
            value = getattr(module, each)
            if inspect.ismodule(value):
                continue
            assert f"\n### {name}.{each}\n" in text
            if inspect.isclass(value) or inspect.isroutine(value):
                assert inspect.getdoc(value)


def test_a_signature_is_written_as_in_the_source(generator):
    (node,) = (
        generator["ast"]
        .parse(
            "def f(a, b: int = 1, /, c: str = 'x', *rest: int, d=None, **more: int) -> None: ..."
        )
        .body
    )
    written = "f(a, b: int = 1, /, c: str = 'x', *rest: int, d=None, **more: int) -> None"
    assert generator["_signature"]("f", node) == written
