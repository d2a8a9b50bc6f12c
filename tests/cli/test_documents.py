"""What --json prints: one document a verb, JSON to the letter, whatever the numbers are."""

import json

import numpy as np
import pytest

import tensorark
from tensorark.cli.group import VERBS
from tensorark.keys import make_key
from tensorark.numpy import save_file
from tests.synthetic import write_checkpoint
from tests.unit.formats.ninfer.sets import model as write_artifact

ODD = np.array([[np.nan, np.inf, -np.inf, -0.0], [1, 2, 3, 4]], np.float32)


def refuse(token):
    raise ValueError(f"{token} is no JSON")


def strict(text):
    """Parse one document, without the tokens that Python adds to JSON."""
    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of models whose numbers and attributes are not finite."""
    monkeypatch.chdir(tmp_path)
    save_file({"w": ODD, "v": -ODD}, "odd.zt")
    save_file({"w": ODD, "v": ODD}, "odd.safetensors")
    save_file({"w": ODD * 2}, "other.zt")
    with tensorark.Writer(
        "attributes.zt", attributes={"x": float("nan"), "y": [float("inf")]}
    ) as w:
        w.add("w", ODD, attributes={"z": float("-inf")})
    tensorark.split("odd.zt", "root.zt", by="layer", max_size=1 << 20)
    make_key("key.pem", None)
    tensorark.sign("other.zt", "key.pem")
    write_artifact(tmp_path, (300, 600, 1100))
    write_checkpoint(tmp_path / "checkpoint")
    return tmp_path


WORDS = {
    "ls": ["ls", "odd.zt", "attributes.zt", "-l"],
    "show": ["show", "attributes.zt"],
    "show a tensor": ["show", "attributes.zt", "w", "--decode"],
    "tree": ["tree", "odd.zt"],
    "bindings": ["bindings", "model.ninfer", "--uses"],
    "resources": ["resources", "model.ninfer"],
    "cat": ["cat", "odd.zt", "w"],
    "stat": ["stat", "odd.zt"],
    "sparsity": ["sparsity", "odd.zt"],
    "validate": ["validate", "odd.zt", "attributes.zt"],
    "verify": ["verify", "odd.zt", "attributes.zt"],
    "seal": ["seal", "odd.safetensors"],
    "keygen": ["keygen", "new.pem"],
    "sign": ["sign", "odd.zt", "--key", "key.pem"],
    "verify-sig": ["verify-sig", "other.zt", "--key", "key.pem.pub"],
    "id": ["id", "odd.zt", "odd.safetensors"],
    "diff": ["diff", "odd.zt", "odd.safetensors"],
    "doctor": ["doctor", "odd.zt"],
    "convert": ["convert", "odd.safetensors", "converted.zt", "--cast", "f16"],
    "convert, a plan": ["convert", "attributes.zt", "x.zt", "--dry-run"],
    "prune": ["prune", "odd.zt", "pruned.tbm"],
    "prune, a plan": ["prune", "odd.zt", "pruned2.tbm", "--dry-run"],
    "pack": ["pack", "checkpoint", "packed.ninfer", "--recipe", "bf16"],
    "unpack": ["unpack", "model.ninfer", "unpacked.safetensors", "--as", "objects"],
    "split": ["split", "odd.zt", "split.zt", "--by", "layer"],
    "merge": ["merge", "root.zt", "merged.zt"],
    "overlay": ["overlay", "odd.zt", "other.zt", "over.zt"],
    "append": ["append", "odd.zt", "other.zt", "--replace"],
    "meta": ["meta", "get", "attributes.zt"],
    "repack": ["repack", "attributes.zt", "repacked.zt"],
    "mend": ["mend", "odd.tbm", "mended.tbm"],
    "formats": ["formats"],
    "explain": ["explain"],
    "completion": ["completion", "bash"],
}
"""Words for each verb; `cat`, which writes a tensor, and `completion` have no document."""


def test_every_verb_is_asked_for_its_document():
    assert {words[0] for words in WORDS.values()} == {v for each in VERBS.values() for v in each}


@pytest.mark.parametrize("case", WORDS)
def test_a_document_is_json_to_the_letter(tark, home, case):
    words = WORDS[case]
    tark("convert", "odd.zt", "odd.tbm", "--quiet")
    ran = tark(*words, "--json")
    assert ran.code in ({2} if words[0] in {"cat", "completion"} else {0, 1, 4}), ran
    document = strict(ran.out)
    assert document["schema"].startswith("tensorark.")
    assert ran.out.isascii()
