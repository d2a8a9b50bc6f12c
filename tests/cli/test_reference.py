"""The documentation says what the code does, and every verb and code is documented."""

import ast
import runpy
from pathlib import Path

import click
import pytest

import tensorark
from tensorark.cli.group import TARK, VERBS
from tensorark.cli.verb import Verb
from tensorark.errors import Error
from tensorark.report.codes import CODES, everything
from tests.rulebook import RULES

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(tensorark.__file__).parent
NAMES = [name for section in VERBS.values() for name in section]


@pytest.fixture(scope="module")
def generator():
    return runpy.run_path(str(ROOT / "tools" / "cli_reference.py"))


@pytest.mark.parametrize(
    ("path", "make"),
    [
        ("docs/reference/cli.md", "cli"),
        ("docs/reference/errors.md", "errors_page"),
        ("src/tensorark/report/examples.json", "examples"),
    ],
)
def test_the_reference_is_current(generator, path, make):
    """When this fails: python tools/cli_reference.py."""
    assert (ROOT / path).read_text("utf-8") == generator[make]()


def test_the_reference_of_the_python_interface_is_current():
    generator = runpy.run_path(str(ROOT / "tools" / "api_reference.py"))
    if generator["PAGE"].read_text("utf-8") != generator["page"]():
        pytest.fail("out of date: python tools/api_reference.py")


@pytest.mark.parametrize("name", NAMES)
def test_every_verb_has_help_two_examples_and_exit_codes(tark, name):
    command = TARK.get_command(click.Context(TARK), name)
    assert isinstance(command, Verb)
    assert command.name == name
    assert len(command.examples) == 2
    assert all(example.split("tark ")[1].split()[0] == name for example, _ in command.examples)
    assert {0, 2, 130} <= command.exits.keys() <= {0, 1, 2, 3, 4, 5, 129, 130, 141, 143}
    text = tark(name, "--help").out
    assert text.index("Examples:") < text.index("Exit codes:")
    assert all(example in text for example, _ in command.examples)


@pytest.mark.parametrize("name", NAMES)
def test_the_summary_of_a_verb_is_the_first_line_of_its_help(name):
    command = TARK.get_command(click.Context(TARK), name)
    (summary,) = [section[name] for section in VERBS.values() if name in section]
    assert command.help.splitlines()[0] == summary


def test_every_module_that_exports_a_verb_is_in_the_table():
    modules = {
        path.stem
        for path in (SOURCE / "cli").glob("*.py")
        if "\n@verb(\n" in path.read_text("utf-8")
    }
    assert modules == {name.replace("-", "_") for name in NAMES}


def test_the_help_of_tark_lists_every_verb_and_imports_none(process):
    out, _ = process("--help").communicate()
    assert all(f"  {name} " in out.decode() for name in NAMES)


def test_every_code_that_is_raised_is_explained():
    """When this fails: say in `tensorark.report.codes` what the new code means."""
    raised = {*_codes_in_source(), *(kind.default_code for kind in Error.__subclasses__())}
    explained = {each.code for each in everything()}
    assert raised - explained == set()
    assert CODES.keys() - raised == {"usage"}


def test_every_rule_of_the_library_is_explained():
    explained = {each.code for each in everything() if each.is_rule}
    assert explained == set(RULES)


def _codes_in_source():
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            for keyword in node.keywords:
                if keyword.arg == "code":
                    parts = (getattr(each, "value", None) for each in ast.walk(keyword.value))
                    yield from (each for each in parts if isinstance(each, str))
            if getattr(node.func, "id", "") in {"_Stranger", "difference"}:
                first = (getattr(each, "value", None) for each in ast.walk(node.args[0]))
                yield from (each for each in first if isinstance(each, str))


def test_every_rule_says_what_it_demands():
    rules = [each for each in everything() if each.is_rule]
    assert len(rules) > 100
    assert all(each.requirement.endswith(".") and each.section for each in rules)
