"""What --json prints: one document a verb, JSON to the letter, whatever the numbers are."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

import tensorark
from tensorark import cli
from tensorark.cli.group import VERBS
from tensorark.integrity.keys import make_key
from tensorark.numpy import save_file
from tests.schemas import SCHEMAS, judge
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
    "pack, a plan": ["pack", "checkpoint", "planned.ninfer", "--recipe", "bf16", "--dry-run"],
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


def form(case):
    """Return the name of the form that the document of a case has."""
    verb = WORDS[case][0]
    if verb in {"cat", "completion"}:
        return "error"
    return f"{verb}-plan" if "--dry-run" in WORDS[case] else verb


def written():
    """Yield the names of all forms, from the calls that write a document."""
    for path in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if getattr(node.func, "attr", getattr(node.func, "id", "")) in {"document", "show_all"}:
                name = node.args[0]
                ways = (name.body, name.orelse) if isinstance(name, ast.IfExp) else (name,)
                yield from (each.value for each in ways if isinstance(each, ast.Constant))


def test_every_form_has_a_schema_and_every_schema_is_used():
    """When this fails: write docs/reference/schemas/<form>.json, and a case that prints one."""
    files = {path.stem for path in SCHEMAS.glob("*.json")}
    assert files == set(written())
    assert files == {form(case) for case in WORDS}


def test_the_judge_refuses_what_a_schema_does_not_have(tark, zt):
    document = strict(tark("ls", zt, "--json").out)
    assert judge(document) == []
    assert judge(document | {"more": 1})
    assert judge({key: document[key] for key in document if key != "models"})
    document["models"][0]["totals"]["tensors"] = True
    assert judge(document)


def test_every_verb_is_asked_for_its_document():
    assert {words[0] for words in WORDS.values()} == {v for each in VERBS.values() for v in each}


@pytest.mark.parametrize("case", WORDS)
def test_a_document_is_json_to_the_letter(tark, home, case):
    words = WORDS[case]
    tark("convert", "odd.zt", "odd.tbm", "--quiet")
    ran = tark(*words, "--json")
    assert ran.code in ({2} if words[0] in {"cat", "completion"} else {0, 1, 4}), ran
    document = strict(ran.out)
    assert document["schema"] == f"tensorark.{form(case)}/1"
    assert judge(document) == []
    assert ran.out.isascii()
