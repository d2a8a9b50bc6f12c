"""Every set of the corpus gets exactly the verdict, and the findings, that its name says."""

from __future__ import annotations

import hashlib
import itertools
import json
import re

import pytest

from conformance.build.ninfer import corpus
from conformance.build.ninfer.rules import READ, RULES
from tensorark import files
from tensorark.core.model import Part
from tensorark.errors import Error, LimitExceeded, Rejected, Unsupported
from tensorark.formats.ninfer import NINFER, architecture
from tensorark.formats.ninfer.uses import USE_RULES
from tensorark.integrity.verify import verify
from tensorark.layouts.ninfer.content import CONTENT_RULES
from tensorark.layouts.ninfer.rules import LAYOUT as CARRIED
from tests.unit.formats.ninfer.sets import shared

INDEX = json.loads((corpus.HERE / "index.json").read_bytes())
SETS = {each["path"]: each for each in INDEX["files"]}


def outcome(action):
    """Return the outcome of an operation and the code of what it raised."""
    try:
        action()
    except Rejected as error:
        return "reject", error.code
    except (Unsupported, LimitExceeded) as error:
        return "refuse", error.code
    return "accept", None


def decode(path):
    with files.open(path, io="pread") as file:
        for name in file:
            file[name].numpy()


def verification(path):
    with files.open(path, io="pread") as file:
        return verify(file, threads=1)


def called_for(path):
    with files.open(path, io="pread") as file:
        try:
            rules = {each.rule for each in architecture.check(file.catalog.native)}
        except Unsupported as error:
            return "refuse", error.code
    return ("reject" if rules else "accept"), rules.pop() if len(rules) == 1 else rules or None


def answers(path):
    """Return the outcome of each operation, and the rules that each names."""
    found = {"open": outcome(lambda: files.open(path, io="pread").close())}
    if found["open"][0] != "accept":
        return found
    found["decode"] = outcome(lambda: decode(path))
    found["architecture"] = called_for(path)
    done = verification(path)
    rules = {each.rule for each in done.findings}
    verdict = "reject" if rules else "refuse" if done.refused else "accept"
    found["verify"] = (verdict, rules.pop() if len(rules) == 1 else rules or None)
    return found


def test_builders_reproduce_the_committed_files_and_nothing_else_lies_there():
    assert corpus.problems() == []


@pytest.mark.parametrize("path", SETS)
def test_gets_the_verdict_of_the_index(path):
    wanted, found = SETS[path], answers(corpus.HERE / path)
    for operation, expected in wanted["expect"].items():
        verdict, code = found[operation]
        assert verdict == expected, (operation, code)
        if verdict == "reject":
            assert code == wanted["rule"]


@pytest.mark.parametrize("path", [p for p, each in SETS.items() if each["class"] == "reject"])
def test_validating_finds_one_fault_of_that_rule(path):
    """Those that need another file, or payload, are found by verifying alone."""
    rule = SETS[path]["rule"]
    found = [each.rule for each in files.validate(corpus.HERE / path)]
    later = {"content", "architecture"}
    shows = RULES[rule].stage not in later or rule.startswith("ninfer.tensor-")
    assert found == ([rule] if shows else [])


@pytest.mark.parametrize("path", [p for p, each in SETS.items() if each["contents"]])
def test_reads_what_was_put_in(path):
    if SETS[path]["expect"]["open"] != "accept":
        return
    wanted = json.loads((corpus.HERE / SETS[path]["contents"]).read_bytes())
    with files.open(corpus.HERE / path, io="pread") as file:
        directory = file.catalog.native
        assert directory.artifact_id == wanted["artifact_id"]
        for name, digest in wanted["objects"].items():
            data = file.payload(Part(directory.blob(directory.object(name)), "u8"))
            assert hashlib.sha256(data).hexdigest() == digest
        for name, facts in wanted["parameters"].items():
            view = file.parameters[name]
            assert view.size == facts["elements"]
            assert hashlib.sha256(view.numpy().tobytes()).hexdigest() == facts["sha256"]


def test_every_rule_has_a_file_and_every_rule_of_the_table_a_function():
    known = (*NINFER.rules, *CARRIED.rules, *CONTENT_RULES, *USE_RULES, *architecture.RULES)
    ours = {each.id: each for each in known}
    assert set(ours) == set(RULES)
    for known in RULES.values():
        assert (ours[known.id].section, ours[known.id].stage) == (known.section, known.stage)
    broken = {each["rule"] for each in SETS.values() if each["class"] == "reject"}
    assert broken == set(RULES)


def test_rules_that_show_when_an_object_is_read_are_those_the_corpus_says():
    content = {rule for rule in RULES if RULES[rule].stage == "content"}
    read = {rule for rule in content if rule.removeprefix("ninfer.").startswith(READ)}
    for path, each in SETS.items():
        if each["rule"] in content:
            assert (each["expect"].get("decode") == "reject") == (each["rule"] in read), path


def test_every_message_names_rule_section_and_place():
    for path, each in SETS.items():
        if each["class"] != "reject" or each["expect"]["open"] != "reject":
            continue
        with pytest.raises(Error) as caught:
            files.open(corpus.HERE / path, io="pread")
        error = caught.value
        assert error.code == each["rule"]
        assert error.section == each["section"]
        assert error.offset is not None
        assert str(corpus.HERE / path) == error.path


LINE = re.compile(r"[\d.]+ \| [^|]+ \| (?P<answer>[^|]+)")
REASON = re.compile(r"(writer|out-of-scope): \S.*")


def musts():
    """Return the answers of the two blocks of musts.txt: sentences with the word, and without."""
    text = (corpus.HERE / "musts.txt").read_text("utf-8")
    blocks = []
    for block in text.split("# Requirements without", 1):
        lines = [line for line in block.splitlines() if re.match(r"\d", line)]
        blocks.append([LINE.fullmatch(line)["answer"] for line in lines])
    return blocks


def test_every_line_of_the_musts_names_known_rules_or_gives_a_reason():
    for answer in itertools.chain(*musts()):
        assert REASON.fullmatch(answer) or set(answer.split()) <= set(RULES), answer


def test_every_rule_answers_for_a_line_of_the_musts():
    named = {word for answer in itertools.chain(*musts()) for word in answer.split()}
    assert set(RULES) <= named


def test_files_named_in_the_musts_exist():
    text = (corpus.HERE / "musts.txt").read_text("utf-8")
    named = re.findall(r"(?:accept|refuse|either|reject)/\S+\.ninfer", text)
    assert named
    assert all((corpus.HERE / name).exists() for name in named)


if (FOLDER := shared()) is not None:

    def test_the_musts_are_as_many_as_in_the_specification():
        text = (FOLDER.parents[1] / "specs/ninfer-v3.txt").read_text("utf-8")
        assert len(musts()[0]) == text.count("\u987b")
