"""The library's answer to every file of the corpus; the links of rule, function and file."""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import tensorark
from conformance import run
from tensorark.rules import Rule
from tests.judge import answer

CORPUS = Path(__file__).resolve().parents[1] / "conformance"
INDEX: dict[str, Any] = json.loads((CORPUS / "index.json").read_bytes())
FILES: list[dict[str, Any]] = INDEX["files"]

WE_DIFFER = {
    # numpy holds no array of shape [0, 2^63, 4]; the bytes are there, and there are none
    ("zt/either/shape-zero-first.zt", "decode"): "refuse",
}


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


def test_no_id_is_that_of_two_rules():
    assert [id_ for id_, rules in RULES.items() if len(rules) > 1] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["path"])
def test_every_file_gets_the_outcome_and_the_rule_it_names(file):
    with run.image(CORPUS / file["path"]) as path:
        for operation, expected in file["expect"].items():
            outcome, rules = answer(operation, path)
            assert outcome == WE_DIFFER.get((file["path"], operation), expected), rules
            if outcome == "reject" and operation == file["operation"] and file["rule"]:
                assert rules == [file["rule"]]


@pytest.mark.parametrize("listed", INDEX["rules"], ids=lambda listed: listed["id"])
def test_every_rule_of_the_corpus_is_a_function_of_the_same_section_and_stage(listed):
    (rule,) = RULES[listed["id"]]
    assert (rule.section, rule.stage) == (listed["section"], listed["stage"])
    assert rule.requirement.endswith(".")


def test_every_rule_of_the_library_has_a_file_that_breaks_it():
    broken = {file["rule"] for file in FILES if file["class"] == "reject"}
    formats = {listed["id"].split(".")[0] for listed in INDEX["rules"]}
    ours = {id_ for id_ in RULES if id_.split(".")[0] in formats}
    assert ours - broken == set()


def test_a_rule_that_is_switched_off_turns_its_own_files_green(monkeypatch):
    """Proves that the finding comes from the rule's function and from nowhere else."""
    from tensorark.formats.zt import rules

    without = tuple(each for each in rules.REFERENCE_RULES if each.id != "zt.blob-align")
    monkeypatch.setattr(rules, "REFERENCE_RULES", without)
    names = [file["path"] for file in FILES if file["rule"] == "zt.blob-align"]
    assert names
    for name in names:
        with run.image(CORPUS / name) as path:
            assert answer("open", path)[0] == "accept", name


@pytest.mark.parametrize(
    "file", [file for file in FILES if file["class"] == "accept"], ids=lambda file: file["path"]
)
def test_every_accepted_file_holds_what_its_builder_put_in(file):
    expected = json.loads((CORPUS / file["contents"]).read_bytes())
    with run.image(CORPUS / file["path"]) as path, tensorark.open(path) as opened:
        tensors = expected["tensors"] or {}
        assert opened.describes_tensors == (expected["tensors"] is not None)
        if expected["tensors"] is not None:
            assert set(opened) == set(tensors)
        for name, tensor in tensors.items():
            view = opened[name]
            assert list(view.shape) == tensor["shape"]
            assert view.layout == tensor["layout"]
            assert set(view.parts) == set(tensor["parts"])
            for role, part in tensor["parts"].items():
                held = view.parts[role]
                assert (held.dtype, held.type) == (part["dtype"], part.get("type"))
                assert held.digest == part.get("digest")
                assert held.nbytes == part["nbytes"]
                if part["sha256"] is not None:  # else its shard is kept away on purpose
                    data = opened.payload(held)
                    assert hashlib.sha256(data).hexdigest() == part["sha256"]
        for algorithm, digest in (expected["content_digest"] or {}).items():
            assert tensorark.content_digest(opened, algorithm) == digest
        if expected["content_digest"] is None:
            with pytest.raises(tensorark.Unsupported, match=r"no digest|data shard"):
                tensorark.content_digest(opened)
