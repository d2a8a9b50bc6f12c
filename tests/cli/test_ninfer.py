"""`tark bindings` and `tark resources`: where parameters lie, and resources in and out."""

from __future__ import annotations

import json

import pytest

from tests.unit.formats.ninfer.sets import TEMPLATE, TOKENS, model


@pytest.fixture
def artifact(tmp_path):
    return model(tmp_path, (300, 600, 1100))


def test_bindings_show_object_range_rows_and_files(tark, artifact):
    done = tark("bindings", str(artifact), "--include", "text/row", "--uses")
    assert done.code == 0
    head, row, total = done.out.splitlines()
    assert head.split() == ["parameter", "shape", "object", "elements", "rows", "format", "files"]
    assert row.split() == [
        "text/row", "1×130", "w.q4", "[130,", "260)", "[1,", "2)", "q4_g64_fp16",
        "entry,", "model.ninfer.part-0001,", "model.ninfer.part-0002",
    ]  # fmt: skip
    assert total == "1 parameter, 1 piece"


def test_bindings_as_a_document(tark, artifact):
    done = tark("bindings", str(artifact), "--json", "--uses")
    (found,) = json.loads(done.out)["models"]
    mixed = next(each for each in found["parameters"] if each["name"] == "text/mixed")
    assert [(each["object"], each["range"]) for each in mixed["pieces"]] == [
        ("w.bf16", [4, 6]),
        ("w.q4", [0, 3]),
    ]
    assert mixed["pieces"][0]["files"] == ["model.ninfer.part-0002"]
    (use,) = found["uses"]
    assert use["activation_policy"] == "AllowA4"
    assert use["auxiliaries"] == {"activation_input_divisor": [["a.div", 0, 1]]}


def test_bindings_of_something_else(tark, tmp_path):
    from tensorark.conversion import convert

    convert(model(tmp_path), tmp_path / "hub.zt")
    assert tark("bindings", str(tmp_path / "hub.zt")).code == 2


def test_resources_are_listed_extracted_and_replaced(tark, artifact, tmp_path):
    done = tark("resources", str(artifact))
    assert [line.split()[:3] for line in done.out.splitlines()[1:]] == [
        ["text", "tokenizer.json", "r.tok"],
        ["text", "chat_template.jinja", "r.tpl"],
    ]
    out = tmp_path / "old.jinja"
    assert (
        tark("resources", str(artifact), "--extract", "chat_template.jinja", "-o", str(out)).code
        == 0
    )
    assert out.read_bytes() == TEMPLATE
    new = tmp_path / "new.jinja"
    new.write_bytes(b"{{ new }}")
    target = tmp_path / "new.ninfer"
    change = f"text/chat_template.jinja={new}"
    done = tark("resources", str(artifact), "--replace", change, "-o", str(target))
    assert (done.code, done.out) == (0, f"{target}\n")
    for role, data in (("chat_template.jinja", b"{{ new }}"), ("tokenizer.json", TOKENS)):
        tark("resources", str(target), "--extract", role, "-o", str(out), "--force")
        assert out.read_bytes() == data


@pytest.mark.parametrize(
    "arguments",
    [
        ["--extract", "nothing", "-o", "x"],
        ["--replace", "tokenizer.json"],
        ["--replace", "tokenizer.json", "-o", "x"],
        ["--replace", "tokenizer.json=x", "--extract", "tokenizer.json"],
    ],
)
def test_wrong_use_of_resources(tark, artifact, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert tark("resources", str(artifact), *arguments).code == 2
    assert not (tmp_path / "x").exists()


def test_splitting_on_the_command_line(tark, tmp_path):
    source = model(tmp_path)
    target = tmp_path / "one.ninfer"
    assert tark("convert", str(source), str(target), "--max-file-bytes", "64KiB").code == 0
    assert tark("diff", str(source), str(target)).code == 0
