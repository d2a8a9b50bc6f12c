"""Every file of the corpus gets exactly the verdict, and the findings, that its name says."""

from __future__ import annotations

import hashlib
import json

import pytest

from conformance.tensorbit.build.corpus import CORPUS
from tensorark import files
from tensorark.errors import Rejected
from tensorark.formats.tensorbit.rules import TOLERATED, UNUSABLE, UNUSABLE_ALONE
from tensorark.layouts.nm.rules import KEY

INDEX = json.loads((CORPUS.home / "index.json").read_bytes())
FILES = {each["path"]: each for each in INDEX["files"]}


@pytest.mark.parametrize("path", [p for p, each in FILES.items() if each["contents"]])
def test_reads_what_was_put_in(path):
    wanted = json.loads((CORPUS.home / FILES[path]["contents"]).read_bytes())
    with files.open(CORPUS.home / path, io="pread") as file:
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


@pytest.mark.parametrize("path", [p for p, e in FILES.items() if e["expect"]["open"] == "reject"])
def test_a_lenient_reading_lets_pass_what_is_tolerated_and_says_so(path):
    rule = FILES[path]["rule"]
    single_is_unusable = path.endswith(".tb") and rule in UNUSABLE_ALONE
    if rule not in TOLERATED or single_is_unusable:
        with pytest.raises(Rejected):
            files.open(CORPUS.home / path, lenient=True)
        return
    with files.open(CORPUS.home / path, lenient=True) as file:
        record = file.catalog.native
        assert rule in {each.rule for each in record.forgiven}
        without_type = path == "reject/precision.tbm"  # neither header nor index give one
        assert bool(record.left_out) == (rule in UNUSABLE or without_type)
        for name in file:
            file[name].numpy()
