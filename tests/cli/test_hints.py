"""Hints speak the language of where they are shown: arguments in the library, flags in `tark`."""

import ast
import pickle
import re
from pathlib import Path

import click
import pytest

import tensorark
from tensorark.cli.error_output import error_facts
from tensorark.cli.group import TARK, VERBS
from tensorark.cli.options import EVERYWHERE
from tensorark.errors import OVERWRITE, Hint, InvalidInput, NotFound

SOURCE = Path(tensorark.__file__).parent
LIBRARY_ONLY = {"torch.py", "numpy.py", "sparse.py", "quant.py", "safeopen.py", "save.py"}
"""Modules that no verb calls: their hints are for programmers alone."""
FOREIGN = re.compile(r"`(?!tark |tensorark)[^`]*`")
"""Code of other tools, which is the same wherever it is typed."""
CALL = re.compile(r"\w\(\)|\b[a-z_]+=\S")
FLAG = re.compile(r"--[a-z][a-z-]*")
VERB = re.compile(r"\btark ([a-z-]+)")


def text_of(node):
    """Return the text of a literal, with X for what is filled in; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(each) or "X" for each in node.values)
    return None


def hints():
    """Yield (module, line, node) for every expression that becomes a hint."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            found = []
            if isinstance(node, ast.Call):
                found = [each.value for each in node.keywords if each.arg == "hint"]
                if getattr(node.func, "id", "") == "Hint":
                    found = [node]
                if getattr(node.func, "id", "") == "_Stranger":
                    found = node.args[3:4]
            elif isinstance(node, ast.Assign):
                names = {getattr(each, "id", getattr(each, "attr", "")) for each in node.targets}
                found = [node.value] if "hint" in names else []
            for each in found:
                options = (each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,)
                for one in options:
                    yield path.relative_to(SOURCE).as_posix(), node.lineno, one


def plain_hints():
    return [(*each[:2], text_of(each[2])) for each in hints() if text_of(each[2])]


def two_fold_hints():
    found = []
    for module, line, node in hints():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Hint":
            words = {each.arg: text_of(each.value) for each in node.keywords}
            found.append((module, line, text_of(node.args[0]), words.get("tark")))
    return found


def known():
    verbs = [name for section in VERBS.values() for name in section]
    commands = [TARK.get_command(click.Context(TARK), name) for name in verbs]
    params = [*EVERYWHERE, *(each for command in commands for each in command.params)]
    return set(verbs), {name for each in params for name in (*each.opts, *each.secondary_opts)}


def test_there_are_hints_to_look_at():
    assert len(plain_hints()) > 30
    assert len(two_fold_hints()) > 10


def test_a_plain_hint_of_the_library_names_neither_arguments_nor_flags():
    """When this fails: give a `Hint` with both wordings."""
    for module, line, text in plain_hints():
        if module.startswith("cli/"):
            continue
        assert not FLAG.search(text), (module, line, text)
        assert not VERB.search(text), (module, line, text)
        assert module in LIBRARY_ONLY or not CALL.search(FOREIGN.sub("", text)), (
            module,
            line,
            text,
        )


def test_each_wording_of_a_hint_speaks_its_own_language():
    for module, line, text, typed in two_fold_hints():
        assert typed, (module, line)
        assert not FLAG.search(text), (module, line, text)
        assert not VERB.search(text), (module, line, text)
        assert not CALL.search(typed), (module, line, typed)


def test_the_command_line_names_verbs_and_flags_that_exist():
    verbs, flags = known()
    shown = [(*each[:2], each[3]) for each in two_fold_hints()]
    shown += [each for each in plain_hints() if each[0].startswith("cli/")]
    for module, line, text in shown:
        assert not CALL.search(FOREIGN.sub("", text)), (module, line, text)
        assert set(FLAG.findall(text)) <= flags, (module, line, text)
        assert set(VERB.findall(text)) <= verbs, (module, line, text)


def test_the_text_of_an_error_says_what_was_found_and_what_may_help():
    error = InvalidInput("no such way to read", code="io", found="foo", hint="try another")
    assert str(error) == "no such way to read: found foo [io] (hint: try another)"
    assert error.message == "no such way to read: found foo [io]"
    assert str(NotFound("gone", code="x", hint="a\x1bb")) == "gone [x] (hint: a\\x1bb)"


def test_both_wordings_survive_a_pickle():
    error = pickle.loads(pickle.dumps(InvalidInput("x", hint=OVERWRITE)))
    assert (error.hint, error.hint.tark) == (OVERWRITE, OVERWRITE.tark)
    assert Hint("same").tark == "same"


@pytest.mark.parametrize("as_json", [False, True])
def test_an_existing_target_is_answered_with_the_flag_or_the_argument(tark, zt, tmp_path, as_json):
    target = tmp_path / "there.zt"
    target.write_bytes(b"x")
    words = ["--json"] if as_json else []
    ran = tark("merge", zt, target, *words)
    assert "--force replaces it" in (ran.out if as_json else ran.err)
    with pytest.raises(InvalidInput, match="overwrite=True replaces it") as caught:
        tensorark.merge(zt, target)
    assert error_facts(caught.value)["hint"] == "--force replaces it"
