"""`tark pack` and `tark unpack`: from a checkpoint to an artifact and back."""

import json

import tensorark
from tensorark.ninfer.pack import PRESETS
from tests import synthetic


def test_a_checkpoint_is_packed_and_unpacked(tark, tmp_path):
    tensors = synthetic.write_checkpoint(tmp_path / "m", mtp=True)
    target = tmp_path / "m.ninfer"
    asked = ("pack", tmp_path / "m", "-o", target, "--recipe", "bf16", "--component", "mtp")
    planned = tark(*asked, "--dry-run")
    assert (planned.code, target.exists()) == (0, False)
    assert "text/layers/0/mlp/gate, text/layers/0/mlp/up" in planned.out
    assert tark(*asked, "--dry-run", "--max-size", "5KB").code == 2  # no room for payload
    done = tark(*asked)
    assert (done.code, done.out.splitlines()[0]) == (0, str(target))
    assert tark(*asked, "--dry-run").code == 0  # writes nothing, so that nothing is in its way
    again = tark(*asked)
    assert (again.code, "exists" in again.err) == (2, True)
    back = tark("unpack", target, "-o", tmp_path / "back")
    assert back.code == 0
    with tensorark.open(tmp_path / "back") as file:
        assert file.keys() == tensors.keys()
    for way in ("parameters", "objects"):
        file = tmp_path / f"{way}.safetensors"
        assert tark("unpack", target, "-o", file, "--as", way).code == 0
        assert file.exists()
    wrong = tark("unpack", target, "-o", tmp_path / "x", "--as", "objects", "--cast", "bf16")
    assert wrong.code == 2


def test_a_plan_is_a_document_too(tark, tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    target = tmp_path / "m.ninfer"
    asked = ("pack", tmp_path / "m", "-o", target, "--recipe", "qwen3_8_27b")
    found = json.loads(tark(*asked, "--dry-run", "--json").out)
    assert found["recipe"] == "qwen3_8_27b"
    formats = {
        name: each["format"] for each in found["objects"] for name in each.get("parameters", [])
    }
    assert formats["text/layers/3/attention/value"] == "q5_g64_fp16"
    written = json.loads(tark(*asked, "--json", "--name", "A model").out)
    assert written["files"] == [str(target)]
    assert written["payload_bytes"] == found["payload_bytes"]


def test_the_presets_are_named_where_they_are_asked_for(tark, tmp_path):
    shown = tark("pack", "--help").out
    target = tmp_path / "x.ninfer"
    done = tark("pack", tmp_path, "-o", target, "--recipe", tmp_path / "nothing.toml")
    assert done.code == 5
    assert all(name in shown and name in done.err for name in PRESETS)


def test_an_artifact_id_makes_the_bytes_the_same(tark, tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        target = tmp_path / folder / "m.ninfer"
        words = ["--recipe", "bf16", "--artifact-id", "0f" * 16, "--max-size", "256KiB"]
        assert tark("pack", tmp_path / "m", "-o", target, *words).code == 0
        assert target.stat().st_size <= 256 << 10
        files.append(target.read_bytes())
    assert files[0] == files[1]
    assert files[0][16:32].hex() == "0f" * 16


def test_what_is_given_wrongly_is_refused(tark, tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    asked = ("pack", tmp_path / "m", "-o", tmp_path / "m.ninfer", "--recipe", "bf16")
    assert tark(*asked, "--source", "quantized").code == 2
    assert tark(*asked, "--resource", "a=b", "--resource", "a=c").code == 2
    assert tark(*asked, "--component", "dflash").code == 2
    missing = tark("pack", tmp_path / "m", "-o", tmp_path / "m.ninfer", "--recipe", "mine.toml")
    assert missing.code == 5


def test_a_folder_that_is_no_checkpoint_is_told_what_one_is(tark, tmp_path):
    synthetic.write_checkpoint(tmp_path / "m")
    (tmp_path / "m" / "config.json").unlink()
    for folder, words in [
        (tmp_path / "m", "the folder has no config.json [missing-file"),
        (tmp_path / "gone", "no such folder [missing-folder"),
        (next((tmp_path / "m").glob("*.safetensors")), "Not a directory"),
    ]:
        ran = tark("pack", folder, "-o", tmp_path / "m.ninfer", "--recipe", "bf16")
        assert ran.code == 5
        assert words in ran.err
        assert "hint: a checkpoint is a folder with config.json, weights in safetensors" in ran.err
