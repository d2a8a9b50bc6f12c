"""The library's answer to every file of the corpus; the links of rule, function and file."""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
from dataclasses import replace
from typing import Any

import pytest

import tensorark
from conformance import run
from tensorark.core.rules import Rule, all_rules
from tensorark.formats import FORMATS
from tensorark.formats.ninfer import survey
from tensorark.formats.tensorbit import survey as unspoken
from tensorark.layouts.dense import rules as dense
from tensorark.layouts.ninfer import remarks as negative
from tests.judge import answer
from tests.rulebook import CONFORMANCE as CORPUS
from tests.rulebook import CORPORA, RULES

FILES: list[dict[str, Any]] = CORPORA["zt"]["files"]


def test_every_rule_stands_where_all_rules_are_sought():
    """Nowhere else in the library, and once."""
    found = {}
    for module in pkgutil.walk_packages(tensorark.__path__, "tensorark."):
        if module.name != "tensorark.__main__":
            for value in vars(importlib.import_module(module.name)).values():
                held = value if isinstance(value, tuple) else (value,)
                found |= {each: None for each in held if isinstance(each, Rule)}
    assert sorted(found, key=lambda each: each.id) == [*all_rules()]
    assert len(RULES) == len(all_rules())


def test_two_rules_of_one_id_are_an_error(monkeypatch):
    twin = replace(dense.dense_parts, section="another")
    monkeypatch.setattr(dense, "twin", twin, raising=False)
    with pytest.raises(ValueError, match=r"two rules are called zt\.dense-parts"):
        all_rules.__wrapped__()


def test_every_rule_of_the_library_stands_in_one_corpus():
    """No format is named here: a new one, or a new rule, fails until it has its files."""
    listed = [each["id"] for corpus in CORPORA.values() for each in corpus["rules"]]
    assert len(listed) == len(set(listed))
    told = (*negative.NOTES, *survey.NOTES, *unspoken.NOTES)  # and never found broken
    notes = {each.id for each in told}
    assert set(RULES) - notes == set(listed)


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_every_rule_that_a_format_registers_is_that_of_its_module(each):
    assert [rule.id for rule in each.rules if RULES[rule.id] != rule] == []
    assert {rule.id for rule in each.rules} <= set(RULES)


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
