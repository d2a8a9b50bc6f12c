"""The files of safetensors and npz get exactly the verdict, and the finding, that they name."""

from __future__ import annotations

import hashlib
import json
import re

import numpy as np
import pytest

import tensorark
from conformance.build.npz import corpus as npz
from conformance.build.safetensors import corpus as safetensors
from tensorark.formats.safetensors.dtypes import NAMES
from tests.judge import answer

from .corpus_files import CORPUS

CORPORA = {"safetensors": safetensors.CORPUS, "npz": npz.CORPUS}
FILES = {
    (name, line["path"]): line
    for name, each in CORPORA.items()
    for line in json.loads((each.home / "index.json").read_bytes())["files"]
}
KEPT = [key for key, line in FILES.items() if line["contents"]]
REJECTED = [key for key, line in FILES.items() if line["class"] == "reject"]


def located(key):
    return CORPUS / key[0] / key[1]


@pytest.mark.parametrize("name", CORPORA)
def test_builders_reproduce_the_committed_files_and_nothing_else_lies_there(name):
    assert CORPORA[name].problems() == []


@pytest.mark.parametrize("key", FILES, ids="/".join)
def test_gets_the_verdict_of_the_index_and_names_its_rule_alone(key):
    file = FILES[key]
    for operation, expected in file["expect"].items():
        outcome, rules = answer(operation, located(key))
        assert outcome == expected, (operation, rules)
        if outcome == "reject":
            assert rules == [file["rule"]], operation


@pytest.mark.parametrize("key", REJECTED, ids="/".join)
def test_a_message_names_rule_section_and_place(key):
    file = FILES[key]
    if file["expect"]["open"] == "accept":
        return
    with pytest.raises(tensorark.Rejected) as caught:
        tensorark.open(located(key))
    assert (caught.value.code, caught.value.section) == (file["rule"], file["section"])
    assert caught.value.offset is not None or caught.value.where
    assert caught.value.path is not None


@pytest.mark.parametrize("key", REJECTED, ids="/".join)
def test_what_is_rejected_is_not_converted(key, tmp_path):
    with pytest.raises(tensorark.Rejected) as caught:
        tensorark.convert(located(key), tmp_path / "m.zt")
    assert caught.value.code == FILES[key]["rule"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", [key for key in KEPT if key[0] == "safetensors"], ids="/".join)
def test_reads_what_was_put_into_a_safetensors_file(key):
    wanted = json.loads((CORPUS / key[0] / FILES[key]["contents"]).read_bytes())
    with tensorark.open(located(key)) as file:
        assert file.attributes == ({} if wanted["metadata"] is None else wanted["metadata"])
        assert list(file) == list(wanted["tensors"])
        for name, known in wanted["tensors"].items():
            view = file[name]
            part = view.parts["data"]
            unknown = (part.type or "").removeprefix("safetensors.").upper()
            assert NAMES.get((part.dtype, part.type), unknown) == known["dtype"]
            assert list(view.shape) == known["shape"]
            assert hashlib.sha256(view.raw("data")).hexdigest() == known["sha256"]


@pytest.mark.parametrize(
    "key", [key for key in KEPT if key[0] == "npz" and "accept/" in key[1]], ids="/".join
)
def test_reads_what_was_put_into_an_archive_and_so_does_numpy(key):
    wanted = json.loads((CORPUS / key[0] / FILES[key]["contents"]).read_bytes())
    with (
        tensorark.open(located(key)) as file,
        np.load(located(key), max_header_size=1 << 20) as public,
    ):
        assert list(file) == list(wanted["tensors"])
        assert list(file.catalog.native.others) == wanted["others"]
        for name, known in wanted["tensors"].items():
            for values in (file[name].numpy(), public[name]):
                little = values.astype(values.dtype.newbyteorder("<"))
                assert (little.dtype.name, list(little.shape)) == (known["dtype"], known["shape"])
                assert hashlib.sha256(little.tobytes()).hexdigest() == known["values"]


@pytest.mark.parametrize("key", FILES, ids="/".join)
def test_every_file_has_a_sentence(key):
    assert re.fullmatch(r"[^\s.].*[^.]\.", FILES[key]["sentence"])


@pytest.mark.parametrize("name", CORPORA)
def test_every_line_of_the_musts_names_known_rules_or_gives_a_reason_and_every_rule_is_named(name):
    text = (CORPUS / name / "musts.txt").read_text("utf-8")
    lines = [line.split(" | ") for line in text.splitlines() if line and line[0] != "#"]
    rules, named = set(CORPORA[name].rules), set()
    for _source, _words, said in lines:
        assert re.fullmatch(r"(writer|out-of-scope): \S.*", said) or set(said.split()) <= rules
        named |= set(said.split()) & rules
    assert named == rules


def test_the_public_library_reads_every_valid_file():
    public = pytest.importorskip("safetensors")
    for key in KEPT:
        if key[0] == "safetensors" and key[1].startswith(("accept/", "refuse/")):
            wanted = json.loads((CORPUS / key[0] / FILES[key]["contents"]).read_bytes())
            files = [located(key)]
            if key[1].endswith(".index.json"):
                files = [CORPUS / key[0] / part for part in FILES[key]["parts"]]
            found = {}
            for path in files:
                found |= dict(public.deserialize(path.read_bytes()))
            assert set(found) == set(wanted["tensors"])
            for name, tensor in found.items():
                known = wanted["tensors"][name]
                assert hashlib.sha256(tensor["data"]).hexdigest() == known["sha256"], key
                assert tensor["shape"] == known["shape"], key
