"""Every file of every corpus gets exactly the verdict, and the finding, that it names.

Holds for whatever format has a folder of builders: nothing here names one. What a reader finds in
the files of a format is compared by the tests of that format.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

import tensorark
from conformance import run
from conformance.build import corpora
from tests.judge import answer
from tests.rulebook import CORPORA, RULES

BUILT = corpora()
FILES = {(name, line["path"]): line for name in BUILT for line in CORPORA[name]["files"]}
REJECTED = [key for key, line in FILES.items() if line["class"] == "reject"]
KEPT = [k for k, line in FILES.items() if line["class"] == "accept" and line["contents"]]
UNOPENED = [key for key in REJECTED if FILES[key]["expect"].get("open") == "reject"]
MUSTS = {
    name: text.read_text("utf-8")
    for name, each in BUILT.items()
    if (text := each.home / each.below / "musts.txt").exists()
}

WE_DIFFER = {
    # numpy holds no array of shape [0, 2^63, 4]; the bytes are there, and there are none
    ("zt/either/shape-zero-first.zt", "decode"): "refuse",
}
REPEATED = {"ninfer.arch-config"} | {
    f"ninfer.part-{each}" for each in ("artifact", "header", "index", "magic", "size")
}
"""Rules that are found broken once for each continuation, or each component."""
WITHOUT_PLACE = {"safetensors", "zt"}
"""Where an attribute is missing, or files of a set disagree, there is no byte to point at."""


def located(key):
    return run.image(BUILT[key[0]].home / key[1])


def test_every_corpus_has_builders():
    assert BUILT.keys() == CORPORA.keys()


@pytest.mark.parametrize("name", BUILT)
def test_builders_reproduce_the_committed_files_and_nothing_else_lies_there(name):
    """And every rule of the table has a file that breaks it."""
    assert BUILT[name].problems() == []


@pytest.mark.parametrize("key", FILES, ids="/".join)
def test_a_file_gets_the_verdict_of_the_index_and_names_its_rule_alone(key):
    file = FILES[key]
    with located(key) as path:
        for operation, expected in file["expect"].items():
            outcome, rules = answer(operation, path)
            assert outcome == WE_DIFFER.get((key[1], operation), expected), (operation, rules)
            telling = file.get("operation", operation) == operation
            if outcome == "reject" and telling and file["rule"]:
                found = [*dict.fromkeys(rules)] if file["rule"] in REPEATED else rules
                assert found == [file["rule"]], operation


@pytest.mark.parametrize("key", FILES, ids="/".join)
def test_validating_finds_what_shows_without_payload_and_nothing_else(key):
    file = FILES[key]
    shows = file["expect"]["open"] == "reject" or (file["rule"] or "").startswith("ninfer.tensor-")
    with located(key) as path:
        if file["expect"]["open"] == "refuse":
            with pytest.raises((tensorark.Unsupported, tensorark.LimitExceeded)):
                tensorark.validate(path)
        else:
            found = [each.rule for each in tensorark.validate(path)]
            assert found == ([file["rule"]] if shows else [])


@pytest.mark.parametrize("key", UNOPENED, ids="/".join)
def test_a_message_names_rule_section_and_place(key):
    with located(key) as path:
        with pytest.raises(tensorark.Rejected) as caught:
            tensorark.open(path)
        parts = {Path(each).name for each in FILES[key]["parts"]}
        assert caught.value.path in {str(path), *parts}
    error = caught.value
    assert (error.code, error.section) == (FILES[key]["rule"], FILES[key]["section"])
    assert error.offset is not None or (error.where and key[0] in WITHOUT_PLACE)


@pytest.mark.parametrize("key", UNOPENED, ids="/".join)
def test_what_is_rejected_is_not_converted(key, tmp_path):
    with located(key) as path, pytest.raises(tensorark.Rejected) as caught:
        tensorark.convert(path, tmp_path / "m.zt")
    assert caught.value.code == FILES[key]["rule"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", KEPT, ids="/".join)
def test_names_shapes_and_values_are_those_that_were_put_in(key):
    """As far as the sidecars of a format say them: values by their bytes, little-endian."""
    wanted = json.loads((BUILT[key[0]].home / FILES[key]["contents"]).read_bytes())
    tensors = wanted.get("tensors") or {}
    with located(key) as path, tensorark.open(path) as file:
        assert {*tensors} == ({*file} if wanted.get("tensors") is not None else set())
        for name, known in tensors.items():
            assert list(file[name].shape) == known["shape"]
            if "values" in known:
                values = file[name].numpy()
                little = values.astype(values.dtype.newbyteorder("<"), order="C")
                assert hashlib.sha256(little.tobytes()).hexdigest() == known["values"]


@pytest.mark.parametrize("key", FILES, ids="/".join)
def test_a_file_has_a_sentence(key):
    assert re.fullmatch(r"[^\s.].*[^.]\.", FILES[key]["sentence"])


@pytest.mark.parametrize("name", BUILT)
def test_no_two_files_of_a_class_are_equal(name):
    digests = [(line["class"], line["sha256"]) for line in CORPORA[name]["files"]]
    assert len({*digests}) == len(digests)


@pytest.mark.parametrize("name", BUILT)
def test_rules_of_table_and_library_agree(name):
    for listed in CORPORA[name]["rules"]:
        rule = RULES[listed["id"]]
        assert (rule.section, rule.stage) == (listed["section"], listed["stage"]), rule.id
        assert rule.requirement.endswith("."), rule.id


@pytest.mark.parametrize("name", MUSTS)
def test_every_line_of_the_musts_names_rules_or_gives_a_reason_and_every_rule_is_named(name):
    cells = [
        line.split(" | ") for line in MUSTS[name].splitlines() if line and not line.startswith("#")
    ]
    rules, named = {*BUILT[name].rules}, set()
    for *_, said in cells:
        assert re.fullmatch(r"(writer|out-of-scope): \S.*", said) or {*said.split()} <= rules, said
        named |= {*said.split()} & rules
    assert {len(line) for line in cells} == {3}
    assert named == rules


@pytest.mark.parametrize("name", MUSTS)
def test_files_named_in_the_musts_exist(name):
    home = BUILT[name].home / BUILT[name].below
    for named in re.findall(r"(?:accept|refuse|either|reject)/\S+\.\w+", MUSTS[name]):
        assert (home / named).exists(), named
