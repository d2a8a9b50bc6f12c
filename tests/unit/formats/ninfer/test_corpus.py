"""Every set of the corpus gets exactly the verdict, and the findings, that its name says."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from conformance.ninfer.build.corpus import CORPUS
from conformance.ninfer.build.rules import READ, RULES
from tensorark import files
from tensorark.core.model import Part
from tests.unit.formats.ninfer.sets import shared

INDEX = json.loads((CORPUS.home / "index.json").read_bytes())
SETS = {each["path"]: each for each in INDEX["files"]}


@pytest.mark.parametrize("path", [p for p, each in SETS.items() if each["contents"]])
def test_reads_what_was_put_in(path):
    if SETS[path]["expect"]["open"] != "accept":
        return
    wanted = json.loads((CORPUS.home / SETS[path]["contents"]).read_bytes())
    with files.open(CORPUS.home / path, io="pread") as file:
        directory = file.catalog.native
        assert directory.artifact_id == wanted["artifact_id"]
        for name, digest in wanted["objects"].items():
            data = file.payload(Part(directory.blob(directory.object(name)), "u8"))
            assert hashlib.sha256(data).hexdigest() == digest
        for name, facts in wanted["parameters"].items():
            view = file.parameters[name]
            assert view.size == facts["elements"]
            assert hashlib.sha256(view.numpy().tobytes()).hexdigest() == facts["sha256"]


def test_rules_that_show_when_an_object_is_read_are_those_the_corpus_says():
    content = {rule for rule in RULES if RULES[rule].stage == "content"}
    read = {rule for rule in content if rule.removeprefix("ninfer.").startswith(READ)}
    for path, each in SETS.items():
        if each["rule"] in content:
            assert (each["expect"].get("decode") == "reject") == (each["rule"] in read), path


LINE = re.compile(r"[\d.]+ \| [^|]+ \| (?P<answer>[^|]+)")


def musts():
    """Return the answers of the two blocks of musts.txt: sentences with the word, and without."""
    text = (CORPUS.home / "musts.txt").read_text("utf-8")
    blocks = []
    for block in text.split("# Requirements without", 1):
        lines = [line for line in block.splitlines() if re.match(r"\d", line)]
        blocks.append([LINE.fullmatch(line)["answer"] for line in lines])
    return blocks


if (FOLDER := shared()) is not None:

    def test_the_musts_are_as_many_as_in_the_specification():
        text = (FOLDER.parents[1] / "specs/ninfer-v3.txt").read_text("utf-8")
        assert len(musts()[0]) == text.count("\u987b")
