"""Every file of the corpus gets exactly the verdict, and the findings, that its name says."""

from __future__ import annotations

import hashlib
import json

import pytest

from conformance.build.tensorbit import corpus
from conformance.build.tensorbit.rules import RULES
from tensorark import files
from tensorark.errors import Error, Rejected, Unsupported
from tensorark.formats import tensorbit
from tensorark.formats.tensorbit.rules import TOLERATED, UNUSABLE, UNUSABLE_ALONE
from tensorark.integrity.verify import verify
from tensorark.layouts.nm.content import CONTENT_RULES
from tensorark.layouts.nm.rules import KEY
from tensorark.layouts.nm.rules import LAYOUT as PROFILE

INDEX = json.loads((corpus.HERE / "index.json").read_bytes())
FILES = {each["path"]: each for each in INDEX["files"]}


def outcome(action):
    """Return the outcome of an operation and the code of what it raised."""
    try:
        action()
    except Rejected as error:
        return "reject", error.code
    except Unsupported as error:
        return "refuse", error.code
    return "accept", None


def decode(path):
    with files.open(path, io="pread") as file:
        for name in file:
            file[name].numpy()


def answers(path):
    """Return the outcome of each operation, and the rules that each names."""
    found = {"open": outcome(lambda: files.open(path, io="pread").close())}
    if found["open"][0] != "accept":
        return found
    found["decode"] = outcome(lambda: decode(path))
    with files.open(path, io="pread") as file:
        done = verify(file, threads=1)
    rules = {each.rule for each in done.findings}
    verdict = "reject" if rules else "refuse" if done.refused else "accept"
    found["verify"] = (verdict, rules.pop() if len(rules) == 1 else rules or None)
    return found


def test_builders_reproduce_the_committed_files_and_nothing_else_lies_there():
    assert corpus.problems() == []


@pytest.mark.parametrize("path", FILES)
def test_gets_the_verdict_of_the_index(path):
    wanted, found = FILES[path], answers(corpus.HERE / path)
    for operation, expected in wanted["expect"].items():
        verdict, code = found[operation]
        assert verdict == expected, (operation, code)
        if verdict == "reject":
            assert code == wanted["rule"]


@pytest.mark.parametrize("path", [p for p, each in FILES.items() if each["class"] == "reject"])
def test_validating_finds_one_fault_of_that_rule(path):
    rule = FILES[path]["rule"]
    found = [each.rule for each in files.validate(corpus.HERE / path)]
    assert found == ([] if RULES[rule].stage == "content" else [rule])


@pytest.mark.parametrize("path", [p for p, each in FILES.items() if each["contents"]])
def test_reads_what_was_put_in(path):
    wanted = json.loads((corpus.HERE / FILES[path]["contents"]).read_bytes())
    with files.open(corpus.HERE / path, io="pread") as file:
        assert list(file) == list(wanted["tensors"])
        facts = file.attributes.get(KEY, {})
        for key in {"architecture", "config"} & wanted.keys():
            assert facts.get(key) == wanted[key]
        for name, known in wanted["tensors"].items():
            view = file[name]
            held = view.attributes.get(KEY, {})
            assert list(view.shape) == known["shape"]
            assert (f"{held['n']}:{held['m']}" if "n" in held else None) == known["nm"]
            role = "data" if "data" in view.parts else "weights"
            assert hashlib.sha256(view.raw(role)).hexdigest() == known["weights"]
            assert ("mask" in view.parts) == (known["mask"] is not None)
            if known["mask"]:
                assert hashlib.sha256(view.raw("mask")).hexdigest() == known["mask"]
            values = view.numpy()
            assert values.shape == view.shape
            assert hashlib.sha256(values.tobytes()).hexdigest() == known["values"]


def test_every_rule_has_a_file_and_every_rule_of_the_table_a_function():
    formats = (each for format_ in tensorbit.FORMATS for each in format_.rules)
    ours = {each.id: each for each in (*formats, *PROFILE.rules, *CONTENT_RULES)}
    assert set(ours) == set(RULES)
    for known in RULES.values():
        assert (ours[known.id].section, ours[known.id].stage) == (known.section, known.stage)
    broken = {each["rule"] for each in FILES.values() if each["class"] == "reject"}
    assert broken == set(RULES)


@pytest.mark.parametrize("path", [p for p, e in FILES.items() if e["expect"]["open"] == "reject"])
def test_every_message_names_rule_section_and_place(path):
    with pytest.raises(Error) as caught:
        files.open(corpus.HERE / path, io="pread")
    error = caught.value
    assert error.code == FILES[path]["rule"]
    assert error.section == FILES[path]["section"]
    assert error.offset is not None
    assert error.path is not None


@pytest.mark.parametrize("path", [p for p, e in FILES.items() if e["expect"]["open"] == "reject"])
def test_a_lenient_reading_lets_pass_what_is_tolerated_and_says_so(path):
    rule = FILES[path]["rule"]
    single_is_unusable = path.endswith(".tb") and rule in UNUSABLE_ALONE
    if rule not in TOLERATED or single_is_unusable:
        with pytest.raises(Rejected):
            files.open(corpus.HERE / path, lenient=True)
        return
    with files.open(corpus.HERE / path, lenient=True) as file:
        record = file.catalog.native
        assert rule in {each.rule for each in record.forgiven}
        without_type = path == "reject/precision.tbm"  # neither header nor index give one
        assert bool(record.left_out) == (rule in UNUSABLE or without_type)
        for name in file:
            file[name].numpy()
