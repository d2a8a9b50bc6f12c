"""`tark bindings` and `tark resources`: where parameters lie, and resources in and out."""

from __future__ import annotations

import json

import pytest

from conformance.ninfer.build.corpus import CORPUS as BUILT
from tensorark import files
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
    from tensorark.conversion.pipeline import convert

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
    done = tark("resources", str(artifact), "--resource", change, "-o", str(target))
    assert (done.code, done.out) == (0, f"{target}\n")
    for role, data in (("chat_template.jinja", b"{{ new }}"), ("tokenizer.json", TOKENS)):
        tark("resources", str(target), "--extract", role, "-o", str(out), "--force")
        assert out.read_bytes() == data


@pytest.mark.parametrize(
    "arguments",
    [
        ["--extract", "nothing", "-o", "x"],
        ["--resource", "tokenizer.json"],
        ["--resource", "tokenizer.json", "-o", "x"],
        ["--resource", "tokenizer.json=x", "--extract", "tokenizer.json"],
    ],
)
def test_wrong_use_of_resources(tark, artifact, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert tark("resources", str(artifact), *arguments).code == 2
    assert not (tmp_path / "x").exists()


def test_parameters_are_compared_however_they_are_stored(tark, tmp_path):
    source, changed = model(tmp_path), tmp_path / "changed.ninfer"
    split = tmp_path / "split.ninfer"
    assert tark("convert", source, split, "--max-size", "8KiB").code == 0
    done = tark("diff", "--parameters", source, split)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("equal: ")
    assert " parameters equal, 0 changed" in done.out
    data = bytearray(source.read_bytes())
    with files.open(source) as file:
        words = file.catalog.native
        place = words.frame.payload_start + words.object("w.bf16").offset
    data[place : place + 2] = b"\x80\xbf"
    changed.write_bytes(data)
    with files.open(source) as one, files.open(changed) as other:
        names = {
            name
            for name in one.parameters
            if one.parameters[name].numpy().tobytes() != other.parameters[name].numpy().tobytes()
        }
    assert names
    done = tark("diff", "--parameters", source, changed, "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert {each["name"] for each in found["changes"]} == names
    assert all(each["elements"] > 0 for each in found["changes"])


def test_parameters_of_something_else_are_not_compared(tark, tmp_path):
    source, hub = model(tmp_path), tmp_path / "hub.zt"
    tark("convert", source, hub)
    assert tark("diff", "--parameters", source, hub).code == 2
    assert tark("diff", "--parameters", source, source, "-o", tmp_path / "x.zt").code == 2
    assert not (tmp_path / "x.zt").exists()


def test_an_artifact_id_makes_the_bytes_the_same(tark, tmp_path):
    source, name = model(tmp_path), "ab" * 16
    new = tmp_path / "new.jinja"
    new.write_bytes(b"{{ new }}")
    change = ["--resource", f"chat_template.jinja={new}", "-o"]
    for verb in (["convert", source], ["resources", source, *change]):
        files = []
        for target in ("a.ninfer", "b.ninfer"):
            path = tmp_path / f"{verb[0]}-{target}"
            assert tark(*verb, path, "--artifact-id", name).code == 0
            files.append(path.read_bytes())
        assert files[0] == files[1]
        assert files[0][16:32].hex() == name


@pytest.mark.parametrize("name", ["", "ab", "g" * 32, "ab" * 17, " " + "ab" * 16])
def test_what_is_no_artifact_id(tark, tmp_path, name):
    target = tmp_path / "x.ninfer"
    assert tark("convert", model(tmp_path), target, "--artifact-id", name).code == 2
    assert not target.exists()


def test_a_planned_artifact_id_is_shown_in_digits(tark, tmp_path):
    target, name = tmp_path / "x.ninfer", "AB" * 16
    words = ["convert", model(tmp_path), target, "--artifact-id", name, "--dry-run", "--json"]
    assert json.loads(tark(*words).out)["options"] == {"artifact_id": name.lower()}


def test_verifying_says_that_rules_were_applied_and_no_digests(tark, artifact):
    done = tark("verify", artifact)
    assert done.code == 0
    assert done.out.splitlines()[0] == f"{artifact}: verified in part"
    (model_,) = json.loads(tark("verify", artifact, "--json").out)["models"]
    count = model_["parts"]
    assert (model_["checked"], model_["undigested"], model_["judged"]) == (0, count, count)
    assert f"content: no digests; {count} parts judged by the rules of their format" in done.out
    assert tark("verify", artifact, "--complete").code == 4


def test_a_number_that_json_lacks_is_called_by_its_name(tark, tmp_path):
    whole = model(tmp_path)
    data = bytearray(whole.read_bytes())
    data[-4:] = b"\0\0\xc0\x7f"  # the divisor lies last
    whole.write_bytes(data)
    done = tark("verify", whole)
    assert done.code == 1
    assert "expected a positive finite number, found nan [ninfer.activation-divisor" in done.out


def test_verifying_what_cannot_be_judged_claims_nothing(tark):
    for name in ("unknown-format", "unknown-auxiliary"):
        done = tark("verify", BUILT.home / f"refuse/{name}.ninfer")
        assert done.code == 4
        assert "verified" not in done.out


@pytest.mark.parametrize(("change", "code"), [("gone", 5), ("short", 1)])
def test_verifying_needs_the_files_of_resources_too(tark, tmp_path, change, code):
    assert len(TOKENS) > 12
    path = model(tmp_path, (4, 12))  # the file between holds a piece of the first resource alone
    part = tmp_path / "model.ninfer.part-0001"
    if change == "gone":
        part.unlink()
    else:
        part.write_bytes(part.read_bytes()[:-1])
    assert tark("verify", path).code == code


def test_resources_count_on_the_way_through_a_zt_and_back(tark, tmp_path):
    source, hub, back = model(tmp_path), tmp_path / "hub.zt", tmp_path / "back.ninfer"
    for one, other in ((source, hub), (hub, back)):
        done = tark("convert", one, other)
        assert (done.code, done.err) == (0, "")
        assert done.out.count(" 6 tensors, ") == 2  # three, two resources, the description
    assert back.read_bytes() == source.read_bytes()


def test_splitting_on_the_command_line(tark, tmp_path):
    source = model(tmp_path)
    target = tmp_path / "one.ninfer"
    assert tark("convert", str(source), str(target), "--max-size", "64KiB").code == 0
    assert tark("diff", str(source), str(target)).code == 0
