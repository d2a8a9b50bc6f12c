"""`validate`, `verify`, `id` and `diff`."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import xxhash

import tensorark
from tensorark.edit.split import split
from tensorark.numpy import save_file


def test_validate_says_that_a_file_is_valid(tark, zt):
    ran = tark("validate", zt)
    assert (ran.code, ran.out) == (0, f"{zt}: valid\n")
    assert tark("validate", "-q", zt).out == ""
    assert tark("validate", zt, "--canonical").code == 0


def test_validate_shows_every_fault_with_its_rule_and_place(tark, tmp_path):
    path = tmp_path / "x.safetensors"
    header = b'{"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]},"b":5}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    ran = tark("validate", path)
    assert ran.code == 3
    assert ran.out.splitlines()[0] == f"{path}: 2 faults"
    assert "[safetensors.tensor-map §format, at b, byte" in ran.out
    assert "[safetensors.dtype §format, at a.dtype, byte" in ran.out
    (model,) = json.loads(tark("validate", path, "--json").out)["models"]
    assert model["valid"] is False
    assert {each["rule"] for each in model["findings"]} == {
        "safetensors.tensor-map",
        "safetensors.dtype",
    }


def test_validate_judges_every_model_of_a_folder(tark, folder):
    (folder / "a.zt").write_bytes(b"no tensors")
    ran = tark("validate", folder)
    assert ran.code == 3
    assert f"{folder / 'b.safetensors'}: valid" in ran.out.splitlines()


def test_validate_of_canonical_form_is_for_zt(tark, zt, tmp_path):
    assert tark("validate", "--canonical", tmp_path / "no.zt").code == 5
    other = tmp_path / "aligned.zt"
    assert tark("convert", zt, other, "--align", "4KiB").code == 0
    assert tark("validate", other).code == 0
    ran = tark("validate", "--canonical", other)
    assert ran.code == 3
    assert "zt.canonical-placement" in ran.out


def test_verify_says_which_rungs_it_climbed(tark, zt):
    ran = tark("verify", zt)
    assert ran.code == 0
    assert ran.out.splitlines() == [
        f"{zt}: verified",
        "  structure: bounds and every rule that needs no payload hold",
        "  manifest: its hash matches",
        "  transport: not climbed: no part is encoded",
        "  content: 4 of 4 parts match their digest (80 B)",
        "  artifact: not climbed: compare `tark id --file` with a digest you trust",
        "  model: not climbed: compare `tark id` with a digest you trust",
    ]


def test_verify_counts_the_parts_that_frame_checksums_protect(tark, tmp_path):
    path = tmp_path / "z.zt"
    with tensorark.Writer(path, encoding="zstd") as writer:
        writer.add("a", np.arange(5000))
        writer.add("b", np.arange(9), encoding="raw")
        writer.add("c", np.zeros(5000))
    assert "  transport: 2 of 2 encoded parts protected by frame checksums\n" in (
        tark("verify", path).out
    )
    assert json.loads(tark("verify", path, "--json").out)["models"][0]["protected"] == 2


def test_verify_proves_nothing_about_a_data_shard(tark, tmp_path, zt):
    tensorark.split(zt, tmp_path / "s.zt", by="layer")
    ran = tark("verify", tmp_path / "s-00001-of-00004.zt")
    assert ran.code == 4
    assert ran.out.splitlines()[0].endswith(": nothing checked")
    assert "  manifest: not climbed: a data shard has no manifest" in ran.out.splitlines()


UNPROTECTED = Path(__file__).parents[2] / "conformance/zt/reject/zstd-checksum-flag.zt"


@pytest.mark.parametrize(
    "words",
    [
        ("verify", UNPROTECTED),
        ("stat", UNPROTECTED),
        ("cat", UNPROTECTED, "t", "--as", "text"),
        ("show", UNPROTECTED, "t", "--decode"),
        ("diff", UNPROTECTED, UNPROTECTED),
    ],
    ids=lambda words: words[0],
)
def test_what_public_readers_accept_is_read_only_when_asked_for(tark, words):
    """The frames of this file carry no checksum, which the public library does not mind."""
    ran = tark(*words)
    assert ran.code in {1, 3}
    assert "zt.zstd-checksum-flag" in ran.out + ran.err
    assert tark(*words, "--lenient").code == 0


def test_a_lenient_conversion_writes_a_file_that_is_read_strictly(tark, tmp_path):
    target = tmp_path / "out.zt"
    assert tark("convert", UNPROTECTED, target).code == 3
    assert not target.exists()
    assert tark("convert", UNPROTECTED, target, "--lenient").code == 0
    assert tark("diff", UNPROTECTED, target, "--lenient").code == 0
    assert tark("verify", target).code == 0
    assert "none of 1 encoded part holds" in tark("verify", UNPROTECTED, "--lenient").out


@pytest.mark.parametrize(
    "words",
    [("ls",), ("show",), ("show", "t"), ("cat", "t", "--as", "raw", "--part", "data")],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_broken_layout_is_let_pass_only_when_asked_for_and_named(tark, tmp_path, words):
    verb, *rest = words
    if verb == "cat":
        rest += ["-o", tmp_path / "data"]
    path = UNPROTECTED.with_name("quant-axis.zt")
    assert tark(verb, path, *rest).code == 3
    ran = tark(verb, path, *rest, "--structural")
    assert ran.code == 0
    assert ran.err.startswith("let pass: ")
    assert "zt.quant-axis" in ran.err
    assert tark("show", path, "t", "--decode", "--structural").code == 3


def test_verify_names_the_damaged_tensor(tark, damaged):
    ran = tark("verify", damaged)
    assert ran.code == 1
    assert ran.out.splitlines()[0] == f"{damaged}: damaged"
    assert "zt.digest §3.4, at objects.norm.parts.data" in ran.out.splitlines()[1]
    (model,) = json.loads(tark("verify", damaged, "--json").out)["models"]
    assert model["verdict"] == "damaged"
    assert [each["where"][1] for each in model["findings"]] == ["norm"]
    with tensorark.open(damaged) as file:
        (span,) = file["norm"].parts["data"].blob.spans
    assert [each["offset"] for each in model["findings"]] == [span.offset]
    assert f"(bytes {span.offset} to {span.offset + 8})" in ran.out


def test_verify_claims_nothing_where_nothing_carries_a_digest(tark, st):
    ran = tark("verify", st)
    assert ran.code == 4
    assert ran.out.splitlines()[0] == f"{st}: nothing checked"
    assert "verified" not in ran.out


def test_verify_is_content_with_a_file_without_tensors(tark, tmp_path):
    path = tmp_path / "empty.zt"
    save_file({}, path)
    assert tark("verify", path).code == 0


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--complete",), 4)])
def test_verify_can_demand_a_digest_for_every_part(tark, tmp_path, words, code):
    path = tmp_path / "half.zt"
    half_digested(path)
    ran = tark("verify", path, *words)
    assert ran.code == code
    assert ran.out.splitlines()[0].endswith("not proven" if words else "verified in part")


def half_digested(path):
    """Write a `.zt` in which one of two parts carries a digest."""
    from dataclasses import replace

    from tensorark.core.model import Part, Raw, Tensor
    from tensorark.io.publish import publish
    from tensorark.writing.assembly import Assembly

    with publish(path, overwrite=False) as sink:
        assembly = Assembly(sink)
        tensors = []
        for name, data in (("a", b"\1"), ("b", b"\2")):
            span, digest = assembly.add([data])
            tensors.append(
                Tensor(name, (1,), "dense", {"data": Part(Raw((span,)), "u8", None, digest)})
            )
        bare = replace(tensors[1].parts["data"], digest=None)
        tensors[1] = replace(tensors[1], parts={"data": bare})
        assembly.finish(tensors)


def test_id_is_the_same_in_every_format(tark, zt, st):
    one, other = tark("id", zt, "-q").out, tark("id", st, "-q").out
    assert one == other
    assert one.startswith("xxh3:")
    assert tark("id", zt).out == f"{one.strip()}  {zt}\n"
    assert tark("id", zt, "-q", "--digest", "sha256").out.startswith("sha256:")


def test_id_of_the_file_is_the_digest_of_its_bytes(tark, zt):
    ran = tark("id", zt, "--file", "--digest", "sha256", "-q")
    assert ran.out == f"sha256:{hashlib.sha256(zt.read_bytes()).hexdigest()}\n"
    assert tark("id", zt, "--file", "-q").out == (
        f"xxh3:{xxhash.xxh3_64_hexdigest(zt.read_bytes())}\n"
    )


def test_id_without_digests_is_refused(tark, tmp_path):
    path = tmp_path / "half.zt"
    half_digested(path)
    ran = tark("id", path)
    assert ran.code == 4
    assert "no-digest" in ran.err


def test_diff_finds_no_difference_between_formats(tark, zt, st):
    ran = tark("diff", zt, st)
    assert ran.code == 0
    assert ran.out == "equal: 4 tensors equal, 0 changed, 0 only left, 0 only right\n"
    assert tark("diff", zt, st, "-q").out == ""


def test_diff_counts_and_measures(tark, tmp_path):
    left, right = tmp_path / "l.zt", tmp_path / "r.zt"
    save_file(
        {"a": np.array([1, 2, 3], np.float32), "b": np.zeros(1, np.int8), "c": np.zeros(2)}, left
    )
    save_file(
        {"a": np.array([1, 2.5, 5], np.float32), "d": np.zeros(1, np.int8), "c": np.zeros(3)}, right
    )
    ran = tark("diff", left, right)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"only in {left} (1)",
        "  - b",
        f"only in {right} (1)",
        "  + d",
        "changed (2)",
        "  a  values  2 elements, first at 1, by at most 2",
        "  c  shape   [2] → [3]",
        "different: 0 tensors equal, 2 changed, 1 only left, 1 only right",
    ]
    document = json.loads(tark("diff", left, right, "--json").out)
    assert document["schema"] == "tensorark.diff/1"
    assert (document["equal"], document["only_left"], document["only_right"]) == (
        False,
        ["b"],
        ["d"],
    )
    assert document["changes"][0] == {
        "name": "a",
        "what": "values",
        "left": None,
        "right": None,
        "elements": 2,
        "first": 1,
        "largest": 2.0,
    }


def test_diff_says_that_attributes_of_the_file_do_not_count(tark, tmp_path):
    left, right = tmp_path / "l.zt", tmp_path / "r.zt"
    save_file({"a": np.zeros(1)}, left, {"by": "one"})
    save_file({"a": np.zeros(1)}, right, {"by": "two"})
    ran = tark("diff", left, right)
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "attributes of the file differ, which does not count: by"


def test_explain_tells_rules_from_errors(tark):
    rule = tark("explain", "zt.blob-align").out
    assert "rule of zTensor v2, judged at stage open" in rule
    assert "2.4" in rule
    assert "kind   error" in tark("explain", "missing-shard").out
    ran = tark("explain", "zt.blob-aling")
    assert ran.code == 2
    assert "zt.blob-align" in ran.err


def test_explain_without_a_code_lists_all(tark):
    ran = tark("explain")
    codes = {line.split()[0] for line in ran.out.splitlines()}
    assert {rule.id for rule in tensorark.formats.FORMATS[0].rules} <= codes
    assert {"zt.digest", "missing-shard", "file.html"} <= codes


def test_formats_are_those_that_the_library_has(tark):
    rows = json.loads(tark("formats", "--json").out)["formats"]
    assert {"zt", "safetensors"} <= {each["name"] for each in rows if each["read"]}
    assert {"zt", "safetensors"} <= {each["name"] for each in rows if each["written"]}
    assert tark("formats").out.splitlines()[0].split()[:3] == ["format", "read", "written"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_asks_tark(tark, shell):
    assert "_TARK_COMPLETE" in tark("completion", shell).out


def test_validate_judges_the_architecture_when_asked_to(tark, zt):
    corpus = Path(__file__).resolve().parents[2] / "conformance/ninfer/reject"
    broken = corpus / "arch-auxiliary.ninfer"  # a sound file whose binding level is not
    assert tark("validate", broken).code == 0
    ran = tark("validate", broken, "--architecture")
    assert ran.code == 3
    assert "ninfer.arch-auxiliary" in ran.out
    assert tark("validate", zt, "--architecture").code == 2


def test_verify_lists_what_is_missing_judges_the_rest_and_ends_with_five(tark, tmp_path):
    with tensorark.Writer(tmp_path / "one.zt") as writer:
        for at in range(3):
            writer.add(f"l.{at}.w", np.full(1000, at, np.float32))
    plan = split(tmp_path / "one.zt", tmp_path / "m.zt", by="layer")
    (tmp_path / plan.shards[1].path).unlink()
    ran = tark("verify", tmp_path / "m.zt")
    assert ran.code == 5
    assert "incomplete" in ran.out
    assert f'missing: "{plan.shards[1].name}", which holds 1 tensor' in ran.out
    assert "2 of 2 parts match" in ran.out
